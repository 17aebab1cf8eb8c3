//! States that do not fit a word: hash maps behind many short locks, within a cap of bytes.
//!
//! Each new state looks at two others in turn and forgets those that are idle, so that nothing has to be swept in one go.
//! Many shards keep both the locks and the rehashing of a map that grows short.
//!
//! ```text
//!   bytes   0 .......................................... 15/16 ............ all
//!             new keys and growing states get room       new keys: only if a little used state goes for them
//!                                                         states that are there grow until all is taken
//! ```
//!
//! Of a few states, the one that has used the least part of its limit makes room, and is counted. A state that has used an eighth
//! of its limit never goes for a new key, nor does one that names holders: their permits have to be releasable. If all are such, the new
//! key gets no room. The last sixteenth is for states that are there already; when that is taken too, they may not grow.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_core::{Limit, State, Time};

use crate::table::{Level, Tag};

const SHARDS: usize = 1024;
/// States looked at, for each new one, whether they are idle.
const LOOKED_AT: usize = 2;
/// States of one shard of which the least used is forgotten when there is no room.
const SAMPLE: usize = 8;
/// Shards in a row whose samples have nothing to forget, after which there is no room.
const SHARDS_TRIED: usize = 16;
/// Room is made after a state has grown: for a few states of the usual size, so that the next keys find it.
const NEW_KEYS_BYTES: usize = 4 << 10;
/// The part of the memory that is kept for states that grow: one in so many.
const KEPT_ONE_IN: usize = 16;
/// Memory of an entry beside what its state holds: a slot of the map at its usual load, and one of the queue.
const ENTRY_BYTES: usize = 2 * size_of::<(u64, Entry)>() + size_of::<u64>();

pub(super) struct Wholes {
    shards: Box<[Mutex<Shard>]>,
    bytes_max: usize,
    bytes: AtomicUsize,
    reclaimed: AtomicU64,
    evicted: AtomicU64,
    /// The shard to evict from, or to sweep, next.
    hand: AtomicUsize,
}

pub(super) struct WholesStats {
    pub(super) keys: usize,
    pub(super) bytes: usize,
    pub(super) reclaimed: u64,
    pub(super) evicted: u64,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<u64, Entry, BuildHasherDefault<TagHasher>>,
    /// All tags of `entries`, in the order in which they are looked at.
    round: VecDeque<u64>,
}

struct Entry {
    state: State,
    idle_at: Time,
    level: Level,
}

impl Shard {
    /// Gives memory back of which little is used.
    fn shrink(&mut self) {
        if self.entries.capacity() > 4 * self.entries.len() + SAMPLE {
            self.entries.shrink_to(2 * self.entries.len());
            self.round.shrink_to(2 * self.entries.len());
        }
    }
}

/// Why a state is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// The key is new, and all states that could go for it are spared.
    ForKey,
    /// The key is known, and its state would have to grow.
    ToGrow,
}

impl Entry {
    /// Applies a step, if it may make the state larger or does not.
    fn change<R>(
        &mut self,
        limit: &Limit,
        must_not_grow: bool,
        step: impl FnOnce(&mut State) -> (R, Level),
    ) -> Result<R, NoRoom> {
        let (answer, level) = if must_not_grow {
            let mut changed = self.state.clone();
            let (answer, level) = step(&mut changed);
            if changed.heap_bytes() > self.state.heap_bytes() {
                return Err(NoRoom::ToGrow);
            }
            self.state = changed;
            (answer, level)
        } else {
            step(&mut self.state)
        };
        self.level = level;
        self.idle_at = limit.expires_at(&self.state);
        Ok(answer)
    }

    /// How bad it is to forget this: idle states first, then those that have used the least part of their limits, then those
    /// that would be idle first. None where it must not be.
    fn loss(&self, now: Time) -> Option<(bool, Level, Time)> {
        let is_idle = self.idle_at <= now;
        (is_idle || self.level < Level::SPARED).then_some((!is_idle, self.level, self.idle_at))
    }

    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.state.heap_bytes()
    }
}

/// Tags are hashes already.
#[derive(Default)]
struct TagHasher(u64);

