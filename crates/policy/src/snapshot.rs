//! The compiled policy: every rule at its place, ready to be met by requests.

use std::fmt;

use tollgate_core::{Limit, Time};

use crate::map::Map;
use crate::recipe::Recipe;
use crate::rule::{Allowance, Consistency, FailMode, Overshoot, Quota, Rule, RuleLimit};
use crate::tree::{Entry, Level, PlaceIndex};

/// A compiled policy. Nothing in it changes; a new one takes its place.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub(crate) domains: Map<Box<str>, Domain>,
    pub(crate) policies: Map<Box<str>, PlaceIndex>,
    pub(crate) places: Vec<Place>,
    /// The names of the policies, sorted.
    pub(crate) policy_names: Vec<Box<str>>,
    /// The names of the domains that have recipes, sorted.
    pub(crate) forward_auth_names: Vec<Box<str>>,
    /// The numbers of all rules that are or were, by their places.
    pub(crate) ids: Map<Box<[u8]>, RuleId>,
    pub(crate) ids_given: u32,
    /// What limits were that are gone, by what their counters' keys begin with: they may come back.
    pub(crate) gone: Map<Box<[u8]>, Vec<Form>>,
}

/// A domain: a tree of rules for the descriptors of one kind of caller.
#[derive(Debug)]
pub struct Domain {
    pub(crate) name: Box<str>,
    pub(crate) enabled: bool,
    pub(crate) tenant_key: Option<Box<str>>,
    pub(crate) tenants: Map<Box<str>, Box<str>>,
    pub(crate) root: Level,
    pub(crate) forward_auth: Vec<Recipe>,
}

/// A rule at its place. The place, not the numbers, is what counters belong to: numbers may change, counts stay.
#[derive(Debug)]
pub struct Place {
    pub(crate) id: RuleId,
    /// The numbers under which those of a tier are counted.
    pub(crate) tier_ids: Vec<(Box<str>, RuleId)>,
    pub(crate) domain: Box<str>,
    pub(crate) path: Box<str>,
    pub(crate) rule: Rule,
    pub(crate) limits: Vec<PlacedLimit>,
    /// What the values at each level of the way to it mean for its counters.
    pub(crate) levels: Vec<LevelKind>,
}

/// What the values at one level mean for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LevelKind {
    /// There is one: the place names it.
    Fixed,
    /// They tell counters apart.
    Counted,
    /// Different ones share a counter.
    Shared,
}

/// One limit of a rule at its place.
#[derive(Debug)]
pub struct PlacedLimit {
    pub(crate) title: Box<str>,
    pub(crate) key_prefix: Box<[u8]>,
    pub(crate) terms: RuleLimit,
    /// The limits that a key's counts may be kept under.
    pub(crate) forms: Vec<Form>,
}

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
        let own = &self.quota.limit;
        own.shape() == limit.shape() && own.packs() == limit.packs()
    }
}

/// Names a rule as long as the process lives, whatever its numbers and however often it is reloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub(crate) u32);

impl Snapshot {
    /// The domain of this name.
    pub fn domain(&self, name: &str) -> Option<&Domain> {
        self.domains.get(name)
    }

    /// The place of the policy of this name.
    pub fn policy(&self, name: &str) -> Option<PlaceIndex> {
        self.policies.get(name).copied()
    }

    /// The place that an index of this snapshot stands for.
    pub fn place(&self, index: PlaceIndex) -> &Place {
        &self.places[index.0 as usize]
    }

    /// All places, policies among them.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.iter()
    }

    /// The names of all domains, sorted.
    pub fn domain_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.domains.keys().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }

    /// The names of the domains that make descriptors themselves, sorted.
    pub fn forward_auth_names(&self) -> &[Box<str>] {
        &self.forward_auth_names
    }

    /// The names of all policies, sorted.
    pub fn policy_names(&self) -> &[Box<str>] {
        &self.policy_names
    }
}

impl Domain {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its rules are in force.
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// The first level of its tree.
    pub fn root(&self) -> &Level {
        &self.root
    }

    /// How descriptors are made of requests that a proxy hands over as they are.
    pub fn forward_auth(&self) -> &[Recipe] {
        &self.forward_auth
    }

