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
//! may not grow any more lets the key nearby go that has used the least part of its limit ([`eviction`], [`level`]), and
//! counts it. If all keys nearby are near their limits, the new key gets no slot.

mod arena;
mod counters;
mod eviction;
mod geometry;
mod growth;
mod level;
mod line;
mod locks;
mod upkeep;

use arena::Arena;
pub use arena::prefetch;
use counters::{SlotCount, Tally};
use geometry::Geometry;
use line::{Changed, Found, Line, Occupant, SLOTS};
use locks::{Held, Locks};

pub(crate) use level::Level;
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

/// What [`Table::apply`] has seen of a key.
pub(crate) struct Seen {
    /// The state that the last step was applied to; zero if the key was not known.
    pub(crate) state: u64,
    /// Where the key stands now, if it has a slot, and at which level.
    at: Option<(Place, Level)>,
}

impl Seen {
    const NOTHING: Seen = Seen { state: 0, at: None };
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
            return Err(LedgerError::CapTooSmall { bytes: bytes_max, bytes_min: Table::BYTES_MIN });
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

    /// The least that a table can be made of.
    pub(crate) const BYTES_MIN: usize = (LINES_MIN as usize + DISPLACEMENT_MAX) * Table::LINE_BYTES;

    /// The slots of a table of so many bytes.
    pub(crate) fn slots_within(bytes: usize) -> usize {
        (bytes / Table::LINE_BYTES).saturating_sub(DISPLACEMENT_MAX) * SLOTS
    }

    /// Applies `step` to the state of `tag`: it sees the state (zero if the key is not known), and what it answers, if
    /// anything, is stored. It may be called more than once; the last call counts. Returns the state that call saw, from
    /// which everything else about it can be told: a pure step needs to carry nothing out of the loop. None if the key is new
    /// and there is no room for it: nothing is stored then.
    ///
    /// Whoever stores something calls [`Table::mark`] next, so that the table knows whom to spare.
    #[inline]
    pub(crate) fn apply(&self, tag: Tag, now: u64, mut step: impl FnMut(u64) -> Option<u64>) -> Option<Seen> {
        if let Some(place) = self.locate(tag)
            && let Some(changed) = self.arena.line(place.line).change(place.slot, tag, &mut step)
        {
            let Changed { state, level } = changed;
            return Some(Seen { state, at: Some((place, level)) });
        }
        self.apply_to_unknown(tag, now, &mut step)
    }

    /// As [`Table::apply`], for steps that store nothing where the key is not known: there is always room for them.
    #[inline]
    pub(crate) fn update(&self, tag: Tag, now: u64, step: impl FnMut(u64) -> Option<u64>) -> u64 {
        self.apply(tag, now, step).map_or(0, |seen| seen.state)
    }

    /// Notes how much of its limit a key has used that was just decided on.
    #[inline]
    pub(crate) fn mark(&self, tag: Tag, seen: &Seen, level: Level) {
        if let Some((place, marked)) = &seen.at
            && marked.gives_way_to(level)
            && !self.arena.line(place.line).mark(place.slot, tag, *marked, level)
        {
            self.mark_again(tag, level);
        }
    }

    /// Marks a key that has moved since it was seen, or that another thread has marked meanwhile. Once: the next decision does it
    /// if it moves again.
    #[cold]
    fn mark_again(&self, tag: Tag, level: Level) {
        let Some(Place { line, slot }) = self.locate(tag) else { return };
        let line = self.arena.line(line);
        let marked = line.level(slot);
        if marked.gives_way_to(level) {
            line.mark(slot, tag, marked, level);
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
            let occupants = (0..SLOTS).filter_map(|slot| line.read(slot));
            occupants.for_each(|Occupant { tag, state, .. }| visit(tag, state));
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
    fn apply_to_unknown(
        &self,
        tag: Tag,
        now: u64,
        mut step: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Option<Seen> {
        let mut wait = Wait::default();
        loop {
            let (home, mut held) = self.hold_home(tag);
            let mut must_grow = false;
            match self.probe(tag, home, now, &mut held) {
                Probe::Here(place) => {
                    let line = self.arena.line(place.line);
                    if let Some(Changed { state, level }) = line.change(place.slot, tag, &mut step) {
                        return Some(Seen { state, at: Some((place, level)) });
                    }
                    // Under the lock, only a word that by chance equals the tag can look like none. Start it anew.
                    line.own(place.slot, tag, line.level(place.slot), 0);
                }
                Probe::Absent(room) => {
                    let Some(state) = step(0) else { return Some(Seen::NOTHING) };
                    sync::gap(); // Others may wake the idle key whose slot this is.
                    must_grow = room.is_none() && self.geometry().can_grow();
                    if !must_grow && !self.makes_room(room.as_ref(), home, now, &mut held) {
                        drop(held);
                        self.keep_up(now, home);
                        return None;
                    }
                    if let Some(room) = room.filter(|room| self.place(tag, state, room, home)) {
                        drop(held);
                        self.keep_up(now, home);
                        let place = Place { line: room.line, slot: room.slot };
                        return Some(Seen { state: 0, at: Some((place, Level::LOWEST)) });
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

    /// Whether a new key may have the room that was found, or may look for room once more. In a full table one key goes for each
    /// that comes, also where there is a slot that another key left: else the last free slots would fill up, and every way
    /// become long. An idle key's slot costs no other key anything.
    fn makes_room(&self, room: Option<&Room>, home: usize, now: u64, held: &mut Held<'_>) -> bool {
        match room {
            Some(Room { idle: Some(_), .. }) => true,
            // Relaxed: who sees it late lets one stay.
            Some(_) if !self.full.load(Ordering::Relaxed) => true,
            _ => self.evict_near(home, now, held),
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
            Some(Occupant { state, .. }) => {
                (state <= now).then_some(Room { line: index, slot, idle: Some(state) })
            }
            None => line.is_gone(slot).then_some(Room { line: index, slot, idle: None }),
        });
        let empty = || (0..SLOTS).find(|&slot| line.is_empty(slot));
        idle.or_else(|| empty().map(|slot| Room { line: index, slot, idle: None }))
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
        self.slots_in_use.add(home, isize::from(line.own(room.slot, tag, Level::LOWEST, state)));
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
