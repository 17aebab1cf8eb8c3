//! The purses of all keys, behind locks of a few keys each, and the errands that wait to be run.
//!
//! Requests spend; whoever runs errands takes them in batches, carries each to the authority, and brings the answer back. Both are bounded: keys
//! that find no room are decided by the authority, and an errand that finds none is not begun.

mod unconfirmed;

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::{LeaseRest, SharedLimit, Span, Time};

pub use self::unconfirmed::UnconfirmedStats;
use super::purse::{Granted, Purse, Spent, Terms};
use crate::authority::{Account, Act, Directed, Failure, Grant, Pin, Question, SharedKey, mix};

/// After which time something is given back again that did not arrive.
const RETRY_AFTER: Span = Span::from_ticks(500_000_000);
/// Numbers of leases stay below this, so that every authority can tell them apart.
const NUMBER_BITS: u32 = 53;

/// After an unclean end, blocks are halved so often at first: to a sixteenth,
const CAUTION_MAX: u32 = 4;
/// and once less with every minute.
const CAUTION_STEP: Span = Span::from_ticks(60_000_000_000);

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
    /// See [`Terms::ahead`].
    pub ahead: Span,
    /// Where the numbers of leases begin: no two processes should begin alike.
    pub seed: u64,
}

impl PursesSettings {
    /// What a server needs.
    pub const fn new(seed: u64) -> PursesSettings {
        PursesSettings {
            keys_max: 1 << 18,
            errands_max: 1 << 14,
            stripes: 256,
            life: Span::from_ticks(10_000_000_000),
            ahead: Span::from_ticks(10_000_000),
            seed,
        }
    }

    /// What one key takes with its limit and its place in the maps, measured with durable quotas.
    const KEY_BYTES: usize = 1 << 10;
    /// The part of the memory for counters that keys with a purse may take besides: one in so many.
    const MEMORY_ONE_IN: usize = 16;

    /// No more keys than fit beside so many bytes of counters. The others are decided by the authority.
    #[must_use]
    pub const fn within(self, cap_bytes: usize) -> PursesSettings {
        let fitting = cap_bytes / PursesSettings::MEMORY_ONE_IN / PursesSettings::KEY_BYTES;
        let keys_max = if fitting < self.keys_max { fitting } else { self.keys_max };
        PursesSettings { keys_max, ..self }
    }

    /// What a server needs where the authority is a database: that takes longer to answer and is away for longer, and does not mind who else has units.
    pub const fn durable(seed: u64) -> PursesSettings {
        PursesSettings {
            life: Span::from_ticks(60_000_000_000),
            ahead: Span::from_ticks(200_000_000),
            ..PursesSettings::new(seed)
        }
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
    /// Who it is written down for, where that is kept.
    pub account: Option<Arc<Account>>,
}

/// What somebody wants of a key.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Whose purse.
    pub key: u64,
    /// How much.
    pub units: u64,
    /// Whether it may be put back: then [`Purses::keep`] or [`Purses::put_back`] has to follow.
    pub is_lent: bool,
    /// Under which limit.
    pub limit: &'a Arc<SharedLimit>,
}

/// Numbers about leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseStats {
    /// How many keys have a purse.
    pub keys: usize,
    /// How many units can be spent without asking.
    pub units: u64,
    /// How many were granted, ever.
    pub granted_units: u64,
    /// How many of them were given up for others, ever.
    pub returned_units: u64,
    /// How much could not be given back, for want of room or because it did not arrive in time, ever.
    pub dropped: u64,
    /// Settlements that the authority did not confirm at once.
    pub unconfirmed: UnconfirmedStats,
}

/// What is to be asked of the authority, which nobody waits for. Its answer belongs to [`Purses::settle`].
#[derive(Debug)]
#[must_use = "whoever takes an errand says what became of it"]
pub struct Errand {
    purse: u64,
    /// What to ask, and where.
    pub question: Directed,
    /// Until when it is worth trying again, if it was tried before.
    until: Option<Time>,
    /// Whether it settles a reservation: then it counts nowhere as on its way back.
    is_unconfirmed: bool,
}

