//! What all threads of a process share: how to reach the authority, what was denied of late, how many nodes there are.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use thiserror::Error;
use tollgate_core::{Cost, Decision, SharedLimit, Span, Time};
use tollgate_store::Clock;
pub use tollgate_store::authority::Pin;
use tollgate_store::authority::deny_cache::{Denial, DenyCache};
use tollgate_store::authority::ring::{Ring, RingError};
use tollgate_store::authority::{Act, Grant, OnceAct, Question, SharedKey};
use tollgate_store::hot::ShardId;
use tollgate_store::lease::{Census, Counted};

use crate::address::{Address, Credentials, Layout, Node};
use crate::connection::{Access, Broken, CurrentCredentials, error_code};
use crate::heartbeat;
use crate::keys::{Keys, PrefixError};
use crate::shard::ShardStats;
use crate::tls::Tls;
use crate::topology::Topology;

/// The deny cache has so many parts, each behind a lock of its own, so that threads seldom meet.
const STRIPES: usize = 64;
/// An error of one kind is told of once in so long.
const MURMUR_INTERVAL: Span = Span::from_ticks(1_000_000_000);
/// So many kinds of errors are told apart.
const MURMURS_MAX: usize = 64;
/// Of so many nodes that have left it is remembered what was counted.
const RETIRED_MAX: usize = 1_000;
/// So much of what Redis said is told.
const SHOWN_CHARS_MAX: usize = 200;

/// No time is made up.
const NOT_MADE_UP: u64 = u64::MAX;

/// How the authority is reached.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it is, and who asks.
    pub address: Address,
    /// Who asks sentinels, which have passwords of their own.
    pub sentinel_credentials: Credentials,
    /// How connections are encrypted, if the address says so.
    pub tls: Option<Tls>,
    /// How keys begin.
    pub prefix: String,
    /// The longest that connecting may take.
    pub connect_timeout: Duration,
    /// How many denials are remembered.
    pub deny_slots: usize,
    /// How many nodes there are, if they do not count themselves.
    pub nodes: Option<u32>,
    /// What is kept on a node of its own: a name, and the node.
    pub pins: Vec<(String, Node)>,
}

/// Why the authority cannot be reached with these settings.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// The prefix.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// TLS without anybody to trust.
    #[error("{0} is to be reached over TLS: say which authorities' certificates to trust")]
    NoAuthorities(String),
    /// Nodes that make no ring.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Pins where there are none.
    #[error("keys can be pinned to nodes only in a ring: redis+ring://")]
    PinsWithoutRing,
    /// More than can be told apart.
    #[error("more than {} pins", u16::MAX)]
    TooManyPins,
}

/// What all threads share.
pub struct Fleet {
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<Clock>,
    pub(crate) keys: Keys,
    /// Where each key is kept, if nodes do not know it themselves.
    pub(crate) ring: Option<Arc<Ring>>,
    credentials: Arc<CurrentCredentials>,
    denied: Vec<Mutex<DenyCache>>,
    /// What is known of the nodes, how many that are, and until when the others count this one.
    census: Mutex<Census>,
    nodes: AtomicU32,
    counted_until: AtomicU64,
    /// Whether a thread of this process already tells that it is there.
    pub(crate) is_beating: AtomicBool,
    /// Under which name.
    pub(crate) node: String,
    /// [`NOT_MADE_UP`] where time is Redis's own.
    made_up_us: AtomicU64,
    threads: Mutex<Vec<Weak<Topology>>>,
    /// What was done with shards that are not used any more. Whoever holds this sees no shard leave.
    retired: Mutex<Retired>,
    murmurs: Mutex<HashMap<String, Murmur>>,
}

/// What was done with shards that are not used any more: what is counted never becomes less.
#[derive(Default)]
pub(crate) struct Retired(Vec<ShardStats>);

impl Retired {
    /// Keeps what a shard has done that will do nothing more.
    pub(crate) fn add(&mut self, stats: ShardStats) {
        let past = ShardStats { is_connected: false, breakers_open: 0, ..stats };
        if let Some(other) = self.0.iter_mut().find(|other| other.name == past.name) {
            other.add_past(&past);
        } else if self.0.len() < RETIRED_MAX {
            self.0.push(past);
        }
    }
}

struct Murmur {
    told_at: Time,
    untold: u64,
}

impl Settings {
    /// For this address, with everything else as it usually is.
    pub fn new(address: Address) -> Settings {
        Settings {
            address,
            sentinel_credentials: Credentials::default(),
            tls: None,
            prefix: "tollgate".to_owned(),
            connect_timeout: Duration::from_secs(1),
            deny_slots: 1 << 18,
            nodes: None,
            pins: Vec::new(),
        }
    }
}

