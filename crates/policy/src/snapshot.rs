//! The compiled policy: every rule at its place, ready to be met by requests.

use std::fmt;
use std::sync::OnceLock;

use crate::forms::{Form, MoreForms};
use crate::map::Map;
use crate::recipe::Recipe;
use crate::rule::{Allowance, Consistency, FailMode, Overshoot, Period, Rule, RuleLimit};
use crate::tenants::{Book, Way};
use crate::tree::{Entry, Level, PlaceIndex, Step};

/// A compiled policy. No rule in it changes; a new one takes its place. Beside its rules it has what single tenants may.
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
    /// The terms of tenants, if any have some.
    pub(crate) book: OnceLock<Book>,
    /// The places past whose tenants descriptors lead, by the keys of their other entries. Made when it is first asked for.
    pub(crate) ways: OnceLock<Map<Box<[u8]>, Vec<Way>>>,
}

/// A domain: a tree of rules for the descriptors of one kind of caller.
#[derive(Clone, Debug)]
pub struct Domain {
    pub(crate) name: Box<str>,
    pub(crate) enabled: bool,
    pub(crate) tenant_key: Option<Box<str>>,
    pub(crate) tenants: Map<Box<str>, Box<str>>,
    pub(crate) root: Level,
    pub(crate) forward_auth: Vec<Recipe>,
}

/// A rule at its place. The place, not the numbers, is what counters belong to: numbers may change, counts stay.
#[derive(Clone, Debug)]
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
    /// The way to it. A policy has none.
    pub(crate) steps: Vec<Step>,
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
#[derive(Clone, Debug)]
pub struct PlacedLimit {
    pub(crate) title: Box<str>,
    pub(crate) key_prefix: Box<[u8]>,
    pub(crate) terms: RuleLimit,
    /// The limits that a key's counts may be kept under.
    pub(crate) forms: Vec<Form>,
    /// And those that numbers of tenants bring along.
    pub(crate) more: MoreForms,
}

/// Names a rule as long as the process lives, whatever its numbers and however often it is reloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub(crate) u32);

impl Snapshot {
    /// The same rules, with no tenants yet.
    pub(crate) fn without_tenants(&self) -> Snapshot {
        Snapshot {
            domains: self.domains.clone(),
            policies: self.policies.clone(),
            places: self.places.clone(),
            policy_names: self.policy_names.clone(),
            forward_auth_names: self.forward_auth_names.clone(),
            ids: self.ids.clone(),
            ids_given: self.ids_given,
            gone: self.gone.clone(),
            book: OnceLock::new(),
            ways: self.ways.clone(),
        }
    }

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

    /// Whether any counts are kept in the database.
    pub fn has_durable_limits(&self) -> bool {
        self.places().flat_map(Place::limits).any(PlacedLimit::is_durable)
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

    /// The tier of the tenant that a descriptor names, if it names one to which the rules give any.
    pub fn tier_of(&self, entries: &[Entry<'_>]) -> Option<&str> {
        self.tier_of_tenant(self.tenant_of(entries)?)
    }

    /// The tenant that a descriptor names.
    #[inline]
    pub fn tenant_of<'e>(&self, entries: &[Entry<'e>]) -> Option<&'e str> {
        let tenant_key = self.tenant_key.as_deref()?;
        entries.iter().find(|(key, _)| *key == tenant_key).map(|(_, tenant)| *tenant)
    }

    /// The tier that the rules give to a tenant.
    #[inline]
    pub fn tier_of_tenant(&self, tenant: &str) -> Option<&str> {
        self.tenants.get(tenant).map(|tier| &**tier)
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
        self.counted_entries(entries).map(|(_, value)| value)
    }

    /// The entries of a descriptor whose values tell its counters apart at this place.
    pub fn counted_entries<'a>(&self, entries: &'a [Entry<'a>]) -> impl Iterator<Item = Entry<'a>> {
        let counted = entries.iter().zip(&self.levels).filter(|(_, level)| **level == LevelKind::Counted);
        counted.map(|(&entry, _)| entry)
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

    /// The period of the rule's own numbers, if it has any.
    pub(crate) fn own_period(&self) -> Option<Period> {
        match &self.terms.allowance {
            Allowance::Quota(quota) => Some(quota.period),
            Allowance::Unlimited => self.terms.counting.period,
        }
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

    /// The part of the limit, in percent, that one process spends on its own then; `None` follows the number of processes. Where units are leased, a rule
    /// says so how many of them, and nothing about this.
    pub fn local_percent(&self) -> Option<u8> {
        let is_leased = matches!(self.terms.consistency, Some(Consistency::Leased | Consistency::Durable));
        self.terms.local_percent.filter(|_| !is_leased)
    }

    /// Whether its counts are kept in the database.
    pub fn is_durable(&self) -> bool {
        self.terms.consistency == Some(Consistency::Durable)
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
