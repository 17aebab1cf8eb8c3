//! Which rule a descriptor meets: the steps of the format, one after the other, and whose counter it is then.
#![allow(clippy::unwrap_used, clippy::panic)]

use tollgate_core::Time;
use tollgate_policy::{DefaultAlgorithm, Place, PlacedLimit, Snapshot, Source, read_all};

const RULES: &str = r"
domain: shop
descriptors:
- key: path
  value: /login
  rate_limit: {unit: minute, requests_per_unit: 1}
- key: path
  value: /api/*/orders
  share_threshold: true
  rate_limit: {unit: minute, requests_per_unit: 2}
- key: path
  value: /api/*
  rate_limit: {unit: minute, requests_per_unit: 3}
- key: path
  value: /free
- key: path
  rate_limit: {unit: minute, requests_per_unit: 4}
  descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 5}
- key: tenant
  descriptors:
  - key: path
    value: /a
    rate_limit: {unit: minute, requests_per_unit: 6}
";

fn compile(text: &str) -> Snapshot {
    let specs = read_all(&[Source::new("rules.yaml", text)], DefaultAlgorithm::default()).unwrap();
    Snapshot::compile(specs, None, Time::default())
}

fn check(entries: &[(&str, &str)], path: Option<&str>, counted: &[&str]) {
    let snapshot = compile(RULES);
    let found = snapshot.domain("shop").unwrap().find(entries).map(|index| snapshot.place(index));
    assert_eq!(found.map(Place::path), path, "{entries:?}");
    if let Some(place) = found {
        assert_eq!(place.counted(entries).collect::<Vec<_>>(), counted, "{entries:?}");
    }
}

#[test]
fn an_exact_value_comes_first() {
    check(&[("path", "/login")], Some("path=/login"), &[]);
}

#[test]
fn patterns_come_next_in_the_order_of_the_file() {
    check(&[("path", "/api/7/orders")], Some("path=/api/*/orders"), &[]);
    check(&[("path", "/api/7/users")], Some("path=/api/*"), &["/api/7/users"]);
}

#[test]
fn the_bare_key_takes_the_rest_with_a_counter_for_each_value() {
    check(&[("path", "/other")], Some("path"), &["/other"]);
    check(&[("path", "")], Some("path"), &[""]);
}

#[test]
fn a_step_is_never_taken_back() {
    check(&[("path", "/free")], None, &[]);
    // `user` stands below the bare key, but the exact value was taken.
    check(&[("path", "/login"), ("user", "1")], None, &[]);
}

#[test]
fn depth_and_order_matter() {
    check(&[("path", "/x"), ("user", "1")], Some("path > user"), &["/x", "1"]);
    check(&[("user", "1"), ("path", "/x")], None, &[]);
    check(&[("path", "/x"), ("user", "1"), ("more", "1")], None, &[]);
    check(&[("tenant", "acme")], None, &[]);
    check(&[("tenant", "acme"), ("path", "/a")], Some("tenant > path=/a"), &["acme"]);
    check(&[], None, &[]);
}

#[test]
fn keys_of_different_places_never_begin_alike() {
    let snapshot = compile(
        r"
domain: d
descriptors:
- {key: a, rate_limit: {unit: second, requests_per_unit: 1}}
- {key: a, value: b, rate_limit: {unit: second, requests_per_unit: 1}}
- {key: 'a=b', rate_limit: {unit: second, requests_per_unit: 1}}
- {key: a_b, rate_limit: {unit: second, requests_per_unit: 1}}
- key: a
  value: '*'
  rate_limits:
  - {unit: second, requests_per_unit: 1}
  - {unit: minute, requests_per_unit: 1, name: slow}
  descriptors: [{key: a, rate_limit: {unit: second, requests_per_unit: 1}}]
policies: {a: {requests: 1, period: 1s}}
",
    );
    let prefixes: Vec<_> = snapshot.places().flat_map(Place::limits).map(PlacedLimit::key_prefix).collect();
    assert_eq!(prefixes.len(), 8);
    for (i, one) in prefixes.iter().enumerate() {
        for (j, other) in prefixes.iter().enumerate() {
            assert!(i == j || !one.starts_with(other), "{i} begins with {j}");
        }
    }
    // Two paths read alike, but they are two rules.
    let ids: std::collections::HashSet<_> = snapshot.places().map(Place::id).collect();
    assert_eq!(ids.len(), 7);
}

#[test]
fn rules_keep_their_ids_over_reloads_and_new_ones_get_new() {
    let load = |text: &str, before: Option<&Snapshot>| {
        let specs = read_all(&[Source::new("rules.yaml", text)], DefaultAlgorithm::default()).unwrap();
        Snapshot::compile(specs, before, Time::default())
    };
    let policies = |names: &[&str]| -> String {
        let lines: Vec<_> =
            names.iter().map(|name| format!("  {name}: {{requests: 1, period: 1s}}")).collect();
        format!("policies:\n{}\n", lines.join("\n"))
    };
    let id = |snapshot: &Snapshot, name: &str| snapshot.place(snapshot.policy(name).unwrap()).id().index();
    let first = load(&policies(&["a", "b"]), None);
    let second = load(&policies(&["b", "c"]), Some(&first));
    let third = load(&policies(&["a", "b", "c"]), Some(&second));
    assert_eq!((id(&first, "a"), id(&first, "b")), (0, 1));
    assert_eq!((id(&second, "b"), id(&second, "c")), (1, 2));
    assert_eq!((id(&third, "a"), id(&third, "b"), id(&third, "c")), (0, 1, 2), "also one that was gone");
}

#[test]
fn yes_and_no_are_booleans_as_in_yaml_1_1() {
    let snapshot = compile("domain: d\nenabled: no\n");
    assert!(!snapshot.domain("d").unwrap().enabled());
}
