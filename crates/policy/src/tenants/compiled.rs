//! Terms as requests meet them: which place, which limit, which numbers.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::Time;

use crate::part::put_part;
use crate::rule::{Allowance, Period};
use crate::snapshot::{Place, PlacedLimit, Snapshot};
use crate::tenant::{Override, OverrideNumbers, Phase, Target, TargetEntry, TenantTerms};
use crate::tree::{Entry, PlaceIndex, Values};

/// The most rules that one override is for. One that names no values may match any number of them, and a tenant's terms must stay small.
pub const OVERRIDE_RULES_MAX: usize = 256;

/// The terms of a tenant.
#[derive(Clone, Debug)]
pub(super) enum Compiled {
    /// As usual: other numbers for ever, and no tier. The first of them is met nearly always, so it is where a decision looks anyway.
    ForEver(Exception, Box<[Exception]>),
    /// Anything else.
    Phases(Box<[InPhase]>),
}

/// What is in force for a while.
#[derive(Clone, Debug)]
pub(super) struct InPhase {
    from: Time,
    until: Time,
    tier: Option<Box<str>>,
    /// Those that name most values first.
    exceptions: Vec<Exception>,
}

/// What is in force at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) enum InForce<'a> {
    ForEver(&'a Exception, &'a [Exception]),
    Phase(&'a InPhase),
}

/// Other numbers for one limit at one place.
#[derive(Clone, Debug)]
pub(super) struct Exception {
    place: PlaceIndex,
    limit: u16,
    /// What descriptors have to have besides; nothing, if the place says it all.
    compared: Option<Box<Compared>>,
    allowance: Allowance,
}

/// Values that descriptors have to have.
#[derive(Clone, Debug)]
struct Compared {
    /// Where in descriptors the tenant stands.
    tenant_at: u8,
    /// Which of the target's entries are compared, a bit for each.
    entries: u32,
    target: Arc<Target>,
}

impl Compiled {
    #[inline]
    pub(super) fn at(&self, now: Time) -> Option<InForce<'_>> {
        match self {
            Compiled::ForEver(first, others) => Some(InForce::ForEver(first, others)),
            Compiled::Phases(phases) => {
                phases.iter().find(|phase| phase.from <= now && now < phase.until).map(InForce::Phase)
            }
        }
    }
}

impl<'a> InForce<'a> {
    #[inline]
    pub(super) fn tier(self) -> Option<&'a str> {
        match self {
            InForce::ForEver(..) => None,
            InForce::Phase(phase) => phase.tier.as_deref(),
        }
    }

    /// What is allowed to a descriptor under a limit, if that is not what the rule says.
    #[inline]
    pub(super) fn allowance(
        self,
        place: PlaceIndex,
        limit: usize,
        entries: &[Entry<'_>],
    ) -> Option<&'a Allowance> {
        let applies = |exception: &&Exception| {
            exception.place == place && usize::from(exception.limit) == limit && exception.takes(entries)
        };
        let (first, others) = match self {
            InForce::ForEver(first, others) => (Some(first), others),
            InForce::Phase(phase) => (None, phase.exceptions.as_slice()),
        };
        let found = first.filter(applies).or_else(|| others.iter().find(applies));
        found.map(|exception| &exception.allowance)
    }
}

impl Exception {
    #[inline]
    fn takes(&self, entries: &[Entry<'_>]) -> bool {
        self.compared.as_ref().is_none_or(|compared| compared.takes(entries))
    }
}

impl Compared {
    fn takes(&self, entries: &[Entry<'_>]) -> bool {
        let Target::Descriptor { entries: wanted, .. } = &*self.target else { return true };
        (0..wanted.len()).filter(|at| self.entries & (1 << at) != 0).all(|at| {
            let level = at + usize::from(at >= usize::from(self.tenant_at));
            let value = wanted[at].1.as_deref();
            value.is_none_or(|value| entries.get(level).is_some_and(|(_, other)| *other == value))
        })
    }
}

/// What is made of terms, and what is to be said about it.
pub(super) struct Compiler<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// Whether what is needed to share counts is made too.
    pub(super) is_shared: bool,
    /// Whether it is only asked what there is to say.
    pub(super) is_trial: bool,
    pub(super) warnings: Vec<String>,
}

impl Compiler<'_> {
    pub(super) fn compile(&mut self, terms: &TenantTerms) -> Compiled {
        let phases: Box<[InPhase]> = terms.phases.iter().map(|phase| self.phase(phase)).collect();
        let is_for_ever = matches!(&*terms.phases, [Phase { from: None, until: None, tier: None, .. }]);
        if let [InPhase { exceptions, .. }] = &*phases
            && let [first, others @ ..] = &**exceptions
            && is_for_ever
        {
            return Compiled::ForEver(first.clone(), others.into());
        }
        Compiled::Phases(phases)
    }

