//! Callers that bring their own limit with every call, and need no rules.

use std::{iter, slice};

use tollgate_core::{Cost, Decision, Intent, Limit, Outcome, SharedLimit, Time};
use tollgate_store::authority::{Directed, Failure, Grant, Question};
use tollgate_store::{Charge, Key};

use super::{Borrowed, Engine};
use crate::pending;

/// A call of somebody who brings the limit along, on its way to the counter.
#[derive(Clone, Debug, PartialEq)]
pub struct Throttle {
    key: Key,
    limit: Limit,
    cost: u64,
    question: Option<Directed>,
}

impl Throttle {
    /// What an authority has to be asked, where counters are shared.
    pub fn question(&self) -> Option<&Directed> {
        self.question.as_ref()
    }

    /// The limit that was brought along.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// How much is asked for.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    fn charge(&self) -> Charge<'_> {
        Charge::take(self.key, &self.limit, Cost::new(self.cost))
    }
}

impl Engine {
    /// Decides for a caller that brings its own limit with every call.
    pub fn throttle(&self, key: &[u8], limit: &Limit, cost: u64, now: Time) -> Decision {
        self.decide_throttle(&self.prepare_throttle(key, limit, cost), now)
    }

    /// Has the memory fetched that a caller's counter is in. Whoever prepares several calls before the first is decided waits for
    /// memory once.
    pub fn prepare_throttle(&self, key: &[u8], limit: &Limit, cost: u64) -> Throttle {
        let mut scratch = Borrowed::take();
        let bytes = scratch.0.key.of_throttle(key);
        let question = self.fleet.as_ref().and_then(|fleet| {
            let counter = fleet.counter(bytes, SharedLimit::new(limit).ok()?.into());
            let intent = if self.switches.spares_domain("") { Intent::Peek } else { Intent::Take };
            let act = pending::act(intent, Cost::new(cost));
            let question = Question { key: counter.name, limit: counter.limit, act };
            Some((question, fleet.pin_of(iter::once(key))))
        });
        let throttle = Throttle { key: self.ledger.key(bytes), limit: limit.clone(), cost, question };
        self.ledger.prefetch(slice::from_ref(&throttle.charge()));
        throttle
    }

    /// Goes on with a call that the authority was asked about: see [`Throttle::question`]. Without a grant, this process's share decides.
    pub fn resume_throttle(&self, throttle: &Throttle, grant: Result<Grant, Failure>, now: Time) -> Decision {
        let Ok(Grant { decision, .. }) = grant else {
            let share = Throttle { limit: self.share_of(&throttle.limit, None), ..throttle.clone() };
            return self.decide_throttle(&share, now);
        };
        let is_free = self.settings.shadow_mode || self.switches.spares_domain("");
        let outcome = if is_free { Outcome::ALLOWED } else { decision.outcome };
        Decision { outcome, ..decision }
    }

    /// Decides a call that was prepared, without asking anybody else.
    pub fn decide_throttle(&self, throttle: &Throttle, now: Time) -> Decision {
        let charge = throttle.charge();
        if self.switches.spares_domain("") {
            let looked_at = self.ledger.decide(&Charge { intent: Intent::Peek, ..charge }, now);
            return Decision { outcome: Outcome::ALLOWED, ..looked_at };
        }
        let decision = self.ledger.decide(&charge, now);
        let outcome = if self.settings.shadow_mode { Outcome::ALLOWED } else { decision.outcome };
        Decision { outcome, ..decision }
    }
}
