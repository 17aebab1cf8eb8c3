//! The table of one-word states: a decision on a known key is one cache line and one compare-and-swap.
//!
//! Open addressing over cache lines of four slots ([`line`]), in the order of the keys' hashes ([`geometry`]), in one
//! range of memory that never moves ([`arena`]). Known keys are found and changed without a lock. A key that
//! is not found is searched once more under the lock of its block ([`locks`]), and only there gets a slot; so
//! a search that missed because the table was moving under it is harmless, and no key ever has two slots.
//!
//! **Where room comes from.** A new key takes the first slot on its way that is idle (its word is not above
//! `now`: forgetting it is free) or empty. As the table fills, every new key does a share of the [`upkeep`]: first
//! idle keys are swept out, and when that is not enough the table grows by a quarter ([`growth`]). A table that
//! may not grow any more lets the smallest word nearby make room, and counts it.

mod arena;
mod counters;
mod geometry;
mod growth;
mod line;
mod locks;
mod upkeep;

use arena::Arena;
pub use arena::prefetch;
use counters::{SlotCount, Tally};
use geometry::Geometry;
use line::{Found, Line, SLOTS};
use locks::{Held, Locks};

pub(crate) use line::Tag;

use crate::ledger::LedgerError;
use crate::sync::{self, AtomicBool, AtomicU64, Ordering, Wait};

/// How far from its home a key may stand, in lines.
///
/// Most stand in their home line. But lines fill unevenly, and a new key passes all full ones: with a share `a` of the slots in
/// use, `L` lines in a row are full with the probability that a normal variable exceeds `2 (1-a) sqrt(L/a)` standard deviations.
/// For 512 lines at the densest that [`upkeep`] lets a table become, that is below 1 in 10^11.
const DISPLACEMENT_MAX: usize = if cfg!(loom) { 2 } else { 512 };
const LINES_MIN: u32 = if cfg!(loom) { 1 } else { 1024 };
/// The share of slots to be in use, in percent, when a table is sized for an expected number of keys.
const EXPECT_AT: usize = 62;
/// The lines around its home in which a new key looks for the least used, when there is no room.
const SAMPLE_LINES: usize = if cfg!(loom) { 2 } else { 4 };

pub(crate) struct Table {
    /// [`Geometry`], packed. Written under `growing` and the locks of the lines that change their home.
    geometry: AtomicU64,
    arena: Arena,
    locks: Locks,
    lines_max: u32,
    growing: AtomicBool,
    slots_in_use: SlotCount,
    /// The table has its largest size and hardly an empty slot: see [`upkeep`].
    full: AtomicBool,
    /// Where sweeping goes on.
    sweep_at: AtomicU64,
    tally: Tally,
}

/// Numbers about the table, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableStats {
    pub(crate) slots_in_use: usize,
    pub(crate) lines: usize,
    pub(crate) bytes: usize,
    pub(crate) reclaimed: u64,
    pub(crate) evicted: u64,
}

struct Place {
    line: usize,
    slot: usize,
}

/// A slot that a new key may have.
struct Room {
    line: usize,
    slot: usize,
    /// The state, if it is that of an idle key.
    idle: Option<u64>,
}

enum Probe {
    Here(Place),
    /// Not in the table; there may be room for it.
    Absent(Option<Room>),
    /// The way leads into a block that somebody else holds.
    Blocked,
}

impl Table {
    /// The bytes that a line costs, its share of a lock included.
    const LINE_BYTES: usize = size_of::<Line>() + 1;

    /// A table that never takes more than `bytes_max`, ready for `keys_expected` keys.
    pub(crate) fn new(bytes_max: usize, keys_expected: usize) -> Result<Table, LedgerError> {
        let lines_max = (bytes_max / Table::LINE_BYTES).saturating_sub(DISPLACEMENT_MAX);
        let lines_max = u32::try_from(lines_max).unwrap_or(u32::MAX);
        if lines_max < LINES_MIN {
            let bytes_min = (LINES_MIN as usize + DISPLACEMENT_MAX) * Table::LINE_BYTES;
            return Err(LedgerError::CapTooSmall { bytes: bytes_max, bytes_min });
        }
        let expected = keys_expected.div_ceil(SLOTS).saturating_mul(100) / EXPECT_AT;
        let lines = u32::try_from(expected).unwrap_or(u32::MAX).clamp(LINES_MIN, lines_max);
        let with_overflow = lines_max as usize + DISPLACEMENT_MAX;
        let table = Table {
            geometry: AtomicU64::new(Geometry::at_rest(lines, lines_max).pack()),
            arena: Arena::reserve(with_overflow)?,
            locks: Locks::for_lines(with_overflow),
            lines_max,
            growing: AtomicBool::new(false),
            slots_in_use: SlotCount::default(),
            full: AtomicBool::new(false),
            sweep_at: AtomicU64::new(0),
            tally: Tally::default(),
        };
        if keys_expected > 0 {
            table.arena.provide(lines as usize + DISPLACEMENT_MAX);
        }
        Ok(table)
    }

