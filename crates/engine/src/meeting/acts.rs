//! Requests about keys that an operator has banned or boosted.

use std::cell::OnceCell;

use tollgate_policy::{Quota, Snapshot};

use super::Meeting;
use crate::key::KeyBuffer;
use crate::key_acts::Treatment;
use crate::request::Subject;
use crate::verdict::Status;

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
            self.ban();
        }
    }

    fn ban(&mut self) {
        self.is_banned = true;
        let statuses = self.treatments.iter().map(|treatment| match treatment.banned_until {
            Some(until) => Status::Banned { until },
            None => Status::NoLimit,
        });
        self.answer.statuses.extend(statuses);
    }
}
