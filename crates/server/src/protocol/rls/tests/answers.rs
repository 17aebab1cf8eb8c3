//! Every row of the table of answers that envoyproxy/ratelimit's users rely on.

use tollgate::core::Span;
use tollgate::{KeyAct, KeyActKind, KeySubject};

use super::*;

const RULES: &str = r"
domain: d
descriptors:
- key: two
  rate_limit: {unit: minute, requests_per_unit: 2}
- key: one
  rate_limit: {unit: hour, requests_per_unit: 1, name: only}
- key: listed
  value: x
- key: free
  rate_limit: {unlimited: true}
- key: shadowed
  shadow_mode: true
  rate_limit: {unit: minute, requests_per_unit: 1}
- key: blocked
  rate_limit: {unit: minute, requests_per_unit: 0}
- key: general
  rate_limit: {unit: minute, requests_per_unit: 5, name: general}
- key: special
  rate_limit: {unit: minute, requests_per_unit: 5, name: special, replaces: [{name: general}]}
- key: liberal
  rate_limit: {unlimited: true, replaces: [{name: general}]}
- key: quota_a
  quota_mode: true
  rate_limit: {unit: minute, requests_per_unit: 1}
- key: quota_b
  quota_mode: true
  rate_limit: {unit: minute, requests_per_unit: 2}
- key: several
  rate_limits:
  - {unit: minute, requests_per_unit: 5, name: short}
  - {unit: hour, requests_per_unit: 3, name: long}
- key: odd
  rate_limit: {requests: 18446744073709551615, period: 90s}
- key: busy
  rate_limit: {algorithm: concurrency, requests: 1, period: 60s}
";

#[test]
fn nothing_applies() {
    let gate = gate(RULES);
    check(&gate, &message(&[of("unknown")]), "OK | OK 0");
    check(&gate, &message(&[of("listed")]), "OK | OK 0");
    check(&gate, &message(&[descriptor(&[("two", "x"), ("more", "x")])]), "OK | OK 0");
    check(&gate, &message(&[descriptor(&[])]), "OK | OK 0");
    let elsewhere = RateLimitRequest { domain: "elsewhere".to_owned(), ..message(&[of("two"), of("one")]) };
    check(&gate, &elsewhere, "OK | OK 0 | OK 0");
}

#[test]
fn unlimited() {
    check(&gate(RULES), &message(&[of("free")]), "OK | OK 4294967295");
}

#[test]
fn under_and_over() {
    let gate = gate(RULES);
    check(&gate, &message(&[of("two")]), "OK | OK 1 of 2/MINUTE 30s");
    check(&gate, &message(&[of("two")]), "OK | OK 0 of 2/MINUTE 30s");
    // When it is admitted: later than the end of the window.
    check(&gate, &message(&[of("two")]), "OVER_LIMIT | OVER_LIMIT 0 of 2/MINUTE 60s");
}

#[test]
fn a_name_is_told() {
    check(&gate(RULES), &message(&[of("one")]), "OK | OK 0 of 1/HOUR \"only\" 2790s");
}

#[test]
fn shadowed() {
    let gate = gate(RULES);
    check(&gate, &message(&[of("shadowed")]), "OK | OK 0 of 1/MINUTE 30s");
    check(&gate, &message(&[of("shadowed")]), "OK | OK 0 of 1/MINUTE 30s");
    check(&gate, &message(&[of("shadowed"), of("two")]), "OK | OK 0 of 1/MINUTE 30s | OK 1 of 2/MINUTE 30s");
}

#[test]
fn blocked_is_told_the_end_of_a_window_that_it_does_not_have() {
    check(&gate(RULES), &message(&[of("blocked")]), "OVER_LIMIT | OVER_LIMIT 0 of 0/MINUTE 30s");
}

#[test]
fn replaced() {
    let gate = gate(RULES);
    let general = "OK | OK 0 | OK 4 of 5/MINUTE \"special\" 30s";
    check(&gate, &message(&[of("general"), of("special")]), general);
    check(&gate, &message(&[of("liberal"), of("general")]), "OK | OK 4294967295 | OK 0");
    check(&gate, &message(&[of("general")]), "OK | OK 4 of 5/MINUTE \"general\" 30s");
}

