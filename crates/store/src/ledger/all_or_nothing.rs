//! Several limits in one request: it passes only if all admit, and only then is anything taken.
//!
//! First every limit is asked without taking. If all say yes, the units are taken, in the order of the keys. Between the
//! two, another request may have been faster; then what was taken is given back and the request is denied. So
//! concurrent requests may for a moment see a denial that no order of them would give, but never an admission.

use tollgate_core::{Decision, Intent, Refund, Time};

use super::{Charge, Ledger};

impl Ledger {
    /// Decides all charges of one request together, and says whether it passes. `decisions` has one answer for each
    /// charge, in order.
    ///
    /// - A shadow charge never stops the others; it is taken if the request passes and its own limit admits it.
    /// - A booking is a fact, not a question: it is written down whatever the others say. If its limit is overdrawn,
    ///   the request is denied.
    pub fn decide_all(&self, charges: &[Charge<'_>], now: Time, decisions: &mut Vec<Decision>) -> bool {
        self.probe(charges, now, decisions);
        let mut passes = true;
        for (charge, decision) in charges.iter().zip(decisions.iter_mut()) {
            if charge.intent == Intent::Book {
                *decision = self.decide(charge, now);
            }
            passes &= charge.shadow || decision.is_allowed();
        }
        passes = passes && self.take(charges, now, decisions);
        if passes {
            for (charge, decision) in charges.iter().zip(decisions.iter_mut()) {
                if charge.shadow && charge.intent == Intent::Take {
                    *decision = self.decide(charge, now);
                }
            }
        }
        passes
    }

    /// Asks every limit, without taking.
    fn probe(&self, charges: &[Charge<'_>], now: Time, decisions: &mut Vec<Decision>) {
        decisions.clear();
        self.prefetch(charges);
        decisions.extend(charges.iter().map(|charge| self.decide(&peek(charge), now)));
    }

    /// Takes what every enforced limit has just admitted. If one of them has changed its mind, nothing is taken.
    fn take(&self, charges: &[Charge<'_>], now: Time, decisions: &mut [Decision]) -> bool {
        let mut last = None;
        while let Some(next) = next_in_order(charges, last) {
            decisions[next] = self.decide(&charges[next], now);
            if !decisions[next].is_allowed() {
                self.give_back_before(charges, next, now, decisions);
                return false;
            }
            last = Some(next);
        }
        true
    }

    /// Gives back what was taken before `failed`, and shows what is left then.
    fn give_back_before(&self, charges: &[Charge<'_>], failed: usize, now: Time, decisions: &mut [Decision]) {
        let mut last = None;
        while let Some(next) = next_in_order(charges, last).filter(|&next| next != failed) {
            let Charge { key, limit, cost, .. } = charges[next];
            self.give_back(key, limit, Refund::at_once(cost.units(), now));
            decisions[next] = self.decide(&peek(&charges[next]), now);
            last = Some(next);
        }
    }
}

fn peek<'a>(charge: &Charge<'a>) -> Charge<'a> {
    Charge { intent: Intent::Peek, ..*charge }
}

/// The enforced charge that follows `last` in the order of the keys. A request has a handful of charges: searching is
/// cheaper than sorting somewhere.
fn next_in_order(charges: &[Charge<'_>], last: Option<usize>) -> Option<usize> {
    let place = |index: usize| (charges[index].key.tag(charges[index].limit), index);
    (0..charges.len())
        .filter(|&index| !charges[index].shadow && charges[index].intent == Intent::Take)
        .filter(|&index| last.is_none_or(|last| place(index) > place(last)))
        .min_by_key(|&index| place(index))
}
