//! From validated files to a snapshot: identities for counters, carried over from the snapshot before.

use std::collections::{HashMap, HashSet};
use std::iter;
use std::time::Duration;

use tollgate_core::{Span, Tick, Time};

use crate::forms::{Form, MoreForms, keeps_counts};
use crate::map::Map;
use crate::part::put_part;
use crate::pattern::Pattern;
use crate::rule::{Allowance, Quota, Rule, RuleLimit};
use crate::snapshot::{Domain, LevelKind, Place, PlacedLimit, RuleId, Snapshot};
use crate::spec::{DescriptorSpec, DomainSpec, FileSpec};
use crate::tree::{Child, Level, PlaceIndex, Step, Values};

/// What a key prefix begins with: a way of encoding has a number of its own.
const IN_DOMAIN: u8 = 1;
const IN_POLICY: u8 = 2;
/// What stands between a place and a tier. No level begins so.
const OF_TIER: u8 = 0xff;
/// What tells the limits of one place apart.
const BY_NAME: u8 = 1;
const BY_POSITION: u8 = 2;

/// The most places whose numbers are remembered. Beyond, those are forgotten that no rule stands at any more.
const IDS_MAX: usize = 1 << 20;

/// The most limits that one limit is remembered to have been, newest first.
const OLD_FORMS_MAX: usize = 8;

/// The most limits that are gone and remembered.
const GONE_MAX: usize = 1 << 16;

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
        snapshot.policy_names = snapshot.policies.keys().cloned().collect();
        snapshot.policy_names.sort_unstable();
        let with_recipes = snapshot.domains.values().filter(|domain| !domain.forward_auth.is_empty());
        snapshot.forward_auth_names = with_recipes.map(|domain| domain.name.clone()).collect();
        snapshot.forward_auth_names.sort_unstable();
        let gone = compiler.gone();
        let Compiler { places, mut ids, ids_given, .. } = compiler;
        if ids.len() > IDS_MAX {
            let tiers = places.iter().flat_map(|place| &place.tier_ids).map(|(_, id)| *id);
            let present: HashSet<RuleId> = places.iter().map(Place::id).chain(tiers).collect();
            ids.retain(|_, id| present.contains(id));
        }
        Snapshot { places, ids, ids_given, gone, ..snapshot }
    }
}

struct Compiler<'a> {
    /// The forms of the limits before, by what their counters' keys begin with. Those that are taken up again are taken out.
    before: HashMap<&'a [u8], Vec<Form>>,
    ids: Map<Box<[u8]>, RuleId>,
    ids_given: u32,
    now: Time,
    places: Vec<Place>,
}

