//! Keys that are over their quota, so that they do not cost a transaction for each request.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_core::{Cost, Decision, SharedLimit, Time};
use tollgate_store::authority::deny_cache::{Denial, DenyCache};
use tollgate_store::authority::{Act, Grant, OnceAct, Question, SharedKey};

/// How many denials are remembered: one megabyte of them.
const SLOTS: usize = 1 << 14;
/// So many threads look at the same time without waiting for each other.
const STRIPES: usize = 16;

/// What was denied of late.
pub(super) struct Denials {
    stripes: Vec<Mutex<DenyCache>>,
}

impl Denials {
    pub(super) fn new() -> Denials {
        Denials { stripes: (0..STRIPES).map(|_| Mutex::new(DenyCache::new(SLOTS / STRIPES))).collect() }
    }

    /// What the answer is for certain, without asking. Who wants a lease would be denied if one unit is.
    pub(super) fn known(&self, question: &Question, now: Time) -> Option<Grant> {
        let cost = match question.act {
            Act::Take(cost) => cost,
            Act::Lease { .. } => Cost::ONE,
            _ => return None,
        };
        let key = remembered_as(question.key, &question.limit);
        let decision = self.stripe(key)?.look(key, cost, now)?;
        Some(Grant { decision, at: question.limit.moment(now), holder: None, leased: 0, is_repeated: false })
    }

    /// Remembers what an answer makes certain, or forgets what it makes uncertain. To be told in the order of the answers.
    pub(super) fn learn(&self, question: &Question, decision: Decision, sent_at: Time) {
        let key = remembered_as(question.key, &question.limit);
        let Some(mut stripe) = self.stripe(key) else { return };
        let cost = match question.act {
            Act::Take(cost) | Act::Peek(cost) | Act::Once(_, OnceAct::Take(cost)) => cost,
            Act::Lease { .. } => Cost::ONE,
            Act::Book(_) | Act::Once(_, OnceAct::Book(_)) | Act::Release(_) => return,
            Act::GiveBack { .. } | Act::Return(_) | Act::Settle(_) | Act::Once(..) | Act::Reset => {
                return stripe.forget(key);
            }
        };
        if decision.retry_after().is_some() {
            stripe.note(key, &Denial { cost, sent_at, tick: question.limit.tick(), decision });
        }
    }

    pub(super) fn forget_all(&self) {
        for stripe in &self.stripes {
            lock(stripe).clear();
        }
    }

    #[allow(clippy::cast_possible_truncation)] // It is below the number of stripes.
    fn stripe(&self, key: SharedKey) -> Option<MutexGuard<'_, DenyCache>> {
        // The cache itself goes by the upper bits.
        self.stripes.get((key.0 % STRIPES as u128) as usize).map(lock)
    }
}

fn lock(stripe: &Mutex<DenyCache>) -> MutexGuard<'_, DenyCache> {
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is denied under one limit need not be under another that shares the counter. The low half, by which places are found, stays.
fn remembered_as(key: SharedKey, limit: &SharedLimit) -> SharedKey {
    SharedKey(key.0 ^ u128::from(limit.fingerprint()) << 64)
}
