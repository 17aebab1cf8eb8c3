//! Growing in place, a few lines at a time, while decisions go on.
//!
//! One thread at a time moves the keys of the last lines that have not moved yet to their new homes, further right
//! (see [`super::geometry`] for the picture). It holds the blocks it takes from and puts into, so nobody gives away a
//! slot there. A decision that meets a key on the move finds its word taken away and waits for the lock;
//! one that looks for it where it was does not find it, and looks again under the lock. Idle keys are not taken
//! along.

use super::geometry::Geometry;
use super::line::{Occupant, SLOTS};
use super::locks::Held;
use super::{DISPLACEMENT_MAX, Table};
use crate::sync::Ordering;

/// Lines moved at a time.
pub(super) const STEP_LINES: u32 = if cfg!(loom) { 1 } else { 32 };

impl Table {
    /// Moves the next few lines. False if there was nothing to do, or others are at it.
    pub(super) fn grow(&self, now: u64) -> bool {
        // Acquire and release: what one mover leaves, the next one finds.
        if self.growing.swap(true, Ordering::Acquire) {
            return false;
        }
        let geometry = self.geometry();
        let moved = geometry.can_grow() && self.move_lines(geometry, now);
        self.growing.store(false, Ordering::Release);
        moved
    }

    fn move_lines(&self, geometry: Geometry, now: u64) -> bool {
        let first = geometry.split.saturating_sub(STEP_LINES);
        let Some(_held) = self.hold_for_move(geometry, first) else { return false };
        let mut slots_in_use = 0;
        for line in (first as usize..=self.last_reached_from(geometry.split as usize - 1)).rev() {
            slots_in_use += self.move_out_of(line, geometry, first as usize, now);
        }
        slots_in_use += self.clear_behind(geometry, first);
        self.slots_in_use.add(first as usize, slots_in_use);
        let moved = match first {
            0 => Geometry::at_rest(geometry.grown, self.lines_max),
            _ => Geometry { split: first, ..geometry },
        };
        // Release: pairs with the acquire in `geometry`. Before the locks are let go: who holds a home's block and sees
        // the home unchanged can rely on it.
        self.geometry.store(moved.pack(), Ordering::Release);
        true
    }

    /// Holds everything that the lines from `first` on are taken from and put into.
    fn hold_for_move(&self, geometry: Geometry, first: u32) -> Option<Held<'_>> {
        let mut held = self.locks.hold(first as usize);
        let taken_from_last = geometry.split as usize - 1 + DISPLACEMENT_MAX;
        let put_into_first = geometry.first_after(first);
        let put_into_last = geometry.first_after(geometry.split) + DISPLACEMENT_MAX;
        let put_into_last = put_into_last.min(self.lines_max as usize + DISPLACEMENT_MAX - 1);
        let all =
            held.and_all(first as usize, taken_from_last) && held.and_all(put_into_first, put_into_last);
        all.then_some(held)
    }

    /// The last line in which a key at home in `home`, or before, can stand.
    fn last_reached_from(&self, home: usize) -> usize {
        let last = home + DISPLACEMENT_MAX;
        (home..last).find(|&line| self.arena.line(line).has_empty()).unwrap_or(last)
    }

    /// Moves those keys out of a line that are at home from `first` to the split. Returns by how much the slots in use
    /// changed.
    fn move_out_of(&self, line: usize, geometry: Geometry, first: usize, now: u64) -> isize {
        let homes = first..geometry.split as usize;
        let line = self.arena.line(line);
        let mut slots_in_use = 0;
        for slot in 0..SLOTS {
            let Some(tag) = line.tag(slot).filter(|&tag| homes.contains(&geometry.home_before(tag))) else {
                continue;
            };
            let word = line.take(slot);
            slots_in_use -= isize::from(line.leave(slot));
            match word {
                Some(word) if word.state() > now => {
                    slots_in_use += self.put(geometry.home_after(tag), Occupant { tag, word });
                }
                _ => self.tally.add_reclaimed(first),
            }
        }
        slots_in_use
    }

    /// Puts a key on the move into the first free slot from `home` on.
    fn put(&self, home: usize, occupant: Occupant) -> isize {
        for line in (home..=home + DISPLACEMENT_MAX).map(|line| self.arena.line(line)) {
            if let Some(slot) = (0..SLOTS).find(|&slot| line.tag(slot).is_none()) {
                return isize::from(line.own(slot, occupant));
            }
        }
        // Two thousand slots in a row without a free one do not happen to a keyed hash.
        self.tally.add_evicted(home);
        0
    }

    /// Clears the gone slots of lines that keys have left for good: those too far right for any key that has not moved
    /// (its home is before `first`), and too far left for any that has.
    fn clear_behind(&self, geometry: Geometry, first: u32) -> isize {
        let from = first as usize + DISPLACEMENT_MAX;
        let until = (geometry.split as usize + DISPLACEMENT_MAX).min(geometry.first_after(first));
        let cleared: usize = (from..until).map(|line| self.arena.line(line).clear_gone()).sum();
        -isize::try_from(cleared).unwrap_or(0)
    }
}
