//! A part of the ledger's memory that no other part can take: one for configured rules, one for callers' own limits.
//!
//! Callers that bring their limits along choose the numbers themselves, so they can fill any memory with keys that are never
//! idle and always at their limits. In a part of their own they can push out nothing but each other.

use tollgate_core::{Ask, Concurrency, Cost, Decision, Holder, Limit, Refund, State, Time};

use super::coarse::Coarse;
use super::wholes::{NoRoom, Wholes};
use super::{Charge, DecideWord, Key, LedgerError, Stats};
use crate::table::{Level, Table, Tag};

/// The part of the one-word states' memory for the counters that new keys share when there is no room: one in so many.
const COARSE_ONE_IN: usize = 64;

pub(super) struct Partition {
    pub(super) words: Table,
    pub(super) wholes: Wholes,
    coarse: Coarse,
}

impl Partition {
    /// The least that a partition can be made of.
    pub(super) const BYTES_MIN: usize = 2 * Table::BYTES_MIN;

    /// A part of so many bytes, of which `wholes_bytes` are for states that do not fit a word.
    pub(super) fn new(
        bytes: usize,
        wholes_bytes: usize,
        keys_expected: usize,
    ) -> Result<Partition, LedgerError> {
        let too_small = || LedgerError::CapTooSmall { bytes, bytes_min: wholes_bytes + Partition::BYTES_MIN };
        let words_bytes = bytes.checked_sub(wholes_bytes).ok_or_else(too_small)?;
        let coarse_bytes = (words_bytes / COARSE_ONE_IN).max(Table::BYTES_MIN);
        let words_bytes = words_bytes.checked_sub(coarse_bytes).filter(|&bytes| bytes >= Table::BYTES_MIN);
        Ok(Partition {
            words: Table::new(words_bytes.ok_or_else(too_small)?, keys_expected)?,
            wholes: Wholes::new(wholes_bytes),
            coarse: Coarse::new(coarse_bytes)?,
        })
    }

    #[inline]
    pub(super) fn decide_into(&self, decision: &mut Decision, charge: &Charge<'_>, now: Time) {
        match charge.limit.visit_packed(DecideWord { table: &self.words, decision, charge, now }) {
            Some(true) => {}
            Some(false) => *decision = self.coarse.decide(charge, now),
            None => *decision = self.decide_whole(charge, now),
        }
    }

    fn decide_whole(&self, charge: &Charge<'_>, now: Time) -> Decision {
        let Charge { key, limit, cost, intent, .. } = *charge;
        let ask = Ask { cost, now: key.time(limit, now), intent };
        let decided = self.wholes.update(key.tag(limit), limit, now, |state| {
            let decision = limit.decide(state, ask);
            (decision, level(limit, &decision))
        });
        match decided {
            Ok(decision) => decision,
            Err(NoRoom::ForKey) => self.coarse.decide(charge, now),
            Err(NoRoom::ToGrow) => self.coarse.refuse(limit),
        }
    }

    /// As [`super::Ledger::acquire`]. Units that cannot be recorded are not handed out: they could not be released.
    pub(super) fn acquire(
        &self,
        (tag, limit, concurrency): (Tag, &Limit, &Concurrency),
        cost: Cost,
        now: Time,
    ) -> (Decision, Option<Holder>) {
        let acquired = self.wholes.update(tag, limit, now, |state| match state {
            State::Concurrency(holders) => (concurrency.acquire(holders, cost, now), Level::NEAR),
            _ => ((limit.decide(state, Ask::take(cost, now)), None), Level::NEAR),
        });
        acquired.unwrap_or_else(|_| (self.coarse.refuse(limit), None))
    }

    /// As [`super::Ledger::release`].
    pub(super) fn release(
        &self,
        (tag, limit, concurrency): (Tag, &Limit, &Concurrency),
        holder: Holder,
        now: Time,
    ) -> bool {
        let released = self.wholes.update(tag, limit, now, |state| match state {
            State::Concurrency(holders) => (concurrency.release(holders, holder, now), Level::NEAR),
            _ => (false, Level::NEAR),
        });
        released.unwrap_or(false)
    }

    /// As [`super::Ledger::give_back`]; the times of the refund are those of the key.
    pub(super) fn give_back(&self, tag: Tag, limit: &Limit, refund: Refund, now: Time) {
        if limit.packs() {
            let give_back = |word| (word != 0).then(|| limit.give_back_word(word, refund));
            self.words.update(tag, now.ticks(), give_back);
            return;
        }
        let given_back = self.wholes.update(tag, limit, now, |state| {
            limit.give_back(state, refund);
            let left = limit.decide(state, Ask::peek(Cost::ZERO, refund.now));
            ((), level(limit, &left))
        });
        // A refund makes no state larger, and none where there was none.
        debug_assert!(given_back.is_ok());
    }

    pub(super) fn read(&self, key: Key, limit: &Limit) -> Option<State> {
        if limit.packs() {
            let word = self.words.update(key.tag(limit), 0, |_| None);
            (word != 0).then(|| limit.unpack(word))
        } else {
            self.wholes.read(key.tag(limit))
        }
    }

    /// Forgets what a key has used, and says what it was.
    pub(super) fn remove(&self, key: Key, limit: &Limit) -> Option<State> {
        let tag = key.tag(limit);
        if limit.packs() {
            self.words.remove(tag).map(|word| limit.unpack(word))
        } else {
            self.wholes.remove(tag)
        }
    }

    pub(super) fn tend(&self, now: Time) {
        self.words.tend();
        self.wholes.tend(now);
    }

    /// Adds the numbers of this part.
    pub(super) fn add_to(&self, stats: &mut Stats) {
        let (words, wholes, coarse) = (self.words.stats(), self.wholes.stats(), self.coarse.stats());
        stats.keys += words.slots_in_use + wholes.keys + coarse.table.slots_in_use;
        stats.bytes += words.bytes + wholes.bytes + coarse.table.bytes;
        stats.reclaimed += words.reclaimed + wholes.reclaimed + coarse.table.reclaimed;
        stats.evicted += words.evicted + wholes.evicted + coarse.table.evicted;
        stats.coarse += coarse.decided;
        stats.refused += coarse.refused;
    }
}

/// How much of its limit a key has used that got this answer. Units that a caller holds must stay releasable, however few they are.
fn level(limit: &Limit, decision: &Decision) -> Level {
    match limit {
        Limit::Concurrency(_) => Level::NEAR,
        _ => Level::of(decision),
    }
}
