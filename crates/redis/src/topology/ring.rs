//! A ring of nodes that know nothing of each other, and nodes of their own for what is pinned.

use std::sync::Arc;

use tollgate_store::authority::SharedKey;
use tollgate_store::authority::ring::Ring;

use super::Member;
use crate::address::Node;
use crate::fleet::{Fleet, Pin};
use crate::shard::{Place, Shard};

/// Every node of the ring in its order, then those that only pins name.
pub(crate) struct RingOfShards {
    ring: Option<Arc<Ring>>,
    members: Vec<Member>,
    /// Where each pin is kept.
    pins: Vec<usize>,
}

impl RingOfShards {
    pub(super) fn start(fleet: &Arc<Fleet>) -> RingOfShards {
        let mut nodes: Vec<Node> = fleet.settings.address.nodes.clone();
        let mut pins = Vec::new();
        for (_, node) in &fleet.settings.pins {
            let place = nodes.iter().position(|other| other == node).unwrap_or_else(|| {
                nodes.push(node.clone());
                nodes.len() - 1
            });
            pins.push(place);
        }
        let start = |node: Node| Member::start(fleet, Place::Node(node), None);
        RingOfShards { ring: fleet.ring.clone(), members: nodes.into_iter().map(start).collect(), pins }
    }

    pub(super) fn shard_of(&self, key: SharedKey, pin: Option<Pin>) -> Option<Arc<Shard>> {
        let pinned = pin.and_then(|pin| self.pins.get(usize::from(pin.0)).copied());
        self.shard(pinned.or_else(|| Some(self.ring.as_ref()?.node_of(key)))?)
    }

    pub(super) fn first(&self) -> Option<Arc<Shard>> {
        self.shard(0)
    }

    pub(super) fn shards(&self) -> Vec<Arc<Shard>> {
        self.members.iter().map(|member| Arc::clone(&member.shard)).collect()
    }

    fn shard(&self, place: usize) -> Option<Arc<Shard>> {
        self.members.get(place).map(|member| Arc::clone(&member.shard))
    }
}