impl<'a> Compiler<'a> {
    fn new(before: Option<&'a Snapshot>, now: Time) -> Compiler<'a> {
        let places = before.into_iter().flat_map(Snapshot::places);
        let limits =
            places.flat_map(Place::limits).map(|limit| (limit.key_prefix(), limit.forms_ever().collect()));
        let gone = before
            .into_iter()
            .flat_map(|before| &before.gone)
            .map(|(prefix, forms)| (&**prefix, forms.clone()));
        Compiler {
            before: gone.chain(limits).collect(),
            ids: before.map(|before| before.ids.clone()).unwrap_or_default(),
            ids_given: before.map_or(0, |before| before.ids_given),
            now,
            places: Vec::new(),
        }
    }

    fn domain(&mut self, spec: DomainSpec) -> Domain {
        let mut identity = vec![IN_DOMAIN];
        put_part(&mut identity, spec.name.as_bytes());
        let trail = Trail {
            domain: &spec.name,
            path: String::new(),
            identity,
            levels: Vec::new(),
            steps: Vec::new(),
        };
        let root = self.level(spec.descriptors, &trail);
        Domain {
            enabled: spec.enabled,
            tenant_key: spec.tenant_key.map(Into::into),
            tenants: spec.tenants.into_iter().map(|(tenant, tier)| (tenant.into(), tier.into())).collect(),
            root,
            forward_auth: spec.forward_auth,
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
        let levels = vec![LevelKind::Counted];
        self.place(rule, &Trail { domain: "", path: name.into(), identity, levels, steps: Vec::new() })
    }

    fn place(&mut self, rule: Rule, trail: &Trail<'_>) -> PlaceIndex {
        let index = PlaceIndex(u32::try_from(self.places.len()).unwrap_or(u32::MAX));
        let id = self.id(trail.identity.clone());
        let mut tiers: Vec<&str> =
            rule.limits.iter().flat_map(|limit| &limit.tiers).map(|(tier, _)| tier.as_str()).collect();
        tiers.sort_unstable();
        tiers.dedup();
        let tier_ids =
            tiers.into_iter().map(|tier| (tier.into(), self.tier_id(&trail.identity, tier))).collect();
        let several = rule.limits.len() > 1;
        let mut limits = Vec::with_capacity(rule.limits.len());
        for (at, terms) in rule.limits.iter().enumerate() {
            limits.push(self.limit(terms, at, several, trail));
        }
        self.places.push(Place {
            id,
            tier_ids,
            domain: trail.domain.into(),
            path: trail.path.as_str().into(),
            rule,
            limits,
            levels: trail.levels.clone(),
            steps: trail.steps.clone(),
        });
        index
    }

    fn id(&mut self, identity: Vec<u8>) -> RuleId {
        *self.ids.entry(identity.into()).or_insert_with(|| {
            self.ids_given += 1;
            RuleId(self.ids_given - 1)
        })
    }

    fn tier_id(&mut self, identity: &[u8], tier: &str) -> RuleId {
        let mut identity = identity.to_vec();
        identity.push(OF_TIER);
        put_part(&mut identity, tier.as_bytes());
        self.id(identity)
    }

    fn limit(&mut self, terms: &RuleLimit, at: usize, several: bool, trail: &Trail<'_>) -> PlacedLimit {
        let mut key_prefix = trail.identity.clone();
        key_prefix.push(0); // no further level
        // Of the limits of a place, each is known by its name, else by its position.
        if let Some(name) = terms.name.as_deref() {
            key_prefix.push(BY_NAME);
            put_part(&mut key_prefix, name.as_bytes());
        } else {
            key_prefix.push(BY_POSITION);
            put_part(&mut key_prefix, at.to_string().as_bytes());
        }
        let title = title(terms.name.as_deref(), &trail.path, several.then_some(at));
        let before = self.before.remove(key_prefix.as_slice()).unwrap_or_default();
        let forms = self.forms(terms, &before);
        let more = MoreForms::default();
        PlacedLimit { title, key_prefix: key_prefix.into(), terms: terms.clone(), forms, more }
    }

    /// Every limit that a key's counts may be kept under: the limit as it is, tier by tier, and what it was, until nothing of that is
    /// left. Nothing can be carried over from limits that keep no counts, or counts with names.
    fn forms(&self, terms: &RuleLimit, before: &[Form]) -> Vec<Form> {
        let tiers = terms.tiers.iter().map(|(tier, allowance)| (Some(tier.as_str().into()), allowance));
        let all = iter::once((None, &terms.allowance)).chain(tiers);
        let mut forms: Vec<Form> = Vec::new();
        for (tier, allowance) in all {
            match allowance {
                Allowance::Quota(quota) if keeps_counts(&quota.limit) => {
                    forms.push(Form { tier, quota: quota.clone(), until: Time::MAX });
                }
                _ => {}
            }
        }
        let present = forms.len();
        for old in self.still_left(before) {
            let is_known = forms.iter().any(|form| form.tier == old.tier && form.is_like(&old.quota.limit));
            if !is_known && forms.len() < present + OLD_FORMS_MAX {
                forms.push(old);
            }
        }
        forms
    }

    /// Forms that are forms no more, and until when they matter.
    fn still_left<'b>(&self, forms: &'b [Form]) -> impl Iterator<Item = Form> + use<'b> {
        let now = self.now;
        let left = forms.iter().filter(move |form| now < form.until);
        left.map(move |form| Form { until: form.until.min(gone_by(&form.quota, now)), ..form.clone() })
    }

    /// What is remembered of limits that are gone.
    fn gone(&self) -> Map<Box<[u8]>, Vec<Form>> {
        let left = self
            .before
            .iter()
            .map(|(prefix, forms)| (Box::from(*prefix), self.still_left(forms).collect::<Vec<_>>()));
        left.filter(|(_, forms)| !forms.is_empty()).take(GONE_MAX).collect()
    }
}

/// The way to a place while its tree is being compiled.
struct Trail<'a> {
    domain: &'a str,
    path: String,
    identity: Vec<u8>,
    levels: Vec<LevelKind>,
    steps: Vec<Step>,
}

impl<'a> Trail<'a> {
    fn step(&self, key: &str, values: &Values) -> Trail<'a> {
        let separator = if self.path.is_empty() { "" } else { PATH_SEPARATOR };
        let mut identity = self.identity.clone();
        let (kind, value, level) = match values {
            Values::Exact(value) => (1, Some(&**value), LevelKind::Fixed),
            Values::Matching { pattern, shared: true } => (2, Some(pattern.as_str()), LevelKind::Shared),
            Values::Matching { pattern, shared: false } => (2, Some(pattern.as_str()), LevelKind::Counted),
            Values::Any => (3, None, LevelKind::Counted),
        };
        identity.push(kind);
        put_part(&mut identity, key.as_bytes());
        if let Some(value) = value {
            put_part(&mut identity, value.as_bytes());
        }
        let value = value.map(|value| format!("={value}")).unwrap_or_default();
        let mut levels = self.levels.clone();
        levels.push(level);
        let mut steps = self.steps.clone();
        steps.push(Step { key: key.into(), values: values.clone() });
        let path = format!("{}{separator}{key}{value}", self.path);
        Trail { domain: self.domain, path, identity, levels, steps }
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

/// From when on every state is as good as unused that the limit may have left behind: a full one, and as much debt again; windows that
/// begin late, because they are spread; and queues that have taken a whole period's worth.
fn gone_by(quota: &Quota, now: Time) -> Time {
    const MONTH: Duration = Duration::from_hours(31 * 24);
    let full = quota.limit.expires_at(&quota.limit.with_used(u64::MAX, now)).since(now);
    let period = Tick::NANOSECOND.span(quota.period.length().unwrap_or(MONTH)).unwrap_or(Span::MAX);
    let twice = |time: Time, span: Span| time.plus(span).plus(span);
    twice(twice(now, full), period)
}
