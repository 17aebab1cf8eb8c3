//! The ledger: every key's state under every limit, and the decisions on it.
//!
//! States of one word live in a lock-free [`crate::table`], the others in [`wholes`], behind short locks. Which it is
//! depends on the limit alone, and nobody outside can tell. States of configured rules and states of limits that callers bring
//! along have a [`partition`] of the memory each.
//!
//! **At the cap** a key makes room that has used little of its limit, never one that has used an eighth. Where no key may go,
//! new keys share [`coarse`] counters. `docs/adr/0001-eviction.md` says why.

mod all_or_nothing;
mod charge;
mod coarse;
mod key;
mod partition;
mod wholes;

use std::slice;
use std::sync::{Mutex, PoisonError};

use thiserror::Error;
use tollgate_core::{
    Ask, Cost, Decision, Holder, Limit, Outcome, Packed, PackedVisitor, Refund, State, Time,
};

pub use charge::Charge;
pub use key::Key;
use key::KeyHasher;
use partition::Partition;

use crate::table::{Level, Tag, Word};

/// How many keys of a batch are being fetched from memory while one is decided: enough to hide its latency, and no more
/// than a core can have under way.
const FETCHED_AHEAD: usize = 16;

/// Locks for keys whose counts are carried over: enough that two threads rarely wait for each other.
const CARRYING: usize = 64;

/// Stands where a decision is about to be written.
const UNDECIDED: Decision = Decision { outcome: Outcome::Never, limit: 0, remaining: 0, reset_after: None };

/// What a ledger is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerSettings {
    /// The ledger never takes more memory than this.
    pub cap_bytes: usize,
    /// Of which this much is kept for states that do not fit a word: sub-windows, logs, concurrency, and windows of
    /// very large numbers.
    pub wholes_bytes: usize,
    /// And this many percent for limits that callers bring along: they never take the room of configured rules, nor the other way
    /// round. At least 256 KiB, whatever the percentage.
    pub callers_percent: u8,
    /// Room for so many keys is made ready at once; zero starts small. More keys than expected are no problem.
    pub keys_expected: usize,
}

impl LedgerSettings {
    /// The least that is kept for limits that callers bring along.
    const CALLERS_BYTES_MIN: usize = 256 << 10;
    /// The part of a cap for states that do not fit a word: one in so many.
    const WHOLES_ONE_IN: usize = 8;

    /// A ledger of at most so many bytes: an eighth for states that do not fit a word, 12 % for limits that callers bring along,
    /// the rest for configured rules.
    pub const fn with_cap(cap_bytes: usize) -> LedgerSettings {
        let wholes_bytes = cap_bytes / LedgerSettings::WHOLES_ONE_IN;
        LedgerSettings { cap_bytes, wholes_bytes, callers_percent: 12, keys_expected: 0 }
    }

    fn callers_bytes(&self) -> usize {
        (self.cap_bytes / 100 * usize::from(self.callers_percent)).max(LedgerSettings::CALLERS_BYTES_MIN)
    }
}

impl Default for LedgerSettings {
    /// One gibibyte: some 35 million keys.
    fn default() -> LedgerSettings {
        LedgerSettings::with_cap(1 << 30)
    }
}

/// Why a ledger cannot be made.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// A cap below which nothing useful fits.
    #[error("a cap of {bytes} bytes for one-word states is too small: at least {bytes_min} bytes are needed")]
    CapTooSmall {
        /// What is left for the table.
        bytes: usize,
        /// The least that works.
        bytes_min: usize,
    },
    /// The part is larger than the whole.
    #[error(
        "{wholes_bytes} bytes for whole states and {callers_bytes} for callers' own limits do not fit into a cap of \
         {cap_bytes} bytes"
    )]
    PartsTooLarge {
        /// The part asked for whole states.
        wholes_bytes: usize,
        /// The part asked for callers' own limits.
        callers_bytes: usize,
        /// The whole.
        cap_bytes: usize,
    },
    /// The system does not give that much address space.
    #[error("cannot reserve {bytes} bytes of address space: {source}")]
    Memory {
        /// What was asked for.
        bytes: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// No randomness for the key of the hash: starting without would let attackers choose collisions.
    #[error("no random key for hashing: {0}")]
    Random(getrandom::Error),
}

/// Numbers about a ledger, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys held, and places of forgotten ones that nobody has swept yet.
    pub keys: usize,
    /// Memory in use.
    pub bytes: usize,
    /// Idle keys forgotten, which costs nobody anything.
    pub reclaimed: u64,
    /// Keys forgotten because the cap was reached although they had used something: each has gained at most that, and had used
    /// less than an eighth of its limit.
    pub evicted: u64,
    /// Decisions on new keys by a counter that they share with others, because the cap was reached and no key could be forgotten.
    pub coarse: u64,
    /// Denials because there was no room to count: new holders, keys that have to grow, and new keys beyond the shared counters.
    pub refused: u64,
}

