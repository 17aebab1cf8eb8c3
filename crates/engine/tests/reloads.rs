//! Rules that change while requests come in: what was counted stays counted, whoever asks when.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::sync::Barrier;
use std::thread;

use common::{START, TWO, ask, check_on, engine, install, summary};
use tollgate::core::Time;
use tollgate::{Descriptor, Engine, Request, Switched};

#[test]
fn a_refund_finds_what_was_counted_before() {
    let engine = engine(TWO);
    check_on(&engine, &[(&["a=1@2"], "pass 0")]);
    install(&engine, &TWO.replace("requests_per_unit: 2", "requests_per_unit: 2, burst: 2"), START);
    check_on(&engine, &[(&["a=1@-1"], "pass 1")]);
}

#[test]
fn counts_outlive_two_changes_of_shape() {
    let engine = engine(TWO);
    check_on(&engine, &[(&["a=1@2"], "pass 0")]);
    install(
        &engine,
        &TWO.replace("{unit: hour, requests_per_unit: 2", "{unit: day, requests_per_unit: 2"),
        START,
    );
    install(
        &engine,
        &TWO.replace("{unit: hour, requests_per_unit: 2", "{unit: week, requests_per_unit: 2"),
        START,
    );
    check_on(&engine, &[(&["a=1"], "deny 0!")]);
}

#[test]
fn counts_outlive_a_time_of_blocking() {
    let engine = engine(TWO);
    check_on(&engine, &[(&["a=1@2"], "pass 0")]);
    install(&engine, &TWO.replace("requests_per_unit: 2", "requests_per_unit: 0"), START);
    check_on(&engine, &[(&["a=1"], "deny 0!")]);
    install(&engine, TWO, START);
    check_on(&engine, &[(&["a=1"], "deny 0!")]);
}

#[test]
fn counts_outlive_a_time_without_limit() {
    let engine = engine(TWO);
    check_on(&engine, &[(&["a=1@2"], "pass 0")]);
    install(&engine, &TWO.replace("{unit: hour, requests_per_unit: 2}", "{unlimited: true}"), START);
    check_on(&engine, &[(&["a=1"], "pass *")]);
    install(&engine, TWO, START);
    check_on(&engine, &[(&["a=1"], "deny 0!")]);
}

#[test]
fn counts_outlive_numbers_that_do_not_fit_a_word() {
    let engine = engine(TWO);
    check_on(&engine, &[(&["a=1@2"], "pass 0")]);
    install(&engine, &TWO.replace("requests_per_unit: 2", "requests_per_unit: 1000000000000"), START);
    check_on(&engine, &[(&["a=1"], "pass 999999999997")]);
}

#[test]
fn a_rule_that_comes_back_is_the_same_rule() {
    let engine = engine(TWO);
    let id =
        |engine: &Engine| engine.snapshot().unwrap().places().find(|place| place.path() == "a").unwrap().id();
    let before = id(&engine);
    engine.switch(Switched { rules: [(before, Time::MAX)].into(), ..Switched::default() });
    check_on(&engine, &[(&["a=1@9"], "pass -")]);
    install(&engine, "domain: d\n", START);
    install(&engine, TWO, START);
    assert_eq!(id(&engine), before);
    check_on(&engine, &[(&["a=1@9"], "pass -")]);
}

#[test]
fn counts_outlive_a_change_of_another_tier() {
    let a = "
domain: d
tenant_key: t
descriptors:
- {key: t, rate_limit: {unit: hour, requests_per_unit: 2, tiers: {pro: {requests: 9}}}}
";
    let engine = engine(a);
    check_on(&engine, &[(&["t=x@2"], "pass 0")]);
    let b = a.replace("unit: hour", "unit: day");
    install(&engine, &b, START);
    install(&engine, &b.replace("requests: 9", "requests: 10"), START);
    check_on(&engine, &[(&["t=x"], "deny 0!")]);
}