impl Fleet {
    /// Connects to nothing yet: each thread does.
    pub fn new(settings: Settings, clock: Arc<Clock>) -> Result<Arc<Fleet>, SettingsError> {
        let keys = Keys::new(&settings.prefix)?;
        if settings.address.is_tls && settings.tls.is_none() {
            return Err(SettingsError::NoAuthorities(settings.address.to_string()));
        }
        if !settings.pins.is_empty() && settings.address.layout != Layout::Ring {
            return Err(SettingsError::PinsWithoutRing);
        }
        if settings.pins.len() > usize::from(u16::MAX) {
            return Err(SettingsError::TooManyPins);
        }
        let ring = match settings.address.layout {
            Layout::Ring => {
                let names: Vec<String> = settings.address.nodes.iter().map(Node::to_string).collect();
                Some(Arc::new(Ring::new(&names)?))
            }
            _ => None,
        };
        let stripe = || Mutex::new(DenyCache::new(settings.deny_slots / STRIPES));
        Ok(Arc::new(Fleet {
            clock,
            keys,
            ring,
            credentials: Arc::new(CurrentCredentials::new(settings.address.credentials.clone())),
            denied: (0..STRIPES).map(|_| stripe()).collect(),
            census: Mutex::new(heartbeat::census()),
            nodes: AtomicU32::new(1),
            counted_until: AtomicU64::new(0),
            is_beating: AtomicBool::new(false),
            node: format!("{:016x}", random()),
            made_up_us: AtomicU64::new(NOT_MADE_UP),
            threads: Mutex::new(Vec::new()),
            retired: Mutex::default(),
            murmurs: Mutex::new(HashMap::new()),
            settings,
        }))
    }

    /// The pin of this name.
    pub fn pin(&self, name: &str) -> Option<Pin> {
        let found = self.settings.pins.iter().position(|(other, _)| other == name)?;
        u16::try_from(found).ok().map(Pin)
    }

    /// From now on, new connections are made with these credentials.
    pub fn set_credentials(&self, credentials: Credentials) {
        self.credentials.set(credentials);
    }

    /// Until when all others count this node, or need not because the settings say how many there are.
    pub fn counted_until(&self) -> Time {
        // Relaxed: a number that stands for itself.
        let until = || Time::from_ticks(self.counted_until.load(Ordering::Relaxed));
        if self.settings.nodes.is_some() { Time::MAX } else { until() }
    }

    /// How many nodes share the limits, this one among them: as they were last counted, or as the settings say.
    pub fn nodes(&self) -> u32 {
        // Relaxed: a number that stands for itself.
        self.settings.nodes.unwrap_or_else(|| self.nodes.load(Ordering::Relaxed)).max(1)
    }

    /// What was answered to a heartbeat, if anything.
    pub(crate) fn counted(&self, sent_at: Time, answer: Option<Counted>) {
        let mut census = self.census.lock().unwrap_or_else(PoisonError::into_inner);
        census.tell(sent_at, answer);
        self.nodes.store(census.nodes(), Ordering::Relaxed);
        let until = census.is_counted_until().unwrap_or_default();
        self.counted_until.store(until.ticks(), Ordering::Relaxed);
    }

    /// Who keeps a key, as any of the threads knows it; nothing, if none does or that would have to be waited for. Every shard has a number of its own.
    pub fn shard_of(&self, key: SharedKey, pin: Option<Pin>) -> Option<ShardId> {
        let threads = try_lock(&self.threads)?;
        threads.iter().find_map(Weak::upgrade)?.known_shard_of(key, pin)
    }

    /// What every shard has done, all threads together.
    pub fn stats(&self) -> Vec<ShardStats> {
        let (now, mut stats) = (self.clock.steady(), Vec::<ShardStats>::new());
        let retired = self.retired();
        let threads: Vec<_> = lock(&self.threads).iter().filter_map(Weak::upgrade).collect();
        for shard in threads.iter().flat_map(|thread| thread.shards()) {
            let shard = shard.stats(now);
            match stats.iter_mut().find(|other| other.name == shard.name) {
                Some(other) => other.add(&shard),
                None => stats.push(shard),
            }
        }
        for shard in &retired.0 {
            match stats.iter_mut().find(|other| other.name == shard.name) {
                Some(other) => other.add_past(shard),
                None => stats.push(shard.clone()),
            }
        }
        stats
    }

