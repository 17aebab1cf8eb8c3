//! Tenants beside a naive model: a map of terms, and a matcher that looks at everything.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::collections::HashMap;

use common::{engine, install};
use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::core::{Span, Time};
use tollgate::policy::{Override, OverrideNumbers, Period, Phase, Target, Unit};
use tollgate::{Descriptor, Engine, Request, TenantTerms};

/// Every rule has limits of its own numbers, so that the numbers tell which one was met. All periods are an hour, but for one.
const RULES: &str = "
domain: d
tenant_key: t
tenants: {t1: gold}
descriptors:
- {key: t, rate_limit: {unit: hour, requests_per_unit: 10, tiers: {gold: {requests: 11}}}}
- key: p
  value: a
  descriptors:
  - {key: t, rate_limit: {unit: hour, requests_per_unit: 20, tiers: {gold: {requests: 21}}}}
- key: p
  descriptors:
  - {key: t, rate_limit: {unit: hour, requests_per_unit: 30, tiers: {silver: {requests: 31}}}}
- key: t
  value: t2
  descriptors:
  - key: q
    value: b*
    rate_limits: [{unit: hour, requests_per_unit: 40, name: h}, {unit: day, requests_per_unit: 41, name: d}]
";
const RULES_LATER: &str = "
domain: d
tenant_key: t
descriptors:
- {key: t, rate_limit: {unit: hour, requests_per_unit: 50, tiers: {gold: {requests: 51}}}}
- key: p
  descriptors:
  - {key: t, rate_limit: {unit: hour, requests_per_unit: 60, tiers: {gold: {requests: 61}, silver: {requests: 62}}}}
";

/// What rules say of a descriptor: the numbers without a tier and by tier, the period and the name of each limit.
struct Said {
    units: u64,
    tiers: &'static [(&'static str, u64)],
    unit: Unit,
    name: Option<&'static str>,
}

type Entries = Vec<(&'static str, &'static str)>;

fn said(is_later: bool, entries: &Entries) -> Vec<Said> {
    let hour = |units, tiers| vec![Said { units, tiers, unit: Unit::Hour, name: None }];
    match (is_later, entries.as_slice()) {
        // Listed, and without a limit of its own.
        (false, [("t", "t2")]) => vec![],
        (false, [("t", _)]) => hour(10, &[("gold", 11)]),
        (false, [("p", "a"), ("t", _)]) => hour(20, &[("gold", 21)]),
        (false, [("p", _), ("t", _)]) => hour(30, &[("silver", 31)]),
        (false, [("t", "t2"), ("q", value)]) if value.starts_with('b') => vec![
            Said { units: 40, tiers: &[], unit: Unit::Hour, name: Some("h") },
            Said { units: 41, tiers: &[], unit: Unit::Day, name: Some("d") },
        ],
        (true, [("t", _)]) => hour(50, &[("gold", 51)]),
        (true, [("p", _), ("t", _)]) => hour(60, &[("gold", 61), ("silver", 62)]),
        _ => vec![],
    }
}

/// The limits that a descriptor meets, by the letter of the contract.
fn model(
    tenants: &HashMap<&'static str, TenantTerms>,
    is_later: bool,
    entries: &Entries,
    now: Time,
) -> Vec<Option<u64>> {
    let tenant = entries.iter().find(|(key, _)| *key == "t").unwrap().1;
    let mut rest = entries.clone();
    rest.remove(rest.iter().position(|(key, _)| *key == "t").unwrap());
    let phase = tenants.get(tenant).and_then(|terms| {
        terms.phases.iter().find(|phase| {
            phase.from.is_none_or(|from| now >= from) && phase.until.is_none_or(|until| now < until)
        })
    });
    let file_tier = (tenant == "t1" && !is_later).then_some("gold");
    let tier = phase.and_then(|phase| phase.tier.as_deref()).or(file_tier);
    let limits = said(is_later, entries);
    let several = limits.len() > 1;
    let of = |limit: &Said| {
        let matching = phase.into_iter().flat_map(|phase| &phase.overrides).filter(|wanted| {
            let Target::Descriptor { domain, entries } = &*wanted.target else { return false };
            let is_limit = match (&wanted.limit, wanted.numbers) {
                (Some(name), _) => limit.name == Some(&**name),
                (None, OverrideNumbers::Unlimited) => true,
                (None, OverrideNumbers::Per { period, .. }) => {
                    !several || period == Some(Period::Unit(limit.unit))
                }
            };
            domain.as_deref().is_none_or(|domain| domain == "d")
                && entries.len() == rest.len()
                && entries.iter().zip(&rest).all(|((key, value), (other_key, other))| {
                    **key == **other_key && value.as_deref().is_none_or(|value| value == *other)
                })
                && is_limit
        });
        let named = |wanted: &&Override| match &*wanted.target {
            Target::Descriptor { entries, .. } => entries.iter().filter(|(_, value)| value.is_some()).count(),
            Target::Policy { .. } => 0,
        };
        // Of equals, the first: `max_by_key` takes the last.
        let matching: Vec<_> = matching.collect();
        match matching.into_iter().rev().max_by_key(named).map(|wanted| wanted.numbers) {
            Some(OverrideNumbers::Unlimited) => None,
            Some(OverrideNumbers::Per { units, .. }) => Some(units),
            None => {
                let tiered = limit.tiers.iter().find(|(name, _)| Some(*name) == tier);
                Some(tiered.map_or(limit.units, |(_, units)| *units))
            }
        }
    };
    limits.iter().map(of).collect()
}

