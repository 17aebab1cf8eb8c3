//! A part of the ledger's memory that no other part can take: one for configured rules, one for callers' own limits.
//!
//! Callers that bring their limits along choose the numbers themselves, so they can fill any memory with keys that are never
//! idle and always at their limits. In a part of their own they can push out nothing but each other.

use tollgate_core::{Ask, Concurrency, Cost, Decision, Holder, Intent, Limit, Refund, State, Time};

use super::coarse::Coarse;
use super::wholes::{NoRoom, Wholes};
use super::{Charge, DecideKnown, Key, LedgerError, Stats};
use crate::table::{Level, Table, Tag, Word};

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
        if charge.limit.visit_packed(DecideKnown { partition: self, decision, charge, now }).is_none() {
            self.decide_whole(decision, charge, now);
        }
    }

    #[cold]
    pub(super) fn decide_unknown(&self, decision: &mut Decision, charge: &Charge<'_>, now: Time) {
        let Charge { key, limit, .. } = *charge;
        let start =
            || self.coarse.start_of(key, limit, now).and_then(|state| limit.pack(&state)).unwrap_or(0);
        let decided = decide_new(&self.words, charge, now, &start);
        *decision = decided.map_or_else(|| self.coarse.decide(charge, now), |(decision, _)| decision);
    }

    #[inline(never)]
    fn decide_whole(&self, decision: &mut Decision, charge: &Charge<'_>, now: Time) {
        let Charge { key, limit, cost, intent, .. } = *charge;
        let ask = Ask { cost, now: key.time(limit, now), intent };
        let decided = self.wholes.update(key.tag(limit), limit, now, |state, is_new| {
            let start = is_new.then(|| self.coarse.start_of(key, limit, now)).flatten();
            let Some(mut start) = start else {
                let decision = limit.decide(state, ask);
                return (decision, level(limit, &decision));
            };
            let decision = limit.decide(&mut start, ask);
            if intent != Intent::Peek {
                *state = start;
            }
            (decision, level(limit, &decision))
        });
        *decision = match decided {
            Ok(decision) => decision,
            Err(NoRoom::ForKey) => self.coarse.decide(charge, now),
            Err(NoRoom::ToGrow) => self.coarse.refuse(limit),
        };
    }

    /// As [`super::Ledger::acquire`]. Units that cannot be recorded are not handed out: they could not be released.
    pub(super) fn acquire(
        &self,
        (tag, limit, concurrency): (Tag, &Limit, &Concurrency),
        cost: Cost,
        now: Time,
    ) -> (Decision, Option<Holder>) {
        let acquired = self.wholes.update(tag, limit, now, |state, _| match state {
            State::Concurrency(holders) => (concurrency.acquire(holders, cost, now), Level::SPARED),
            _ => ((limit.decide(state, Ask::take(cost, now)), None), Level::SPARED),
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
        let released = self.wholes.update(tag, limit, now, |state, _| match state {
            State::Concurrency(holders) => (concurrency.release(holders, holder, now), Level::SPARED),
            _ => (false, Level::SPARED),
        });
        released.unwrap_or(false)
    }

    /// As [`super::Ledger::give_back`]; the times of the refund are those of the key.
    pub(super) fn give_back(&self, tag: Tag, limit: &Limit, refund: Refund, now: Time) {
        if limit.packs() {
            self.words.update(tag, now.ticks(), |state| {
                (state != 0).then(|| word(limit, limit.give_back_word(state, refund), refund.now))
            });
            return;
        }
        let given_back = self.wholes.update(tag, limit, now, |state, _| {
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

/// Decides a charge on a key that may have no slot yet, and says what its state is then. None if there is no room for it.
pub(super) fn decide_new(
    table: &Table,
    charge: &Charge<'_>,
    now: Time,
    start: &dyn Fn() -> u64,
) -> Option<(Decision, u64)> {
    let Charge { key, limit, cost, intent, .. } = *charge;
    let (tag, ask) = (key.tag(limit), Ask { cost, now: key.time(limit, now), intent });
    let mut next = |state| limit.decide_word(state, ask).1.map(|after| word(limit, after, ask.now));
    let seen = table.apply_unknown(tag, now.ticks(), start, &mut next)?;
    let (decision, _) = limit.decide_word(seen.before, ask);
    Some((decision, seen.after))
}

/// The word of a state that is stored at `now`.
fn word(limit: &Limit, state: u64, now: Time) -> Word {
    Word::new(state, Level::of(limit.used_part(state, now)))
}

/// How much of its limit a key has used that got this answer. Units that a caller holds must stay releasable, however few they are.
fn level(limit: &Limit, decision: &Decision) -> Level {
    match limit {
        Limit::Concurrency(_) => Level::SPARED,
        _ => Level::of((decision.limit.saturating_sub(decision.remaining), decision.limit)),
    }
}