#[test]
fn quotas_deny_only_together() {
    let gate = gate(RULES);
    let both = message(&[of("quota_a"), of("quota_b")]);
    check(&gate, &both, "OK | OK 0 of 1/MINUTE 30s | OK 1 of 2/MINUTE 30s");
    check(&gate, &both, "OK | OVER_LIMIT 0 of 1/MINUTE 30s | OK 0 of 2/MINUTE 30s");
    check(&gate, &both, "OVER_LIMIT | OVER_LIMIT 0 of 1/MINUTE 90s | OVER_LIMIT 0 of 2/MINUTE 60s");
    check(&gate, &message(&[of("quota_a")]), "OVER_LIMIT | OVER_LIMIT 0 of 1/MINUTE 90s");
}

#[test]
fn statuses_follow_the_descriptors() {
    let gate = gate(RULES);
    let all = message(&[of("free"), of("two"), of("unknown"), of("one")]);
    let under = "OK | OK 4294967295 | OK 1 of 2/MINUTE 30s | OK 0 | OK 0 of 1/HOUR \"only\" 2790s";
    check(&gate, &all, under);
    // Denied by the last: the second has lost nothing.
    let over =
        "OVER_LIMIT | OK 4294967295 | OK 1 of 2/MINUTE 30s | OK 0 | OVER_LIMIT 0 of 1/HOUR \"only\" 6390s";
    check(&gate, &all, over);
    check(&gate, &message(&[of("two")]), "OK | OK 0 of 2/MINUTE 30s");
}

#[test]
fn of_several_limits_the_tightest_is_told() {
    check(&gate(RULES), &message(&[of("several")]), "OK | OK 2 of 3/HOUR \"long\" 2790s");
}

#[test]
fn numbers_beyond_the_wire_are_clamped() {
    let told = answer(&gate(RULES), &message(&[of("odd")])).unwrap();
    let status = &told.statuses[0];
    assert_eq!(status.limit_remaining, u32::MAX);
    assert_eq!(status.current_limit.as_ref().unwrap().requests_per_unit, u32::MAX);
    assert_eq!(status.current_limit.as_ref().unwrap().unit, 0, "90 seconds are no unit");
}

#[test]
fn nobody_knows_when_those_who_are_at_it_finish() {
    let gate = gate(RULES);
    check(&gate, &message(&[of("busy")]), "OK | OK 0 of 1/MINUTE");
    check(&gate, &message(&[of("busy")]), "OVER_LIMIT | OVER_LIMIT 0 of 1/MINUTE");
}

#[test]
fn shadow_mode_of_the_whole_flips_the_overall_code_alone() {
    let engine = EngineSettings { shadow_mode: true, ..settings().engine };
    let gate = gate_with(RULES, GateSettings { engine, ..settings() });
    check(&gate, &message(&[of("blocked")]), "OK | OVER_LIMIT 0 of 0/MINUTE 30s");
}

#[test]
fn a_ban_is_over_limit_without_a_limit_and_says_that_it_is_a_ban() {
    let gate = gate(RULES);
    let entries = vec![("two".into(), "x".into())];
    let subject = KeySubject::Descriptor { domain: "d".into(), entries };
    let until = NOW.plus(Span::from_ticks(3_600_000_000_000));
    gate.engine().set_key_acts(vec![KeyAct { subject, until, what: KeyActKind::Ban }]).unwrap();
    let asked = message(&[of("one"), of("two")]);
    check(&gate, &asked, "OVER_LIMIT | OK 0 | OVER_LIMIT 0 3600s");
    let told = answer(&gate, &asked).unwrap();
    let fields = told.response_headers_to_add.iter().map(|field| format!("{}: {}", field.key, field.value));
    assert_eq!(
        fields.collect::<Vec<_>>(),
        ["retry-after: 3600", "x-tollgate-reason: banned", "content-type: application/json"]
    );
    let body: serde_json::Value = serde_json::from_slice(&told.raw_body).unwrap();
    assert_eq!((&body["code"], &body["limit"]), (&"banned".into(), &serde_json::Value::Null), "{body}");
}