    pub(crate) fn retired(&self) -> MutexGuard<'_, Retired> {
        lock(&self.retired)
    }

    /// Limits have changed, so nothing that was denied is certain any more.
    pub fn forget_denials(&self) {
        for stripe in &self.denied {
            lock(stripe).clear();
        }
    }

    /// Makes scripts decide at this time, in microseconds since 1970, instead of Redis's own: for tests.
    #[doc(hidden)]
    pub fn make_up_time(&self, now_us: Option<u64>) {
        self.made_up_us.store(now_us.unwrap_or(NOT_MADE_UP), Ordering::Relaxed);
    }

    pub(crate) fn made_up_us(&self) -> Option<u64> {
        Some(self.made_up_us.load(Ordering::Relaxed)).filter(|now_us| *now_us != NOT_MADE_UP)
    }

    pub(crate) fn join(&self, thread: &Arc<Topology>) {
        let mut threads = lock(&self.threads);
        threads.retain(|thread| thread.strong_count() > 0);
        threads.push(Arc::downgrade(thread));
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.settings.address.layout == Layout::Cluster
    }

    /// How nodes are reached.
    pub(crate) fn access(&self) -> Access {
        let database = match self.settings.address.layout {
            Layout::One { database } | Layout::Sentinel { database, .. } => database,
            Layout::Cluster | Layout::Ring => 0,
        };
        Access {
            credentials: Arc::clone(&self.credentials),
            tls: self.settings.tls.clone().filter(|_| self.settings.address.is_tls),
            database,
            timeout: self.settings.connect_timeout,
        }
    }

    /// The denial that is certain without asking.
    pub(crate) fn denied(&self, question: &Question, cost: Cost, now: Time) -> Option<Decision> {
        // What is certain of made-up time does not follow from ours.
        if self.made_up_us().is_some() {
            return None;
        }
        let key = remembered_as(question.key, &question.limit);
        lock(self.stripe(key)).look(key, cost, now)
    }

    /// Remembers what an answer makes certain, or what it makes uncertain.
    pub(crate) fn learn(&self, key: SharedKey, act: Act, answer: &Learnt<'_>) {
        let key = remembered_as(key, answer.limit);
        match act {
            Act::Take(cost) | Act::Peek(cost) | Act::Once(_, OnceAct::Take(cost))
                if answer.grant.decision.retry_after().is_some() =>
            {
                let denial = Denial {
                    cost,
                    sent_at: answer.sent_at,
                    tick: answer.limit.tick(),
                    decision: answer.grant.decision,
                };
                lock(self.stripe(key)).note(key, &denial);
            }
            Act::GiveBack { .. }
            | Act::Return(_)
            | Act::Settle(_)
            | Act::Once(_, OnceAct::GiveBack { .. } | OnceAct::Undo { .. })
            | Act::Release(_)
            | Act::Reset => {
                lock(self.stripe(key)).forget(key);
            }
            _ => {}
        }
    }

    fn stripe(&self, key: SharedKey) -> &Mutex<DenyCache> {
        // The cache itself goes by the upper bits.
        &self.denied[(key.0 % STRIPES as u128) as usize]
    }

    /// Tells of an error, if it was not told of just now.
    pub(crate) fn murmur(&self, shard: &str, message: &str) {
        self.murmur_of(shard, error_code(message), message);
    }

    /// Tells of a connection that could not be made or broke, if it was not told of the same cause just now.
    pub(crate) fn murmur_broken(&self, shard: &str, broken: &Broken) {
        self.murmur_of(shard, &format!("BROKEN {}", broken.kind()), &format!("BROKEN {broken}"));
    }

    fn murmur_of(&self, shard: &str, kind: &str, message: &str) {
        let (now, kind) = (self.clock.steady(), format!("{shard} {kind}"));
        let mut murmurs = lock(&self.murmurs);
        if murmurs.len() >= MURMURS_MAX && !murmurs.contains_key(&kind) {
            murmurs.retain(|_, murmur| now.since(murmur.told_at) < MURMUR_INTERVAL);
            if murmurs.len() >= MURMURS_MAX {
                return;
            }
        }
        let untold = match murmurs.get_mut(&kind) {
            Some(murmur) if now.since(murmur.told_at) < MURMUR_INTERVAL => {
                murmur.untold += 1;
                return;
            }
            Some(murmur) => std::mem::take(&mut murmur.untold),
            None => 0,
        };
        murmurs.insert(kind, Murmur { told_at: now, untold: 0 });
        let shown: String = message.chars().take(SHOWN_CHARS_MAX).collect();
        tracing::warn!(shard, error = shown, untold, "Redis fails");
    }
}

/// What is denied under one limit need not be under another that shares the counter. The low half, by which places are found, stays.
fn remembered_as(key: SharedKey, limit: &SharedLimit) -> SharedKey {
    SharedKey(key.0 ^ u128::from(limit.fingerprint()) << 64)
}

/// What an answer says, and when it was asked for.
pub(crate) struct Learnt<'a> {
    pub(crate) grant: &'a Grant,
    pub(crate) limit: &'a SharedLimit,
    pub(crate) sent_at: Time,
}

/// For jitter and for names, not for secrets.
pub(crate) fn random() -> u64 {
    // Without randomness, jitter is none: nothing else depends on it.
    getrandom::u64().unwrap_or_default()
}

/// Less of a pause, by up to a half, so that the nodes of a fleet do not all come at once.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let half = pause / 2;
    half + Duration::from_nanos(random() % u64::try_from(half.as_nanos()).unwrap_or(1).max(1))
}

/// Unless somebody else has it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
