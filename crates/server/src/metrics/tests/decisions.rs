//! What counts as a decision of a rule, and of which outcome: one for each descriptor that meets it.

use tollgate::core::Time;
use tollgate::policy::RuleLimit;
use tollgate::{KeyAct, KeyActKind, KeySubject, Switched};

use super::*;

/// What counts requests that no limit has decided.
const REASONS: [&str; 3] = ["ratelimit_banned_", "ratelimit_kill_switch_", "ratelimit_unmatched_"];

/// The decisions that there were.
fn decisions(metrics: &Metrics) -> String {
    lines(metrics, |line| line.starts_with("ratelimit_decisions_total{") && !line.ends_with(" 0"))
}

#[test]
fn a_rule_with_several_limits_decides_once() {
    let metrics = Metrics::new(0.8);
    let engine = engine(vec![policy("search", vec![per_minute(1), per_minute(2), per_minute(3)])]);
    for _ in 0..2 {
        observe(&metrics, &ask(&engine, "search"));
    }
    assert_snapshot!(decisions(&metrics), @r#"
    ratelimit_decisions_total{domain="",rule="search",outcome="allowed"} 1
    ratelimit_decisions_total{domain="",rule="search",outcome="denied"} 1
    "#);
}

#[test]
fn a_rule_is_over_in_shadow_mode_if_any_of_its_limits_is() {
    let metrics = Metrics::new(0.8);
    let trial = RuleLimit { enforce_percent: 0, ..per_minute(1) };
    let engine = engine(vec![policy("search", vec![trial, per_minute(3)])]);
    for _ in 0..4 {
        observe(&metrics, &ask(&engine, "search"));
    }
    assert_snapshot!(decisions(&metrics), @r#"
    ratelimit_decisions_total{domain="",rule="search",outcome="allowed"} 1
    ratelimit_decisions_total{domain="",rule="search",outcome="denied"} 1
    ratelimit_decisions_total{domain="",rule="search",outcome="shadow_denied"} 2
    "#);
}

#[test]
fn every_descriptor_is_decided_on() {
    let engine = Engine::new(engine_settings()).unwrap();
    let spec = domain("d", vec![("user", None, rule(vec![per_minute(5), per_minute(9)]))]);
    engine.install(vec![FileSpec { domain: Some(spec), policies: Vec::new() }], NOW);
    let metrics = Metrics::new(0.8);
    let entries = [[("user", "ann")], [("user", "bob")], [("nobody", "x")]];
    let descriptors = entries.each_ref().map(|entries| Descriptor::new(entries));
    observe(&metrics, &decide(&engine, "d", &descriptors));
    assert_snapshot!(decisions(&metrics), @r#"ratelimit_decisions_total{domain="d",rule="user",outcome="allowed"} 2"#);
}

#[test]
fn giving_back_is_no_decision() {
    let engine = Engine::new(engine_settings()).unwrap();
    let spec = domain("d", vec![("user", None, rule(vec![per_minute(5)]))]);
    engine.install(vec![FileSpec { domain: Some(spec), policies: Vec::new() }], NOW);
    let metrics = Metrics::new(0.8);
    let entries = [("user", "ann")];
    let back = Descriptor { refund: true, ..Descriptor::new(&entries) };
    let own = OwnLimit { requests_per_unit: 3, unit: Some(Unit::Day) };
    observe(&metrics, &decide(&engine, "d", &[back, Descriptor { limit: Some(own), ..back }]));
    assert_eq!(decisions(&metrics), "");
    observe(&metrics, &decide(&engine, "d", &[back, Descriptor::new(&entries)]));
    assert_snapshot!(decisions(&metrics), @r#"ratelimit_decisions_total{domain="d",rule="user",outcome="allowed"} 1"#);
}

#[test]
fn policies_called_like_what_has_no_rule_are_counted_apart() {
    let names = ["override", "other", "cl.throttle"];
    let engine = engine(names.map(|name| policy(name, vec![per_minute(5)])).to_vec());
    let metrics = Metrics::new(0.8);
    for name in names {
        observe(&metrics, &ask(&engine, name));
    }
    let entries = [("user", "ann")];
    let own = OwnLimit { requests_per_unit: 3, unit: Some(Unit::Day) };
    let spec = domain("d", vec![("user", None, rule(vec![per_minute(5)]))]);
    engine.install(vec![FileSpec { domain: Some(spec), policies: Vec::new() }], NOW);
    observe(&metrics, &decide(&engine, "d", &[Descriptor { limit: Some(own), ..Descriptor::new(&entries) }]));
    let throttle = TokenBucket::new(rate(1, Duration::from_secs(1)), 1).unwrap().into();
    metrics.observe_throttles([engine.throttle(b"k", &throttle, 1, NOW)].iter(), TOOK);
    assert_snapshot!(decisions(&metrics), @r#"
    ratelimit_decisions_total{domain="",rule="(cl.throttle)",outcome="allowed"} 1
    ratelimit_decisions_total{domain="",rule="(override)",outcome="allowed"} 1
    ratelimit_decisions_total{domain="",rule="cl.throttle",outcome="allowed"} 1
    ratelimit_decisions_total{domain="",rule="other",outcome="allowed"} 1
    ratelimit_decisions_total{domain="",rule="override",outcome="allowed"} 1
    "#);
}

#[test]
fn quotas_that_let_others_decide_have_not_denied() {
    let engine = Engine::new(engine_settings()).unwrap();
    let quota = |units| tollgate::policy::Rule { quota_mode: true, ..rule(vec![per_minute(units)]) };
    let spec = domain("d", vec![("small", None, quota(1)), ("large", None, quota(2))]);
    engine.install(vec![FileSpec { domain: Some(spec), policies: Vec::new() }], NOW);
    let metrics = Metrics::new(0.8);
    let entries = [[("small", "x")], [("large", "x")]];
    let descriptors = [Descriptor::new(&entries[0]), Descriptor::new(&entries[1])];
    for _ in 0..3 {
        observe(&metrics, &decide(&engine, "d", &descriptors));
    }
    assert_snapshot!(decisions(&metrics), @r#"
    ratelimit_decisions_total{domain="d",rule="large",outcome="allowed"} 2
    ratelimit_decisions_total{domain="d",rule="large",outcome="denied"} 1
    ratelimit_decisions_total{domain="d",rule="small",outcome="allowed"} 1
    ratelimit_decisions_total{domain="d",rule="small",outcome="denied"} 1
    ratelimit_decisions_total{domain="d",rule="small",outcome="shadow_denied"} 1
    "#);
}

#[test]
fn tiers_are_counted_apart() {
    let metrics = Metrics::new(0.8);
    let tiers = vec![("pro".to_owned(), per_minute(9).allowance)];
    let engine = engine(vec![policy("search", vec![RuleLimit { tiers, ..per_minute(5) }])]);
    let request = Request::policy("search", b"k");
    for request in [request, request.tier("pro"), request.tier("pro")] {
        observe(&metrics, &engine.decide(&request, NOW).unwrap());
    }
    assert_snapshot!(decisions(&metrics), @r#"
    ratelimit_decisions_total{domain="",rule="search",outcome="allowed"} 1
    ratelimit_decisions_total{domain="",rule="search",tier="pro",outcome="allowed"} 2
    "#);
}

#[test]
fn requests_that_no_limit_decided_are_counted_by_the_reason() {
    let engine = Engine::new(engine_settings()).unwrap();
    let spec = domain("d", vec![("user", None, rule(vec![per_minute(5)]))]);
    engine.install(vec![FileSpec { domain: Some(spec), policies: Vec::new() }], NOW);
    let metrics = Metrics::new(0.8);
    let entries = [[("user", "ann")], [("unknown", "x")]];
    let [user, unknown] = [Descriptor::new(&entries[0]), Descriptor::new(&entries[1])];
    let counted =
        || lines(&metrics, |line| !line.ends_with(" 0") && REASONS.iter().any(|name| line.starts_with(name)));
    observe(&metrics, &decide(&engine, "nowhere", &[user, unknown]));
    observe(&metrics, &decide(&engine, "d", &[unknown, unknown]));
    observe(&metrics, &decide(&engine, "d", &[unknown, user]));
    let subject = KeySubject::Descriptor { domain: "d".into(), entries: vec![("user".into(), "ann".into())] };
    engine.set_key_acts(vec![KeyAct { subject, until: Time::MAX, what: KeyActKind::Ban }]).unwrap();
    observe(&metrics, &decide(&engine, "d", &[user, unknown]));
    engine.switch(Switched { all: Some(Time::MAX), ..Switched::default() });
    observe(&metrics, &decide(&engine, "d", &[user]));
    assert_snapshot!(counted(), @r#"
    ratelimit_banned_total{protocol="http"} 1
    ratelimit_kill_switch_passed_total{protocol="http"} 1
    ratelimit_unmatched_total{reason="domain"} 1
    ratelimit_unmatched_total{reason="rule"} 1
    "#);
    assert_snapshot!(decisions(&metrics), @r#"ratelimit_decisions_total{domain="d",rule="user",outcome="allowed"} 1"#);
}
