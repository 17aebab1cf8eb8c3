//! From validated files to a snapshot: identities for counters, carried over from the snapshot before.

use std::collections::HashMap;

use tollgate_core::{Limit, Time};

use crate::part::put_part;
use crate::pattern::Pattern;
use crate::rule::{Allowance, Rule, RuleLimit};
use crate::snapshot::{Domain, Place, PlacedLimit, RuleId, Snapshot, Was};
use crate::spec::{DescriptorSpec, DomainSpec, FileSpec};
use crate::tree::{Child, Level, PlaceIndex, Values};

/// What a key prefix begins with: a way of encoding has a number of its own.
const IN_DOMAIN: u8 = 1;
const IN_POLICY: u8 = 2;

/// Between the levels of a path, for people.
const PATH_SEPARATOR: &str = " > ";

impl Snapshot {
    /// Compiles files that were validated together. What `before` counted goes on counting, as long as its rules keep their
    /// places.
    pub fn compile(files: Vec<FileSpec>, before: Option<&Snapshot>, now: Time) -> Snapshot {
        let mut compiler = Compiler::new(before, now);
        let mut snapshot = Snapshot::default();
        for file in files {
            if let Some(domain) = file.domain {
                let domain = compiler.domain(domain);
                snapshot.domains.insert(domain.name.clone(), domain);
            }
            for policy in file.policies {
                let index = compiler.policy(&policy.name, policy.rule);
                snapshot.policies.insert(policy.name.into(), index);
            }
        }
        Snapshot { places: compiler.places, ids_given: compiler.ids_given, ..snapshot }
    }
}

struct Compiler<'a> {
    /// The limits before, by what their counters' keys begin with.
    before: HashMap<&'a [u8], &'a PlacedLimit>,
    /// The rules before, by their places.
    ids_before: HashMap<&'a [u8], RuleId>,
    ids_given: u32,
    now: Time,
    places: Vec<Place>,
}

impl<'a> Compiler<'a> {
    fn new(before: Option<&'a Snapshot>, now: Time) -> Compiler<'a> {
        let places = || before.into_iter().flat_map(Snapshot::places);
        Compiler {
            before: places().flat_map(Place::limits).map(|limit| (limit.key_prefix(), limit)).collect(),
            ids_before: places().map(|place| (&*place.identity, place.id())).collect(),
            ids_given: before.map_or(0, |before| before.ids_given),
            now,
            places: Vec::new(),
        }
    }

    fn domain(&mut self, spec: DomainSpec) -> Domain {
        let mut identity = vec![IN_DOMAIN];
        put_part(&mut identity, spec.name.as_bytes());
        let trail = Trail { domain: &spec.name, path: String::new(), identity, counted_levels: Vec::new() };
        let root = self.level(spec.descriptors, &trail);
        Domain {
            enabled: spec.enabled,
            tenant_key: spec.tenant_key.map(Into::into),
            tenants: spec.tenants.into_iter().map(|(tenant, tier)| (tenant.into(), tier.into())).collect(),
            root,
            name: spec.name.into(),
        }
    }

    fn level(&mut self, specs: Vec<DescriptorSpec>, above: &Trail<'_>) -> Level {
        Level::new(specs.into_iter().map(|spec| self.child(spec, above)).collect())
    }

    fn child(&mut self, spec: DescriptorSpec, above: &Trail<'_>) -> Child {
        let values = match spec.value {
            None => Values::Any,
            Some(value) => match Pattern::new(&value) {
                Some(pattern) => Values::Matching { pattern, shared: spec.share_threshold },
                None => Values::Exact(value.into()),
            },
        };
        let trail = above.step(&spec.key, &values);
        let place = spec.rule.map(|rule| self.place(rule, &trail));
        Child { key: spec.key.into(), values, place, below: self.level(spec.descriptors, &trail) }
    }

    fn policy(&mut self, name: &str, rule: Rule) -> PlaceIndex {
        let mut identity = vec![IN_POLICY];
        put_part(&mut identity, name.as_bytes());
        // Its key is its one level, and tells counters apart.
        self.place(rule, &Trail { domain: "", path: name.into(), identity, counted_levels: vec![true] })
    }

    fn place(&mut self, rule: Rule, trail: &Trail<'_>) -> PlaceIndex {
        let index = PlaceIndex(u32::try_from(self.places.len()).unwrap_or(u32::MAX));
        let id = self.ids_before.get(trail.identity.as_slice()).copied().unwrap_or_else(|| {
            self.ids_given += 1;
            RuleId(self.ids_given - 1)
        });
        let several = rule.limits.len() > 1;
        let limits =
            rule.limits.iter().enumerate().map(|(at, terms)| self.limit(terms, at, several, trail)).collect();
        self.places.push(Place {
            id,
            identity: trail.identity.as_slice().into(),
            domain: trail.domain.into(),
            path: trail.path.as_str().into(),
            rule,
            limits,
            counted_levels: trail.counted_levels.clone(),
        });
        index
    }

    fn limit(&self, terms: &RuleLimit, at: usize, several: bool, trail: &Trail<'_>) -> PlacedLimit {
        let mut key_prefix = trail.identity.clone();
        key_prefix.push(0); // no further level
        // The place alone identifies a single limit; of several, each is known by its name, else by its position.
        match terms.name.as_deref().filter(|_| several) {
            Some(name) => put_part(&mut key_prefix, name.as_bytes()),
            None => put_part(&mut key_prefix, format!("#{at}").as_bytes()),
        }
        let was = self.before.get(key_prefix.as_slice()).and_then(|before| self.was(before, terms));
        let title = title(terms.name.as_deref(), &trail.path, several.then_some(at));
        PlacedLimit { title, key_prefix: key_prefix.into(), terms: terms.clone(), was }
    }

    /// What has to be remembered of the limit that was here before: something, where its states cannot be read with the
    /// new numbers, and until the last of them has expired.
    fn was(&self, before: &PlacedLimit, terms: &RuleLimit) -> Option<Was> {
        if terms.allowance == before.terms.allowance && terms.tiers == before.terms.tiers {
            return before.was.clone().filter(|was| self.now < was.until);
        }
        let until = quotas(&before.terms).map(|limit| gone_by(limit, self.now)).max()?;
        Some(Was { terms: before.terms.clone(), until })
    }
}

/// The way to a place while its tree is being compiled.
struct Trail<'a> {
    domain: &'a str,
    path: String,
    identity: Vec<u8>,
    counted_levels: Vec<bool>,
}

