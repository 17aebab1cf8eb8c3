//! The kill switch: what operators turn off when limiting itself is the trouble.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use tollgate_policy::RuleId;

/// What is switched off. Requests that would meet it are admitted at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switched {
    /// Everything.
    pub all: bool,
    /// These domains.
    pub domains: HashSet<Box<str>>,
    /// These rules.
    pub rules: HashSet<RuleId>,
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
        // Release: whoever reads `any` with Acquire also finds what is switched off.
        self.any.store(any, Ordering::Release);
    }

    pub(crate) fn spares_domain(&self, domain: &str) -> bool {
        self.any() && {
            let switched = self.switched.load();
            switched.all || switched.domains.contains(domain)
        }
    }

    pub(crate) fn spares_rule(&self, rule: RuleId) -> bool {
        self.any() && self.switched.load().rules.contains(&rule)
    }

    fn any(&self) -> bool {
        self.any.load(Ordering::Acquire) // pairs with the store in `set`
    }
}
