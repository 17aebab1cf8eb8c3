//! Deciding allocates nothing, once a thread has made its first decisions.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use allocation_counter::{AllocationInfo, measure};
use common::{START, engine};
use tollgate::core::Time;
use tollgate::policy::Unit;
use tollgate::{Descriptor, KeyAct, KeyActKind, KeySubject, OwnLimit, Request, read_terms};

const RULES: &str = "
domain: d
tenant_key: user
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 100}}
- {key: path, value: /login, descriptors: [{key: address, rate_limit: {unit: second, requests_per_unit: 2, burst: 4}}]}
- {key: blocked, rate_limit: {unit: hour, requests_per_unit: 0}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
policies: {search: {requests: 100, period: 1m, burst: 20, tiers: {gold: {requests: 1000, period: 1m}}}}
";

fn check(what: &str, mut decide: impl FnMut()) {
    // The first of everything may make room: buffers of the thread, slots of the table.
    decide();
    let AllocationInfo { count_total, .. } = measure(|| {
        for _ in 0..100 {
            decide();
        }
    });
    assert_eq!(count_total, 0, "{what}");
}

#[test]
fn deciding_allocates_nothing() {
    let engine = engine(RULES);
    let decide = |request: &Request<'_>| drop(engine.decide(request, START).unwrap());
    check("a policy", || decide(&Request::policy("search", b"user:4711")));
    check("a tier", || decide(&Request::policy("search", b"user:4712").tier("gold")));
    let user = [("user", "alice")];
    let login = [("path", "/login"), ("address", "192.0.2.1")];
    let two = [Descriptor::new(&user), Descriptor::new(&login)];
    check("two descriptors", || decide(&Request::new("d", &two)));
    check("a denial", || decide(&Request::new("d", &[Descriptor::new(&[("blocked", "x")])])));
    check("a shadow rule", || decide(&Request::new("d", &[Descriptor::new(&[("shadow", "x")])])));
    check("no rule", || decide(&Request::new("d", &[Descriptor::new(&[("unknown", "x")])])));
    let limit = Some(OwnLimit { requests_per_unit: 10, unit: Some(Unit::Hour) });
    check("a limit of its own", || {
        decide(&Request::new("d", &[Descriptor { limit, ..Descriptor::new(&user) }]));
    });
    let batch = [Request::policy("search", b"user:4711"), Request::new("d", &two)].repeat(20);
    check("a batch", || engine.decide_batch(&batch, START, |_, answer| assert!(answer.is_ok())));
}

#[test]
fn tenants_and_bans_allocate_nothing() {
    let engine = engine(RULES);
    let decide = |request: &Request<'_>| drop(engine.decide(request, START).unwrap());
    let terms = r#"{"tier": "gold", "overrides": [{"descriptor": [], "requests": 7}, {"policy": "search", "requests": 9}]}"#;
    engine.set_tenant("alice", Some(read_terms("alice", terms).unwrap()), START).unwrap();
    let [alice, bob] = [[("user", "alice")], [("user", "bob")]];
    let two = [Descriptor::new(&alice), Descriptor::new(&bob)];
    check("a tenant with terms and one without", || decide(&Request::new("d", &two)));
    check("a policy", || decide(&Request::policy("search", b"alice")));
    let batch = [Request::policy("search", b"alice"), Request::new("d", &two)].repeat(20);
    check("a batch", || engine.decide_batch(&batch, START, |_, answer| assert!(answer.is_ok())));
    let subject = KeySubject::Descriptor { domain: "d".into(), entries: vec![("user".into(), "bob".into())] };
    engine.set_key_acts(vec![KeyAct { subject, until: Time::MAX, what: KeyActKind::Ban }]).unwrap();
    check("a ban", || decide(&Request::new("d", &two)));
    check("where others are banned", || decide(&Request::new("d", &two[..1])));
}

#[test]
fn the_counting_counts() {
    let AllocationInfo { count_total, .. } = measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(count_total, 1);
}