impl Hasher for TagHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, tag: u64) {
        self.0 = tag;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Wholes {
    pub(super) fn new(bytes_max: usize) -> Wholes {
        Wholes {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            bytes_max,
            bytes: AtomicUsize::new(0),
            reclaimed: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            hand: AtomicUsize::new(0),
        }
    }

    /// Applies `step` to the state of `tag`, or to that of a key never seen, and keeps it if there is anything to keep. The step
    /// is told whether the key is new, and may be called again where another thread brings the same key; the last call counts.
    /// Beside its answer, it says how much of its limit the key has used then. An error means that nothing has changed.
    pub(super) fn update<R>(
        &self,
        tag: Tag,
        limit: &Limit,
        now: Time,
        mut step: impl FnMut(&mut State, bool) -> (R, Level),
    ) -> Result<R, NoRoom> {
        let mut may_make_room = true;
        loop {
            let mut shard = self.shard(tag);
            if let Some(entry) = shard.entries.get_mut(&tag.number()) {
                let bytes_before = entry.bytes();
                let answer = entry.change(limit, self.is_over(), |state| step(state, false))?;
                let bytes = entry.bytes();
                drop(shard);
                self.account(bytes, bytes_before, now);
                return Ok(answer);
            }
            let mut state = limit.fresh();
            let (answer, level) = step(&mut state, true);
            let entry = Entry { idle_at: limit.expires_at(&state), state, level };
            if entry.idle_at <= now {
                return Ok(answer);
            }
            let freed = self.reclaim(&mut shard, LOOKED_AT, now);
            let bytes = entry.bytes();
            if !self.is_crowded(bytes.saturating_sub(freed)) {
                shard.entries.insert(tag.number(), entry);
                shard.round.push_back(tag.number());
                drop(shard);
                self.account(bytes, freed, now);
                return Ok(answer);
            }
            // Other shards are locked one after the other to make room, so this one is let go.
            drop(shard);
            self.free(freed);
            if !may_make_room {
                return Err(NoRoom::ForKey);
            }
            may_make_room = false;
            self.make_room(bytes, now);
        }
    }

    pub(super) fn read(&self, tag: Tag) -> Option<State> {
        self.shard(tag).entries.get(&tag.number()).map(|entry| entry.state.clone())
    }

    pub(super) fn remove(&self, tag: Tag) -> Option<State> {
        let mut shard = self.shard(tag);
        let entry = shard.entries.remove(&tag.number())?;
        shard.round.retain(|&other| other != tag.number());
        drop(shard);
        self.free(entry.bytes());
        Some(entry.state)
    }

    pub(super) fn for_each(&self, mut visit: impl FnMut(Tag, &State)) {
        for shard in &self.shards {
            let shard = lock(shard);
            shard.entries.iter().for_each(|(&tag, entry)| visit(Tag::of(tag), &entry.state));
        }
    }

    /// Looks through one shard after the other, one with each call, for idle states.
    pub(super) fn tend(&self, now: Time) {
        let mut shard = lock(&self.shards[self.hand.fetch_add(1, Ordering::Relaxed) % SHARDS]);
        let all = shard.round.len();
        let freed = self.reclaim(&mut shard, all, now);
        shard.shrink();
        drop(shard);
        self.free(freed);
    }

    pub(super) fn stats(&self) -> WholesStats {
        WholesStats {
            keys: self.shards.iter().map(|shard| lock(shard).entries.len()).sum(),
            bytes: self.bytes.load(Ordering::Relaxed),
            reclaimed: self.reclaimed.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
        }
    }

    fn shard(&self, tag: Tag) -> MutexGuard<'_, Shard> {
        // The map inside uses the low and the highest bits of the same number.
        let index = usize::try_from(tag.number() >> 32).unwrap_or(0) % SHARDS;
        lock(&self.shards[index])
    }

    /// Forgets idle states among the next `count`. Returns the bytes that became free.
    fn reclaim(&self, shard: &mut Shard, count: usize, now: Time) -> usize {
        let mut bytes = 0;
        for _ in 0..count.min(shard.round.len()) {
            let Some(tag) = shard.round.pop_front() else { break };
            match shard.entries.get(&tag) {
                Some(entry) if entry.idle_at > now => shard.round.push_back(tag),
                _ => {
                    bytes += shard.entries.remove(&tag).map_or(0, |entry| entry.bytes());
                    self.reclaimed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        bytes
    }

    /// More than all is taken.
    fn is_over(&self) -> bool {
        self.bytes_in_use() > self.bytes_max
    }

    /// With so many bytes more, what is for new keys would be taken.
    fn is_crowded(&self, bytes: usize) -> bool {
        self.bytes_in_use().saturating_add(bytes) > self.bytes_max - self.bytes_max / KEPT_ONE_IN
    }

    fn bytes_in_use(&self) -> usize {
        // Relaxed, here and below: a count orders nothing. It is below zero for a moment if one thread frees what another has
        // not counted yet.
        usize::try_from(self.bytes.load(Ordering::Relaxed).cast_signed()).unwrap_or(0)
    }

    fn free(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Notes that `freed` bytes have become `taken` bytes, and makes room if there is little left. To be called with no shard
    /// locked: it locks one after the other.
    fn account(&self, taken: usize, freed: usize, now: Time) {
        self.bytes.fetch_add(taken.wrapping_sub(freed), Ordering::Relaxed);
        if taken > freed && self.is_crowded(NEW_KEYS_BYTES) {
            self.make_room(NEW_KEYS_BYTES, now);
        }
    }

    /// Forgets states until so many bytes are free for new keys, as long as there are any that may go.
    fn make_room(&self, bytes: usize, now: Time) {
        let (mut visited, mut tried) = (0, 0);
        while self.is_crowded(bytes) && visited < SHARDS && tried < SHARDS_TRIED {
            let shard = &self.shards[self.hand.fetch_add(1, Ordering::Relaxed) % SHARDS];
            let mut shard = lock(shard);
            let is_empty = shard.round.is_empty();
            let Some(entry) = Wholes::evict(&mut shard, now) else {
                visited += 1;
                tried += usize::from(!is_empty);
                continue;
            };
            drop(shard);
            (visited, tried) = (0, 0);
            self.free(entry.bytes());
            let count = if entry.idle_at > now { &self.evicted } else { &self.reclaimed };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Forgets the least used of the next few states. None if all of them must stay.
    fn evict(shard: &mut Shard, now: Time) -> Option<Entry> {
        let sample = shard.round.len().min(SAMPLE);
        let loss = |(place, tag): (usize, &u64)| Some((shard.entries.get(tag)?.loss(now)?, place));
        let found = shard.round.iter().take(sample).enumerate().filter_map(loss).min();
        let Some((_, place)) = found else {
            shard.round.rotate_left(sample);
            return None;
        };
        let tag = shard.round.remove(place)?;
        shard.round.rotate_left(sample - 1);
        let entry = shard.entries.remove(&tag)?;
        shard.shrink();
        Some(entry)
    }
}

/// A thread that panicked under the lock has at worst left a state as it was before: the counts go on.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