impl<'a> Trail<'a> {
    fn step(&self, key: &str, values: &Values) -> Trail<'a> {
        let separator = if self.path.is_empty() { "" } else { PATH_SEPARATOR };
        let mut identity = self.identity.clone();
        let (kind, value, counted) = match values {
            Values::Exact(value) => (1, Some(&**value), false),
            Values::Matching { pattern, shared } => (2, Some(pattern.as_str()), !shared),
            Values::Any => (3, None, true),
        };
        identity.push(kind);
        put_part(&mut identity, key.as_bytes());
        if let Some(value) = value {
            put_part(&mut identity, value.as_bytes());
        }
        let value = value.map(|value| format!("={value}")).unwrap_or_default();
        let mut counted_levels = self.counted_levels.clone();
        counted_levels.push(counted);
        Trail {
            domain: self.domain,
            path: format!("{}{separator}{key}{value}", self.path),
            identity,
            counted_levels,
        }
    }
}

/// What clients are told a limit is called. Header fields take printable ASCII only.
fn title(name: Option<&str>, path: &str, number: Option<usize>) -> Box<str> {
    let title = match (name, number) {
        (Some(name), _) => name.to_owned(),
        (None, None) => path.to_owned(),
        (None, Some(at)) => format!("{path} #{}", at + 1),
    };
    title.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect()
}

fn quotas(terms: &RuleLimit) -> impl Iterator<Item = &Limit> {
    let allowances =
        std::iter::once(&terms.allowance).chain(terms.tiers.iter().map(|(_, allowance)| allowance));
    allowances.filter_map(|allowance| match allowance {
        Allowance::Quota(quota) => Some(&quota.limit),
        Allowance::Unlimited => None,
    })
}

/// When every state that the limit may have left behind is as good as unused: a full one, and as much debt again.
fn gone_by(limit: &Limit, now: Time) -> Time {
    let full = limit.expires_at(&limit.with_used(u64::MAX, now));
    full.plus(full.since(now))
}
