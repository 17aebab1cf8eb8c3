//! The JSON of rules, and that it means the same.

use serde_json::{Value, json};

use super::to_json;
use crate::rule::DefaultAlgorithm;
use crate::source::Source;
use crate::{read_all, read_policy};

fn source(text: &str) -> Source {
    Source::new("rules.yaml", text)
}

/// The rules mean the same in JSON.
fn check_same(text: &str) -> Value {
    let value = to_json(&source(text)).unwrap();
    let read = |text: &str| read_all(&[source(text)], DefaultAlgorithm::default()).unwrap();
    assert_eq!(read(&value.to_string()), read(text), "{value}");
    value
}

#[test]
fn the_rules_of_this_repository_mean_the_same() {
    check_same(include_str!("../../../../rules/shop.yaml"));
    check_same(include_str!("../../../../rules/policies.yaml"));
}

#[test]
fn text_stays_as_it_is_written() {
    let value = check_same(
        "domain: 007
descriptors:
  - {key: status, value: 1.10, rate_limit: {requests: 0x10, period: 1m}}
  - {key: status, value: 404, rate_limit: {requests: 1, period: 1m}}
  - {key: status, value: '404 '}
  - {key: status, value: yes, shadow_mode: yes, rate_limit: {requests: 1, period: 1m}}
  - {key: 1e3, value: 'null', rate_limit: {requests: 5, period: 1s, enforce_percent: 10}}
",
    );
    assert_eq!(value["domain"], json!("007"));
    assert_eq!(value["descriptors"][0]["value"], json!("1.10"));
    assert_eq!(value["descriptors"][0]["rate_limit"]["requests"], json!(16));
    assert_eq!(value["descriptors"][1]["value"], json!(404));
    assert_eq!(value["descriptors"][3]["shadow_mode"], json!(true));
}

#[test]
fn aliases_and_merges_are_resolved() {
    let value = check_same(
        "domain: shop
descriptors:
  - {key: a, rate_limit: &base {requests: 5, period: 1s, consistency: local}}
  - {key: b, rate_limit: {<<: *base, requests: 6}}
",
    );
    assert_eq!(
        value["descriptors"][1]["rate_limit"],
        json!({"requests": 6, "period": "1s", "consistency": "local"})
    );
}

#[test]
fn what_cannot_be_read_is_said() {
    assert_eq!(to_json(&source("# nothing\n")).unwrap(), Value::Null);
    let problems = to_json(&source("a: [1,\nb: 2")).unwrap_err();
    assert!(problems.to_string().contains("rules.yaml:"), "{problems}");
}

#[test]
fn a_policy_can_stand_alone() {
    let read = |text: &str| read_policy("search", &source(text), DefaultAlgorithm::default());
    let all =
        read_all(&[source("policies: {search: {requests: 5, period: 1m}}")], DefaultAlgorithm::default());
    assert_eq!(vec![read("{requests: 5, period: 1m}").unwrap()], all.unwrap()[0].policies);
    let told = read("requests: 5\nperoid: 1m\n").unwrap_err().to_string();
    assert!(told.contains("rules.yaml:2:1") && told.contains("`period`"), "{told}");
    assert!(read("").is_err() && read("[]").is_err());
}
