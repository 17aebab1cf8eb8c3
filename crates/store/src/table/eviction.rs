//! Which key goes when a table that may not grow has no room for a new one.
//!
//! The key that has used the least part of its limit, of those around the new key's home: what is forgiven to it is least.
//! Of keys at the same level, the one that would be idle first. A key that has used an eighth of its limit
//! ([`Level::SPARED`]) never goes for a new one, however many come: an attacker who invents keys must not be able to reset
//! another key's limit. Where all keys are spared, the new key gets no slot, and the caller has to decide without one.

use super::level::{Level, Word};
use super::line::SLOTS;
use super::locks::Held;
use super::{Place, Table};
use crate::sync;

/// The lines around its home in which a new key looks for the least used, when there is no room.
const SAMPLE_LINES: usize = if cfg!(loom) { 2 } else { 4 };
/// The lines in which it looks when all keys of those are spared: if one key in thirty is not, it finds one with a probability
/// of 97 %.
const WIDE_SAMPLE_LINES: usize = if cfg!(loom) { 2 } else { 32 };

struct Victim {
    place: Place,
    word: Word,
}

impl Table {
    /// Lets the least used key near `home` go. False if all of them are spared.
    pub(super) fn evict_near(&self, home: usize, now: u64, held: &mut Held<'_>) -> bool {
        loop {
            let found = self
                .least_used(home, SAMPLE_LINES, now, held)
                .or_else(|| self.least_used(home, WIDE_SAMPLE_LINES, now, held));
            let Some(Victim { place, word }) = found else { return false };
            sync::gap(); // It may count in the meantime: then the sample is looked at again.
            let line = self.arena.line(place.line);
            if !line.take_if(place.slot, word) {
                continue;
            }
            self.slots_in_use.add(home, -isize::from(line.leave(place.slot)));
            if word.state() > now {
                self.tally.add_evicted(home);
            } else {
                self.tally.add_reclaimed(home);
            }
            return true;
        }
    }

    /// The key that loses least of those in the lines from `home` on, idle ones first. None if all are spared.
    fn least_used(&self, home: usize, lines: usize, now: u64, held: &mut Held<'_>) -> Option<Victim> {
        let sample = (home..home + lines).filter(|&line| held.and(line));
        let places = sample.flat_map(|line| (0..SLOTS).map(move |slot| Place { line, slot }));
        let candidates = places.filter_map(|place| {
            let word = self.arena.line(place.line).read(place.slot)?.word;
            let (state, level) = (word.state(), word.level());
            let is_idle = state <= now;
            (is_idle || level < Level::SPARED).then_some(((!is_idle, level, state), Victim { place, word }))
        });
        candidates.min_by_key(|(loss, _)| *loss).map(|(_, victim)| victim)
    }
}
