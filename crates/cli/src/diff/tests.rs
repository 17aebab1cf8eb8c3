//! Differences as a person reads them.

use serde_json::json;

use super::*;

fn check(before: &Value, after: &Value, expected: &[&str]) {
    assert_eq!(lines(before, after), expected, "{before} {after}");
}

#[test]
fn what_has_come_gone_and_changed() {
    check(
        &json!({"requests": 100, "period": "1m", "tiers": {"pro": {"requests": 5}}}),
        &json!({"requests": 200, "period": "1m", "burst": 20}),
        &["requests: 100 -> 200", "burst: 20 (new)", "tiers.pro.requests: (gone, was 5)"],
    );
}

#[test]
fn nothing_is_null() {
    check(
        &json!(null),
        &json!({"tier": "pro", "overrides": [], "until": null}),
        &["tier: pro (new)", "overrides: [] (new)"],
    );
    check(&json!({"a": null}), &json!({}), &[]);
    check(&json!([1, 2]), &json!([1, 3]), &["[1]: 2 -> 3"]);
}

#[test]
fn long_values_are_cut() {
    let told = lines(&json!({}), &json!({"a": "x".repeat(1_000)}));
    assert!(told[0].len() < 120 && told[0].ends_with("... (new)"), "{told:?}");
}
