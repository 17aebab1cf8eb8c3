//! Overrides as people type them.

use super::*;

fn check(text: &str, expected: &Value, told: &str) {
    let over = parse(text).unwrap();
    assert_eq!(over, *expected, "{text}");
    assert_eq!(format!("{} = {}", subject(&over), rate(&over)), told);
}

fn check_refused(text: &str, part: &str) {
    let told = parse(text).unwrap_err();
    assert!(told.contains(part), "{text}: {told}");
}

#[test]
fn a_descriptor_and_its_rate() {
    check(
        "endpoint:POST /v1/orders=500/minute",
        &json!({"descriptor": "endpoint:POST /v1/orders", "requests_per_unit": 500, "unit": "minute"}),
        "endpoint:POST /v1/orders = 500/minute",
    );
    check(
        "endpoint=100/90s",
        &json!({"descriptor": "endpoint", "requests": 100, "period": "90s"}),
        "endpoint = 100/90s",
    );
    check(
        "path:/img=unlimited",
        &json!({"descriptor": "path:/img", "unlimited": true}),
        "path:/img = unlimited",
    );
}

#[test]
fn a_value_may_have_any_sign_in_it() {
    check(
        "q:a=b;c=d=5/second",
        &json!({"descriptor": "q:a=b;c=d", "requests_per_unit": 5, "unit": "second"}),
        "q:a=b;c=d = 5/second",
    );
}

#[test]
fn several_levels_and_none() {
    check(
        "path:/login > user=5/hour",
        &json!({"descriptor": ["path:/login", "user"], "requests_per_unit": 5, "unit": "hour"}),
        "path:/login > user = 5/hour",
    );
    check(
        "=10/second",
        &json!({"descriptor": [], "requests_per_unit": 10, "unit": "second"}),
        "the tenant alone = 10/second",
    );
}

#[test]
fn options_come_last() {
    check(
        "a:b=500/minute;burst=50;limit=per-minute;domain=shop",
        &json!({"descriptor": "a:b", "requests_per_unit": 500, "unit": "minute", "domain": "shop", "limit": "per-minute", "burst": 50}),
        "shop: a:b [per-minute] = 500/minute, burst 50",
    );
}

#[test]
fn a_policy_has_a_name() {
    let over = parse_policy("api=500/minute;limit=per-minute").unwrap();
    assert_eq!(
        over,
        json!({"policy": "api", "requests_per_unit": 500, "unit": "minute", "limit": "per-minute"})
    );
    assert_eq!(subject(&over), "policy api [per-minute]");
    assert!(parse_policy("=5/minute").is_err());
}

#[test]
fn what_is_wrong_is_said() {
    check_refused("endpoint:POST /v1/orders", "no numbers");
    check_refused("endpoint=many", "no rate");
    check_refused("endpoint=many/minute", "whole number");
    check_refused("endpoint=-5/minute", "whole number");
    check_refused("endpoint=5/fortnight", "no unit");
    check_refused("endpoint=5/minute;burst=much", "whole number");
    check_refused("endpoint=5/minute;bust=5", "no rate");
}
