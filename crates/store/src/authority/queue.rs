//! What waits to be asked of one shard, and what is in the air.
//!
//! A hot key must not cost a command per request: asks of one key that come while it is being asked wait, and then travel as one list in
//! the order of their arrival. So a key is in the air at most once, and what waits is kept by key. Keys leave in the order of their
//! first waiting ask; a rule that was just reloaded brings asks of one key under other numbers, which neither share a list nor overtake.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::mem;
use std::sync::Arc;

use tollgate_core::SharedLimit;

use super::{Act, Question, SharedKey};

/// The most asks that may wait for one shard.
pub const WAITING_MAX: usize = 1 << 17;
/// The most emptied vectors that are kept to be used again, and the most asks such a vector may have room for.
const SPARES_MAX: usize = 256;
const SPARE_ROOM_MAX: usize = 1 << 10;

/// The place of an ask in the order of their coming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival(u64);

/// How much may travel at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightLimits {
    /// The most keys.
    pub keys_max: usize,
    /// The most asks of all keys together. What is more of one key stays for its next flight.
    pub asks_max: usize,
}

/// The asks that wait for one shard, each with a ticket `T` by which its asker is answered.
#[derive(Debug)]
pub struct Queue<T> {
    lanes: HashMap<SharedKey, Lane<T>, KeyHashing>,
    /// The keys that have asks waiting and are not in the air, each with the arrival of the first of them: those that were not in the
    /// air when it arrived, which makes them stand in order,
    ready: VecDeque<(u64, SharedKey)>,
    /// and those that have landed since.
    ready_again: BinaryHeap<Reverse<(u64, SharedKey)>>,
    waiting: usize,
    arrivals: u64,
    spare_lanes: Vec<VecDeque<Waiting<T>>>,
    spare_lists: Vec<Vec<Asked<T>>>,
}

/// What leaves together: every key once, those of one script side by side.
#[derive(Debug)]
#[must_use = "its keys are in the air until it has landed"]
pub struct Flight<T> {
    lists: Vec<List<T>>,
}

/// The asks of one key, in the order of their arrival.
#[derive(Debug)]
pub struct List<T> {
    key: SharedKey,
    limit: Arc<SharedLimit>,
    /// What is asked and by whom. To answer them, drain them.
    pub asks: Vec<Asked<T>>,
}

/// One ask of a list.
#[derive(Debug)]
pub struct Asked<T> {
    /// What is to be done.
    pub act: Act,
    /// How its asker is answered.
    pub ticket: T,
}

/// What one key has waiting. There is one only while something waits or the key is in the air.
#[derive(Debug)]
struct Lane<T> {
    asks: VecDeque<Waiting<T>>,
    in_the_air: bool,
}

#[derive(Debug)]
struct Waiting<T> {
    arrival: u64,
    limit: Arc<SharedLimit>,
    asked: Asked<T>,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue {
            lanes: HashMap::default(),
            ready: VecDeque::new(),
            ready_again: BinaryHeap::new(),
            waiting: 0,
            arrivals: 0,
            spare_lanes: Vec::new(),
            spare_lists: Vec::new(),
        }
    }
}

impl<T> Queue<T> {
    /// How many asks wait. Those in the air do not.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Lets a question wait. Where [`WAITING_MAX`] wait already, the ticket comes back.
    pub fn push(&mut self, question: Question, ticket: T) -> Result<Arrival, T> {
        if self.waiting >= WAITING_MAX {
            return Err(ticket);
        }
        let Question { key, limit, act, .. } = question;
        let lane = self
            .lanes
            .entry(key)
            .or_insert_with(|| Lane { asks: self.spare_lanes.pop().unwrap_or_default(), in_the_air: false });
        if lane.asks.is_empty() && !lane.in_the_air {
            self.ready.push_back((self.arrivals, key));
        }
        lane.asks.push_back(Waiting { arrival: self.arrivals, limit, asked: Asked { act, ticket } });
        let arrival = Arrival(self.arrivals);
        self.arrivals += 1;
        self.waiting += 1;
        Ok(arrival)
    }