/// A key that the ledger holds, as [`Ledger::for_each`] shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    tag: Tag,
    held: Held,
}

#[derive(Clone, Debug, PartialEq)]
enum Held {
    Word(u64),
    Whole(State),
}

impl Entry {
    /// The state, if this is the entry of `key` under `limit`.
    pub fn state(&self, key: Key, limit: &Limit) -> Option<State> {
        if key.tag(limit) != self.tag {
            return None;
        }
        match &self.held {
            Held::Word(word) => limit.packs().then(|| limit.unpack(*word)),
            Held::Whole(state) => Some(state.clone()),
        }
    }
}

/// The in-process table of all keys. Shared by reference between threads.
pub struct Ledger {
    hasher: KeyHasher,
    rules: Partition,
    callers: Partition,
    /// Held while the counts of a key are carried over to another limit: for each key the same one of them.
    carrying: [Mutex<()>; CARRYING],
}

impl Ledger {
    /// An empty ledger.
    pub fn new(settings: LedgerSettings) -> Result<Ledger, LedgerError> {
        let LedgerSettings { cap_bytes, wholes_bytes, keys_expected, .. } = settings;
        let callers_bytes = settings.callers_bytes();
        let rules_bytes = cap_bytes
            .checked_sub(callers_bytes)
            .filter(|&bytes| bytes >= wholes_bytes)
            .ok_or(LedgerError::PartsTooLarge { wholes_bytes, callers_bytes, cap_bytes })?;
        let callers_wholes_bytes = callers_bytes / LedgerSettings::WHOLES_ONE_IN;
        Ok(Ledger {
            hasher: KeyHasher::random()?,
            rules: Partition::new(rules_bytes, wholes_bytes, keys_expected)?,
            callers: Partition::new(callers_bytes, callers_wholes_bytes, 0)?,
            carrying: std::array::from_fn(|_| Mutex::new(())),
        })
    }

    /// The key of these bytes in this ledger, under limits of configured rules. Encode what identifies a counter without
    /// ambiguity: the rule, then each part with its length.
    #[inline]
    pub fn key(&self, bytes: &[u8]) -> Key {
        self.hasher.key(bytes)
    }

    /// The key of these bytes under limits that callers bring along, which have a part of the memory of their own.
    #[inline]
    pub fn key_of_caller(&self, bytes: &[u8]) -> Key {
        self.hasher.key(bytes).of_caller()
    }

    /// Decides one charge.
    #[inline]
    pub fn decide(&self, charge: &Charge<'_>, now: Time) -> Decision {
        let mut decision = UNDECIDED;
        self.decide_into(&mut decision, charge, now);
        decision
    }