    /// Applies `step` to the state of `tag`: it sees the state (zero if the key is not known), and what it answers, if
    /// anything, is stored. It may be called more than once; the last call counts. Returns the state that call saw, from
    /// which everything else about it can be told: a pure step needs to carry nothing out of the loop.
    #[inline]
    pub(crate) fn update(&self, tag: Tag, now: u64, mut step: impl FnMut(u64) -> Option<u64>) -> u64 {
        let place = self.locate(tag);
        let changed = place.and_then(|place| self.arena.line(place.line).change(place.slot, tag, &mut step));
        match changed {
            Some(state) => state,
            None => self.update_unknown(tag, now, &mut step),
        }
    }

    /// Where the slot of `tag` is, if it is found without a lock.
    #[inline]
    fn locate(&self, tag: Tag) -> Option<Place> {
        let home = self.geometry().home(tag);
        for line in home..=home + DISPLACEMENT_MAX {
            match self.arena.line(line).find(tag) {
                Found::Slot(slot) => return Some(Place { line, slot }),
                Found::NotHere { ends: true } => return None,
                Found::NotHere { ends: false } => {}
            }
        }
        None
    }

    /// Fetches the home of `tag` towards the cache.
    #[inline]
    pub(crate) fn prefetch(&self, tag: Tag) {
        self.arena.prefetch(self.geometry().home(tag));
    }

    /// Forgets a key. Returns its state, if it was known.
    pub(crate) fn remove(&self, tag: Tag) -> Option<u64> {
        let mut wait = Wait::default();
        loop {
            let (home, mut held) = self.hold_home(tag);
            match self.probe(tag, home, 0, &mut held) {
                Probe::Here(Place { line, slot }) => {
                    let line = self.arena.line(line);
                    let state = line.take(slot);
                    self.slots_in_use.add(home, -isize::from(line.leave(slot)));
                    return state;
                }
                Probe::Absent(_) => return None,
                Probe::Blocked => {}
            }
            drop(held);
            wait.pause();
        }
    }

