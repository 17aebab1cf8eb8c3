//! Limits of which this process may spend units without asking: see [`tollgate_store::lease`].
//!
//! What is needed of the authority besides, such as the next block of units, are errands. No request waits for them; whoever runs the engine
//! carries them and brings back what became of them.

use std::sync::Arc;

use tollgate_core::{Cost, Decision, Intent, Outcome, Span, Time};
use tollgate_policy::LeaseTerms;
use tollgate_store::Charge;
use tollgate_store::authority::{Failure, Grant, Pin};
use tollgate_store::lease::{Errand, Leased, Purses, Spent};

use crate::engine::Engine;
use crate::fleet::SharedCounter;

/// Units of a lease that a request has spent.
#[derive(Debug)]
pub(crate) struct SpentHere {
    /// Which ruling they belong to.
    pub(crate) index: usize,
    pub(crate) purse: u64,
    pub(crate) spent: Spent,
}

/// A charge on a limit that is leased.
pub(crate) struct LeasedCharge<'a> {
    pub(crate) index: usize,
    pub(crate) charge: Charge<'a>,
    pub(crate) intent: Intent,
    pub(crate) counter: &'a SharedCounter,
    pub(crate) pin: Option<Pin>,
    pub(crate) terms: LeaseTerms,
}

impl LeasedCharge<'_> {
    /// Where this process keeps what it has.
    pub(crate) fn purse(&self) -> u64 {
        self.charge.key.number(self.charge.limit.shape())
    }
}

impl Engine {
    /// Whether anything is to be asked of the authority that no request waits for.
    pub fn has_errands(&self) -> bool {
        self.purses().is_some_and(Purses::has_errands)
    }

    /// What is to be asked of the authority, at most so much. The answers belong to [`Engine::settle`].
    pub fn take_errands(&self, max: usize) -> Vec<Errand> {
        self.purses().map(|purses| purses.take_errands(max)).unwrap_or_default()
    }

    /// What became of an errand.
    pub fn settle(&self, errand: &Errand, answer: Result<Grant, Failure>, now: Time) {
        if let Some(purses) = self.purses() {
            purses.settle(errand, answer.as_ref().map_err(|failure| *failure), now);
        }
    }

    /// Leases nothing before this moment: until then others may not count this process among themselves, and have its part.
    pub fn lease_from(&self, moment: Time) {
        if let Some(purses) = self.purses() {
            purses.lease_from(moment);
        }
    }

    /// The longest that a lease is spent.
    pub fn lease_life(&self) -> Span {
        self.purses().map_or(Span::ZERO, Purses::life)
    }

    /// Decides by what this process has, if that is enough.
    pub(crate) fn spend_leased(
        &self,
        leased: &LeasedCharge<'_>,
        now: Time,
    ) -> Option<(Decision, Option<SpentHere>)> {
        let (purses, purse, units) = (self.purses()?, leased.purse(), leased.charge.cost.units());
        let SharedCounter { name, limit } = leased.counter;
        let spent = match leased.intent {
            Intent::Take | Intent::Book if leased.charge.cost != Cost::ZERO => {
                purses.spend(purse, units, now, limit, || Leased {
                    key: *name,
                    pin: leased.pin,
                    limit: Arc::clone(limit),
                    budget: leased.terms.budget,
                    node_max: leased.terms.node_max,
                })?
            }
            // Of nothing at all, a look says how much there is.
            _ => purses.peek(purse, units.max(1), now)?,
        };
        let Spent { remaining, reset_after, .. } = spent;
        let limit = limit.units();
        let decision =
            Decision { outcome: Outcome::ALLOWED, limit, remaining: remaining.min(limit), reset_after };
        let is_spent = spent.parts().next().is_some();
        Some((decision, is_spent.then_some(SpentHere { index: leased.index, purse, spent })))
    }

    /// Puts back what was spent a moment ago.
    pub(crate) fn put_back(&self, spent: &[SpentHere]) {
        if let Some(purses) = self.purses() {
            for SpentHere { purse, spent, .. } in spent {
                purses.put_back(*purse, spent);
            }
        }
    }

    /// The authority has said how a key stands of which there was not enough here.
    pub(crate) fn know_leased(&self, purse: u64, grant: &Grant, now: Time) {
        if let Some(purses) = self.purses() {
            purses.know(purse, grant, now);
        }
    }
}
