//! Limits of which this process may spend units without asking: see [`tollgate_store::lease`].
//!
//! What is needed of the authority besides, such as the next block of units, are errands. No request waits for them; whoever runs the engine
//! carries them and brings back what became of them.

use std::sync::Arc;

use tollgate_core::{Cost, Decision, Intent, Outcome, SettleChange, SettleOnce, Span, Time};
use tollgate_policy::{LeaseTerms, Quota};
use tollgate_store::authority::{Act, Directed, Failure, Grant, OnceAct, Pin, Question, SharedKey};
use tollgate_store::hot::Leasing;
use tollgate_store::lease::{Errand, LeaseStats, Leased, Purses, Spent, Wanted};
use tollgate_store::{Charge, Key};

use crate::account::AccountOf;
use crate::engine::Engine;
use crate::fleet::{Keeper, SharedCounter};

/// So long does Redis take a booking that is retried: much longer than it is, since clocks differ.
const FACT_TAKEN_FOR: Span = Span::from_ticks(7_200 * 1_000_000_000);

/// Units of a lease that a request has been lent.
#[derive(Debug)]
pub(crate) struct SpentHere {
    /// Which ruling they belong to.
    pub(crate) index: usize,
    pub(crate) name: SharedKey,
    pub(crate) purse: u64,
    pub(crate) keeper: Keeper,
    pub(crate) spent: Spent,
}

/// A decision by what this process has.
pub(crate) struct SpentLeased {
    pub(crate) decision: Decision,
    /// When the authority counted what was spent, in its ticks.
    pub(crate) counted_at: Time,
    /// What may be put back.
    pub(crate) here: Option<SpentHere>,
}

/// What this process has of the units that a charge is about, where that is not all.
pub(crate) struct Part {
    pub(crate) units: u64,
    /// What may be put back.
    pub(crate) here: Option<SpentHere>,
}

/// A charge on a limit that is leased.
pub(crate) struct LeasedCharge<'a> {
    pub(crate) index: usize,
    pub(crate) charge: Charge<'a>,
    pub(crate) intent: Intent,
    pub(crate) counter: &'a SharedCounter,
    pub(crate) pin: Option<Pin>,
    pub(crate) account: Option<AccountOf<'a>>,
    pub(crate) terms: LeaseTerms,
    /// Whether what is spent may be put back, because more has to be asked. What is booked never is.
    pub(crate) is_lent: bool,
}

impl LeasedCharge<'_> {
    /// Where this process keeps what it has.
    pub(crate) fn purse(&self) -> u64 {
        self.charge.key.number(self.charge.limit.shape())
    }
}

impl Engine {
    /// Whether anything is to be asked of an authority that no request waits for.
    pub fn has_errands(&self, keeper: Keeper) -> bool {
        self.purses(keeper).is_some_and(Purses::has_errands)
    }

    /// Makes errands of what is to be given back to an authority, did not arrive before, and is due again. False if there is nothing of that kind, due or not.
    pub fn run_retries(&self, keeper: Keeper, now: Time) -> bool {
        self.purses(keeper).is_some_and(|purses| {
            let has_any = purses.has_retries();
            purses.run_retries(now);
            has_any
        })
    }

    /// What is to be asked of an authority, at most so much. The answers belong to [`Engine::settle`].
    pub fn take_errands(&self, keeper: Keeper, max: usize) -> Vec<Errand> {
        self.purses(keeper).map(|purses| purses.take_errands(max)).unwrap_or_default()
    }

    /// What became of an errand.
    pub fn settle(&self, errand: Errand, answer: Result<Grant, Failure>, now: Time) {
        if let Some(purses) = self.purses(Keeper::at(errand.question.1)) {
            purses.settle(errand, answer.as_ref().map_err(|failure| *failure), now);
        }
    }

    /// Until when to lease at all of what others share: not while they may not count this process among themselves, since they have its part then. What the database
    /// counts it counts at once, whoever has it.
    pub fn set_leasing_until(&self, until: Time) {
        if let Some(purses) = self.purses(Keeper::Store) {
            purses.set_leasing_until(until);
        }
    }

    /// Gives up all leases of one who counts, and asks for none any more: this process ends. What is to be given back are errands.
    /// False if there is more to give up, for which there is room once those are carried.
    pub fn close_leases(&self, keeper: Keeper, now: Time) -> bool {
        self.purses(keeper).is_none_or(|purses| purses.close(now))
    }

    /// Leases again after [`Engine::close_leases`]: the clock has jumped, and this process goes on.
    pub fn reopen_leases(&self, keeper: Keeper) {
        if let Some(purses) = self.purses(keeper) {
            purses.reopen();
        }
    }

    /// Has blocks be small for the first minutes: the process before this one has ended without returning
    /// its blocks, and this one may do the same.
    pub fn lease_cautiously(&self, keeper: Keeper, now: Time) {
        if let Some(purses) = self.purses(keeper) {
            purses.begin_cautiously(now);
        }
    }

    /// Numbers about leases, for metrics.
    pub fn lease_stats(&self, keeper: Keeper, now: Time) -> LeaseStats {
        self.purses(keeper).map(|purses| purses.stats(now)).unwrap_or_default()
    }

    /// How units of a limit are leased to this key at present, and whether they ever are.
    pub(crate) fn leases(&self, key: Key, quota: &Quota) -> (Option<LeaseTerms>, Leasing) {
        match quota.leased {
            None => (None, Leasing::Never),
            Some(terms) if !terms.when_hot => (Some(terms), Leasing::Always),
            Some(terms) => {
                let is_hot = self.hot.is_hot(key.number(quota.limit.shape()));
                (Some(terms).filter(|_| is_hot), Leasing::WhenHot)
            }
        }
    }