    /// The place that a descriptor leads to.
    pub fn find(&self, entries: &[Entry<'_>]) -> Option<PlaceIndex> {
        self.root.walk(entries)
    }

    /// The tier of the tenant that a descriptor names, if it names one that has any.
    pub fn tier_of(&self, entries: &[Entry<'_>]) -> Option<&str> {
        let tenant_key = self.tenant_key.as_deref()?;
        let (_, tenant) = entries.iter().find(|(key, _)| *key == tenant_key)?;
        self.tenants.get(*tenant).map(|tier| &**tier)
    }
}

impl Place {
    /// The rule's name within the process.
    pub fn id(&self) -> RuleId {
        self.id
    }

    /// The number under which somebody of this tier is counted, in metrics.
    pub fn counter(&self, tier: Option<&str>) -> RuleId {
        let tiered = tier.and_then(|tier| self.tier_ids.iter().find(|(name, _)| **name == *tier));
        tiered.map_or(self.id, |(_, id)| *id)
    }

    /// Whose number it is: a tier's, or that of those without.
    pub fn tier(&self, counter: RuleId) -> Option<&str> {
        self.tier_ids.iter().find(|(_, id)| *id == counter).map(|(name, _)| &**name)
    }

    /// The domain. Empty for a named policy.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Where in its domain it stands, for people and for metrics: `path=/api/* > user`; or the name of the policy.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What it asks.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Its limits.
    pub fn limits(&self) -> &[PlacedLimit] {
        &self.limits
    }

    /// The values of a descriptor that tell its counters apart at this place.
    pub fn counted<'a>(&self, entries: &'a [Entry<'a>]) -> impl Iterator<Item = &'a str> {
        let counted = entries.iter().zip(&self.levels).filter(|(_, level)| **level == LevelKind::Counted);
        counted.map(|(&(_, value), _)| value)
    }

    /// The values of a descriptor that all who share its counter have in common.
    pub fn common<'a>(&self, entries: &'a [Entry<'a>]) -> impl Iterator<Item = &'a str> {
        let common = entries.iter().zip(&self.levels).filter(|(_, level)| **level != LevelKind::Shared);
        common.map(|(&(_, value), _)| value)
    }
}

impl PlacedLimit {
    /// What clients are told it is called: printable ASCII.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Its name in the file, if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.terms.name.as_deref()
    }

    /// The names of limits that it takes the place of.
    pub fn replaces(&self) -> &[String] {
        &self.terms.replaces
    }

    /// How much it allows to somebody of this tier.
    pub fn allowance(&self, tier: Option<&str>) -> &Allowance {
        let tiered = tier.and_then(|tier| self.terms.tiers.iter().find(|(name, _)| name == tier));
        tiered.map_or(&self.terms.allowance, |(_, allowance)| allowance)
    }

    /// Limits under which somebody of this tier may have been counted otherwise than under `limit`: before a reload, or in another
    /// tier. What was used then has to be carried over. Of limits whose states are kept alike, that of the tier is the one to read them with.
    pub fn counted_before(
        &self,
        tier: Option<&str>,
        limit: &Limit,
        now: Time,
    ) -> impl Iterator<Item = &Limit> {
        // Nearly always there is one form, and it is this one.
        let forms = if self.forms.len() > 1 { self.forms.as_slice() } else { &[] };
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
        best.map(|(_, form)| &form.quota.limit)
    }

    /// Whether its numbers, or those of one of its tiers, are too large for a count that is shared.
    pub fn is_too_large_to_share(&self) -> bool {
        let allowances = self.terms.tiers.iter().map(|(_, allowance)| allowance);
        std::iter::once(&self.terms.allowance).chain(allowances).any(Allowance::is_too_large_to_share)
    }

    /// What happens to a charge beyond what is left.
    pub fn overshoot(&self) -> Overshoot {
        self.terms.overshoot
    }

    /// For how many of a hundred keys it is enforced.
    pub fn enforce_percent(&self) -> u8 {
        self.terms.enforce_percent
    }

    /// Who decides; `None` follows the store.
    pub fn consistency(&self) -> Option<Consistency> {
        self.terms.consistency
    }

    /// What happens when the authority is away.
    pub fn fail_mode(&self) -> FailMode {
        self.terms.fail_mode
    }

    /// The part of the limit, in percent, that one process spends on its own then; `None` follows the number of processes.
    pub fn local_percent(&self) -> Option<u8> {
        self.terms.local_percent
    }

    /// The names of its tiers.
    pub fn tier_names(&self) -> impl Iterator<Item = &str> {
        self.terms.tiers.iter().map(|(name, _)| name.as_str())
    }

    /// What a counter's key begins with. No prefix begins another, so whatever follows cannot collide.
    pub fn key_prefix(&self) -> &[u8] {
        &self.key_prefix
    }
}

impl RuleId {
    /// A small number: rules are numbered as they first appear.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.domain.is_empty() {
            write!(f, "policy {}", self.path)
        } else {
            write!(f, "{}: {}", self.domain, self.path)
        }
    }
}
