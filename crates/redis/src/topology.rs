//! Which shard keeps a key.
//!
//! One node keeps all of them, and so does the master that sentinels know. A ring gives each key to the node that comes next after it. A
//! Cluster says so itself, and changes its mind: what has moved is sent on to where it is now.

mod cluster;
mod ring;
mod sentinel;

use std::sync::Arc;

use tokio::task::AbortHandle;
use tollgate_store::authority::{Question, SharedKey};
use tollgate_store::hot::ShardId;

pub(crate) use cluster::Mover;
pub(crate) use sentinel::Sentinels;

use self::cluster::Cluster;
use self::ring::RingOfShards;
use crate::address::Layout;
use crate::fleet::{Fleet, Pin};
use crate::shard::{Link, Place, Redirect, Shard};
use crate::ticket::Ticket;

/// The shards of one thread.
pub(crate) enum Topology {
    One(Member),
    Ring(RingOfShards),
    Cluster(Arc<Cluster>),
}

/// A shard, and the task that has its connection, which ends with this value.
pub(crate) struct Member {
    pub(crate) shard: Arc<Shard>,
    task: AbortHandle,
}

/// Something to be done by another shard than the one that was asked.
pub(crate) struct Moved {
    /// Who does it, if that was said.
    pub(crate) redirect: Option<Redirect>,
    pub(crate) question: Question,
    pub(crate) ticket: Ticket,
}

impl Topology {
    /// Begins to connect. To be called within a runtime.
    pub(crate) fn start(fleet: &Arc<Fleet>) -> Topology {
        let nodes = &fleet.settings.address.nodes;
        match &fleet.settings.address.layout {
            Layout::One { .. } => {
                let node = nodes.first().cloned().unwrap_or_default();
                Topology::One(Member::start(fleet, Place::Node(node), None))
            }
            Layout::Sentinel { master, .. } => {
                let sentinels = Sentinels::new(fleet, master.clone());
                Topology::One(Member::start(fleet, Place::Master(Arc::new(sentinels)), None))
            }
            Layout::Ring => Topology::Ring(RingOfShards::start(fleet)),
            Layout::Cluster => Topology::Cluster(Cluster::start(fleet)),
        }
    }

    /// Who keeps a key.
    pub(crate) fn shard_of(&self, key: SharedKey, pin: Option<Pin>) -> Option<Arc<Shard>> {
        match self {
            Topology::One(member) => Some(Arc::clone(&member.shard)),
            Topology::Ring(ring) => ring.shard_of(key, pin),
            Topology::Cluster(cluster) => cluster.shard_of(key),
        }
    }

    /// Who keeps a key, if that can be said without waiting.
    pub(crate) fn known_shard_of(&self, key: SharedKey, pin: Option<Pin>) -> Option<ShardId> {
        match self {
            Topology::One(member) => Some(member.shard.id),
            Topology::Ring(ring) => ring.shard_of(key, pin).map(|shard| shard.id),
            Topology::Cluster(cluster) => cluster.known_shard_of(key),
        }
    }

    /// Who keeps the list of nodes.
    pub(crate) fn shard_of_nodes(&self) -> Option<Arc<Shard>> {
        match self {
            Topology::One(member) => Some(Arc::clone(&member.shard)),
            Topology::Ring(ring) => ring.first(),
            Topology::Cluster(cluster) => cluster.shard_of_nodes(),
        }
    }

    pub(crate) fn shards(&self) -> Vec<Arc<Shard>> {
        match self {
            Topology::One(member) => vec![Arc::clone(&member.shard)],
            Topology::Ring(ring) => ring.shards(),
            Topology::Cluster(cluster) => cluster.shards(),
        }
    }

    /// Whether every key has a shard that can be asked.
    pub(crate) fn is_ready(&self) -> bool {
        let is_known = match self {
            Topology::Cluster(cluster) => cluster.is_known(),
            _ => true,
        };
        is_known && self.shards().iter().all(|shard| shard.is_up())
    }
}

impl Member {
    /// Begins to connect.
    fn start(fleet: &Arc<Fleet>, place: Place, mover: Option<Mover>) -> Member {
        let shard = Arc::new(Shard::new(&place, Arc::clone(fleet)));
        let link = Link { shard: Arc::clone(&shard), place, access: fleet.access(), mover };
        Member { shard, task: tokio::spawn(link.run()).abort_handle() }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.task.abort();
    }
}
