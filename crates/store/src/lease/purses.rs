//! The purses of all keys, behind locks of a few keys each, and the errands that wait to be run.
//!
//! Requests spend; whoever runs errands takes them in batches, carries each to the authority, and brings the answer back. Both are bounded: keys
//! that find no room are decided by the authority, and an errand that finds none is not begun.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::{SharedLimit, Span, Time};

use super::purse::{Granted, Purse, Spent, Terms};
use crate::authority::{Act, Directed, Failure, Grant, Pin, Question, SharedKey, mix};

/// Numbers of leases stay below this, so that every authority can tell them apart.
const NUMBER_BITS: u32 = 53;

/// How much there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PursesSettings {
    /// The most keys that have a purse.
    pub keys_max: usize,
    /// The most errands that wait.
    pub errands_max: usize,
    /// In how many parts the keys are kept, each behind a lock of its own.
    pub stripes: usize,
    /// The longest that a block of units may be spent.
    pub life: Span,
    /// Where the numbers of leases begin: no two processes should begin alike.
    pub seed: u64,
}

impl PursesSettings {
    /// What a server needs.
    pub const fn new(seed: u64) -> PursesSettings {
        let life = Span::from_ticks(10_000_000_000);
        PursesSettings { keys_max: 1 << 18, errands_max: 1 << 14, stripes: 256, life, seed }
    }
}

/// A limit whose units are leased, and the key that they are of.
#[derive(Clone, Debug)]
pub struct Leased {
    /// The counter at the authority.
    pub key: SharedKey,
    /// Where the counter is kept, if at a place of its own.
    pub pin: Option<Pin>,
    /// The limit that the authority counts by.
    pub limit: Arc<SharedLimit>,
    /// The most units that all nodes together may have.
    pub budget: u64,
    /// The most that one node may have.
    pub node_max: u64,
}

/// What is to be asked of the authority, which nobody waits for. Its answer belongs to [`Purses::settle`].
#[derive(Clone, Debug)]
#[must_use = "whoever takes an errand says what became of it"]
pub struct Errand {
    purse: u64,
    /// What to ask, and where.
    pub question: Directed,
}

/// The purses of all keys.
#[derive(Debug)]
pub struct Purses {
    stripes: Box<[Mutex<Stripe>]>,
    errands: Mutex<Vec<Errand>>,
    /// How many errands wait: looked at by everybody, and so without a lock.
    waiting: AtomicUsize,
    settings: PursesSettings,
    keys: AtomicUsize,
    nodes: AtomicU32,
    /// Before this moment nothing is asked for.
    leases_from: AtomicU64,
    numbers: AtomicU64,
    tended: AtomicUsize,
}

type Stripe = HashMap<u64, Kept, BuildHasherDefault<AsItIs>>;

#[derive(Debug)]
struct Kept {
    purse: Purse,
    leased: Leased,
}

impl Purses {
    /// No purses yet.
    pub fn new(settings: PursesSettings) -> Purses {
        Purses {
            stripes: (0..settings.stripes.max(1)).map(|_| Mutex::default()).collect(),
            errands: Mutex::default(),
            waiting: AtomicUsize::new(0),
            settings,
            keys: AtomicUsize::new(0),
            nodes: AtomicU32::new(1),
            leases_from: AtomicU64::new(0),
            numbers: AtomicU64::new(0),
            tended: AtomicUsize::new(0),
        }
    }

    /// How many nodes there are. Each has its part of what may be out.
    pub fn set_nodes(&self, nodes: u32) {
        self.nodes.store(nodes.max(1), Ordering::Relaxed); // orders nothing else
    }

    /// Asks for nothing before this moment: a node that others do not count yet would have units that they have too.
    pub fn lease_from(&self, moment: Time) {
        self.leases_from.store(moment.ticks(), Ordering::Relaxed); // orders nothing else
    }

    /// Spends units of a key, if there are enough. If not, the authority has to be asked, and the purse takes note. What is leased under this limit
    /// is looked up where it is not known.
    pub fn spend(
        &self,
        key: u64,
        units: u64,
        now: Time,
        limit: &Arc<SharedLimit>,
        leased: impl FnOnce() -> Leased,
    ) -> Option<Spent> {
        let mut stripe = self.stripe(key);
        let kept = match stripe.entry(key) {
            MapEntry::Occupied(kept) => {
                let kept = kept.into_mut();
                if !Arc::ptr_eq(&kept.leased.limit, limit) {
                    kept.leased = leased(); // The rules have changed.
                }
                kept
            }
            MapEntry::Vacant(vacant) => {
                // A few more than allowed, if many threads come at once.
                if self.keys.load(Ordering::Relaxed) >= self.settings.keys_max {
                    return None;
                }
                self.keys.fetch_add(1, Ordering::Relaxed);
                vacant.insert(Kept { purse: Purse::new(now), leased: leased() })
            }
        };
        let spent = kept.purse.spend(units, now);
        self.ask(key, kept, now);
        spent
    }

    /// What could be spent of a key, if enough can.
    pub fn peek(&self, key: u64, units: u64, now: Time) -> Option<Spent> {
        self.stripe(key).get(&key)?.purse.peek(units, now)
    }

