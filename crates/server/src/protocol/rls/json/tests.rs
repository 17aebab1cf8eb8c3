//! JSON in, JSON out.
#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};

use super::super::tests::{gate, gate_with, settings};
use super::super::wire::{RateLimitDescriptor, RateLimitRequest};
use super::{json_check, read};
use crate::fuzzing::at_once;
use crate::gate::GateSettings;

const RULES: &str = r"
domain: d
descriptors:
- key: one
  rate_limit: {unit: year, requests_per_unit: 1, name: only}
- key: free
  rate_limit: {unlimited: true}
";

fn read(body: &str) -> RateLimitRequest {
    read::request(body.as_bytes()).unwrap()
}

fn check_bad(body: &str, text: &str) {
    let told = at_once(json_check(&gate(RULES), None, body.as_bytes())).unwrap_err().to_string();
    assert!(told.contains(text), "{body}: {told:?} does not say {text:?}");
}

#[test]
fn both_spellings_and_all_forms_of_numbers() {
    let camel = r#"{"domain": "d", "hitsAddend": 3, "descriptors": [{"entries": [{"key": "k", "value": "v"}],
        "limit": {"requestsPerUnit": 10, "unit": "MINUTE"}, "hitsAddend": 0, "isNegativeHits": true}]}"#;
    let snake = r#"{"domain": "d", "hits_addend": "3", "descriptors": [{"entries": [{"key": "k", "value": "v"}],
        "limit": {"requests_per_unit": 1e1, "unit": 2}, "hits_addend": "0", "is_negative_hits": true}]}"#;
    assert_eq!(read(camel), read(snake));
    let message = read(camel);
    assert_eq!((message.domain.as_str(), message.hits_addend), ("d", 3));
    let descriptor = &message.descriptors[0];
    assert_eq!((descriptor.hits_addend, descriptor.is_negative_hits), (Some(0), true));
    assert_eq!(descriptor.limit.map(|limit| (limit.requests_per_unit, limit.unit)), Some((10, 2)));
    assert_eq!(descriptor.entries[0].value, b"v");
}

