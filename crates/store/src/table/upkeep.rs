//! Keeping room in the table, paid for by those who need it: every new key does a small share.
//!
//! ```text
//!   slots in use   0 ................ SWEEP_AT ........ GROW_AT ........ FULL_AT .... 100 %
//!                    nothing to do     sweep             sweep, grow       if it cannot grow: evict
//! ```
//!
//! A sweep takes idle keys out and lets keys that stand away from home move closer, so that no slot stays occupied
//! for nothing and no search becomes longer than it must be. Shares are sized so that the whole table has been
//! swept on the way from `SWEEP_AT` to `GROW_AT`: it grows only for keys that are really in use. A share is skipped where
//! another thread is at it; the table is then a little fuller before it has grown.

use super::geometry::Geometry;
use super::growth::STEP_LINES;
use super::line::{Line, Occupant, SLOTS};
use super::{DISPLACEMENT_MAX, Place, Table};
use crate::sync::{self, Ordering};

/// Percentages of slots in use.
const SWEEP_AT: usize = 70;
const GROW_AT: usize = 78;
const FULL_AT: usize = 86;
/// From here on, memory for the next growth is provided in the background.
const PROVIDE_AT: usize = 64;
/// New keys of a stripe after which a share is due. With [`STEP_LINES`], four lines for every new key: a sweep is through,
/// and a growth by a quarter is, before slots in use rise by another 6 %.
const SHARE_EVERY: u64 = 8;

impl Table {
    /// Called after a new key got its slot near `home`, or got none: does its share of the upkeep.
    pub(super) fn keep_up(&self, now: u64, home: usize) {
        if !self.tally.add_placed(home).is_multiple_of(SHARE_EVERY) {
            return;
        }
        let geometry = self.geometry();
        let percent = self.percent_in_use(geometry);
        let is_dense = percent >= GROW_AT && geometry.can_grow();
        if is_dense || !geometry.is_at_rest() {
            self.grow(now);
        } else if percent >= SWEEP_AT {
            self.sweep(geometry, now);
        }
        if !geometry.can_grow() {
            self.full.store(percent >= FULL_AT, Ordering::Relaxed);
        }
    }

    /// Has memory for the next growth provided before anybody waits for it. Meant for a thread that calls it every
    /// millisecond or so. It moves nothing: a background thread that loses its core while it holds locks would make
    /// decisions wait.
    pub(crate) fn tend(&self) {
        let geometry = self.geometry();
        if !geometry.is_at_rest() || self.percent_in_use(geometry) >= PROVIDE_AT {
            self.arena.provide(geometry.grown as usize + DISPLACEMENT_MAX);
        }
    }

    fn percent_in_use(&self, geometry: Geometry) -> usize {
        self.slots_in_use.sum() * 100 / (geometry.lines as usize * SLOTS)
    }

    /// Sweeps the next few lines. Whoever grows or sweeps does so alone, and the geometry stays.
    pub(super) fn sweep(&self, geometry: Geometry, now: u64) {
        // Acquire and release: what one mover leaves, the next one finds.
        if self.growing.swap(true, Ordering::Acquire) {
            return;
        }
        if self.geometry() == geometry {
            let first = self.sweep_at.load(Ordering::Relaxed).min(u64::from(geometry.lines - 1));
            let first = u32::try_from(first).unwrap_or(0);
            let end = first.saturating_add(STEP_LINES).min(geometry.lines);
            let next = if end == geometry.lines { 0 } else { end };
            self.sweep_at.store(u64::from(next), Ordering::Relaxed);
            self.sweep_lines(geometry, first as usize, end as usize, now);
        }
        self.growing.store(false, Ordering::Release);
    }

    fn sweep_lines(&self, geometry: Geometry, first: usize, end: usize, now: u64) {
        let mut held = self.locks.hold(first);
        if !held.and_all(first, end - 1 + DISPLACEMENT_MAX) {
            return; // The next pass will find them.
        }
        let freed: isize = (first..end).map(|line| self.sweep_line(geometry, line, now)).sum();
        self.slots_in_use.add(first, -freed);
    }

    /// Takes idle keys out of a line, fills it with keys that would rather stand there, and frees what is left. Returns
    /// how many slots became empty.
    fn sweep_line(&self, geometry: Geometry, index: usize, now: u64) -> isize {
        let line = self.arena.line(index);
        let mut freed = 0;
        for slot in 0..SLOTS {
            let Some(idle) = line.read(slot).filter(|occupant| occupant.word.state() <= now) else {
                continue;
            };
            sync::gap();
            if line.take_if(slot, idle.word) {
                freed += isize::from(line.leave(slot));
                self.tally.add_reclaimed(index);
            }
        }
        while let Some(slot) = (0..SLOTS).find(|&slot| line.is_gone(slot)) {
            let Some(place) = self.displaced_past(geometry, index) else {
                return freed + isize::try_from(line.clear_gone()).unwrap_or(0);
            };
            freed += self.pull(&place, line, slot);
        }
        freed
    }

    /// A key that stands behind the line but could stand in it.
    fn displaced_past(&self, geometry: Geometry, index: usize) -> Option<Place> {
        for behind in index + 1..=index + DISPLACEMENT_MAX {
            let line = self.arena.line(behind);
            let belongs = |slot: &usize| line.tag(*slot).is_some_and(|tag| geometry.home(tag) <= index);
            if let Some(slot) = (0..SLOTS).find(belongs) {
                return Some(Place { line: behind, slot });
            }
            if line.has_empty() {
                return None;
            }
        }
        None
    }

    /// Moves a key into a slot nobody owns.
    fn pull(&self, from: &Place, to: &Line, slot: usize) -> isize {
        let line = self.arena.line(from.line);
        let moved = line.tag(from.slot).zip(line.take(from.slot));
        let is_empty = line.leave(from.slot);
        if let Some((tag, word)) = moved {
            to.own(slot, Occupant { tag, word });
        }
        isize::from(is_empty)
    }
}