    /// Puts back what was spent a moment ago.
    pub fn put_back(&self, key: u64, spent: &Spent) {
        if let Some(kept) = self.stripe(key).get_mut(&key) {
            kept.purse.put_back(spent);
        }
    }

    /// The authority was asked for units that were not here, and has answered.
    pub fn know(&self, key: u64, grant: &Grant, now: Time) {
        if let Some(kept) = self.stripe(key).get_mut(&key) {
            kept.purse.know(grant, now);
        }
    }

    /// The counter of a key that has a purse under this limit.
    pub fn counter(&self, key: u64, limit: &Arc<SharedLimit>) -> Option<SharedKey> {
        let stripe = self.stripe(key);
        stripe.get(&key).filter(|kept| Arc::ptr_eq(&kept.leased.limit, limit)).map(|kept| kept.leased.key)
    }

    /// Whether any errands wait.
    pub fn has_errands(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// The errands that wait, at most so many.
    pub fn take_errands(&self, max: usize) -> Vec<Errand> {
        let mut errands = self.errands();
        let count = max.min(errands.len());
        let taken = errands.drain(..count).collect();
        self.waiting.store(errands.len(), Ordering::Relaxed);
        taken
    }

    /// What has become of an errand.
    pub fn settle(&self, errand: &Errand, answer: Result<&Grant, Failure>, now: Time) {
        let question = &errand.question.0;
        let Act::Lease { number, .. } = question.act else { return };
        let mut stripe = self.stripe(errand.purse);
        let Some(kept) = stripe.get_mut(&errand.purse) else { return };
        let Ok(grant) = answer else { return kept.purse.failed(number, now) };
        let terms = self.terms(&kept.leased);
        let (limit, key_hash) = (&question.limit, question.key.low_half());
        kept.purse.granted(&Granted { number, grant, limit, key_hash }, &terms, now);
    }

    /// Looks after a part of the purses: what is not needed goes back, what is forgotten makes room. Meant to be called often.
    pub fn tend(&self, now: Time) {
        let turn = self.tended.fetch_add(1, Ordering::Relaxed); // orders nothing else
        let mut stripe = lock(&self.stripes[turn % self.stripes.len()]);
        let before = stripe.len();
        stripe.retain(|&key, kept| {
            let terms = self.terms(&kept.leased);
            let leased = &kept.leased;
            kept.purse.tend(&terms, now, |rest| self.run(leased.errand(key, Act::Return(rest))));
            !kept.purse.is_idle(&terms, now)
        });
        self.keys.fetch_sub(before - stripe.len(), Ordering::Relaxed);
    }

    /// The longest that a block of units may be spent.
    pub fn life(&self) -> Span {
        self.settings.life
    }

    /// How many keys have a purse.
    pub fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// How many units of a key are here, and here or on the way.
    pub fn units(&self, key: u64, now: Time) -> (u64, u64) {
        let stripe = self.stripe(key);
        stripe.get(&key).map_or((0, 0), |kept| (kept.purse.units(now), kept.purse.units_out(now)))
    }

    /// Asks for the next block, if it is time to.
    fn ask(&self, key: u64, kept: &mut Kept, now: Time) {
        if now.ticks() < self.leases_from.load(Ordering::Relaxed)
            || self.waiting.load(Ordering::Relaxed) >= self.settings.errands_max
        {
            return;
        }
        let terms = self.terms(&kept.leased);
        let number = self.number();
        if let Some(units) = kept.purse.ask(number, &terms, now) {
            let nodes = self.nodes.load(Ordering::Relaxed);
            let act = Act::Lease { units, nodes, number, life: self.settings.life };
            self.run(kept.leased.errand(key, act));
        }
    }

    /// Lets an errand wait. What is to be given back and finds no room dies with its deadline.
    fn run(&self, errand: Errand) {
        let mut errands = self.errands();
        if errands.len() < 2 * self.settings.errands_max {
            errands.push(errand);
        }
        self.waiting.store(errands.len(), Ordering::Relaxed);
    }

    fn terms(&self, leased: &Leased) -> Terms {
        let nodes = u64::from(self.nodes.load(Ordering::Relaxed));
        Terms { life: self.settings.life, units_max: (leased.budget / nodes).min(leased.node_max) }
    }

    fn number(&self) -> u64 {
        let turn = self.numbers.fetch_add(1, Ordering::Relaxed);
        mix(self.settings.seed.wrapping_add(turn)) >> (u64::BITS - NUMBER_BITS)
    }

    fn stripe(&self, key: u64) -> MutexGuard<'_, Stripe> {
        let stripe = usize::try_from(key >> 32).unwrap_or(0) % self.stripes.len();
        lock(&self.stripes[stripe])
    }

    fn errands(&self) -> MutexGuard<'_, Vec<Errand>> {
        lock(&self.errands)
    }
}

impl Leased {
    fn errand(&self, purse: u64, act: Act) -> Errand {
        let question = Question { key: self.key, limit: Arc::clone(&self.limit), act };
        Errand { purse, question: (question, self.pin) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic of another thread is not a reason to stop deciding.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keys are hashes already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
