//! Requests that reserve, and those that settle what was reserved.
//!
//! Whoever reserves meets limits like anybody else; what they have really taken is noted. Whoever settles meets the same limits again, by the
//! rules that are in force then, but only those that were charged answer, and they answer whatever operators have switched off or banned since.

use std::collections::HashSet;

use tollgate_core::{Cost, Intent, Limit, Refund, SettleChange, SettleOnce, Span, Time};
use tollgate_store::authority::{Act, SharedKey};
use tollgate_store::{Charge, Key};

use super::{Meeting, Shared};
use crate::fleet::{Keeper, SharedCounter};
use crate::request::{Descriptor, Subject};
use crate::reservation::{Change, Charged, Dues, ReservationClient, Scope, TakenThere};
use crate::verdict::{Force, Usual};

/// For so much longer than a reservation is open does the authority take units back: clocks differ, and what is told in vain is told again.
const GRACE: Span = Span::from_ticks(60 * 1_000_000_000);

/// What a request does that settles something.
pub(super) struct Settling<'a> {
    dues: Dues<'a>,
    /// One for each that was charged: whether it was met.
    is_met: Usual<bool>,
    /// What was charged, by the charge that settles it.
    met: Usual<(usize, &'a Charged)>,
}

impl<'a> Settling<'a> {
    pub(super) fn new(dues: Dues<'a>) -> Settling<'a> {
        Settling { is_met: Usual::from_elem(false, dues.charged.len()), dues, met: Usual::new() }
    }

    /// What was charged to this counter, if anything: each once.
    fn meet(&mut self, key: Key, counter: Option<&SharedCounter>) -> Option<&'a Charged> {
        let is_it = |charged: &Charged| match charged {
            Charged::Here { key: other, .. } | Charged::Share { key: other, .. } => *other == key,
            Charged::There(there) => counter.is_some_and(|counter| counter.name == there.name),
        };
        let at = (0..self.is_met.len()).find(|&at| !self.is_met[at] && is_it(&self.dues.charged[at]))?;
        self.is_met[at] = true;
        Some(&self.dues.charged[at])
    }

    /// How a limit is charged, and how far its answer counts: what is booked is a fact, even for a quota rule that others could excuse.
    fn terms(&self, is_shadow: bool) -> (Cost, Intent, Force) {
        let force = if is_shadow { Force::Shadow } else { Force::Enforced };
        match self.dues.change {
            Change::Nothing => (Cost::ZERO, Intent::Peek, force),
            Change::Return(units) => (Cost::new(units), Intent::Take, Force::Refund),
            Change::Book(units) => (Cost::new(units), Intent::Book, force),
        }
    }

    fn taken_from(&self, index: usize) -> Option<&'a Charged> {
        self.met.iter().find(|(at, _)| *at == index).map(|(_, from)| *from)
    }
}

impl<'a> Meeting<'a> {
    /// The limit that a counter is charged by, and what is due to it where something is settled. None if that took nothing there. Whatever was
    /// taken from counters of this process goes back there, even if others have come to share them since.
    pub(super) fn due(
        &mut self,
        key: Key,
        counter: &mut Option<SharedCounter>,
        limit: &'a Limit,
    ) -> Option<(&'a Limit, Option<&'a Charged>)> {
        let Some(settling) = &mut self.settling else { return Some((limit, None)) };
        let from = settling.meet(key, counter.as_ref())?;
        settling.met.push((self.charges.len(), from));
        let limit = match from {
            Charged::There(_) => return Some((limit, Some(from))),
            Charged::Here { .. } => limit,
            Charged::Share { limit, .. } => limit,
        };
        *counter = None;
        Some((limit, Some(from)))
    }

    /// How a limit is charged, and how far its answer counts: as the request says, or to settle what is due.
    pub(super) fn settled(
        &self,
        usual: (Cost, Intent, Force),
        due: Option<&Charged>,
    ) -> (Cost, Intent, Force) {
        match &self.settling {
            Some(settling) if due.is_some() => settling.terms(usual.2 == Force::Shadow),
            _ => usual,
        }
    }