    fn phase(&mut self, phase: &Phase) -> InPhase {
        let mut ordered: SmallVec<[&Override; 4]> = phase.overrides.iter().collect();
        ordered.sort_by_key(|wanted| std::cmp::Reverse(wanted.target.values()));
        let mut exceptions = Vec::new();
        for wanted in ordered {
            self.exceptions(wanted, &mut exceptions);
        }
        exceptions.shrink_to_fit();
        InPhase {
            from: phase.from.unwrap_or_default(),
            // Nobody asks at the end of time.
            until: phase.until.unwrap_or(Time::MAX.plus(tollgate_core::Span::from_ticks(1))),
            tier: phase.tier.clone(),
            exceptions,
        }
    }

    fn exceptions(&mut self, wanted: &Override, exceptions: &mut Vec<Exception>) {
        let snapshot = self.snapshot;
        match &*wanted.target {
            Target::Policy { name } => match snapshot.policy(name) {
                Some(place) => self.at_place(wanted, Met { place, tenant_at: 0, compared: 0 }, exceptions),
                None => self.warn(wanted, "there is no policy of this name at present"),
            },
            Target::Descriptor { domain, entries } => {
                let candidates = snapshot.places_by_way(entries.iter().map(|(key, _)| &**key)).iter();
                let of_domain = candidates.filter(|way| {
                    domain.as_deref().is_none_or(|domain| *domain == *snapshot.place(way.place).domain)
                });
                let met = of_domain.filter_map(|way| way.met_by(snapshot.place(way.place), entries));
                let mut met: Vec<Met> = met.take(OVERRIDE_RULES_MAX + 1).collect();
                if met.is_empty() {
                    self.warn(wanted, "it matches no rule at present");
                }
                if met.len() > OVERRIDE_RULES_MAX {
                    met.truncate(OVERRIDE_RULES_MAX);
                    self.warn(wanted, "it matches too many rules: it is for the first 256 of them only");
                }
                // A place that says it all is met rather than one that only may be. Of different places, no two are met together.
                met.sort_by_key(|met| met.compared.count_ones());
                for met in met {
                    self.at_place(wanted, met, exceptions);
                }
            }
        }
    }

    fn at_place(&mut self, wanted: &Override, met: Met, exceptions: &mut Vec<Exception>) {
        let place = self.snapshot.place(met.place);
        let chosen = chosen(place, wanted);
        if chosen.is_empty() {
            let what = match &wanted.limit {
                Some(name) => format!("the rule \"{place}\" has no limit named \"{name}\""),
                None if place.limits.is_empty() => format!("the rule \"{place}\" counts nothing"),
                None => format!(
                    "the rule \"{place}\" has several limits, and none of this period: name one as `limit`"
                ),
            };
            self.warn(wanted, &what);
        }
        for at in chosen {
            let placed = &place.limits[at];
            let (Ok(limit), Ok(tenant_at)) = (u16::try_from(at), u8::try_from(met.tenant_at)) else {
                self.warn(wanted, "the rule is too large");
                continue;
            };
            match placed.terms.overridden(&wanted.numbers, self.is_shared) {
                Ok(allowance) => {
                    self.check_shared(wanted, place, placed, &allowance);
                    if !self.is_trial {
                        placed.remember(&allowance, false);
                    }
                    let target = || Arc::clone(&wanted.target);
                    let compared = (met.compared != 0)
                        .then(|| Box::new(Compared { tenant_at, entries: met.compared, target: target() }));
                    exceptions.push(Exception { place: met.place, limit, compared, allowance });
                }
                Err(why) => {
                    let what = format!("the limit \"{}\" cannot have these numbers: {why}", placed.title());
                    self.warn(wanted, &what);
                }
            }
        }
    }

