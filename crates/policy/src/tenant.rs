//! What one tenant may: its tier, and numbers of its own for some of its limits.
//!
//! Rules say what anybody may. Operators then change that for single tenants, one after the other and while everything runs, so these
//! *terms* are no part of the rules: they come from elsewhere, one tenant at a time, and are kept beside the snapshot ([`crate::tenants`]).

use std::sync::Arc;

use tollgate_core::Time;

use crate::rule::Period;

/// The most overrides of one tenant.
pub const OVERRIDES_MAX: usize = 64;
/// The most entries that an override names.
pub const OVERRIDE_ENTRIES_MAX: usize = 32;

/// What a tenant may, over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TenantTerms {
    /// What is in force when: at most [`TenantTerms::PHASES_MAX`], in the order of time, no two at the same moment. Between them, and after
    /// the last, the rules alone say what the tenant may.
    pub phases: Vec<Phase>,
}

/// What a tenant may for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Phase {
    /// From this moment on; from ever if there is none.
    pub from: Option<Time>,
    /// Until just before this one; for ever if there is none.
    pub until: Option<Time>,
    /// The tier, in the place of the one that the rules give to the tenant. A rule that has no such tier goes by its own numbers.
    pub tier: Option<Box<str>>,
    /// Other numbers for some limits. Of several for one limit, the one that names most values counts; of those, the first.
    pub overrides: Vec<Override>,
}

/// Other numbers for one limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Override {
    /// Which rule.
    pub target: Arc<Target>,
    /// Which of the rule's limits, by name. Without one: the limit of the same period; else the only one. What is unlimited, or has no period, is meant
    /// for all of them, or for the only one.
    pub limit: Option<Box<str>>,
    /// The numbers.
    pub numbers: OverrideNumbers,
}

/// A key, and the value that it must have, if it must have one.
pub type TargetEntry = (Box<str>, Option<Box<str>>);

/// The rule that an override is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// That of descriptors which have just these entries besides the tenant's own.
    Descriptor {
        /// In this domain only; in all that have a tenant, if there is none.
        domain: Option<Box<str>>,
        /// Keys and values, in their order. No value stands for any.
        entries: Vec<TargetEntry>,
    },
    /// A named policy, asked with the tenant as the key.
    Policy {
        /// Its name.
        name: Box<str>,
    },
}

/// The numbers of an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverrideNumbers {
    /// Anything passes, uncounted.
    Unlimited,
    /// So many per period.
    Per {
        /// How many; none at all lets nothing pass.
        units: u64,
        /// The period; that of the limit if there is none.
        period: Option<Period>,
        /// How many at once; as the limit says if there is none.
        burst: Option<u64>,
    },
}

impl TenantTerms {
    /// The most phases: what is in force, and what is to come.
    pub const PHASES_MAX: usize = 2;

    /// What is in force at a moment.
    pub fn at(&self, now: Time) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.is_in_force(now))
    }

    /// The same without what is over.
    #[must_use]
    pub fn not_over(mut self, now: Time) -> TenantTerms {
        self.phases.retain(|phase| phase.until.is_none_or(|until| now < until));
        self
    }

    /// Whether nothing is said, now or ever.
    pub fn is_empty(&self) -> bool {
        self.phases.iter().all(|phase| phase.tier.is_none() && phase.overrides.is_empty())
    }
}

impl Phase {
    /// Whether a moment belongs to it.
    pub fn is_in_force(&self, now: Time) -> bool {
        self.from.is_none_or(|from| from <= now) && self.until.is_none_or(|until| now < until)
    }
}

impl Target {
    /// How many values it names.
    pub(crate) fn values(&self) -> usize {
        match self {
            Target::Descriptor { entries, .. } => entries.iter().filter(|(_, value)| value.is_some()).count(),
            Target::Policy { .. } => 0,
        }
    }
}