#[test]
fn counts_outlive_the_same_rules_again() {
    let engine = engine(TWO);
    check_on(&engine, &[(&["a=1@2"], "pass 0")]);
    let b = TWO.replace("unit: hour, requests_per_unit: 2", "unit: day, requests_per_unit: 2");
    install(&engine, &b, START);
    install(&engine, &b, START);
    check_on(&engine, &[(&["a=1"], "deny 0!")]);
}

const NAMED: &str = "
domain: d
descriptors:
- {key: a, rate_limits: [{unit: hour, requests_per_unit: 2, name: h}]}
";

#[test]
fn a_named_limit_is_known_by_its_name() {
    let engine = engine(NAMED);
    check_on(&engine, &[(&["a=1@2"], "pass 0")]);
    install(
        &engine,
        &NAMED.replace("name: h}", "name: h}, {unit: day, requests_per_unit: 9, name: d}"),
        START,
    );
    check_on(&engine, &[(&["a=1"], "deny 0!")]);
}

#[test]
fn a_named_limit_stays_when_others_go() {
    let rules = "
domain: d
descriptors:
- {key: a, rate_limits: [{unit: hour, requests_per_unit: 9}, {unit: hour, requests_per_unit: 5, name: h}]}
";
    let engine = engine(rules);
    check_on(&engine, &[(&["a=1@5"], "pass 0")]);
    install(&engine, &rules.replace("{unit: hour, requests_per_unit: 9}, ", ""), START);
    check_on(&engine, &[(&["a=1"], "deny 0!")]);
}

#[test]
fn a_name_is_no_position() {
    let rules = "
domain: d
descriptors:
- {key: a, rate_limits: [{unit: hour, requests_per_unit: 2, name: '#1'}, {unit: hour, requests_per_unit: 4}]}
";
    check_on(&engine(rules), &[(&["a=1"], "pass 1"), (&["a=1"], "pass 0")]);
}

const TENANTS: &str = "
domain: d
tenant_key: t
tenants: {acme: free}
descriptors:
- {key: t, rate_limit: {unit: hour, requests_per_unit: 5, tiers: {free: {requests: 2}, pro: {requests: 2, period: 1d}}}}
";

#[test]
fn counts_outlive_a_change_of_tier() {
    let engine = engine(TENANTS);
    check_on(&engine, &[(&["t=acme@2"], "pass 0")]);
    install(&engine, &TENANTS.replace("acme: free", "acme: pro"), START);
    check_on(&engine, &[(&["t=acme"], "deny 0!")]);
}

#[test]
fn counts_outlive_a_tier() {
    let engine = engine(TENANTS);
    check_on(&engine, &[(&["t=acme@2"], "pass 0")]);
    install(
        &engine,
        &TENANTS.replace("free: {requests: 2}, ", "").replace("tenants: {acme: free}", "tenants: {}"),
        START,
    );
    assert_eq!(summary(&ask(&engine, START, &["t=acme"])), "pass 2");
}

#[test]
fn one_who_changes_tiers_has_one_quota() {
    let engine = engine("policies: {p: {requests: 2, period: 1h, tiers: {pro: {requests: 2, period: 1d}}}}");
    let request = Request::policy("p", b"k").cost(2);
    assert!(engine.decide(&request, START).unwrap().allowed());
    assert!(!engine.decide(&request.tier("pro"), START).unwrap().allowed());
    assert!(!engine.decide(&request, START).unwrap().allowed());
}

