//! Counters that groups of keys share, for new keys that get no room of their own.
//!
//! When every key in a full table is near its limit, no key may go, and a new one cannot be counted by itself. To deny it
//! would let an attacker who fills the table with used-up keys lock out every new client of every rule. To admit it uncounted
//! would undo its limit. So all new keys of a group share one counter of their limit: each gets at most the limit, and usually
//! less, because others of its group count too.
//!
//! A group belongs to one limit (its algorithm and all its numbers), so a flood under one limit does not touch the groups of
//! another. Which group a key belongs to follows from its hash, which no client knows. The counters have a small table of
//! their own. Where that is full of groups near their limits too, a new key is denied.
//!
//! What a group has counted is not given back: the key that got it is not known. That counts too much, never too little.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Decision, Limit, Outcome, Time};

use super::{Charge, DecideWord, LedgerError};
use crate::table::{Table, TableStats};

/// Slots of the table for each group: so many limits can have all their groups in it at once.
const SLOTS_PER_GROUP: usize = 16;
const GROUPS_MIN: usize = 64;

pub(super) struct Coarse {
    table: Table,
    groups: u64,
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
        let limit = &charge.limit.coarse()?;
        let key = charge.key.in_group(limit.fingerprint(), self.groups);
        let mut decision = super::UNDECIDED;
        let charge = &Charge { key, limit, ..*charge };
        let decide = DecideWord { table: &self.table, decision: &mut decision, charge, now };
        // Relaxed, here and below: a count orders nothing.
        limit.visit_packed(decide).filter(|&decided| decided).map(|_| {
            self.decided.fetch_add(1, Ordering::Relaxed);
            decision
        })
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
