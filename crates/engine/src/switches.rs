//! The kill switch: operators turn limits off when limiting itself causes trouble.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use tollgate_core::Time;
use tollgate_policy::RuleId;

/// Switches that are off, each until just before a moment; [`Time::MAX`] means until an operator
/// switches it on. Requests that would meet it are admitted at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switched {
    /// Everything.
    pub all: Option<Time>,
    /// These domains.
    pub domains: HashMap<Box<str>, Time>,
    /// These rules.
    pub rules: HashMap<RuleId, Time>,
}

/// Reads cost one load as long as nothing is switched off.
#[derive(Debug, Default)]
pub(crate) struct Switches {
    any: AtomicBool,
    switched: ArcSwap<Switched>,
}

impl Switches {
    pub(crate) fn get(&self) -> Switched {
        Switched::clone(&self.switched.load())
    }

    pub(crate) fn set(&self, switched: Switched) {
        let any = switched != Switched::default();
        self.switched.store(switched.into());
        // Release: a thread that reads `any` with Acquire also finds the switches.
        self.any.store(any, Ordering::Release);
    }

    pub(crate) fn bypasses_domain(&self, domain: &str, now: Time) -> bool {
        self.any() && {
            let switched = self.switched.load();
            let is_off = |until: &Time| now < *until;
            switched.all.as_ref().is_some_and(is_off) || switched.domains.get(domain).is_some_and(is_off)
        }
    }

    /// Whether everything was switched off, and not switched on since, whenever that ends. For
    /// callers that do not know the time: an end is noticed when the switch is set the next time.
    pub(crate) fn has_all(&self) -> bool {
        self.any() && self.switched.load().all.is_some()
    }

    pub(crate) fn bypasses_rule(&self, rule: RuleId, now: Time) -> bool {
        self.any() && self.switched.load().rules.get(&rule).is_some_and(|until| now < *until)
    }

    fn any(&self) -> bool {
        self.any.load(Ordering::Acquire) // pairs with the store in `set`
    }
}
