//! An account of what nodes have lent to requests, kept apart from theirs: a node's own may be wrong.
//!
//! A request puts back what it does not use, so a node counts what it has lent among the units that it has. It does
//! so until the block is given up or ends: after that nothing can be put back.

use tollgate_core::{Span, Time};
use tollgate_store::authority::Question;
use tollgate_store::lease::Spent;

use super::events::Sent;
use super::node::{key_hash, key_index};
use super::world::World;

/// The part of a block's life by which a node may end it earlier than this account: clocks do not run equally fast.
const DRIFT_PART: u64 = 500;

/// Units of a lease that a request may put back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lent {
    node: usize,
    epoch: u64,
    key: usize,
    lease: u64,
    units: u64,
}

impl World<'_> {
    /// Until when a node has what a question for a lease is granted at a moment of the authority. It counts the life
    /// from when it asked.
    pub(super) fn in_hand_until(&self, sent: &Sent, granted_at: Time) -> u64 {
        let Question { key, ref limit, .. } = sent.question;
        let life_max = Span::from_ticks(self.schedule.life_ns);
        let life_ns = limit.lease_life(key_hash(key_index(key)), granted_at, life_max).ticks();
        sent.departed_at + life_ns - life_ns / DRIFT_PART
    }

    /// A node lends units.
    pub(super) fn lends(&mut self, node: usize, key: usize, spent: &Spent) {
        let epoch = self.nodes[node].epoch;
        self.lent.extend(spent.parts().map(|(lease, units)| Lent { node, epoch, key, lease, units }));
    }

    /// A request has used what was lent to it, or puts it back.
    pub(super) fn ends_loan(&mut self, node: usize, key: usize, spent: &Spent) {
        let epoch = self.nodes[node].epoch;
        for (lease, units) in spent.parts() {
            let is_it = |lent: &Lent| {
                (lent.node, lent.epoch, lent.key, lent.lease) == (node, epoch, key, lease)
                    && lent.units == units
            };
            if let Some(at) = self.lent.iter().position(is_it) {
                self.lent.swap_remove(at);
            }
        }
    }

    /// A node gives up a lease: what it has lent of it can not be put back any more.
    pub(super) fn forgets_loans(&mut self, lease: u64) {
        self.lent.retain(|lent| lent.lease != lease);
    }

    /// What requests may put back at a node.
    pub(super) fn units_lent(&self, node: usize, key: usize) -> u64 {
        let epoch = self.nodes[node].epoch;
        let is_its = |lent: &&Lent| (lent.node, lent.epoch, lent.key) == (node, epoch, key);
        let is_alive = |lent: &&Lent| self.judges[key].is_in_hand(lent.lease, self.now);
        self.lent.iter().filter(is_its).filter(is_alive).map(|lent| lent.units).sum()
    }
}