const TENANTS: [&str; 4] = ["t0", "t1", "t2", "t3"];

fn value() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "bb", "c"])
}

fn wanted() -> impl Strategy<Value = Override> {
    let entry = (prop::sample::select(vec!["p", "q"]), prop::option::of(value()));
    let entry = entry.prop_map(|(key, value)| (key.into(), value.map(Into::into)));
    let domain = prop::option::weighted(0.3, prop::sample::select(vec!["d", "e"]));
    let limit = prop::option::weighted(0.2, prop::sample::select(vec!["h", "d", "x"]));
    let period = prop::option::of(prop::sample::select(vec![Unit::Hour, Unit::Day, Unit::Minute]));
    let numbers = prop_oneof![
        1 => Just(OverrideNumbers::Unlimited),
        5 => (100..1_000_u64, period).prop_map(|(units, period)| OverrideNumbers::Per { units, period: period.map(Period::Unit), burst: None }),
    ];
    (domain, vec(entry, 0..3), limit, numbers).prop_map(|(domain, entries, limit, numbers)| Override {
        target: Target::Descriptor { domain: domain.map(Into::into), entries }.into(),
        limit: limit.map(Into::into),
        numbers,
    })
}

fn at(tick: u64) -> Time {
    common::START.plus(Span::from_ticks(tick))
}

fn terms() -> impl Strategy<Value = TenantTerms> {
    let tier = || prop::option::of(prop::sample::select(vec!["gold", "silver", "none"]));
    let parts = || (tier(), vec(wanted(), 0..4));
    (parts(), prop::option::of(parts()), 0..10_u64, 0..10_u64, any::<[bool; 2]>()).prop_map(
        |(main, before, from, length, [has_start, has_end])| {
            let phase = |(tier, overrides): (Option<&str>, Vec<Override>), from, until| Phase {
                from,
                until,
                tier: tier.map(Into::into),
                overrides,
            };
            let start = has_start.then(|| at(from));
            let end = has_end.then(|| at(from + length + 1));
            let before = before.zip(start).map(|(before, start)| phase(before, None, Some(start)));
            TenantTerms { phases: before.into_iter().chain([phase(main, start, end)]).collect() }
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Set(&'static str, Option<TenantTerms>),
    SetAll(Vec<(&'static str, TenantTerms)>),
    Install(bool),
    Ask(Entries, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let tenant = || prop::sample::select(TENANTS.to_vec());
    let entries = (tenant(), value(), 0..4).prop_map(|(tenant, value, kind)| match kind {
        0 => vec![("t", tenant)],
        1 | 2 => vec![("p", value), ("t", tenant)],
        _ => vec![("t", tenant), ("q", value)],
    });
    let step = prop_oneof![
        8 => (tenant(), prop::option::weighted(0.8, terms())).prop_map(|(tenant, terms)| Step::Set(tenant, terms)),
        1 => vec((tenant(), terms()), 0..4).prop_map(Step::SetAll),
        1 => any::<bool>().prop_map(Step::Install),
        20 => (entries, 0..20_u64).prop_map(|(entries, tick)| Step::Ask(entries, tick)),
    ];
    vec(step, 1..60)
}

fn found(engine: &Engine, entries: &Entries, now: Time) -> Vec<u64> {
    let descriptors = [Descriptor::new(entries)];
    let verdict = engine.decide(&Request::new("d", &descriptors).peek(), now).unwrap();
    verdict.rulings().iter().map(|ruling| ruling.units).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn tenants_have_what_the_model_gives_them(steps in steps()) {
        let engine = engine(RULES);
        let (mut tenants, mut is_later): (HashMap<_, TenantTerms>, _) = (HashMap::new(), false);
        for step in steps {
            match step {
                Step::Set(tenant, terms) => {
                    engine.set_tenant(tenant, terms.clone(), common::START).unwrap();
                    match terms {
                        Some(terms) => drop(tenants.insert(tenant, terms)),
                        None => drop(tenants.remove(tenant)),
                    }
                }
                Step::SetAll(all) => {
                    tenants = all.iter().cloned().collect();
                    engine.set_tenants(all.into_iter().map(|(tenant, terms)| (tenant.to_owned(), terms)), common::START).unwrap();
                }
                Step::Install(later) => {
                    is_later = later;
                    install(&engine, if later { RULES_LATER } else { RULES }, common::START);
                }
                Step::Ask(entries, tick) => {
                    let expected: Vec<u64> = model(&tenants, is_later, &entries, at(tick)).into_iter().flatten().collect();
                    prop_assert_eq!(found(&engine, &entries, at(tick)), expected, "{:?} at {} of {:?}", entries, tick, tenants);
                }
            }
        }
    }
}