    /// Shows every key and its state. Keys that come, go or move meanwhile may be missed or seen twice.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Tag, u64)) {
        let lines = self.geometry().lines_in_use() as usize + DISPLACEMENT_MAX;
        for line in (0..lines).map(|line| self.arena.line(line)) {
            (0..SLOTS).filter_map(|slot| line.read(slot)).for_each(|(tag, state)| visit(tag, state));
        }
    }

    pub(crate) fn stats(&self) -> TableStats {
        let lines = self.geometry().lines_in_use() as usize;
        TableStats {
            slots_in_use: self.slots_in_use.sum(),
            lines,
            bytes: (lines + DISPLACEMENT_MAX) * Table::LINE_BYTES,
            reclaimed: self.tally.reclaimed(),
            evicted: self.tally.evicted(),
        }
    }

    #[inline]
    fn geometry(&self) -> Geometry {
        // Acquire: pairs with the release in `grow`, so that moved keys are seen where they moved to.
        Geometry::unpack(self.geometry.load(Ordering::Acquire), self.lines_max)
    }

    /// The slow path: the key is new, or was moving when it was searched for. Compiled once, for any step.
    #[cold]
    fn update_unknown(&self, tag: Tag, now: u64, mut step: &mut dyn FnMut(u64) -> Option<u64>) -> u64 {
        let mut wait = Wait::default();
        loop {
            let (home, mut held) = self.hold_home(tag);
            let mut must_grow = false;
            match self.probe(tag, home, now, &mut held) {
                Probe::Here(Place { line, slot }) => {
                    let line = self.arena.line(line);
                    if let Some(state) = line.change(slot, tag, &mut step) {
                        return state;
                    }
                    // Under the lock, only a word that by chance equals the tag can look like none. Start it anew.
                    line.own(slot, tag, 0);
                }
                Probe::Absent(Some(room)) => {
                    let Some(state) = step(0) else { return 0 };
                    sync::gap(); // Others may wake the idle key whose slot this is.
                    if self.place(tag, state, &room, home) {
                        // One goes for each that comes, also where it got a slot that somebody left: else the last free slots
                        // would fill up, and every way become long. Relaxed: who sees it late lets one stay.
                        if room.idle.is_none() && self.full.load(Ordering::Relaxed) {
                            self.evict_near(home, tag, now, &mut held);
                        }
                        drop(held);
                        self.keep_up(now, home);
                        return 0;
                    }
                }
                Probe::Absent(None) => {
                    if step(0).is_none() {
                        return 0;
                    }
                    must_grow = self.geometry().can_grow();
                    if !must_grow {
                        self.evict_near(home, tag, now, &mut held);
                    }
                }
                Probe::Blocked => {}
            }
            drop(held);
            if must_grow {
                self.grow(now);
            }
            wait.pause();
        }
    }

    /// The home of a tag, with its block held: as long as it is, the home stays.
    fn hold_home(&self, tag: Tag) -> (usize, Held<'_>) {
        loop {
            let home = self.geometry().home(tag);
            let held = self.locks.hold(home);
            if self.geometry().home(tag) == home {
                return (home, held);
            }
        }
    }

    /// Searches from `home` to the end of the way, and for room along it.
    fn probe(&self, tag: Tag, home: usize, now: u64, held: &mut Held<'_>) -> Probe {
        let mut room = None;
        for index in home..=home + DISPLACEMENT_MAX {
            if !held.and(index) {
                return Probe::Blocked;
            }
            let line = self.arena.line(index);
            match line.find(tag) {
                Found::Slot(slot) => return Probe::Here(Place { line: index, slot }),
                Found::NotHere { ends } => {
                    room = room.or_else(|| Table::room_in(line, index, now));
                    if ends {
                        break;
                    }
                }
            }
        }
        Probe::Absent(room)
    }

    /// A slot that a new key may have: one that is idle or gone rather than an empty one.
    fn room_in(line: &Line, index: usize, now: u64) -> Option<Room> {
        let idle = (0..SLOTS).find_map(|slot| match line.read(slot) {
            Some((_, state)) => (state <= now).then_some(Room { line: index, slot, idle: Some(state) }),
            None => line.is_gone(slot).then_some(Room { line: index, slot, idle: None }),
        });
        let empty = || (0..SLOTS).find(|&slot| line.is_empty(slot));
        idle.or_else(|| empty().map(|slot| Room { line: index, slot, idle: None }))
    }

    /// Lets the least used key of a sample go, other than `spared`: the smallest word is the one whose loss forgives
    /// least.
    fn evict_near(&self, home: usize, spared: Tag, now: u64, held: &mut Held<'_>) {
        let sample = (home..home + SAMPLE_LINES).filter(|&line| held.and(line));
        let places = sample.flat_map(|line| (0..SLOTS).map(move |slot| Place { line, slot }));
        let states = places.filter_map(|place| {
            let (tag, state) = self.arena.line(place.line).read(place.slot)?;
            (tag != spared).then_some((state, place))
        });
        let Some((state, place)) = states.min_by_key(|(state, _)| *state) else { return };
        sync::gap();
        let line = self.arena.line(place.line);
        if line.take_if(place.slot, state) {
            self.slots_in_use.add(home, -isize::from(line.leave(place.slot)));
            if state > now {
                self.tally.add_evicted(home);
            } else {
                self.tally.add_reclaimed(home);
            }
        }
    }

    /// Gives the room found to the new key. False if it is no longer to be had.
    fn place(&self, tag: Tag, state: u64, room: &Room, home: usize) -> bool {
        let line = self.arena.line(room.line);
        if let Some(idle) = room.idle {
            if !line.take_if(room.slot, idle) {
                return false; // It woke up.
            }
            self.tally.add_reclaimed(home);
        }
        self.slots_in_use.add(home, isize::from(line.own(room.slot, tag, state)));
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