/// The purses of all keys.
#[derive(Debug)]
pub struct Purses {
    stripes: Box<[Mutex<Stripe>]>,
    errands: Mutex<VecDeque<Errand>>,
    /// How many errands wait: looked at by everybody, and so without a lock.
    waiting: AtomicUsize,
    /// What is given back again from a moment on, the earliest first.
    retries: Mutex<VecDeque<(Time, Errand)>>,
    settings: PursesSettings,
    keys: AtomicUsize,
    nodes: AtomicU32,
    /// Until when blocks are asked for, in ticks, and whether never again.
    leasing_until: AtomicU64,
    is_closed: AtomicBool,
    /// Since when blocks are smaller than they may be, and how often they are halved.
    cautious_since: AtomicU64,
    caution: AtomicU32,
    granted_units: AtomicU64,
    returned_units: AtomicU64,
    dropped: AtomicU64,
    unconfirmed: Mutex<UnconfirmedStats>,
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
            retries: Mutex::default(),
            settings,
            keys: AtomicUsize::new(0),
            nodes: AtomicU32::new(0),
            leasing_until: AtomicU64::new(u64::MAX),
            is_closed: AtomicBool::new(false),
            cautious_since: AtomicU64::new(0),
            caution: AtomicU32::new(0),
            granted_units: AtomicU64::new(0),
            returned_units: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            unconfirmed: Mutex::default(),
            numbers: AtomicU64::new(0),
            tended: AtomicUsize::new(0),
        }
    }

    /// How many nodes there are. Each has its part of what may be out; as long as nobody has said it, nothing is asked for.
    pub fn set_nodes(&self, nodes: u32) {
        self.nodes.store(nodes.max(1), Ordering::Relaxed); // orders nothing else
    }

    /// Until when to ask for blocks: not while others may not count this node among themselves, since they have its part then. A moment, because a node
    /// that has stood still asks before anybody can tell it that it must not.
    pub fn set_leasing_until(&self, until: Time) {
        self.leasing_until.store(until.ticks(), Ordering::Relaxed); // orders nothing else
    }

    /// Spends units of a key, if there are enough. If not, the authority has to be asked, and the purse takes note. What is leased under this limit
    /// is looked up where it is not known.
    pub fn spend(&self, wanted: Wanted<'_>, now: Time, leased: impl FnOnce() -> Leased) -> Option<Spent> {
        let Wanted { key, units, is_lent, limit } = wanted;
        let mut stripe = self.stripe(key);
        let kept = match stripe.entry(key) {
            MapEntry::Occupied(kept) => {
                let kept = kept.into_mut();
                if !Arc::ptr_eq(&kept.leased.limit, limit) {
                    self.change(key, kept, leased(), now);
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
        let spent = kept.purse.spend(units, is_lent, now);
        self.ask(key, kept, now);
        spent
    }

    /// Spends what is here of units that are more than that, after [`Purses::spend`] has said so. The authority has to be asked for the others alone.
    pub fn spend_part(&self, wanted: &Wanted<'_>, now: Time) -> Option<Spent> {
        let mut stripe = self.stripe(wanted.key);
        let kept = stripe.get_mut(&wanted.key)?;
        let is_same = Arc::ptr_eq(&kept.leased.limit, wanted.limit);
        is_same.then(|| kept.purse.spend_part(wanted.units, wanted.is_lent, now))?
    }

    /// What could be spent of a key, if enough can.
    pub fn peek(&self, key: u64, units: u64, now: Time) -> Option<Spent> {
        self.stripe(key).get(&key)?.purse.peek(units, now)
    }

    /// What was lent is spent.
    pub fn keep(&self, key: u64, spent: &Spent) {
        if let Some(kept) = self.stripe(key).get_mut(&key) {
            kept.purse.keep(spent);
        }
    }

    /// Puts back what was lent. Returns how much of it is lost.
    pub fn put_back(&self, key: u64, spent: &Spent, now: Time) -> u64 {
        match self.stripe(key).get_mut(&key) {
            Some(Kept { purse, leased }) => purse.put_back(spent, &self.terms(leased), now),
            None => spent.units(),
        }
    }

    /// Gives up what is here of a key: its limit has to be asked before anything is spent again.
    pub fn give_up(&self, key: u64, now: Time) {
        if let Some(Kept { purse, leased }) = self.stripe(key).get_mut(&key) {
            purse.close(now, |rest| self.give_back(leased, key, rest));
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

    /// Whether anything is still to be given back that did not arrive before, sooner or later.
    pub fn has_retries(&self) -> bool {
        !lock(&self.retries).is_empty()
    }

    /// The errands that wait, at most so many.
    pub fn take_errands(&self, max: usize) -> Vec<Errand> {
        let mut errands = self.errands();
        let count = max.min(errands.len());
        let taken = errands.drain(..count).collect();
        self.waiting.store(errands.len(), Ordering::Relaxed);
        taken
    }

    /// What has become of an errand. What was granted and is not asked for any more, such as under rules that have changed, goes back.
    pub fn settle(&self, errand: Errand, answer: Result<&Grant, Failure>, now: Time) {
        if errand.is_unconfirmed {
            return self.end_unconfirmed(errand, answer, now);
        }
        let Errand { purse: key, question: (question, pin), until, is_unconfirmed } = errand;
        let mut stripe = self.stripe(key);
        let number = match (question.act, answer) {
            (Act::Lease { number, .. }, _) => number,
            (Act::Return(rest), Ok(_)) => {
                if let Some(kept) = stripe.get_mut(&key) {
                    kept.purse.returned(rest.number);
                }
                return;
            }
            // Nobody knows whether it has arrived, but it has a number and is taken once. What has none is told again only where it was certainly not heard.
            (Act::Return(_), Err(_)) | (Act::GiveBack { .. }, Err(Failure::NotAsked | Failure::Crowded)) => {
                return self
                    .retry(Errand { purse: key, question: (question, pin), until, is_unconfirmed }, now);
            }
            _ => return,
        };
        let kept = stripe.get_mut(&key).filter(|kept| kept.purse.is_asking(number));
        match (answer, kept) {
            (Ok(grant), Some(kept)) => {
                let (limit, key_hash) = (&question.limit, question.key.low_half());
                let terms = self.terms(&kept.leased);
                kept.purse.granted(&Granted { number, grant, limit, key_hash }, &terms, now);
                self.granted_units.fetch_add(grant.leased, Ordering::Relaxed);
            }
            (Ok(grant), None) => {
                if let Some(act) = question.undo(grant) {
                    self.run(Errand {
                        purse: key,
                        question: (Question { act, ..question }, pin),
                        until: None,
                        is_unconfirmed: false,
                    });
                }
            }
            (Err(_), Some(kept)) => kept.purse.failed(number, now),
            (Err(_), None) => {}
        }
    }

    /// Has blocks be small at first: a process that ends without returning its blocks loses them, and the
    /// one before this has. They double with every minute.
    pub fn begin_cautiously(&self, now: Time) {
        self.cautious_since.store(now.ticks(), Ordering::Relaxed); // orders nothing else
        self.caution.store(CAUTION_MAX, Ordering::Relaxed);
    }

    fn lessen_caution(&self, now: Time) {
        if self.caution.load(Ordering::Relaxed) == 0 {
            return;
        }
        let since = self.cautious_since.load(Ordering::Relaxed);
        if now.ticks() < since {
            return self.begin_cautiously(now); // The clock was set back.
        }
        let steps = u32::try_from((now.ticks() - since) / CAUTION_STEP.ticks()).unwrap_or(u32::MAX);
        self.caution.store(CAUTION_MAX.saturating_sub(steps), Ordering::Relaxed);
    }

    /// Looks after a part of the purses: what is not needed goes back, what is forgotten makes room. Meant to be called often.
    pub fn tend(&self, now: Time) {
        self.lessen_caution(now);
        self.run_retries(now);
        let turn = self.tended.fetch_add(1, Ordering::Relaxed); // orders nothing else
        let mut stripe = lock(&self.stripes[turn % self.stripes.len()]);
        let before = stripe.len();
        stripe.retain(|&key, kept| {
            let terms = self.terms(&kept.leased);
            let leased = &kept.leased;
            kept.purse.tend(&terms, now, |rest| self.give_back(leased, key, rest));
            !kept.purse.is_idle(&terms, now)
        });
        self.keys.fetch_sub(before - stripe.len(), Ordering::Relaxed);
    }

    /// Gives up everything, and asks for nothing more: this node ends. False if there is more to give up than errands can wait: then once more, when those
    /// have been taken.
    pub fn close(&self, now: Time) -> bool {
        self.is_closed.store(true, Ordering::Relaxed); // orders nothing else
        for stripe in &self.stripes {
            if self.waiting.load(Ordering::Relaxed) >= self.settings.errands_max {
                return false;
            }
            for (&key, Kept { purse, leased }) in lock(stripe).iter_mut() {
                purse.close(now, |rest| self.give_back(leased, key, rest));
            }
        }
        true
    }

    /// Asks for blocks again after [`Purses::close`]: it was the clock that jumped, and this node goes on.
    pub fn reopen(&self) {
        self.is_closed.store(false, Ordering::Relaxed); // orders nothing else
    }

    /// Numbers about what is here, for metrics.
    pub fn stats(&self, now: Time) -> LeaseStats {
        let units =
            |stripe: &Mutex<Stripe>| lock(stripe).values().map(|kept| kept.purse.units(now)).sum::<u64>();
        LeaseStats {
            keys: self.keys(),
            units: self.stripes.iter().map(units).sum(),
            granted_units: self.granted_units.load(Ordering::Relaxed),
            returned_units: self.returned_units.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            unconfirmed: *lock(&self.unconfirmed),
        }
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
        let Kept { purse, leased } = kept;
        let terms = self.terms(leased);
        let block_life =
            || leased.limit.lease_life(leased.key.low_half(), leased.limit.moment(now), terms.life);
        if !self.may_ask(now) {
            return;
        }
        if let Some((number, units)) = purse.ask(&terms, now, block_life, || self.number()) {
            let nodes = self.nodes.load(Ordering::Relaxed);
            self.run(leased.errand(key, Act::Lease { units, nodes, number, life: terms.life }));
        }
    }

    /// Not while others may not count this node.
    fn may_ask(&self, now: Time) -> bool {
        now.ticks() <= self.leasing_until.load(Ordering::Relaxed)
            && self.nodes.load(Ordering::Relaxed) > 0
            && !self.is_closed.load(Ordering::Relaxed)
            && self.waiting.load(Ordering::Relaxed) < self.settings.errands_max
    }

    /// The rules have changed. What was granted under others goes back under those.
    fn change(&self, key: u64, kept: &mut Kept, leased: Leased, now: Time) {
        let Kept { purse, leased: before } = kept;
        if before.key != leased.key || before.limit != leased.limit {
            purse.close(now, |rest| self.give_back(before, key, rest));
        }
        kept.leased = leased;
    }

    fn give_back(&self, leased: &Leased, key: u64, rest: LeaseRest) {
        self.returned_units.fetch_add(rest.units, Ordering::Relaxed);
        self.run(leased.errand(key, Act::Return(rest)));
    }

    /// Lets an errand wait. What is to be given back and finds no room dies with its deadline.
    fn run(&self, errand: Errand) {
        let mut errands = self.errands();
        // Settlements are bounded when they are kept.
        if errand.is_unconfirmed || errands.len() < 2 * self.settings.errands_max {
            errands.push_back(errand);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        self.waiting.store(errands.len(), Ordering::Relaxed);
    }

    /// Has an errand wait until it is time to try again. Where that is not worth it, or there is no room, what is given back dies with its deadline.
    fn retry(&self, errand: Errand, now: Time) {
        let until = errand.until.unwrap_or_else(|| now.plus(self.settings.life));
        let mut retries = lock(&self.retries);
        if errand.is_unconfirmed || now < until && retries.len() < self.settings.errands_max {
            retries.push_back((now.plus(RETRY_AFTER), Errand { until: Some(until), ..errand }));
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Has those wait as errands again whose time has come.
    pub fn run_retries(&self, now: Time) {
        while let Some((_, errand)) = lock(&self.retries).pop_front_if(|(at, _)| *at <= now) {
            self.run(errand);
        }
    }

    fn terms(&self, leased: &Leased) -> Terms {
        let nodes = u64::from(self.nodes.load(Ordering::Relaxed).max(1));
        let PursesSettings { life, ahead, .. } = self.settings;
        let units_max = (leased.budget / nodes).min(leased.node_max);
        let cautious = units_max >> self.caution.load(Ordering::Relaxed);
        Terms { life, units_max: cautious.max(units_max.min(1)), ahead }
    }

    fn number(&self) -> u64 {
        let turn = self.numbers.fetch_add(1, Ordering::Relaxed);
        mix(self.settings.seed.wrapping_add(turn)) >> (u64::BITS - NUMBER_BITS)
    }

    fn stripe(&self, key: u64) -> MutexGuard<'_, Stripe> {
        let stripe = usize::try_from(key >> 32).unwrap_or(0) % self.stripes.len();
        lock(&self.stripes[stripe])
    }

    fn errands(&self) -> MutexGuard<'_, VecDeque<Errand>> {
        lock(&self.errands)
    }
}

impl Leased {
    fn errand(&self, purse: u64, act: Act) -> Errand {
        let question =
            Question { key: self.key, limit: Arc::clone(&self.limit), act, account: self.account.clone() };
        Errand { purse, question: (question, self.pin), until: None, is_unconfirmed: false }
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
