//! Quota rules with others around them, and what a denied request is told.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{START, TWO, ask, check, engine, later, summary};
use tollgate::{Descriptor, Engine, Force, Request, Ruling, Verdict};

fn seconds(verdict: &Verdict) -> Option<u64> {
    verdict.tightest().and_then(Ruling::told_wait).map(|wait| wait.ticks().div_ceil(1_000_000_000))
}

#[test]
fn a_quota_rule_with_a_limit_on_trial() {
    let rules = "
domain: d
descriptors:
- key: a
  quota_mode: true
  rate_limits:
  - {requests: 100, period: 1h, name: trial, enforce_percent: 0}
  - {requests: 1, period: 1d, name: day}
- {key: b, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 50}}
";
    check(rules, &[(&["a=1", "b=1"], "pass 0 49"), (&["a=1", "b=1"], "pass 0! 48")]);
}

#[test]
fn a_limit_on_trial_does_not_make_a_quota_over() {
    let rules = "
domain: d
descriptors:
- key: a
  quota_mode: true
  rate_limits:
  - {requests: 100, period: 1d, name: day}
  - {requests: 1, period: 1h, name: trial, enforce_percent: 0}
- {key: b, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
";
    let engine = engine(rules);
    assert!(ask(&engine, START, &["a=1", "b=1"]).allowed());
    // a still admits (day has 99, trial is not enforced), so the quota members are not all over.
    assert!(ask(&engine, START, &["a=1", "b=1"]).allowed());
}

#[test]
fn a_shadow_quota_rule_admits() {
    let rules = "
domain: d
descriptors:
- {key: a, quota_mode: true, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: b, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
";
    let engine = engine(rules);
    assert!(ask(&engine, START, &["b=1"]).allowed());
    assert!(ask(&engine, START, &["a=1", "b=1"]).allowed(), "ER: one quota status of two is OK");
}

#[test]
fn an_excused_quota_keeps_nobody_waiting() {
    let rules = "
domain: d
descriptors:
- {key: a, quota_mode: true, rate_limit: {requests: 1, period: 1h, burst: 1}}
- {key: b, quota_mode: true, rate_limit: {requests: 100, period: 1h, burst: 100}}
- {key: c, rate_limit: {requests: 1, period: 1s, burst: 1}}
";
    let engine = engine(rules);
    ask(&engine, START, &["a=1", "b=1", "c=1"]);
    let verdict = ask(&engine, START, &["a=1", "b=1", "c=1"]);
    assert!(!verdict.allowed());
    assert!(ask(&engine, later(Duration::from_secs(1)), &["a=1", "b=1", "c=1"]).allowed());
    assert_eq!(seconds(&verdict), Some(1));
}

#[test]
fn one_quota_that_admits_again_is_enough() {
    let rules = "
domain: d
descriptors:
- {key: a, quota_mode: true, rate_limit: {requests: 1, period: 1h, burst: 1}}
- {key: b, quota_mode: true, rate_limit: {requests: 1, period: 1s, burst: 1}}
";
    let engine = engine(rules);
    ask(&engine, START, &["a=1", "b=1"]);
    let verdict = ask(&engine, START, &["a=1", "b=1"]);
    assert!(!verdict.allowed());
    assert!(ask(&engine, later(Duration::from_secs(1)), &["a=1", "b=1"]).allowed());
    assert_eq!(seconds(&verdict), Some(1));
}

#[test]
fn a_refund_on_a_key_in_debt_is_no_denial() {
    let engine = engine(TWO);
    ask(&engine, START, &["a=1@4"]);
    let verdict = ask(&engine, START, &["a=1@-1"]);
    assert_eq!(summary(&verdict), "pass 0!");
    assert_eq!(verdict.rulings()[0].force, Force::Refund);
    assert!(!verdict.rulings()[0].denies());
}

#[test]
fn a_refund_makes_nobody_wait() {
    let engine = engine(
        "
domain: d
descriptors: [{key: a, rate_limit: {requests: 1, period: 1s, algorithm: leaky_bucket, max_wait: 10s}}]
",
    );
    for _ in 0..4 {
        ask(&engine, START, &["a=1"]);
    }
    assert!(ask(&engine, START, &["a=1"]).wait().ticks() > 0);
    assert_eq!(ask(&engine, START, &["a=1@-1"]).wait().ticks(), 0);
}

#[test]
fn of_several_denials_the_longest_wait_is_told() {
    let rules = "
policies:
  hour-and-held:
    rate_limits: [{requests: 1, period: 1h, burst: 1}, {algorithm: concurrency, requests: 1, period: 1h}]
  second-and-day:
    rate_limits: [{requests: 2, period: 1s, burst: 2}, {requests: 2, period: 1d, burst: 2}]
  booked: {requests: 1, period: 1m, burst: 10, overshoot: book}
";
    let engine = engine(rules);
    let ask = |policy, cost| engine.decide(&Request::policy(policy, b"k").cost(cost), START).unwrap();
    ask("hour-and-held", 1);
    assert_eq!(seconds(&ask("hour-and-held", 1)), Some(3_600));
    ask("second-and-day", 2);
    assert_eq!(seconds(&ask("second-and-day", 3)), Some(86_400));
    // 20 of 10 leave a debt of 10: 20 minutes until unused.
    assert_eq!(seconds(&ask("booked", 20)), Some(1_200));
}

const HELD: &str = "
domain: d
descriptors:
- {key: a, rate_limit: {algorithm: concurrency, requests: 2, period: 1h}}
";

#[test]
fn what_is_held_can_be_released_whatever_it_costs() {
    let engine = engine(HELD);
    let entries = [("a", "1")];
    let descriptors = [Descriptor { cost: Some(1), ..Descriptor::new(&entries) }];
    let (verdict, lease) = engine.acquire(&Request::new("d", &descriptors), START).unwrap();
    assert!(verdict.allowed());
    assert!(engine.release(&lease.unwrap(), START).unwrap().here);
}

#[test]
fn a_refund_ends_nobody_elses_hold() {
    let engine = engine(HELD);
    let entries = [("a", "1")];
    let descriptors = [Descriptor::new(&entries)];
    let (_, lease) = engine.acquire(&Request::new("d", &descriptors), START).unwrap();
    ask(&engine, START, &["a=1@-1"]);
    assert!(engine.release(&lease.unwrap(), START).unwrap().here);
}

#[test]
fn verdicts_and_engines_may_cross_threads() {
    fn crosses<T: Send + Sync>() {}
    crosses::<Verdict>();
    crosses::<Engine>();
}