    /// Whether an ask of a key still waits for others of the same key, which are in the air.
    pub fn is_in_line(&self, key: SharedKey, arrival: Arrival) -> bool {
        let lane = self.lanes.get(&key).filter(|lane| lane.in_the_air);
        // In the order of their arrival: what has left was first.
        lane.and_then(|lane| lane.asks.front()).is_some_and(|first| first.arrival <= arrival.0)
    }

    /// What can leave now, if anything can. Asks whose ticket is not wanted any more (the asker gave up before anything was sent) are
    /// dropped instead: nothing was done for them, so nothing has to be given back.
    pub fn take_flight(&mut self, limits: FlightLimits, is_wanted: impl Fn(&T) -> bool) -> Option<Flight<T>> {
        let mut lists = Vec::with_capacity(limits.keys_max.min(self.ready.len() + self.ready_again.len()));
        let mut asks_left = limits.asks_max;
        while lists.len() < limits.keys_max && asks_left > 0 {
            let Some(key) = self.pop_ready() else { break };
            if let Some(list) = self.take_list(key, asks_left, &is_wanted) {
                asks_left -= list.asks.len();
                lists.push(list);
            }
        }
        if lists.is_empty() {
            return None;
        }
        lists.sort_by_key(List::script); // Stable, so keys of one script stay in their order.
        Some(Flight { lists })
    }

    /// Ends a flight: its keys may leave again. Tickets that are still in it are dropped.
    pub fn land(&mut self, flight: Flight<T>) {
        for list in flight.lists {
            keep_spare_list(&mut self.spare_lists, list.asks);
            let Entry::Occupied(mut lane) = self.lanes.entry(list.key) else { continue };
            lane.get_mut().in_the_air = false;
            match lane.get().asks.front() {
                Some(first) => self.ready_again.push(Reverse((first.arrival, list.key))),
                None => keep_spare_lane(&mut self.spare_lanes, lane.remove().asks),
            }
        }
    }

    /// Takes back everything that waits, in no order: whoever cannot ask has to say so. What is in the air stays there.
    pub fn withdraw(&mut self) -> Vec<(Question, T)> {
        let mut withdrawn = Vec::with_capacity(mem::take(&mut self.waiting));
        self.ready.clear();
        self.ready_again.clear();
        self.lanes.retain(|key, lane| {
            withdrawn.extend(lane.asks.drain(..).map(|Waiting { limit, asked, .. }| {
                (Question { key: *key, limit, act: asked.act, account: None }, asked.ticket)
            }));
            lane.in_the_air
        });
        withdrawn
    }

    /// The key whose first ask waits longest.
    fn pop_ready(&mut self) -> Option<SharedKey> {
        let again = self.ready_again.peek().map_or(u64::MAX, |&Reverse((arrival, _))| arrival);
        if self.ready.front().is_some_and(|&(arrival, _)| arrival < again) {
            return self.ready.pop_front().map(|(_, key)| key);
        }
        self.ready_again.pop().map(|Reverse((_, key))| key)
    }

    /// The first asks of a key that share one limit; it is in the air then. None if none of them is wanted.
    fn take_list(
        &mut self,
        key: SharedKey,
        asks_max: usize,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Option<List<T>> {
        let Entry::Occupied(mut entry) = self.lanes.entry(key) else { return None };
        let lane = entry.get_mut();
        let mut list: Option<List<T>> = None;
        while let Some(first) = lane.asks.front() {
            let is_wanted = is_wanted(&first.asked.ticket);
            if let Some(list) = &mut list
                && (list.asks.len() >= asks_max || is_wanted && !list.admits(first))
            {
                break;
            }
            let Some(first) = lane.asks.pop_front() else { break };
            self.waiting -= 1;
            if !is_wanted {
                continue;
            }
            let spares = &mut self.spare_lists;
            let list = list.get_or_insert_with(|| List {
                key,
                limit: first.limit,
                asks: spares.pop().unwrap_or_default(),
            });
            list.asks.push(first.asked);
        }
        lane.in_the_air = list.is_some();
        if list.is_none() {
            keep_spare_lane(&mut self.spare_lanes, entry.remove().asks);
        }
        list
    }
}

impl<T> Flight<T> {
    /// The lists, those of one script together: one slice is one call where all its keys may share one.
    pub fn calls(&self) -> impl Iterator<Item = &[List<T>]> {
        self.lists.chunk_by(|one, next| one.script() == next.script())
    }