    /// Decides many charges, each on its own. The answers are those of [`Ledger::decide`] one after the other; the
    /// waiting for memory overlaps.
    pub fn decide_batch(&self, charges: &[Charge<'_>], now: Time, decisions: &mut Vec<Decision>) {
        decisions.resize(charges.len(), UNDECIDED);
        self.prefetch(&charges[..charges.len().min(FETCHED_AHEAD)]);
        for (index, (charge, decision)) in charges.iter().zip(decisions).enumerate() {
            if let Some(ahead) = charges.get(index + FETCHED_AHEAD) {
                self.prefetch(slice::from_ref(ahead));
            }
            self.decide_into(decision, charge, now);
        }
    }

    /// Gives units back. A key never becomes richer than unused.
    pub fn give_back(&self, key: Key, limit: &Limit, refund: Refund) {
        let now = refund.now;
        let refund = Refund {
            counted_at: key.time(limit, refund.counted_at),
            now: key.time(limit, refund.now),
            ..refund
        };
        self.partition(key).give_back(key.tag(limit), limit, refund, now);
    }

    /// Asks a concurrency limit for units to hold, and says under which name they are held. Other limits have nothing
    /// to release: they decide as always.
    pub fn acquire(&self, key: Key, limit: &Limit, cost: Cost, now: Time) -> (Decision, Option<Holder>) {
        let Limit::Concurrency(concurrency) = limit else {
            return (self.decide(&Charge::take(key, limit, cost), now), None);
        };
        self.partition(key).acquire((key.tag(limit), limit, concurrency), cost, now)
    }

    /// Ends a hold. False if there is none of that name: released before, or past its deadline.
    pub fn release(&self, key: Key, limit: &Limit, holder: Holder, now: Time) -> bool {
        let Limit::Concurrency(concurrency) = limit else { return false };
        self.partition(key).release((key.tag(limit), limit, concurrency), holder, now)
    }

    /// A rule has changed so much that its states cannot be read with the new numbers: carries over what the key had used under
    /// them, once. To be called before the key is asked for under its new limit, as long as states under the old one may be around.
    ///
    /// Nobody who has called this finds the key unused in between, whoever else does the same. A blocked limit has no use for
    /// what was used, so that waits for the next one; and holds start anew, since nobody has names for units that were counted
    /// otherwise.
    pub fn carry_over(&self, key: Key, was: &Limit, becomes: &Limit, now: Time) {
        let same = was.shape() == becomes.shape() && was.packs() == becomes.packs();
        let takes = !matches!(becomes, Limit::Blocked(_) | Limit::Concurrency(_));
        if same || !takes || self.read(key, was).is_none() {
            return;
        }
        let _turn = self.carrying[key.stripe(CARRYING)].lock().unwrap_or_else(PoisonError::into_inner);
        let used = |state: &State| was.used(state, key.time(was, now));
        let Some(seen) = self.read(key, was).map(|state| used(&state)) else { return };
        self.book_used(key, becomes, seen, now);
        // Whatever somebody has counted meanwhile who still asks by the old limit.
        let counted = self.remove(key, was).map_or(0, |state| used(&state)).saturating_sub(seen);
        self.book_used(key, becomes, counted, now);
    }

    /// What is remembered of a key, if anything.
    pub fn read(&self, key: Key, limit: &Limit) -> Option<State> {
        self.partition(key).read(key, limit)
    }

    /// How many units of a limit a key has used.
    pub fn used(&self, key: Key, limit: &Limit, now: Time) -> u64 {
        self.read(key, limit).map_or(0, |state| limit.used(&state, key.time(limit, now)))
    }

    /// Forgets what a key has used. True if anything was remembered.
    pub fn reset(&self, key: Key, limit: &Limit) -> bool {
        self.remove(key, limit).is_some()
    }

    /// Shows every entry. Those that come, go or move meanwhile may be missed or seen twice.
    pub fn for_each(&self, mut visit: impl FnMut(&Entry)) {
        for Partition { words, wholes, .. } in [&self.rules, &self.callers] {
            words.for_each(|tag, word| visit(&Entry { tag, held: Held::Word(word) }));
            wholes.for_each(|tag, state| visit(&Entry { tag, held: Held::Whole(state.clone()) }));
        }
    }

    /// Does ahead of time what decisions would otherwise wait for: has memory provided for growing, and sweeps idle states
    /// that do not fit a word. Meant for a background thread, every millisecond or so; a ledger that is never tended works all the same.
    pub fn tend(&self, now: Time) {
        self.rules.tend(now);
        self.callers.tend(now);
    }

    /// Numbers for metrics.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.rules.add_to(&mut stats);
        self.callers.add_to(&mut stats);
        stats
    }

    /// Decides a charge and writes the answer where it is wanted: an answer that is written and then copied in larger
    /// pieces makes the processor wait.
    #[inline]
    fn decide_into(&self, decision: &mut Decision, charge: &Charge<'_>, now: Time) {
        self.partition(charge.key).decide_into(decision, charge, now);
    }

    #[inline]
    fn partition(&self, key: Key) -> &Partition {
        if key.is_of_caller() { &self.callers } else { &self.rules }
    }

    /// Has the memory fetched that deciding these charges will look at. For callers that have something else to do before they decide.
    #[inline]
    pub fn prefetch(&self, charges: &[Charge<'_>]) {
        for charge in charges {
            self.partition(charge.key).words.prefetch(charge.key.tag(charge.limit));
        }
    }

    /// Books units on top of what others may have counted meanwhile.
    fn book_used(&self, key: Key, limit: &Limit, units: u64, now: Time) {
        if units > 0 {
            let capacity = self.decide(&Charge::peek(key, limit, Cost::ZERO), now).limit;
            self.decide(&Charge::book(key, limit, Cost::new(units.min(capacity))), now);
        }
    }

    /// Forgets what a key has used, and says what it was.
    fn remove(&self, key: Key, limit: &Limit) -> Option<State> {
        self.partition(key).remove(key, limit)
    }
}

/// Decides a charge on a key that has a slot in the table.
struct DecideKnown<'a> {
    partition: &'a Partition,
    decision: &'a mut Decision,
    charge: &'a Charge<'a>,
    now: Time,
}

impl PackedVisitor for DecideKnown<'_> {
    type Answer = ();

    #[inline]
    fn visit<A: Packed>(self, algorithm: &A, shape: u64) {
        let Charge { key, cost, intent, .. } = *self.charge;
        let ask = Ask { cost, now: key.time_of(algorithm, self.now), intent };
        let moment = algorithm.moment(ask.now);
        let tag = key.tag_of(shape);
        let mut next = |state| {
            let after = algorithm.next_word(state, ask, moment)?;
            Some(Word::new(after, Level::of(algorithm.used_part(after, ask.now))))
        };
        let Some(seen) = self.partition.words.apply_known(tag, &mut next) else {
            return self.partition.decide_unknown(self.decision, self.charge, self.now);
        };
        // Last, and where it is wanted: a copy in larger pieces makes the processor wait.
        algorithm.decide_word_into(self.decision, seen.before, ask, moment);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