    /// Whose parts of the reservations a request takes, and how many limits it charges at most.
    pub(crate) fn reservation_scopes(&self, client: Option<ReservationClient>) -> (HashSet<Scope>, usize) {
        let is_charged = |charge: &&Charge<'_>| charge.intent != Intent::Peek && charge.cost != Cost::ZERO;
        let keys = self.charges.iter().filter(is_charged).map(|charge| Scope::Key(charge.key));
        let mut scopes: HashSet<Scope> = keys.collect();
        if scopes.is_empty() {
            return (scopes, self.charges.len());
        }
        scopes.extend(client.map(Scope::Client));
        let tenant_scope = |tenant: &[u8]| Scope::Tenant(self.engine.ledger.key(tenant));
        match self.request.subject {
            Subject::Policy { key, .. } => scopes.extend([tenant_scope(key)]),
            Subject::Descriptors { domain, descriptors } => {
                let domain = self.snapshot.and_then(|snapshot| snapshot.domain(domain));
                let tenant_of = |descriptor: &Descriptor<'a>| domain?.tenant_of(descriptor.entries);
                let tenants = descriptors.iter().filter_map(tenant_of);
                scopes.extend(tenants.map(|tenant| tenant_scope(tenant.as_bytes())));
            }
        }
        (scopes, self.charges.len())
    }

    /// Notes what the limits of this process have taken.
    pub(crate) fn note_charged(&mut self, passes: bool) {
        if !self.is_reserving {
            return;
        }
        let now = self.now;
        let taken = self.charges.iter().zip(&self.answer.rulings).filter(|(charge, ruling)| {
            let is_taken = match charge.intent {
                Intent::Peek => false,
                Intent::Take => passes && ruling.decision.is_allowed(),
                Intent::Book => true,
            };
            is_taken && charge.cost != Cost::ZERO
        });
        self.answer.charged.extend(taken.map(|(charge, _)| Charged::Here { key: charge.key, at: now }));
    }

    /// Notes what was booked on limits of this process, which is a fact whatever the others say.
    pub(super) fn note_booked_here(&mut self) {
        if !self.is_reserving {
            return;
        }
        let now = self.now;
        for index in 0..self.charges.len() {
            let Charge { key, cost, intent, .. } = self.charges[index];
            if intent == Intent::Book && cost != Cost::ZERO && !self.is_shared(index) {
                self.answer.charged.push(Charged::Here { key, at: now });
            }
        }
    }

    /// Notes what was spent of a lease for good.
    pub(super) fn note_spent(&mut self, name: SharedKey, keeper: Keeper, counted_at: Time) {
        if self.is_reserving {
            self.answer.charged.push(Charged::there(name, keeper, counted_at));
        }
    }

    /// What gives units of a limit of this process back: where they were reserved, to the window that counted them then.
    pub(super) fn refund_here(&self, index: usize) -> Refund {
        let refund = Refund::at_once(self.charges[index].cost.units(), self.now);
        match self.settling.as_ref().and_then(|settling| settling.taken_from(index)) {
            Some(Charged::Here { at, .. } | Charged::Share { at, .. }) => {
                Refund { counted_at: *at, ..refund }
            }
            _ => refund,
        }
    }

    /// What gives units of a shared limit back, or settles a reservation of it. A settlement has a number and counts once, even if it changes nothing: so
    /// it is known everywhere that it is settled. Other refunds are counted by the authority at its own time, which nobody here knows exactly.
    pub(super) fn refund(&self, shared: &Shared<'_>) -> Option<Act> {
        let charge = &self.charges[shared.index];
        let is_refund = self.answer.rulings[shared.index].force == Force::Refund
            && charge.intent != Intent::Peek
            && !matches!(charge.limit, Limit::Concurrency(_));
        let units = if is_refund { charge.cost.units() } else { 0 };
        let reserved = self.reserved_there(shared.index);
        if let Some((there, dues)) = reserved {
            let TakenThere { counted_at, number, .. } = there;
            let open_for = dues.life.ticks().saturating_add(GRACE.ticks());
            let tick = shared.counter.limit.tick();
            let deadline = counted_at.plus(Span::from_ticks(open_for / tick.length_ns()));
            return Some(Act::Settle(SettleOnce {
                change: match dues.change {
                    Change::Book(units) => SettleChange::Book(units),
                    Change::Nothing | Change::Return(_) => SettleChange::Return(units),
                },
                counted_at,
                deadline,
                number,
                sender: dues.sender,
            }));
        }
        let counted_at = shared.counter.limit.moment(self.now);
        is_refund.then_some(Act::GiveBack { units, counted_at, undoes: false })
    }

    /// What was reserved of a shared limit.
    fn reserved_there(&self, index: usize) -> Option<(TakenThere, Dues<'a>)> {
        let settling = self.settling.as_ref()?;
        match settling.taken_from(index)? {
            Charged::There(there) => Some((*there, settling.dues)),
            Charged::Here { .. } | Charged::Share { .. } => None,
        }
    }
}

impl Charged {
    /// Units of a shared limit. Their number is given when the reservation is.
    pub(crate) fn there(name: SharedKey, keeper: Keeper, counted_at: Time) -> Charged {
        Charged::There(TakenThere { name, keeper, counted_at, number: 0 })
    }
}
