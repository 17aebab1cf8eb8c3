//! Several limits in one request: it passes only if all admit, and only then is anything taken.
//!
//! First every limit is asked without taking. If all say yes, the units are taken, in the order of the keys. Between the
//! two, another request may have been faster; then what was taken is given back and the request is denied. So
//! concurrent requests may for a moment see a denial that no order of them would give, but never an admission.

use smallvec::SmallVec;
use tollgate_core::{Decision, Holder, Intent, Limit, Refund, Time};

use super::{Charge, Ledger};

impl Ledger {
    /// Decides all charges of one request together, and says whether it passes. `decisions` has one answer for each
    /// charge, in order.
    ///
    /// - A shadow charge never stops the others; it is taken if the request passes and its own limit admits it.
    /// - A booking is a fact, not a question: it is written down whatever the others say. If its limit is overdrawn,
    ///   the request is denied.
    /// - Holds of a concurrency limit end at their deadline: to release them, use [`Ledger::acquire_all`].
    pub fn decide_all(&self, charges: &[Charge<'_>], now: Time, decisions: &mut Vec<Decision>) -> bool {
        self.acquire_all(charges, now, decisions, &mut Vec::new())
    }

    /// As [`Ledger::decide_all`], and says under which names units of concurrency limits are held: `holders` has one
    /// entry for each charge, or stays empty where no charge holds anything.
    pub fn acquire_all(
        &self,
        charges: &[Charge<'_>],
        now: Time,
        decisions: &mut Vec<Decision>,
        holders: &mut Vec<Option<Holder>>,
    ) -> bool {
        holders.clear();
        self.probe(charges, now, decisions);
        let mut passes = true;
        for (charge, decision) in charges.iter().zip(decisions.iter_mut()) {
            if charge.intent == Intent::Book {
                *decision = self.decide(charge, now);
            }
            passes &= charge.shadow || decision.is_allowed();
        }
        let mut request = Request { ledger: self, charges, now, holders };
        if !passes {
            request.keep_what_was_trimmed(decisions);
            return false;
        }
        if !request.take(decisions) {
            return false;
        }
        for index in (0..charges.len()).filter(|&index| charges[index].shadow) {
            if charges[index].intent == Intent::Take {
                decisions[index] = request.take_one(index);
            }
        }
        true
    }

    /// Asks every limit, without taking.
    fn probe(&self, charges: &[Charge<'_>], now: Time, decisions: &mut Vec<Decision>) {
        decisions.clear();
        self.prefetch(charges);
        decisions.extend(charges.iter().map(|charge| self.decide(&peek(charge), now)));
    }
}

/// Indices of charges. Most requests have a handful, a request may have thousands.
type Order = SmallVec<[usize; 8]>;

/// The charges of one request while they are being taken.
struct Request<'a> {
    ledger: &'a Ledger,
    charges: &'a [Charge<'a>],
    now: Time,
    holders: &'a mut Vec<Option<Holder>>,
}

impl Request<'_> {
    /// Takes what every enforced limit has just admitted. If one of them has changed its mind, nothing is taken.
    fn take(&mut self, decisions: &mut [Decision]) -> bool {
        let order = self.order();
        for (taken, &index) in order.iter().enumerate() {
            decisions[index] = self.take_one(index);
            if !decisions[index].is_allowed() {
                self.give_back_all(&order[..taken], decisions);
                return false;
            }
        }
        true
    }

    fn take_one(&mut self, index: usize) -> Decision {
        let charge = &self.charges[index];
        let Limit::Concurrency(_) = charge.limit else { return self.ledger.decide(charge, self.now) };
        let (decision, holder) = self.ledger.acquire(charge.key, charge.limit, charge.cost, self.now);
        self.holders.resize(self.charges.len(), None);
        self.holders[index] = holder;
        decision
    }

    fn give_back(&mut self, index: usize) {
        let Charge { key, limit, cost, .. } = self.charges[index];
        if let Limit::Concurrency(_) = limit {
            // By name: somebody else may have begun to hold units in the meantime.
            if let Some(holder) = self.holders.get_mut(index).and_then(Option::take) {
                self.ledger.release(key, limit, holder, self.now);
            }
        } else {
            self.ledger.give_back(key, limit, Refund::at_once(cost.units(), self.now));
        }
    }

    /// Gives back what was taken, and shows what is left then.
    fn give_back_all(&mut self, taken: &[usize], decisions: &mut [Decision]) {
        for &index in taken {
            self.give_back(index);
            decisions[index] = self.ledger.decide(&peek(&self.charges[index]), self.now);
        }
    }

    /// Puts to those who have denied the question that they may keep: a state that their limit cannot have written is trimmed
    /// for good by it, so that the moment they promise comes. A limit that admits after all gets its units back.
    fn keep_what_was_trimmed(&mut self, decisions: &mut [Decision]) {
        for (index, denied) in decisions.iter_mut().enumerate() {
            let charge = &self.charges[index];
            if charge.intent == Intent::Take && !charge.shadow && !denied.is_allowed() {
                let decision = self.take_one(index);
                if decision.is_allowed() {
                    self.give_back(index);
                } else {
                    *denied = decision;
                }
            }
        }
    }

    /// The enforced charges in the order of their keys.
    fn order(&self) -> Order {
        let is_taken = |charge: &Charge<'_>| !charge.shadow && charge.intent == Intent::Take;
        let mut order: Order =
            (0..self.charges.len()).filter(|&index| is_taken(&self.charges[index])).collect();
        order.sort_unstable_by_key(|&index| (self.charges[index].key.tag(self.charges[index].limit), index));
        order
    }
}

fn peek<'a>(charge: &Charge<'a>) -> Charge<'a> {
    Charge { intent: Intent::Peek, ..*charge }
}
