//! Counters that groups of keys share, for new keys that get no room of their own.
//!
//! When every key in a full table has used much of its limit, no key may go, and a new one cannot be counted by itself. To deny it
//! would let an attacker who fills the table with used-up keys lock out every new client of every rule. To admit it uncounted
//! would undo its limit. So all new keys of a group share one counter of their limit: each gets at most the limit, and usually
//! less, because others of its group count too.
//!
//! A group belongs to one limit (its algorithm and all its numbers), so a flood under one limit does not touch the groups of
//! another. Which group a key belongs to follows from its hash, which no client knows. The counters have a small table of
//! their own. Where that is full of groups that have used much of theirs, a new key is denied.
//!
//! What a group has counted is not given back: the key that got it is not known. That counts too much, never too little.
//!
//! A key that was counted with its group may get room of its own later. It then starts with all that its group has used, since it
//! may be the key that got it. A key that is decided on by two threads at that moment can miss what the other one counts.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{CoarseLimit, Decision, Limit, Outcome, State, Time};

use super::key::random;
use super::partition::decide_new;
use super::{Charge, Key, LedgerError};
use crate::table::{Table, TableStats};

/// Slots of the table for each group: so many limits can have all their groups in it at once.
const SLOTS_PER_GROUP: usize = 16;
const GROUPS_MIN: usize = 64;

pub(super) struct Coarse {
    table: Table,
    groups: u64,
    /// Which slots groups get is nothing that a client can compute.
    secret: u64,
    /// From then on no group counts anything, in ticks.
    counts_until: AtomicU64,
    decided: AtomicU64,
    refused: AtomicU64,
}

pub(super) struct CoarseStats {
    pub(super) table: TableStats,
    pub(super) decided: u64,
    pub(super) refused: u64,
}

impl Coarse {
    pub(super) fn new(bytes: usize) -> Result<Coarse, LedgerError> {
        let groups = (Table::slots_within(bytes) / SLOTS_PER_GROUP).max(GROUPS_MIN);
        Ok(Coarse {
            table: Table::new(bytes, 0)?,
            groups: groups as u64,
            secret: random()?,
            counts_until: AtomicU64::new(0),
            decided: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// Decides a charge on a key that has no room of its own.
    #[cold]
    pub(super) fn decide(&self, charge: &Charge<'_>, now: Time) -> Decision {
        self.decide_in_group(charge, now).unwrap_or_else(|| self.refuse(charge.limit))
    }

    fn decide_in_group(&self, charge: &Charge<'_>, now: Time) -> Option<Decision> {
        let coarse = charge.limit.coarse()?;
        let (limit, key) = (&coarse.limit, self.group_of(charge.key, &coarse));
        let charge = &Charge { key, limit, ..*charge };
        let (decision, state) = decide_new(&self.table, charge, now, &|| 0)?;
        // Relaxed, here and below: a thread that sees it late has not seen the decision either.
        let counts_until = coarse.counts_until(&limit.unpack(state));
        self.counts_until.fetch_max(counts_until.ticks(), Ordering::Relaxed);
        self.decided.fetch_add(1, Ordering::Relaxed);
        Some(decision)
    }

    /// The state with which a key starts that gets room of its own: with all that its group has used. None where its group has
    /// used nothing.
    pub(super) fn start_of(&self, key: Key, limit: &Limit, now: Time) -> Option<State> {
        if self.counts_until.load(Ordering::Relaxed) <= now.ticks() {
            return None;
        }
        let coarse = limit.coarse()?;
        let group = self.group_of(key, &coarse);
        let state = coarse.limit.unpack(self.table.update(group.tag(&coarse.limit), 0, |_| None));
        let used = coarse.used_max(&state, group.time(&coarse.limit, now));
        (used > 0).then(|| limit.with_used(used, key.time(limit, now)))
    }

    fn group_of(&self, key: Key, coarse: &CoarseLimit) -> Key {
        key.in_group(coarse.limit.fingerprint() ^ self.secret, self.groups)
    }

    /// Denies what can be counted nowhere.
    #[cold]
    pub(super) fn refuse(&self, limit: &Limit) -> Decision {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Decision { outcome: Outcome::Busy, limit: limit.capacity(), remaining: 0, reset_after: None }
    }

    pub(super) fn stats(&self) -> CoarseStats {
        let table = self.table.stats();
        CoarseStats {
            table,
            decided: self.decided.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}
