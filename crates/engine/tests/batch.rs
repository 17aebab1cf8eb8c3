//! A batch answers what its requests would be answered one after the other.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{START, engine, install};
use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::core::{Span, Time};
use tollgate::policy::Unit;
use tollgate::{
    Descriptor, Engine, KeyAct, KeyActKind, KeySubject, OwnLimit, Request, RequestError, Switched, Verdict,
    read_terms,
};

const RULES: &str = "
domain: d
tenant_key: few
descriptors:
- {key: few, rate_limit: {unit: year, requests_per_unit: 3}}
- {key: two, rate_limits: [{unit: month, requests_per_unit: 4}, {unit: year, requests_per_unit: 6}]}
- {key: shadow, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
- {key: quota, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
- {key: places, rate_limit: {algorithm: concurrency, requests: 2, period: 1h}}
";
const POLICIES: &str = "policies:
  small: {requests: 5, period: 1h}
  tiered: {requests: 5, period: 1h, tiers: {pro: {requests: 6, period: 2h}, max: {requests: 7, period: 3h}}}
";
/// The same in other words: what was counted is carried over.
const POLICIES_LATER: &str = "policies:
  small: {requests: 5, period: 1h, algorithm: fixed_window}
  tiered: {requests: 5, period: 1h, algorithm: token_bucket, tiers: {pro: {requests: 6, period: 2h}, max: {requests: 7, period: 1h}}}
";

#[derive(Clone, Debug)]
struct Asked {
    domain: &'static str,
    keys: Vec<(&'static str, &'static str)>,
    cost: u64,
    peek: bool,
    own: Option<OwnLimit>,
}

fn asked() -> impl Strategy<Value = Asked> {
    let key = prop::sample::select(vec!["few", "two", "shadow", "quota", "places", "unknown"]);
    let domain = prop::sample::select(vec![
        "d",
        "d",
        "d",
        "d",
        "",
        "elsewhere",
        "policy",
        "tiered",
        "pro",
        "max",
        "no policy",
    ]);
    let unit = prop::option::weighted(0.8, prop::sample::select(vec![Unit::Hour, Unit::Day]));
    let own = unit.prop_map(|unit| OwnLimit { requests_per_unit: 2, unit });
    let own = prop::option::weighted(0.1, own);
    let entries = vec((key, prop::sample::select(vec!["x", "y"])), 0..4);
    (domain, entries, 0..3_u64, prop::bool::weighted(0.1), own).prop_map(
        |(domain, mut keys, cost, peek, own)| {
            // What is told of a counter that one request meets twice depends on the order of the engine's hashes.
            keys.sort_unstable();
            keys.dedup();
            Asked { domain, keys, cost, peek, own }
        },
    )
}

/// Everything that can be told of an answer.
fn told(answer: Result<&Verdict, &RequestError>) -> String {
    match answer {
        Ok(verdict) => format!(
            "{} {:?} {:?} {:?}",
            verdict.allowed(),
            verdict.decided_by(),
            verdict.statuses(),
            verdict.rulings()
        ),
        Err(error) => format!("{error:?}"),
    }
}

/// Asks two engines of the same rules the same: one request by request, the other in batches of this size.
fn check(all: &[Asked], size: usize, prepare: impl Fn(&Engine)) {
    let rules = format!("{RULES}{POLICIES}");
    let (one, other) = (engine(&rules), engine(&rules));
    prepare(&one);
    prepare(&other);
    let entries: Vec<Vec<_>> =
        all.iter().map(|asked| asked.keys.iter().map(|key| [*key]).collect()).collect();
    let descriptors: Vec<Vec<_>> = all
        .iter()
        .zip(&entries)
        .map(|(asked, entries)| {
            entries
                .iter()
                .map(|entries| Descriptor { limit: asked.own, ..Descriptor::new(entries) })
                .collect()
        })
        .collect();
    let requests: Vec<_> = all
        .iter()
        .zip(&descriptors)
        .map(|(asked, descriptors)| {
            let request = match asked.domain {
                "policy" => Request::policy("small", b"x"),
                "tiered" => Request::policy("tiered", b"x"),
                tier @ ("pro" | "max") => Request::policy("tiered", b"x").tier(tier),
                "no policy" => Request::policy("none", b"x"),
                domain => Request::new(domain, descriptors),
            };
            Request { peek: asked.peek, ..request.cost(asked.cost) }
        })
        .collect();
    for (batch, requests) in requests.chunks(size).enumerate() {
        if batch == 2 {
            let later = format!("{RULES}{POLICIES_LATER}");
            for engine in [&one, &other] {
                install(engine, &later, START);
            }
        }
        let mut answers = Vec::new();
        other.decide_batch(requests, START, |index, answer| {
            assert_eq!(index, answers.len(), "out of order");
            answers.push(told(answer));
        });
        assert_eq!(answers.len(), requests.len());
        for (index, (request, answer)) in requests.iter().zip(answers).enumerate() {
            let alone = one.decide(request, START);
            assert_eq!(told(alone.as_ref()), answer, "request {index} of batch {batch}: {request:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_batch_is_its_requests_one_after_the_other(all in vec(asked(), 1..80), size in 1..50_usize) {
        check(&all, size, |_| {});
    }

    #[test]
    fn a_batch_knows_tenants_and_what_is_done_to_keys(
        all in vec(asked(), 1..80),
        size in 1..50_usize,
        kinds in vec(prop::option::of(prop::option::of(50..400_u32)), 4),
        units in 0..9_u64,
    ) {
        check(&all, size, |engine| {
            let terms = format!(
                r#"{{"tier": "pro", "overrides": [{{"descriptor": [], "requests": {units}, "period": "3h"}}, {{"policy": "small", "requests": {units}}}]}}"#
            );
            engine.set_tenant("x", Some(read_terms("x", &terms).unwrap()), START).unwrap();
            let descriptor = |key: &str, value: &str| KeySubject::Descriptor {
                domain: "d".into(),
                entries: vec![(key.into(), value.into())],
            };
            let small = KeySubject::Policy { name: "small".into(), key: b"x".to_vec() };
            let subjects = [descriptor("few", "x"), descriptor("two", "y"), descriptor("unknown", "y"), small];
            let acts = subjects.into_iter().zip(&kinds).filter_map(|(subject, kind)| {
                let what = (*kind)?.map_or(KeyActKind::Ban, |percent| KeyActKind::Boost { percent });
                Some(KeyAct { subject, until: START.plus(Span::from_ticks(9)), what })
            });
            engine.set_key_acts(acts.collect()).unwrap();
        });
    }

    #[test]
    fn a_batch_knows_what_is_switched_off(all in vec(asked(), 1..20)) {
        check(&all, 20, |engine| {
            engine.switch(Switched { domains: [("d".into(), Time::MAX)].into(), ..Switched::default() });
        });
    }
}

#[test]
fn without_rules_everything_is_refused() {
    let engine = Engine::new(tollgate::EngineSettings::default()).unwrap();
    let mut refused = 0;
    engine.decide_batch(&[Request::policy("a", b"x"); 3], START, |_, answer| {
        assert_eq!(answer.unwrap_err(), &RequestError::NotLoaded);
        refused += 1;
    });
    assert_eq!(refused, 3);
    engine.decide_batch(&[], START, |_, _| panic!("nothing was asked"));
}
