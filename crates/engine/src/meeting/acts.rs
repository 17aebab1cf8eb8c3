//! Requests about keys that an operator has banned or boosted.

use std::cell::OnceCell;

use tollgate_core::{Decision, Outcome, Time};
use tollgate_policy::{Allowance, Period, Quota, Snapshot, Unit};

use super::Meeting;
use crate::key::KeyBuffer;
use crate::key_acts::Treatment;
use crate::request::Subject;
use crate::verdict::{DecidedBy, Force, Ruling, Status};

/// Limits that were made for one request, and live as long as it is decided. Nearly always there are none.
#[derive(Default)]
pub(crate) struct Stash(OnceCell<Box<Kept>>);

struct Kept {
    quota: Quota,
    next: Stash,
}

impl Stash {
    pub(super) fn keep(&self, quota: Quota) -> &Quota {
        let mut stash = self;
        while let Some(kept) = stash.0.get() {
            stash = &kept.next;
        }
        &stash.0.get_or_init(|| Box::new(Kept { quota, next: Stash::default() })).quota
    }
}

impl<'a> Meeting<'a> {
    /// Whether an operator has banned one of the keys of the request.
    pub(crate) fn is_banned(&self) -> bool {
        self.is_banned
    }

    /// Finds what operators do to the keys of the request. If one of them is banned, so is the request, whatever its limits say.
    #[cold]
    pub(super) fn treat(&mut self, snapshot: &'a Snapshot, key_buffer: &mut KeyBuffer) {
        let (engine, now) = (self.engine, self.now);
        let treatment = |bytes: &[u8]| engine.key_acts.treatment(bytes, &engine.ledger, now);
        match self.request.subject {
            Subject::Policy { name, key, .. } => {
                self.treatments.push(treatment(key_buffer.of_policy_act(name, key)));
            }
            Subject::Descriptors { domain, descriptors } => {
                // What is switched off by the rules lets everything pass.
                if snapshot.domain(domain).is_some_and(|domain| !domain.enabled()) {
                    return;
                }
                for descriptor in descriptors {
                    self.treatments.push(treatment(key_buffer.of_descriptor_act(domain, descriptor)));
                }
            }
        }
        // What was taken before a ban is settled all the same.
        let is_banned = |treatment: &Treatment| treatment.banned_until.is_some();
        if self.settling.is_none() && self.treatments.iter().any(is_banned) {
            self.ban(snapshot);
        }
    }

    fn ban(&mut self, snapshot: &'a Snapshot) {
        self.is_banned = true;
        for at in 0..self.treatments.len() {
            let Treatment { banned_until, .. } = self.treatments[at];
            let status = match banned_until {
                Some(until) => {
                    let first = self.answer.rulings.len();
                    let ruling = self.banned(snapshot, at, until);
                    self.answer.rulings.push(ruling);
                    Status::Limited(first..first + 1)
                }
                None => Status::NoLimit,
            };
            self.answer.statuses.push(status);
        }
    }

    /// What is told of a banned key: that of the rule that it meets, if it meets one.
    fn banned(&self, snapshot: &'a Snapshot, at: usize, until: Time) -> Ruling {
        let (place, tier, cost) = match self.request.subject {
            Subject::Policy { name, tier, .. } => (snapshot.policy(name), tier, self.request.cost),
            Subject::Descriptors { domain, descriptors } => {
                let (domain, descriptor) = (snapshot.domain(domain), &descriptors[at]);
                let cost = descriptor.cost.unwrap_or(self.request.cost);
                let place = domain.and_then(|domain| self.place_of(snapshot, domain, descriptor));
                (place, domain.and_then(|domain| domain.tier_of(descriptor.entries)), cost)
            }
        };
        let first = place.and_then(|place| snapshot.place(place).limits().first());
        let quota = first.and_then(|limit| match limit.allowance(tier) {
            Allowance::Quota(quota) => Some(quota),
            Allowance::Unlimited => None,
        });
        let place = place.filter(|_| first.is_some());
        let retry_after = until.since(self.now);
        Ruling {
            place,
            limit_index: 0,
            counter: place.map(|place| snapshot.place(place).counter(tier)),
            units: quota.map_or(0, |quota| quota.units),
            period: quota.map_or(Period::Unit(Unit::Second), |quota| quota.period),
            cost,
            decision: Decision {
                outcome: Outcome::NotNow { retry_after },
                limit: quota.map_or(0, |quota| quota.limit.capacity()),
                remaining: 0,
                reset_after: Some(retry_after),
            },
            decided_by: DecidedBy::Ban,
            decided_at: None,
            force: Force::Enforced,
        }
    }
}