    /// Decides by what this process has, if that is enough.
    pub(crate) fn spend_leased(&self, leased: &LeasedCharge<'_>, now: Time) -> Option<SpentLeased> {
        let keeper = Keeper::at(leased.pin);
        let (purses, purse, units) = (self.purses(keeper)?, leased.purse(), leased.charge.cost.units());
        let SharedCounter { name, limit } = leased.counter;
        let spent = match leased.intent {
            Intent::Take | Intent::Book if leased.charge.cost != Cost::ZERO => {
                let wanted = Wanted { key: purse, units, is_lent: leased.is_lent, limit };
                purses.spend(wanted, now, || Leased {
                    key: *name,
                    pin: leased.pin,
                    limit: Arc::clone(limit),
                    budget: leased.terms.budget,
                    node_max: leased.terms.node_max,
                    account: leased.account.map(AccountOf::written),
                })?
            }
            // Of nothing at all, a look says how much there is.
            _ => purses.peek(purse, units.max(1), now)?,
        };
        let Spent { remaining, reset_after, counted_at, .. } = spent;
        let limit = limit.units();
        let decision =
            Decision { outcome: Outcome::ALLOWED, limit, remaining: remaining.min(limit), reset_after };
        let is_lent = leased.is_lent && spent.parts().next().is_some();
        let here = is_lent.then_some(SpentHere { index: leased.index, name: *name, purse, keeper, spent });
        Some(SpentLeased { decision, counted_at, here })
    }

    /// What this process has of units that are more than that, if anything: the authority is to be asked for the others alone, since it has counted
    /// these. They are spent or lent, unless it is only looked.
    pub(crate) fn spend_part(&self, leased: &LeasedCharge<'_>, now: Time) -> Option<Part> {
        let keeper = Keeper::at(leased.pin);
        let (purses, purse, units) = (self.purses(keeper)?, leased.purse(), leased.charge.cost.units());
        let SharedCounter { name, limit } = leased.counter;
        // What can never fit is for the authority to say.
        if units > limit.units() {
            return None;
        }
        if leased.intent == Intent::Peek {
            let units = purses.units(purse, now).0;
            return (units > 0).then_some(Part { units, here: None });
        }
        let wanted = Wanted { key: purse, units, is_lent: leased.is_lent, limit };
        let spent = purses.spend_part(&wanted, now)?;
        let here = SpentHere { index: leased.index, name: *name, purse, keeper, spent };
        Some(Part { units: spent.units(), here: leased.is_lent.then_some(here) })
    }

    /// Whether something that has happened, whatever an authority says, will be counted although the authority has not confirmed it: a settlement, a booking, or a
    /// refund. The authority of the database keeps such facts itself, unless it says [`Failure::NotNow`]. Of Redis, what was certainly not done is kept here and retried; what was sent is done when Redis goes on.
    pub(crate) fn keep_fact(&self, question: &Directed, failure: Failure, now: Time) -> bool {
        let (Question { act, limit, .. }, pin) = question;
        let change = match (*act, Keeper::at(*pin)) {
            (Act::Settle(_), _) => return self.keep_unconfirmed(question.clone(), now),
            (act, Keeper::Database) if act.is_fact() => return failure != Failure::NotNow,
            // The id counts once, whatever has become of what was sent.
            (Act::Once(_, OnceAct::Book(_) | OnceAct::GiveBack { .. }), Keeper::Store) => {
                return self.keep_unconfirmed(question.clone(), now);
            }
            (Act::Book(_) | Act::GiveBack { .. }, Keeper::Store) if !failure.is_undone() => {
                return failure != Failure::Refused;
            }
            (Act::Book(cost), Keeper::Store) => SettleChange::Book(cost.units()),
            (Act::GiveBack { units, .. }, Keeper::Store) => SettleChange::Return(units),
            _ => return false,
        };
        let [number, sender] = [(); 2].map(|()| self.reservations.sender());
        let counted_at = limit.moment(now);
        let deadline = limit.moment(now.plus(FACT_TAKEN_FOR));
        let act = Act::Settle(SettleOnce { change, counted_at, deadline, number, sender });
        self.keep_unconfirmed((Question { act, ..question.0.clone() }, *pin), now)
    }

    /// Keeps a settlement that the authority has not confirmed, and retries it: it has a number and counts once. False if there is no room.
    pub(crate) fn keep_unconfirmed(&self, question: Directed, now: Time) -> bool {
        self.purses(Keeper::at(question.1)).is_some_and(|purses| purses.keep_unconfirmed(question, now))
    }

    /// What was lent is spent.
    pub(crate) fn keep(&self, spent: &[SpentHere]) {
        for SpentHere { purse, keeper, spent, .. } in spent {
            if let Some(purses) = self.purses(*keeper) {
                purses.keep(*purse, spent);
            }
        }
    }

    /// Puts back what was lent.
    pub(crate) fn put_back(&self, spent: &[SpentHere], now: Time) {
        for SpentHere { purse, keeper, spent, .. } in spent {
            if let Some(purses) = self.purses(*keeper) {
                purses.put_back(*purse, spent, now);
            }
        }
    }

    /// The authority has said how a key stands of which there was not enough here. Who is in debt there spends nothing here either.
    pub(crate) fn know_leased(
        &self,
        (keeper, purse): (Keeper, u64),
        intent: Intent,
        grant: &Grant,
        now: Time,
    ) {
        let Some(purses) = self.purses(keeper) else { return };
        purses.know(purse, grant, now);
        if intent == Intent::Book && !grant.decision.is_allowed() {
            purses.give_up(purse, now);
        }
    }
}
