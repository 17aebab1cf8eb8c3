//! Shared counters that are kept at places of their own, by the names of tenants and keys.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::authority::{Authority, acquire};
use common::{START, install, with_request};
use tollgate::authority::{Directed, Pin};
use tollgate::core::{Rate, Span, TokenBucket};
use tollgate::policy::Unit;
use tollgate::{Descriptor, Engine, EngineSettings, LedgerSettings, OwnLimit, Request, Step};

const RULES: &str = "
domain: d
tenant_key: tenant
descriptors:
- key: tenant
  rate_limit: {unit: hour, requests_per_unit: 1}
  descriptors:
  - {key: path, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: tenant, value: fixed, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: tenant, value: each-*, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: tenant, value: all-*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: here, rate_limit: {unit: hour, requests_per_unit: 1, consistency: local}}
policies:
  p: {requests: 1, period: 1h}
  q: {requests: 1, period: 30s, algorithm: concurrency}
";

fn pinning(names: &[&str]) -> Engine {
    let settings = EngineSettings { ledger: LedgerSettings::with_cap(8 << 20), ..EngineSettings::default() };
    let pins = names.iter().zip(0..).map(|(name, number)| ((*name).to_owned(), Pin(number)));
    let engine = Engine::new(settings).unwrap().sharing(b"secret").pinning(pins);
    install(&engine, RULES, START);
    engine
}

fn pins(questions: &[Directed]) -> Vec<Option<u16>> {
    questions.iter().map(|(_, pin)| pin.map(|pin| pin.0)).collect()
}

/// Where the questions of a request go.
fn places(engine: &Engine, request: &Request<'_>) -> Vec<Option<u16>> {
    match engine.begin(request, START).unwrap() {
        Step::Pending(pending) => {
            let places = pins(pending.questions());
            engine.abandon(pending, START);
            places
        }
        Step::Ready(_) => Vec::new(),
    }
}

#[test]
fn names_choose_places() {
    let engine = pinning(&["acme", "fixed", "each-1", "all-1", "/big"]);
    let check = |descriptors: &[&str], expected: &[Option<u16>]| {
        let places = with_request(descriptors, |request| places(&engine, request));
        assert_eq!(places, expected, "{descriptors:?}");
    };
    check(&["tenant=acme"], &[Some(0)]);
    check(&["tenant=acm"], &[None]);
    check(&["tenant=acme", "tenant=other", "here=acme"], &[Some(0), None]);
    check(&["tenant=fixed"], &[Some(1)]);
    check(&["tenant=each-1", "tenant=each-2"], &[Some(2), None]);
    check(&["tenant=acme,path=/big"], &[Some(0)]);
    check(&["tenant=other,path=/big"], &[Some(4)]);
    // Both share one counter, which cannot be in two places.
    check(&["tenant=all-1"], &[None]);
    check(&["tenant=all-2"], &[None]);
    assert_eq!(places(&engine, &Request::policy("p", b"acme")), [Some(0)]);
    assert_eq!(places(&engine, &Request::policy("p", b"other")), [None]);
}

#[test]
fn limits_that_callers_bring_along_are_pinned_too() {
    let engine = pinning(&["other", "acme"]);
    let entries = [("plan", "free"), ("tenant", "acme")];
    let own = OwnLimit { requests_per_unit: 1, unit: Some(Unit::Hour) };
    let descriptors = [Descriptor { limit: Some(own), ..Descriptor::new(&entries) }];
    assert_eq!(places(&engine, &Request::new("d", &descriptors)), [Some(1)]);
    let rate = Rate::new(1, Span::from_ticks(1_000_000_000)).unwrap();
    let limit = TokenBucket::new(rate, 1).unwrap().into();
    let pin = |key: &[u8]| engine.prepare_throttle(key, &limit, 1).question().unwrap().1;
    assert_eq!((pin(b"acme"), pin(b"nobody")), (Some(Pin(1)), None));
}

#[test]
fn what_is_given_back_goes_where_it_was_taken() {
    let engine = pinning(&["acme"]);
    let authority = &mut Authority::default();
    let begin = |descriptors: &[&str]| {
        let step = with_request(descriptors, |request| engine.begin(request, START).unwrap());
        let Step::Pending(pending) = step else { panic!("nobody was asked") };
        pending
    };
    let pending = begin(&["tenant=other"]);
    let grants = authority.ask(pending.questions(), START);
    assert!(engine.resume(pending, &grants, START).verdict.allowed());
    let pending = begin(&["tenant=acme", "tenant=other"]);
    let grants = authority.ask(pending.questions(), START);
    let resumed = engine.resume(pending, &grants, START);
    assert!(!resumed.verdict.allowed());
    assert_eq!(pins(&resumed.tell), [Some(0)]);
}

#[test]
fn a_lease_knows_its_place_by_name() {
    let [one, other] = [&["a", "acme"], &["acme", "b"]].map(|names| pinning(names));
    let authority = &mut Authority::default();
    let check = |authority: &mut Authority, key: &[u8], expected: Option<u16>| {
        let (_, lease) = acquire(&one, authority, &Request::policy("q", key), START);
        let lease = lease.unwrap().to_string().parse().unwrap();
        assert_eq!(pins(&other.release(&lease, START).unwrap().questions), [expected]);
    };
    check(authority, b"acme", Some(0));
    check(authority, b"nobody", None);
    check(authority, b"a", None); // Nothing that the other knows.
}
