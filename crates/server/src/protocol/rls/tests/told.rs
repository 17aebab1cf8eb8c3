//! What goes with an answer: header fields, a body for those who are turned away, and metadata.

use serde_json::json;

use super::super::json::metadata_json;
use super::*;

const RULES: &str = r"
domain: d
descriptors:
- key: two
  rate_limit: {unit: minute, requests_per_unit: 2}
  metadata: {team: search, more: {a: 1, b: [true, null, x]}}
- key: three
  rate_limit: {unit: minute, requests_per_unit: 3}
  metadata: {team: other, more: {a: 2, c: 0.5}}
- key: blocked
  rate_limit: {unit: minute, requests_per_unit: 0}
  metadata: {blocked: true}
- key: shadowed
  shadow_mode: true
  rate_limit: {unit: minute, requests_per_unit: 0}
  metadata: {shadowed: true}
- key: free
  rate_limit: {unlimited: true}
  metadata: {free: true}
";

fn check_metadata(message: &RateLimitRequest, expected: &serde_json::Value) {
    let gate = gate_with(RULES, GateSettings { rls_dynamic_metadata: true, ..settings() });
    let metadata = answer(&gate, message).unwrap().dynamic_metadata.unwrap();
    assert_eq!(metadata_json(&metadata), *expected);
}

#[test]
fn no_metadata_unless_wanted() {
    assert_eq!(answer(&gate(RULES), &message(&[of("two")])).unwrap().dynamic_metadata, None);
}

#[test]
fn metadata_repeats_the_question() {
    let mut asked = message(&[descriptor(&[("k", "v"), ("l", "w")]), costing("other", 0)]);
    asked.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 5, unit: 2 });
    asked.hits_addend = 3;
    check_metadata(
        &asked,
        &json!({
            "domain": "d",
            "descriptors": [
                {"entries": ["k=v", "l=w"], "limit": "requests_per_unit:5 unit:MINUTE"},
                {"entries": ["other=x"], "hitsAddend": 0},
            ],
            "hitsAddend": 3,
        }),
    );
}

#[test]
fn metadata_of_rules_that_let_pass_is_merged() {
    let of_all = ["two", "three", "blocked", "shadowed", "free", "unknown"].map(of);
    check_metadata(
        &message(&of_all),
        &json!({
            "domain": "d",
            "descriptors": [
                {"entries": ["two=x"]},
                {"entries": ["three=x"]},
                {"entries": ["blocked=x"]},
                {"entries": ["shadowed=x"]},
                {"entries": ["free=x"]},
                {"entries": ["unknown=x"]},
            ],
            "metadata": {
                "team": "search",
                "more": {"a": 1, "b": [true, null, "x"], "c": 0.5},
                "shadowed": true,
            },
        }),
    );
}

fn value<'a>(response: &'a RateLimitResponse, name: &str) -> Option<&'a str> {
    let mut fields = response.response_headers_to_add.iter();
    fields.find(|field| field.key == name).map(|field| field.value.as_str())
}

#[test]
fn those_who_are_turned_away_get_a_body_of_a_type_and_a_time() {
    let gate = gate(RULES);
    let under = answer(&gate, &message(&[of("two")])).unwrap();
    assert_eq!((value(&under, "content-type"), value(&under, "retry-after")), (None, None));
    assert!(under.raw_body.is_empty());

    let dear = RateLimitRequest { hits_addend: 2, ..message(&[of("two")]) };
    let over = answer(&gate, &dear).unwrap();
    assert_eq!(value(&over, "content-type"), Some("application/json"));
    assert!(value(&over, "retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    let body: serde_json::Value = serde_json::from_slice(&over.raw_body).unwrap();
    assert!(body["code"].is_string(), "{body}");
}

#[test]
fn envoy_makes_its_own_x_ratelimit_fields_unless_told_otherwise() {
    for wanted in [false, true] {
        let gate = gate_with(RULES, GateSettings { rls_x_ratelimit_headers: wanted, ..settings() });
        let told = answer(&gate, &message(&[of("two")])).unwrap();
        assert_eq!(value(&told, "x-ratelimit-remaining"), wanted.then_some("1"));
        assert!(value(&told, "ratelimit").is_some());
    }
}
