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
//! counts it. If all keys nearby have used an eighth of theirs, the new key gets no slot.

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
use line::{Found, Line, Occupant, SLOTS};
use locks::{Held, Locks};

pub(crate) use level::{Level, Word};
pub(crate) use line::{Seen, Tag};

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

/// A slot that a new key may have.
struct Room {
    line: usize,
    slot: usize,
    /// The word, if it is that of an idle key.
    idle: Option<Word>,
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
    /// anything, is stored. It may be called more than once; the last call counts. Says which state that call saw and what
    /// became of it: a pure step needs to carry nothing out of the loop. None if the key is new and there is no room for it:
    /// nothing is stored then.
    #[inline]
    pub(crate) fn apply(
        &self,
        tag: Tag,
        now: u64,
        mut step: impl FnMut(u64) -> Option<Word>,
    ) -> Option<Seen> {
        self.apply_known(tag, &mut step).or_else(|| self.apply_unknown(tag, now, &|| 0, &mut step))
    }

    /// As [`Table::apply`], for steps that store nothing where the key is not known: there is always room for them.
    #[inline]
    pub(crate) fn update(&self, tag: Tag, now: u64, step: impl FnMut(u64) -> Option<Word>) -> u64 {
        self.apply(tag, now, step).map_or(0, |seen| seen.before)
    }

    /// The fast path of [`Table::apply`]. None if the key is new, or is moving just now.
    #[inline]
    pub(crate) fn apply_known(&self, tag: Tag, step: &mut impl FnMut(u64) -> Option<Word>) -> Option<Seen> {
        let Place { line, slot } = self.locate(tag)?;
        self.arena.line(line).change(slot, tag, step)
    }

    /// Where the slot of `tag` is, if it is found without a lock. Most keys stand in their home line.
    #[inline]
    fn locate(&self, tag: Tag) -> Option<Place> {
        let line = self.geometry().home(tag);
        match self.arena.line(line).slot_of(tag) {
            Some(slot) => Some(Place { line, slot }),
            None => self.locate_away(tag, line),
        }
    }

    #[inline(never)]
    fn locate_away(&self, tag: Tag, home: usize) -> Option<Place> {
        let mut line = home;
        // A line with an empty slot has never passed a key on.
        while line < home + DISPLACEMENT_MAX && !self.arena.line(line).has_empty() {
            line += 1;
            if let Some(slot) = self.arena.line(line).slot_of(tag) {
                return Some(Place { line, slot });
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
                    let word = line.take(slot);
                    self.slots_in_use.add(home, -isize::from(line.leave(slot)));
                    return word.map(Word::state);
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
            occupants.for_each(|Occupant { tag, word }| visit(tag, word.state()));
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

    /// The slow path of [`Table::apply`]: the key is new, or was moving when it was searched for. A key that is not known
    /// has the state `start`. Compiled once, for any step.
    #[cold]
    pub(crate) fn apply_unknown(
        &self,
        tag: Tag,
        now: u64,
        start: &dyn Fn() -> u64,
        mut step: &mut dyn FnMut(u64) -> Option<Word>,
    ) -> Option<Seen> {
        let mut wait = Wait::default();
        loop {
            let (home, mut held) = self.hold_home(tag);
            let mut must_grow = false;
            match self.probe(tag, home, now, &mut held) {
                Probe::Here(Place { line, slot }) => {
                    let line = self.arena.line(line);
                    if let Some(seen) = line.change(slot, tag, &mut step) {
                        return Some(seen);
                    }
                    // Under the lock, only a word that by chance equals the tag can look like none. Start it anew.
                    line.own(slot, Occupant { tag, word: Word::UNUSED });
                }
                Probe::Absent(room) => {
                    let before = start();
                    let Some(word) = step(before) else {
                        return Some(Seen { before, after: before });
                    };
                    sync::gap(); // Others may wake the idle key whose slot this is.
                    must_grow = room.is_none() && self.geometry().can_grow();
                    if !must_grow && !self.makes_room(room.as_ref(), home, now, &mut held) {
                        drop(held);
                        self.keep_up(now, home);
                        return None;
                    }
                    if room.is_some_and(|room| self.place(Occupant { tag, word }, &room, home)) {
                        drop(held);
                        self.keep_up(now, home);
                        return Some(Seen { before, after: word.state() });
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
            Some(Occupant { word, .. }) => {
                (word.state() <= now).then_some(Room { line: index, slot, idle: Some(word) })
            }
            None => line.is_gone(slot).then_some(Room { line: index, slot, idle: None }),
        });
        let empty = || (0..SLOTS).find(|&slot| line.is_empty(slot));
        idle.or_else(|| empty().map(|slot| Room { line: index, slot, idle: None }))
    }

    /// Gives the room found to the new key. False if it is no longer to be had.
    fn place(&self, occupant: Occupant, room: &Room, home: usize) -> bool {
        let line = self.arena.line(room.line);
        if let Some(idle) = room.idle {
            if !line.take_if(room.slot, idle) {
                return false; // It woke up.
            }
            self.tally.add_reclaimed(home);
        }
        self.slots_in_use.add(home, isize::from(line.own(room.slot, occupant)));
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
