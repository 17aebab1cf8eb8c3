//! Callers that bring their own limit with every call, and need no rules.

use std::{iter, slice};

use tollgate_core::{Cost, Decision, Intent, Limit, Outcome, SharedLimit, Time};
use tollgate_store::authority::{Directed, Failure, Grant, Pin, Question, SharedKey};
use tollgate_store::hot::{Leasing, ShardId, Sighting};
use tollgate_store::{Charge, Key};

use super::{Borrowed, Engine};
use crate::fleet::Keeper;
use crate::hot::{KeyName, SAMPLER, Seen, shown_bytes};
use crate::pending;

/// A call of somebody who brings the limit along, on its way to the counter.
#[derive(Clone, Debug, PartialEq)]
pub struct Throttle {
    key: Key,
    limit: Limit,
    cost: u64,
    question: Option<Directed>,
    /// What is to be handed in about it, if it is looked at: hardly ever anything.
    watched: Option<Watched>,
}

/// A call that is looked at, to find the keys that are called for most.
#[derive(Clone, Debug, PartialEq)]
struct Watched {
    sighting: Sighting,
    /// As much of the key as is shown, unless that is known.
    key: Option<Box<str>>,
}

/// What metrics call the rule of those who bring their own.
const RULE: &str = "(cl.throttle)";

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
            let intent = if self.switches.has_all() { Intent::Peek } else { Intent::Take };
            let act = pending::act(intent, Cost::new(cost));
            let question = Question { key: counter.name, limit: counter.limit, act, account: None };
            Some((question, fleet.pin_of(iter::once(key))))
        });
        let counter = self.ledger.key_of_caller(bytes);
        // Who takes nothing is not counted.
        let is_seen = cost > 0 && !SAMPLER.with(|sampler| sampler.passes_over(1));
        let sample = is_seen.then(|| SAMPLER.with(|sampler| sampler.next(self.hot.gap_bits()))).flatten();
        let watched = sample.and_then(|weight| {
            let place = question.as_ref().map(|(question, pin)| (question.key, *pin));
            let number = counter.number(limit.shape());
            self.watch_throttle(number, place, weight, key)
        });
        let throttle = Throttle { key: counter, limit: limit.clone(), cost, question, watched };
        self.ledger.prefetch(slice::from_ref(&throttle.charge()));
        throttle
    }

    /// Goes on with a call that the authority was asked about: see [`Throttle::question`]. Without a grant, this process's share decides.
    pub fn resume_throttle(&self, throttle: &Throttle, grant: Result<Grant, Failure>, now: Time) -> Decision {
        let Ok(Grant { decision, .. }) = grant else {
            let share =
                Throttle { limit: self.share_of(Keeper::Store, &throttle.limit, None), ..throttle.clone() };
            return self.decide_throttle(&share, now);
        };
        self.observe_throttle(throttle, &decision, now);
        let is_free = self.settings.shadow_mode || self.switches.bypasses_domain("", now);
        let outcome = if is_free { Outcome::ALLOWED } else { decision.outcome };
        Decision { outcome, ..decision }
    }

    /// Decides a call that was prepared, without asking anybody else.
    pub fn decide_throttle(&self, throttle: &Throttle, now: Time) -> Decision {
        let charge = throttle.charge();
        if self.switches.bypasses_domain("", now) {
            let looked_at = self.ledger.decide(&Charge { intent: Intent::Peek, ..charge }, now);
            return Decision { outcome: Outcome::ALLOWED, ..looked_at };
        }
        let decision = self.ledger.decide(&charge, now);
        self.observe_throttle(throttle, &decision, now);
        let outcome = if self.settings.shadow_mode { Outcome::ALLOWED } else { decision.outcome };
        Decision { outcome, ..decision }
    }

    /// What is to be handed in about a call that is looked at, if it is known who keeps its counter.
    #[cold]
    fn watch_throttle(
        &self,
        number: u64,
        place: Option<(SharedKey, Option<Pin>)>,
        weight: u32,
        key: &[u8],
    ) -> Option<Watched> {
        let shard = place.map_or(Some(ShardId::HERE), |(name, pin)| self.shard_of(name, pin))?;
        let sighting = Sighting { number, shard, leasing: Leasing::Never, weight };
        Some(Watched { sighting, key: (!self.hot.knows(number)).then(|| shown_bytes(key)) })
    }

    /// Hands in what was decided, if it is looked at.
    fn observe_throttle(&self, throttle: &Throttle, decision: &Decision, now: Time) {
        let Some(Watched { sighting, key }) = &throttle.watched else { return };
        if key.is_none() && !self.hot.knows(sighting.number) {
            return; // It was known a moment ago.
        }
        let name =
            || KeyName { rule: RULE.into(), key: key.clone().unwrap_or_default(), ..KeyName::default() };
        self.hot.see(*sighting, now, name);
        let seen = Seen { index: 0, number: sighting.number, weight: sighting.weight };
        self.hot.judge(&seen, !decision.is_allowed(), now);
    }
}
