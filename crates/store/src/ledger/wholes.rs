//! States that do not fit a word: hash maps behind many short locks, within a cap of bytes.
//!
//! Each new state looks at two others in turn and forgets those that are idle, so that nothing has to be swept in one go.
//! Over the cap, the first to become idle of a few is forgotten early, and counted. Many shards keep both the
//! locks and the rehashing of a map that grows short.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_core::{Limit, State, Time};

use crate::table::Tag;

const SHARDS: usize = 1024;
/// States looked at, for each new one, whether they are idle.
const LOOKED_AT: usize = 2;
/// States of which the one that would be idle first is forgotten when there is no room.
const SAMPLE: usize = 8;
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
}

impl Entry {
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

    /// Applies `step` to the state of `tag`, or to that of a key never seen, and keeps it if there is anything to keep.
    pub(super) fn update<R>(
        &self,
        tag: Tag,
        limit: &Limit,
        now: Time,
        step: impl FnOnce(&mut State) -> R,
    ) -> R {
        let mut shard = self.shard(tag);
        if let Some(entry) = shard.entries.get_mut(&tag.number()) {
            let bytes_before = entry.bytes();
            let answer = step(&mut entry.state);
            entry.idle_at = limit.expires_at(&entry.state);
            let bytes = entry.bytes();
            drop(shard);
            self.account(bytes, bytes_before);
            return answer;
        }
        let mut state = limit.fresh();
        let answer = step(&mut state);
        let entry = Entry { idle_at: limit.expires_at(&state), state };
        if entry.idle_at > now {
            let freed = self.reclaim(&mut shard, LOOKED_AT, now);
            let bytes = entry.bytes();
            shard.entries.insert(tag.number(), entry);
            shard.round.push_back(tag.number());
            drop(shard);
            self.account(bytes, freed);
        }
        answer
    }

    pub(super) fn read(&self, tag: Tag) -> Option<State> {
        self.shard(tag).entries.get(&tag.number()).map(|entry| entry.state.clone())
    }

    pub(super) fn remove(&self, tag: Tag) -> Option<State> {
        let mut shard = self.shard(tag);
        let entry = shard.entries.remove(&tag.number())?;
        shard.round.retain(|&other| other != tag.number());
        drop(shard);
        self.account(0, entry.bytes());
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
        drop(shard);
        self.account(0, freed);
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

    /// Notes that `freed` bytes have become `taken` bytes, and makes room until the cap holds again. To be called with no
    /// shard locked: it locks one after the other.
    fn account(&self, taken: usize, freed: usize) {
        // Relaxed: a count orders nothing. Wraps around and back if others free what this thread has not counted yet.
        self.bytes.fetch_add(taken.wrapping_sub(freed), Ordering::Relaxed);
        let is_over = || self.bytes.load(Ordering::Relaxed).cast_signed() > self.bytes_max.cast_signed();
        let mut empty_shards = 0;
        while is_over() && empty_shards < SHARDS {
            let shard = &self.shards[self.hand.fetch_add(1, Ordering::Relaxed) % SHARDS];
            let evicted = Wholes::evict(&mut lock(shard));
            empty_shards = if evicted.is_some() { 0 } else { empty_shards + 1 };
            if let Some(bytes) = evicted {
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                self.evicted.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Forgets, of the next few states, the one that would be idle first. Returns the bytes that became free.
    fn evict(shard: &mut Shard) -> Option<usize> {
        let sample = shard.round.len().min(SAMPLE);
        let idle_at = |tag: &u64| shard.entries.get(tag).map(|entry| entry.idle_at);
        let (place, _) =
            shard.round.iter().take(sample).map(idle_at).enumerate().min_by_key(|(_, at)| *at)?;
        let tag = shard.round.remove(place)?;
        shard.round.rotate_left(sample - 1);
        let entry = shard.entries.remove(&tag)?;
        if shard.entries.capacity() > 4 * shard.entries.len() + SAMPLE {
            shard.entries.shrink_to(2 * shard.entries.len());
            shard.round.shrink_to(2 * shard.entries.len());
        }
        Some(entry.bytes())
    }
}

/// A thread that panicked under the lock has at worst left a state as it was before: the counts go on.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