    fn check_shared(
        &mut self,
        wanted: &Override,
        place: &Place,
        placed: &PlacedLimit,
        allowance: &Allowance,
    ) {
        let is_local = placed.consistency() == Some(crate::rule::Consistency::Local);
        if self.is_shared && !is_local && allowance.is_too_large_to_share() {
            let what = format!(
                "these numbers are too large for a count that is shared: under \"{place}\" each process counts by itself"
            );
            self.warn(wanted, &what);
        }
    }

    fn warn(&mut self, wanted: &Override, what: &str) {
        if self.is_trial {
            self.warnings.push(format!("{}: {what}", shown(&wanted.target)));
        }
    }
}

/// A rule that an override is for.
#[derive(Clone, Copy)]
struct Met {
    place: PlaceIndex,
    tenant_at: usize,
    compared: u32,
}

/// The way to a place that leads past its tenant.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) place: PlaceIndex,
    pub(crate) tenant_at: usize,
}

impl Way {
    /// Whether descriptors with these entries, besides the tenant's, may lead there. The keys are known to do.
    fn met_by(&self, place: &Place, entries: &[TargetEntry]) -> Option<Met> {
        let mut compared = 0;
        let steps = place.steps.iter().enumerate().filter(|(level, _)| *level != self.tenant_at);
        for (at, ((_, value), (_, step))) in entries.iter().zip(steps).enumerate() {
            let Some(value) = value else { continue };
            match &step.values {
                Values::Exact(exact) if exact != value => return None,
                Values::Matching { pattern, .. } if !pattern.matches(value) => return None,
                Values::Exact(_) => {}
                Values::Matching { .. } | Values::Any => compared |= 1 << at,
            }
        }
        Some(Met { place: self.place, tenant_at: self.tenant_at, compared })
    }
}

impl Snapshot {
    /// The places whose descriptors have these keys, besides the tenant's own.
    fn places_by_way<'k>(&self, keys: impl Iterator<Item = &'k str>) -> &[Way] {
        let ways = self.ways.get_or_init(|| {
            let mut ways: crate::map::Map<Box<[u8]>, Vec<Way>> = crate::map::Map::default();
            for (at, place) in self.places.iter().enumerate() {
                let tenant_key =
                    self.domains.get(&place.domain).and_then(|domain| domain.tenant_key.as_deref());
                let of_tenant = |key: &str| tenant_key == Some(key);
                let Some(tenant_at) = place.steps.iter().position(|step| of_tenant(&step.key)) else {
                    continue;
                };
                let others = place.steps.iter().enumerate().filter(|(level, _)| *level != tenant_at);
                let way = Way { place: PlaceIndex(u32::try_from(at).unwrap_or(u32::MAX)), tenant_at };
                ways.entry(encoded(others.map(|(_, step)| &*step.key))).or_default().push(way);
            }
            ways
        });
        ways.get(&encoded(keys)).map(Vec::as_slice).unwrap_or_default()
    }
}

fn encoded<'k>(keys: impl Iterator<Item = &'k str>) -> Box<[u8]> {
    let mut bytes = Vec::new();
    keys.for_each(|key| put_part(&mut bytes, key.as_bytes()));
    bytes.into()
}

/// The limits of a place that an override is for.
fn chosen(place: &Place, wanted: &Override) -> SmallVec<[usize; 2]> {
    let limits = || place.limits.iter().enumerate();
    if let Some(name) = wanted.limit.as_deref() {
        return limits().filter(|(_, limit)| limit.name() == Some(name)).map(|(at, _)| at).collect();
    }
    let period = match wanted.numbers {
        OverrideNumbers::Unlimited => return limits().map(|(at, _)| at).collect(),
        OverrideNumbers::Per { period, .. } => period.and_then(Period::length),
    };
    let alike =
        limits().find(|(_, limit)| period.is_some() && limit.own_period().and_then(Period::length) == period);
    let only = limits().next().filter(|_| place.limits.len() == 1);
    alike.or(only).map(|(at, _)| at).into_iter().collect()
}

/// What people call a target.
fn shown(target: &Target) -> String {
    match target {
        Target::Policy { name } => format!("policy \"{name}\""),
        Target::Descriptor { domain, entries } => {
            let mut text = domain.as_deref().map(|domain| format!("{domain}: ")).unwrap_or_default();
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| match value {
                    Some(value) => format!("{key}:{value}"),
                    None => key.to_string(),
                })
                .collect();
            text += &if entries.is_empty() { "the tenant alone".to_owned() } else { entries.join(", ") };
            text
        }
    }
}
