//! What a process has in common with the others that share its counters.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tollgate_core::{Blocked, Limit, Share, SharedLimit};
use tollgate_policy::Consistency;
use tollgate_store::authority::{Pin, SharedKey};
use tollgate_store::hot::ShardId;
use tollgate_store::lease::{Purses, PursesSettings};

/// What the secret is used for. What is made for one purpose tells nothing about another.
const NAMING: &str = "tollgate: names of shared counters, layout 1";

/// Who keeps counters that are not this process's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// The store that a fleet shares.
    Store,
    /// The database, for limits that are durable.
    Database,
}

impl Keeper {
    /// Both.
    pub const ALL: [Keeper; 2] = [Keeper::Store, Keeper::Database];

    /// Who keeps the counters of limits that say so.
    pub(crate) fn of(consistency: Option<Consistency>) -> Keeper {
        match consistency {
            Some(Consistency::Durable) => Keeper::Database,
            _ => Keeper::Store,
        }
    }

    /// Who keeps what is pinned so.
    pub fn at(pin: Option<Pin>) -> Keeper {
        if pin == Some(Pin::DATABASE) { Keeper::Database } else { Keeper::Store }
    }
}

/// A counter that the fleet shares.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SharedCounter {
    pub(crate) name: SharedKey,
    pub(crate) limit: Arc<SharedLimit>,
}

/// The processes that share counters.
pub(crate) struct Fleet {
    naming_key: [u8; 32],
    /// How many there are, as far as is known.
    nodes: AtomicU32,
    /// What is kept at a place of its own, by its name.
    pins: HashMap<Box<[u8]>, Pin>,
    /// Who keeps each counter, if there are several who do.
    sharding: Option<Sharding>,
    /// What this process may spend without asking.
    pub(crate) purses: Purses,
}

/// Knows who keeps a counter.
pub(crate) type Sharding = Box<dyn Fn(SharedKey, Option<Pin>) -> Option<ShardId> + Send + Sync>;

/// The one who keeps all counters, where there is one.
const ONE_SHARD: ShardId = ShardId(1);

impl Fleet {
    /// Those who know this secret. It may be empty: names then still do not collide, but every reader of the store can tell whose they are.
    pub(crate) fn new(secret: &[u8], seed: u64, cap_bytes: usize) -> Fleet {
        Fleet::with_purses(secret, PursesSettings::new(seed).within(cap_bytes))
    }

    /// Those who count in the same database. Its counters have no secret names: what they count for whom stands beside them.
    pub(crate) fn durable(seed: u64, cap_bytes: usize) -> Fleet {
        Fleet::with_purses(&[], PursesSettings::durable(seed).within(cap_bytes))
    }

    fn with_purses(secret: &[u8], purses: PursesSettings) -> Fleet {
        Fleet {
            naming_key: blake3::derive_key(NAMING, secret),
            nodes: AtomicU32::new(1),
            pins: HashMap::new(),
            sharding: None,
            purses: Purses::new(purses),
        }
    }

    pub(crate) fn set_pins(&mut self, pins: impl IntoIterator<Item = (String, Pin)>) {
        self.pins = pins.into_iter().map(|(name, pin)| (name.into_bytes().into(), pin)).collect();
    }

    pub(crate) fn set_sharding(&mut self, sharding: Sharding) {
        self.sharding = Some(sharding);
    }

    /// Who keeps a counter, if that is known at the moment.
    pub(crate) fn shard_of(&self, name: SharedKey, pin: Option<Pin>) -> Option<ShardId> {
        self.sharding.as_ref().map_or(Some(ONE_SHARD), |shard_of| shard_of(name, pin))
    }

    /// The place of the first of these names that has one. Where nothing is pinned, names are not looked at.
    pub(crate) fn pin_of<'n>(&self, mut names: impl Iterator<Item = &'n [u8]>) -> Option<Pin> {
        if self.pins.is_empty() { None } else { names.find_map(|name| self.pins.get(name).copied()) }
    }

    /// What is pinned there. Of several names, any will do.
    pub(crate) fn pinned_at(&self, pin: Pin) -> Option<&[u8]> {
        self.pins.iter().find(|(_, other)| **other == pin).map(|(name, _)| &**name)
    }

    /// The counter of a key under a limit.
    pub(crate) fn counter(&self, key: &[u8], limit: Arc<SharedLimit>) -> SharedCounter {
        SharedCounter { name: self.name(key, &limit), limit }
    }

    /// The name of a counter, the same in every process. What cannot be read with each other's numbers has different names.
    fn name(&self, key: &[u8], limit: &SharedLimit) -> SharedKey {
        let mut hasher = blake3::Hasher::new_keyed(&self.naming_key);
        let (shape, tick) = limit.shape();
        hasher.update(&shape.to_le_bytes());
        hasher.update(&tick.length_ns().to_le_bytes());
        hasher.update(key);
        let mut name = [0; 16];
        hasher.finalize_xof().fill(&mut name);
        SharedKey(u128::from_be_bytes(name))
    }

    pub(crate) fn set_nodes(&self, nodes: u32) {
        self.nodes.store(nodes.max(1), Ordering::Relaxed); // orders nothing else
        self.purses.set_nodes(nodes);
    }

    /// What this process may spend of a limit on its own: the part that the rule says, or as much as each of the others.
    pub(crate) fn share_of(&self, limit: &Limit, percent: Option<u8>) -> Limit {
        let nodes = || NonZeroU32::new(self.nodes.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN);
        let share = match percent {
            Some(percent) => Share::percent(percent.into()),
            None => Some(Share::of_one_in(nodes())),
        };
        // No part at all lets nothing pass.
        share.map_or(Blocked.into(), |share| limit.share(share))
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}