#[test]
fn extremes() {
    let hits = |hits: &str| {
        read(&format!(r#"{{"descriptors": [{{"hitsAddend": {hits}}}]}}"#)).descriptors[0].hits_addend
    };
    assert_eq!(hits("18446744073709551615"), Some(u64::MAX));
    assert_eq!(hits(r#""18446744073709551615""#), Some(u64::MAX));
    assert_eq!(hits("null"), None);
    assert_eq!(read(r#"{"hitsAddend": 4294967295.0}"#).hits_addend, u32::MAX);
}

#[test]
fn null_is_absent() {
    let null = read(r#"{"domain": null, "descriptors": null, "hitsAddend": null}"#);
    assert_eq!(null, RateLimitRequest::default());
    let null = read(
        r#"{"descriptors": [{"entries": null, "limit": null, "hitsAddend": null, "isNegativeHits": null}]}"#,
    );
    assert_eq!(null.descriptors, [RateLimitDescriptor::default()]);
}

#[test]
fn what_is_wrong_is_said() {
    check_bad("", "EOF");
    check_bad("{", "EOF");
    check_bad("[]", "expected an object");
    check_bad("null", "expected an object");
    check_bad(r#"["d", [], 1]"#, "expected an object");
    check_bad(r#"{"domain": "d"} x"#, "trailing characters");
    check_bad(r#"{"domian": "d"}"#, "unknown field `domian`");
    check_bad(r#"{"domain": 1}"#, "expected a string");
    check_bad(r#"{"domain": "d", "domain": "e"}"#, "duplicate field");
    check_bad(r#"{"hitsAddend": 1, "hits_addend": 1}"#, "duplicate field");
    check_bad(r#"{"descriptors": {}}"#, "expected a list of at most 128");
    check_bad(r#"{"descriptors": [[]]}"#, "expected an object");
    check_bad(r#"{"descriptors": [null]}"#, "expected an object");
    check_bad(r#"{"descriptors": [{"entries": [{"key": "k", "val": ""}]}]}"#, "unknown field `val`");
    for hits in ["-1", "1.5", "4294967296", r#""""#, r#"" 1""#, r#""x""#, "true", "1e300", "[]"] {
        check_bad(&format!(r#"{{"hitsAddend": {hits}}}"#), "a whole number of 32 bits");
    }
    check_bad(r#"{"descriptors": [{"hitsAddend": 18446744073709551616}]}"#, "a whole number of 64 bits");
    check_bad(r#"{"descriptors": [{"isNegativeHits": "true"}]}"#, "expected a boolean");
    check_bad(r#"{"descriptors": [{"limit": {"unit": "FORTNIGHT"}}]}"#, "SECOND, MINUTE");
    check_bad(r#"{"descriptors": [{"limit": {"unit": 2147483648}}]}"#, "SECOND, MINUTE");
    check_bad(&"[".repeat(1 << 20), "expected an object");
    check_bad(&format!(r#"{{"x": {}"#, "[".repeat(1 << 20)), "unknown field");
}

#[test]
fn what_cannot_be_asked_is_told_as_over_grpc() {
    check_bad("{}", "rate limit domain must not be empty");
    check_bad(r#"{"domain": "d"}"#, "rate limit descriptor list must not be empty");
    let limit = r#"{"domain": "d", "descriptors": [{"limit": {"requestsPerUnit": 1}}]}"#;
    check_bad(limit, "descriptor 0: its own limit has an unknown unit");
    let objects = |count| vec!["{}"; count].join(",");
    let many = format!(r#"{{"domain": "d", "descriptors": [{}]}}"#, objects(129));
    check_bad(&many, "this list is longer than 128");
    let deep = format!(r#"{{"domain": "d", "descriptors": [{{"entries": [{}]}}]}}"#, objects(33));
    check_bad(&deep, "this list is longer than 32");
    // A long list is refused where it is too long, so that the rest need not even be JSON.
    check_bad(&format!(r#"{{"descriptors": [{}, no JSON"#, objects(129)), "this list is longer than 128");
}

/// Asks, and takes out what time and settings decide.
fn ask(gate: &crate::gate::Gate, keys: &[&str]) -> (bool, Value) {
    let descriptors: Vec<_> =
        keys.iter().map(|key| json!({"entries": [{"key": key, "value": "x"}]})).collect();
    let body = json!({"domain": "d", "descriptors": descriptors}).to_string();
    let (verdict, told) = at_once(json_check(gate, None, body.as_bytes())).unwrap();
    let mut told: Value = serde_json::from_str(&told).unwrap();
    told.as_object_mut().unwrap().remove("responseHeadersToAdd");
    for status in told["statuses"].as_array_mut().unwrap() {
        let status = status.as_object_mut().unwrap();
        if let Some(until) = status.remove("durationUntilReset") {
            let seconds = until.as_str().unwrap().strip_suffix('s').unwrap().parse::<u32>().unwrap();
            assert!((1..=2 * 31_536_000).contains(&seconds));
        }
    }
    (verdict.allowed(), told)
}

#[test]
fn answers_as_envoys_own_service_prints_them() {
    let gate = gate(RULES);
    let limit = json!({"name": "only", "requestsPerUnit": 1, "unit": "YEAR"});
    let under = json!({"overallCode": "OK", "statuses": [
        {"code": "OK", "currentLimit": limit},
        {"code": "OK", "limitRemaining": u32::MAX},
        {"code": "OK"},
    ]});
    assert_eq!(ask(&gate, &["one", "free", "unknown"]), (true, under));
    let over =
        json!({"overallCode": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", "currentLimit": limit}]});
    assert_eq!(ask(&gate, &["one"]), (false, over));
}

#[test]
fn metadata_is_told_where_wanted() {
    let gate = gate_with(RULES, GateSettings { rls_dynamic_metadata: true, ..settings() });
    let (_, told) = ask(&gate, &["free"]);
    assert_eq!(told["dynamicMetadata"], json!({"domain": "d", "descriptors": [{"entries": ["free=x"]}]}));
}
