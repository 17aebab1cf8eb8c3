//! Keys that were just denied, so that they are not asked for again before it can help.
//!
//! A denial says from when on the same cost would be admitted if no other request comes. Whatever others do meanwhile only moves that
//! moment further away, so until then the same cost is denied. A larger cost is denied too, but only the authority knows for how long,
//! and a smaller one may be admitted: both are asked.
//!
//! Three things bring the moment nearer: units given back, a reset, a changed limit. Who does one of them tells the cache
//! ([`DenyCache::forget`], [`DenyCache::clear`]); other nodes cannot be told in time, so nothing is remembered for longer than
//! [`LIFE_MAX`]. Answers of one key come in the order in which they were decided, so they are to be noted and forgotten in that order.
//!
//! Its memory is fixed: sets of four slots, and a key has its place in one set, with a slot for each cost. What finds no free slot replaces the entry that ends
//! first. To forget a denial costs a question, never a wrong answer.

#[cfg(test)]
mod tests;

use tollgate_core::{Cost, Decision, Outcome, Span, Tick, Time};

use super::SharedKey;

/// How long a denial is remembered at most.
pub const LIFE_MAX: Span = Span::from_ticks(1_000_000_000);
/// The most slots of one cache.
pub const SLOTS_MAX: usize = 1 << 20;
const WAYS: usize = 4;

/// Remembers denials. Behind a lock where several threads share it: no call takes longer than a look at one set.
#[derive(Debug)]
pub struct DenyCache {
    sets: Box<[Set]>,
}

/// The keys stand together, so that most looks touch one line of memory.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Set {
    keys: [SharedKey; WAYS],
    entries: [Entry; WAYS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    cost: Cost,
    /// Until when it is believed. An entry of the past is a free slot.
    until: Time,
    retry_at: Time,
    reset_at: Time,
    limit: u64,
    remaining: u64,
}

/// A denial as it came from the authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// What was asked for.
    pub cost: Cost,
    /// When the question was sent, by the asker's clock. It was decided later, so counting from here promises too little, never too much.
    pub sent_at: Time,
    /// The tick of the shared count.
    pub tick: Tick,
    /// The answer, in nanoseconds.
    pub decision: Decision,
}

impl DenyCache {
    /// A cache of about so many slots, at least one set of them and at most [`SLOTS_MAX`].
    pub fn new(slots: usize) -> DenyCache {
        let set = Set { keys: [SharedKey(0); WAYS], entries: [Entry::default(); WAYS] };
        DenyCache { sets: vec![set; (slots.min(SLOTS_MAX) / WAYS).max(1)].into_boxed_slice() }
    }

    /// Remembers a denial of a take or of a peek. Only [`Outcome::NotNow`] names a moment; everything else is ignored.
    pub fn note(&mut self, key: SharedKey, denial: &Denial) {
        let Denial { cost, sent_at, tick, decision } = *denial;
        // Whatever knows the one moment knows the other.
        let (Some(retry_after), Some(reset_after)) = (decision.retry_after(), decision.reset_after) else {
            return;
        };
        // The authority counts from the beginning of a tick and was asked somewhere within it.
        let early = u64::try_from(tick.duration(Span::from_ticks(1)).as_nanos()).unwrap_or(u64::MAX) - 1;
        let denied_for = Span::from_ticks(retry_after.ticks().saturating_sub(early));
        let entry = Entry {
            cost,
            until: sent_at.plus(denied_for.min(LIFE_MAX)),
            retry_at: sent_at.plus(retry_after),
            reset_at: sent_at.plus(reset_after),
            limit: decision.limit,
            remaining: decision.remaining,
        };
        let set = self.set_mut(key);
        let way = set.way_of(key, cost).unwrap_or_else(|| set.way_of_first_to_end());
        set.keys[way] = key;
        set.entries[way] = entry;
    }

    /// The denial that the authority would answer with, where that is certain: only to the cost that it was computed for.
    #[inline]
    pub fn look(&self, key: SharedKey, cost: Cost, now: Time) -> Option<Decision> {
        let set = &self.sets[self.index(key)];
        let entry = &set.entries[set.way_of(key, cost)?];
        if now >= entry.until {
            return None;
        }
        Some(Decision {
            outcome: Outcome::NotNow { retry_after: entry.retry_at.since(now) },
            limit: entry.limit,
            remaining: entry.remaining,
            reset_after: Some(entry.reset_at.since(now)),
        })
    }

    /// Units of this key were given back, or all of them: it may be admitted from now on.
    pub fn forget(&mut self, key: SharedKey) {
        let set = self.set_mut(key);
        for (_, entry) in set.keys.iter().zip(&mut set.entries).filter(|(other, _)| **other == key) {
            *entry = Entry::default();
        }
    }

    /// Limits have changed: nothing is certain any more.
    pub fn clear(&mut self) {
        for set in &mut self.sets {
            set.entries = [Entry::default(); WAYS];
        }
    }

    fn set_mut(&mut self, key: SharedKey) -> &mut Set {
        &mut self.sets[self.index(key)]
    }

    /// By the upper bits of the low half: stripes, if there are any, go by the lower ones.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // It is below the number of sets.
    fn index(&self, key: SharedKey) -> usize {
        ((u128::from(key.low_half()) * self.sets.len() as u128) >> 64) as usize
    }
}

impl Set {
    #[inline]
    fn way_of(&self, key: SharedKey, cost: Cost) -> Option<usize> {
        (0..WAYS).find(|&way| self.keys[way] == key && self.entries[way].cost == cost)
    }

    fn way_of_first_to_end(&self) -> usize {
        (0..WAYS).min_by_key(|&way| self.entries[way].until).unwrap_or(0)
    }
}