#[test]
fn each_tier_is_read_with_its_own_numbers() {
    let policy = |rest: &str| format!("policies: {{p: {{{rest}}}}}");
    let all_used = |before: &str, after: &str, used: u64| {
        let engine = engine(&policy(before));
        let request = |cost| Request::policy("p", b"k").tier("pro").cost(cost);
        assert!(engine.decide(&request(used), START).unwrap().allowed(), "{before}");
        install(&engine, &policy(after), START);
        let verdict = engine.decide(&request(1), START).unwrap();
        assert!(
            !verdict.allowed(),
            "{} left after {before} became {after}",
            verdict.rulings()[0].decision.remaining
        );
    };
    let window = "requests: 10, period: 1h, tiers: {pro: {requests: 1000}}";
    all_used(window, &window.replace("1h", "1d"), 1_000);
    let bucket = "requests: 10, period: 1h, burst: 1, tiers: {pro: {burst: 1000}}";
    all_used(bucket, window, 1_000);
}

/// What is left under other rules, some time after they were installed.
fn left_later(before: &str, cost: u64, after: &str, start: Time, wait_s: u64) -> Vec<u64> {
    let engine = engine(&format!("policies: {{p: {{{before}}}}}"));
    let keys: Vec<Vec<u8>> = (0..100_u8).map(|key| vec![key]).collect();
    let ask = |key: &[u8], cost, now| engine.decide(&Request::policy("p", key).cost(cost), now).unwrap();
    for key in &keys {
        assert!(ask(key, cost, start).allowed());
    }
    install(&engine, &format!("policies: {{p: {{{after}}}}}"), start);
    let now = Time::from_ticks(start.ticks() + wait_s * 1_000_000_000);
    keys.iter().map(|key| ask(key, 0, now).rulings()[0].decision.remaining).collect()
}

#[test]
fn windows_that_begin_late_are_remembered_long_enough() {
    const HOUR: u64 = 3_600_000_000_000;
    // One second before a full hour; keys' own windows end somewhere within the next.
    let start = Time::from_ticks(START.ticks() / HOUR * HOUR + HOUR - 1_000_000_000);
    let left = left_later(
        "requests: 5, period: 1h, algorithm: fixed_window, jitter: true",
        5,
        "requests: 5, period: 1d",
        start,
        3,
    );
    let full = left.iter().filter(|left| **left == 5).count();
    assert!(full <= 3, "{full} of 100 keys were forgotten");
}

#[test]
fn a_queue_that_took_a_whole_period_is_remembered_long_enough() {
    let left = left_later(
        "requests: 100, period: 1m, algorithm: leaky_bucket, max_wait: 1s",
        100,
        "requests: 100, period: 1m, burst: 100",
        START,
        3,
    );
    assert!(left.iter().all(|left| *left < 20), "{left:?}");
}

#[test]
fn counts_outlive_a_reload_without_their_rule() {
    let engine = engine(TWO);
    check_on(&engine, &[(&["a=1@2"], "pass 0")]);
    install(&engine, "domain: d\n", START);
    install(&engine, "domain: d\n", START);
    install(&engine, &TWO.replace("requests_per_unit: 2", "requests_per_unit: 2, burst: 2"), START);
    check_on(&engine, &[(&["a=1"], "deny 0!")]);
}

#[test]
fn nobody_gains_from_a_reload_that_two_threads_meet() {
    let engine = engine(TWO);
    let keys: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let passes = |key: &str| {
        let entries = [("a", key)];
        let descriptors = [Descriptor::new(&entries)];
        engine.decide(&Request::new("d", &descriptors), START).unwrap().allowed()
    };
    for key in &keys {
        assert!(passes(key) && passes(key) && !passes(key));
    }
    install(&engine, &TWO.replace("requests_per_unit: 2", "requests_per_unit: 2, burst: 2"), START);
    let in_step = Barrier::new(2);
    let admitted = || {
        let pass = |(number, key): &(usize, &String)| {
            if number.is_multiple_of(16) {
                in_step.wait();
            }
            passes(key)
        };
        keys.iter().enumerate().filter(pass).count()
    };
    let admitted: usize = thread::scope(|scope| {
        let threads = [scope.spawn(admitted), scope.spawn(admitted)];
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 0, "requests on keys that had nothing left");
}
