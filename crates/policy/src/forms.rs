//! The limits under which a key may have been counted: counts are kept by how they are read, so whoever has another limit now has to look for them.

use std::sync::OnceLock;

use tollgate_core::{Limit, Time};

use crate::rule::{Allowance, Quota};
use crate::snapshot::PlacedLimit;

/// The most kinds of states that tenants' own numbers, or boosts, bring to one limit. Counts of more kinds start anew when the numbers change.
const MORE_MAX: usize = 8;

/// A limit under which a key may have been counted: one of the rule's tiers, or what it was before a reload.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    /// Whose limit it is; `None` for those without a tier.
    pub(crate) tier: Option<Box<str>>,
    pub(crate) quota: Quota,
    /// From when on no count under it is left.
    pub(crate) until: Time,
}

impl Form {
    /// Whether states under the two limits are kept and read alike.
    pub(crate) fn is_like(&self, limit: &Limit) -> bool {
        is_like(&self.quota.limit, limit)
    }
}

fn is_like(one: &Limit, other: &Limit) -> bool {
    one.shape() == other.shape() && one.packs() == other.packs()
}

/// Nothing can be carried over from limits that keep no counts, or counts with names.
pub(crate) fn keeps_counts(limit: &Limit) -> bool {
    !matches!(limit, Limit::Blocked(_) | Limit::Concurrency(_))
}

/// Forms that the rule itself does not have: those of tenants' own numbers and of boosts. They come while requests are decided, and stay as
/// long as the snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct MoreForms(OnceLock<Box<[OnceLock<More>; MORE_MAX]>>);

#[derive(Clone, Debug)]
struct More {
    quota: Quota,
    /// Whether anybody may have been counted so, and not only tenants that have terms or had some.
    of_anybody: bool,
}

impl MoreForms {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.get().is_none()
    }

    fn iter(&self) -> impl Iterator<Item = &More> {
        self.0.get().into_iter().flat_map(|all| all.iter()).map_while(OnceLock::get)
    }

    fn add(&self, quota: &Quota, of_anybody: bool) {
        let is_known =
            |more: &More| is_like(&more.quota.limit, &quota.limit) && (more.of_anybody || !of_anybody);
        let all = self.0.get_or_init(|| Box::new([const { OnceLock::new() }; MORE_MAX]));
        for slot in all.iter() {
            // Somebody else may be first: then it is looked whether that was the same.
            if slot.get().is_none() && slot.set(More { quota: quota.clone(), of_anybody }).is_ok() {
                return;
            }
            if slot.get().is_some_and(is_known) {
                return;
            }
        }
    }
}

impl PlacedLimit {
    /// Takes note that keys are counted by numbers that are not the rule's.
    pub(crate) fn remember(&self, allowance: &Allowance, of_anybody: bool) {
        let Allowance::Quota(quota) = allowance else { return };
        let is_own = |form: &Form| form.until == Time::MAX && form.is_like(&quota.limit);
        if keeps_counts(&quota.limit) && !self.forms.iter().any(is_own) {
            self.more.add(quota, of_anybody);
        }
    }

    /// All limits that counters of this limit may be kept under, as far as is known.
    pub fn ever_counted(&self) -> impl Iterator<Item = &Quota> {
        self.forms.iter().map(|form| &form.quota).chain(self.more.iter().map(|more| &more.quota))
    }

    /// The same for a reload: what they were, and until when that matters.
    pub(crate) fn forms_ever(&self) -> impl Iterator<Item = Form> {
        let more = self.more.iter();
        let more = more.map(|more| Form { tier: None, quota: more.quota.clone(), until: Time::MAX });
        self.forms.iter().cloned().chain(more)
    }

    /// Limits under which somebody of this tier may have been counted otherwise than under `limit`: before a reload, in another
    /// tier, or by numbers of a tenant's own, if it has terms or had some. What was used then has to be carried over. Of limits whose states are kept alike,
    /// that of the tier is the one to read them with.
    pub fn counted_before(
        &self,
        tier: Option<&str>,
        had_terms: bool,
        limit: &Limit,
        now: Time,
    ) -> impl Iterator<Item = &Limit> {
        // Nearly always there is one form, and it is this one.
        let is_plain = self.forms.len() <= 1 && self.more.is_empty();
        let forms = if is_plain { &[] } else { self.forms.as_slice() };
        let counts = move |form: &&Form| now < form.until && !form.is_like(limit);
        let is_best = move |at: usize, form: &Form| {
            let rival = |(other_at, other): (usize, &Form)| {
                let is_own = other.tier.as_deref() == tier;
                other.is_like(&form.quota.limit)
                    && now < other.until
                    && (is_own, other_at < at) > (form.tier.as_deref() == tier, at < other_at)
            };
            !forms.iter().enumerate().any(rival)
        };
        let best = forms.iter().enumerate().filter(move |(at, form)| counts(form) && is_best(*at, form));
        let is_told = move |more: &Limit| forms.iter().any(|form| now < form.until && form.is_like(more));
        let more = self.more.iter().filter(move |more| {
            let other = &more.quota.limit;
            (more.of_anybody || had_terms) && !is_like(other, limit) && !is_told(other)
        });
        best.map(|(_, form)| &form.quota.limit).chain(more.map(|more| &more.quota.limit))
    }

    /// The same limit with so many hundredths of its units and burst, and what it then allows. Nothing where that cannot be counted.
    pub fn boosted(&self, quota: &Quota, percent: u32) -> Option<Quota> {
        let boosted = self.terms.boosted(quota, percent)?;
        if !is_like(&boosted.limit, &quota.limit) {
            self.remember(&Allowance::Quota(boosted.clone()), true);
            // And the other way round, when it is over.
            self.remember(&Allowance::Quota(quota.clone()), true);
        }
        Some(boosted)
    }
}