    /// The lists, in the order of [`Flight::calls`].
    pub fn lists(&self) -> &[List<T>] {
        &self.lists
    }

    /// The lists, in the order of [`Flight::calls`], to be answered.
    pub fn lists_mut(&mut self) -> &mut [List<T>] {
        &mut self.lists
    }
}

impl<T> List<T> {
    /// Whose counter.
    pub fn key(&self) -> SharedKey {
        self.key
    }

    /// The limit of all its asks.
    pub fn limit(&self) -> &Arc<SharedLimit> {
        &self.limit
    }

    fn script(&self) -> &'static str {
        self.limit.limit().algorithm()
    }

    /// Whether an ask may travel along. A hold is ended under any limit of its kind, and whoever ends it may not know which gave it: so
    /// that travels under the limit of those who take.
    fn admits(&mut self, next: &Waiting<T>) -> bool {
        if is_same(&self.limit, &next.limit) {
            return true;
        }
        let releases = |act: Act| matches!(act, Act::Release(_));
        if self.limit.shape() != next.limit.shape() {
            return false;
        }
        if releases(next.asked.act) {
            return true;
        }
        let only_releases = self.asks.iter().all(|asked| releases(asked.act));
        if only_releases {
            self.limit = Arc::clone(&next.limit);
        }
        only_releases
    }
}

/// Whether two limits have the same numbers. Mostly they are the same rule's.
fn is_same(one: &Arc<SharedLimit>, other: &Arc<SharedLimit>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

fn keep_spare_lane<T>(spares: &mut Vec<VecDeque<T>>, spare: VecDeque<T>) {
    if spares.len() < SPARES_MAX && spare.capacity() <= SPARE_ROOM_MAX {
        spares.push(spare);
    }
}

fn keep_spare_list<T>(spares: &mut Vec<Vec<T>>, mut spare: Vec<T>) {
    if spares.len() < SPARES_MAX && spare.capacity() <= SPARE_ROOM_MAX {
        spare.clear();
        spares.push(spare);
    }
}

/// Hashes shared keys with numbers of this process's own. They are hashes already, but a lease carries the names of its keys, and whoever
/// makes one up may choose names that would meet in one place of a table.
#[derive(Clone, Debug)]
struct KeyHashing {
    seeds: [u64; 2],
}

struct KeyHasher {
    seeds: [u64; 2],
    hash: u64,
}

impl Default for KeyHashing {
    fn default() -> KeyHashing {
        let random = RandomState::new();
        KeyHashing { seeds: [random.hash_one(0), random.hash_one(1)] }
    }
}

impl BuildHasher for KeyHashing {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher { seeds: self.seeds, hash: 0 }
    }
}

impl Hasher for KeyHasher {
    #[allow(clippy::cast_possible_truncation)] // Both halves are taken.
    fn write_u128(&mut self, key: u128) {
        let [low, high] = [SharedKey(key).low_half(), SharedKey(key).high_half()];
        let product = u128::from(low ^ self.seeds[0]) * u128::from(high ^ self.seeds[1]);
        self.hash = product as u64 ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        // Nothing but shared keys is hashed here; but a hasher has to take all there is.
        for &byte in bytes {
            self.hash = self.hash.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}
