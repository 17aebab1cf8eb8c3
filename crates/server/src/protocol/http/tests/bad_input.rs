//! Everything that can be wrong with a request, and what is said about it.

use std::fmt::Write as _;

use axum::body::Body;
use http::{Request, StatusCode};
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::super::question::{DESCRIPTORS_MAX, ENTRIES_MAX};
use super::super::{ACQUIRE_BYTES_MAX, BODY_BYTES_MAX};
use super::{empty_gate, gate, post, send};
use crate::gate::Gate;

/// What is said about each of the bodies.
async fn told(path: &str, bodies: &[&str]) -> String {
    let gate = gate();
    let mut told = String::new();
    for body in bodies {
        let (status, answer) = post(&gate, path, (*body).to_owned()).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let (code, message) = (&answer["error"]["code"], answer["error"]["message"].as_str().unwrap());
        writeln!(told, "{}\n  {} {}: {message}", body.trim(), status.as_u16(), code.as_str().unwrap())
            .unwrap();
    }
    assert_eq!(bad_requests(&gate), bodies.len());
    told
}

/// How many bad requests were counted.
pub(super) fn bad_requests(gate: &Gate) -> usize {
    let text = gate.metrics_text().unwrap();
    let prefix = "ratelimit_bad_requests_total{protocol=\"http\"} ";
    text.lines().find_map(|line| line.strip_prefix(prefix)).unwrap().parse().unwrap()
}

#[tokio::test]
async fn not_json() {
    let bodies =
        ["", " \n", "policy=search&key=x", "{", r#"{"policy": "search", "key": "x"} more"#, "{'policy': 1}"];
    assert_snapshot!(told("/v1/check", &bodies).await, @r#"
      400 bad_request: the body is empty: send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}

      400 bad_request: the body is empty: send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}
    policy=search&key=x
      400 bad_request: the body is not a JSON object: send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}
    {
      400 bad_request: the body is not JSON: EOF while parsing an object at line 1 column 1; send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}
    {"policy": "search", "key": "x"} more
      400 bad_request: the body is not JSON: trailing characters at line 1 column 34; send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}
    {'policy': 1}
      400 bad_request: the body is not JSON: key must be a string at line 1 column 2; send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}
    "#);
}

#[tokio::test]
async fn no_question() {
    let bodies = [
        "{}",
        "[]",
        "null",
        r#""search""#,
        r#"{"policy": null}"#,
        r#"{"policy": "search"}"#,
        r#"{"key": "x"}"#,
        r#"{"cost": 1}"#,
        r#"{"domain": "web"}"#,
        r#"{"descriptors": []}"#,
        r#"{"domain": "web", "descriptors": []}"#,
        r#"{"domain": "", "descriptors": [{"entries": []}]}"#,
        r#"{"policy": "search", "key": "x", "domain": "web"}"#,
        r#"{"policy": "search", "key": "x", "hits_addend": 2}"#,
        r#"{"domain": "web", "descriptors": [{"entries": []}], "cost": 2}"#,
    ];
    assert_snapshot!(told("/v1/check", &bodies).await, @r#"
    {}
      400 bad_request: there is no question in the body: send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}
    []
      400 bad_request: the body is not a JSON object: send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}
    null
      400 bad_request: the body is not a JSON object: send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}
    "search"
      400 bad_request: the body is not a JSON object: send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}
    {"policy": null}
      400 bad_request: there is no question in the body: send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}
    {"policy": "search"}
      400 bad_request: `key` is missing: add whom to count, such as a user or an address
    {"key": "x"}
      400 bad_request: `policy` is missing: add the name of a policy
    {"cost": 1}
      400 bad_request: `policy` is missing: add the name of a policy
    {"domain": "web"}
      400 bad_request: `descriptors` is missing: add a list such as [{"entries": [{"key": "...", "value": "..."}]}]
    {"descriptors": []}
      400 bad_request: `domain` is missing: add the domain of the rules
    {"domain": "web", "descriptors": []}
      400 bad_request: `descriptors` is empty: add at least one, such as {"entries": [{"key": "...", "value": "..."}]}
    {"domain": "", "descriptors": [{"entries": []}]}
      400 bad_request: `domain` is empty: say whose rules are meant
    {"policy": "search", "key": "x", "domain": "web"}
      400 bad_request: `policy`, `key`, `cost` and `tier` do not go with `domain`, `descriptors` and `hits_addend`: send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}
    {"policy": "search", "key": "x", "hits_addend": 2}
      400 bad_request: `policy`, `key`, `cost` and `tier` do not go with `domain`, `descriptors` and `hits_addend`: send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}
    {"domain": "web", "descriptors": [{"entries": []}], "cost": 2}
      400 bad_request: `policy`, `key`, `cost` and `tier` do not go with `domain`, `descriptors` and `hits_addend`: send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}
    "#);
}

#[tokio::test]
async fn wrong_fields() {
    let bodies = [
        r#"{"polcy": "search", "key": "x"}"#,
        r#"{"policy": "search", "policy": "search", "key": "x"}"#,
        r#"{"policy": 5, "key": "x"}"#,
        r#"{"policy": "search", "key": ["x"]}"#,
        r#"{"domain": "web", "descriptors": {"entries": []}}"#,
        r#"{"domain": "web", "descriptors": [["user"]]}"#,
        r#"{"domain": "web", "descriptors": [{}]}"#,
        r#"{"domain": "web", "descriptors": [{"entries": [["user", "x"]]}]}"#,
        r#"{"domain": "web", "descriptors": [{"entries": [{"key": "user"}]}]}"#,
        r#"{"domain": "web", "descriptors": [{"entries": [{"key": "user", "value": 7}]}]}"#,
        r#"{"domain": "web", "descriptors": [{"entries": [], "is_negative_hits": "yes"}]}"#,
        r#"{"domain": "web", "descriptors": [{"entries": [], "limit": {"requests_per_unit": 1}}]}"#,
        r#"{"domain": "web", "descriptors": [{"entries": [], "limit": {"requests_per_unit": 1, "unit": "fortnight"}}]}"#,
        r#"{"domain": "web", "descriptors": [{"entries": [], "limit": {"requests_per_unit": 1, "unit": 2}}]}"#,
    ];
    assert_snapshot!(told("/v1/check", &bodies).await, @r#"
    {"polcy": "search", "key": "x"}
      400 bad_request: polcy: unknown field `polcy`, expected one of `domain`, `descriptors`, `hits_addend`, `policy`, `key`, `cost`, `tier`, `request_id` at line 1 column 8
    {"policy": "search", "policy": "search", "key": "x"}
      400 bad_request: duplicate field `policy` at line 1 column 29
    {"policy": 5, "key": "x"}
      400 bad_request: policy: invalid type: integer `5`, expected a string at line 1 column 12
    {"policy": "search", "key": ["x"]}
      400 bad_request: key: invalid type: sequence, expected a string at line 1 column 28
    {"domain": "web", "descriptors": {"entries": []}}
      400 bad_request: descriptors: invalid type: map, expected a list of at most 128 at line 1 column 33
    {"domain": "web", "descriptors": [["user"]]}
      400 bad_request: descriptors[0]: invalid type: sequence, expected an object at line 1 column 34
    {"domain": "web", "descriptors": [{}]}
      400 bad_request: descriptors[0]: missing field `entries` at line 1 column 36
    {"domain": "web", "descriptors": [{"entries": [["user", "x"]]}]}
      400 bad_request: descriptors[0].entries[0]: invalid type: sequence, expected an object at line 1 column 47
    {"domain": "web", "descriptors": [{"entries": [{"key": "user"}]}]}
      400 bad_request: descriptors[0].entries[0]: missing field `value` at line 1 column 62
    {"domain": "web", "descriptors": [{"entries": [{"key": "user", "value": 7}]}]}
      400 bad_request: descriptors[0].entries[0].value: invalid type: integer `7`, expected a string at line 1 column 73
    {"domain": "web", "descriptors": [{"entries": [], "is_negative_hits": "yes"}]}
      400 bad_request: descriptors[0].is_negative_hits: invalid type: string "yes", expected a boolean at line 1 column 75
    {"domain": "web", "descriptors": [{"entries": [], "limit": {"requests_per_unit": 1}}]}
      400 bad_request: descriptors[0].limit: missing field `unit` at line 1 column 83
    {"domain": "web", "descriptors": [{"entries": [], "limit": {"requests_per_unit": 1, "unit": "fortnight"}}]}
      400 bad_request: descriptors[0].limit.unit: invalid value: string "fortnight", expected one of second, minute, hour, day, week, month, year at line 1 column 103
    {"domain": "web", "descriptors": [{"entries": [], "limit": {"requests_per_unit": 1, "unit": 2}}]}
      400 bad_request: descriptors[0].limit.unit: invalid type: integer `2`, expected one of second, minute, hour, day, week, month, year at line 1 column 93
    "#);
}

#[tokio::test]
async fn wrong_numbers() {
    let bodies = [
        r#"{"policy": "search", "key": "x", "cost": -1}"#,
        r#"{"policy": "search", "key": "x", "cost": 1.5}"#,
        r#"{"policy": "search", "key": "x", "cost": 1e400}"#,
        r#"{"policy": "search", "key": "x", "cost": 18446744073709551616}"#,
        r#"{"policy": "search", "key": "x", "cost": "1"}"#,
        r#"{"domain": "web", "descriptors": [{"entries": []}], "hits_addend": -1}"#,
        r#"{"domain": "web", "descriptors": [{"entries": []}, {"entries": [], "hits_addend": 0.5}]}"#,
        r#"{"domain": "web", "descriptors": [{"entries": [], "limit": {"requests_per_unit": -1, "unit": "day"}}]}"#,
    ];
    assert_snapshot!(told("/v1/check", &bodies).await, @r#"
    {"policy": "search", "key": "x", "cost": -1}
      400 bad_request: cost: invalid type: integer `-1`, expected a whole number from 0 to 18446744073709551615 at line 1 column 43
    {"policy": "search", "key": "x", "cost": 1.5}
      400 bad_request: cost: invalid type: floating point `1.5`, expected a whole number from 0 to 18446744073709551615 at line 1 column 44
    {"policy": "search", "key": "x", "cost": 1e400}
      400 bad_request: the body is not JSON: cost: number out of range at line 1 column 46; send {"policy": "...", "key": "..."} or {"domain": "...", "descriptors": [{"entries": [{"key": "...", "value": "..."}]}]}
    {"policy": "search", "key": "x", "cost": 18446744073709551616}
      400 bad_request: cost: invalid type: floating point `1.8446744073709552e+19`, expected a whole number from 0 to 18446744073709551615 at line 1 column 61
    {"policy": "search", "key": "x", "cost": "1"}
      400 bad_request: cost: invalid type: string "1", expected a whole number from 0 to 18446744073709551615 at line 1 column 44
    {"domain": "web", "descriptors": [{"entries": []}], "hits_addend": -1}
      400 bad_request: hits_addend: invalid type: integer `-1`, expected a whole number from 0 to 18446744073709551615 at line 1 column 69
    {"domain": "web", "descriptors": [{"entries": []}, {"entries": [], "hits_addend": 0.5}]}
      400 bad_request: descriptors[1].hits_addend: invalid type: floating point `0.5`, expected a whole number from 0 to 18446744073709551615 at line 1 column 85
    {"domain": "web", "descriptors": [{"entries": [], "limit": {"requests_per_unit": -1, "unit": "day"}}]}
      400 bad_request: descriptors[0].limit.requests_per_unit: invalid type: integer `-1`, expected a whole number from 0 to 18446744073709551615 at line 1 column 83
    "#);
}

#[tokio::test]
async fn what_the_rules_do_not_have() {
    let bodies = [
        r#"{"policy": "serach", "key": "x"}"#,
        r#"{"policy": "tiered", "key": "x", "tier": "gold"}"#,
        r#"{"policy": "search", "key": "x", "tier": "gold"}"#,
    ];
    assert_snapshot!(told("/v1/check", &bodies).await, @r#"
    {"policy": "serach", "key": "x"}
      404 unknown_policy: unknown policy "serach"; it could be closed, mail, search, tiered, tokens, uploads
    {"policy": "tiered", "key": "x", "tier": "gold"}
      400 bad_request: policy "tiered" has no tier "gold"; its tiers are pro
    {"policy": "search", "key": "x", "tier": "gold"}
      400 bad_request: policy "search" has no tier "gold"
    "#);
    assert_snapshot!(told("/v1/peek", &bodies[..1]).await, @r#"
    {"policy": "serach", "key": "x"}
      404 unknown_policy: unknown policy "serach"; it could be closed, mail, search, tiered, tokens, uploads
    "#);
    assert_snapshot!(told("/v1/acquire", &[r#"{"policy": "search", "key": "x"}"#]).await, @r#"
    {"policy": "search", "key": "x"}
      400 bad_request: nothing to hold: no concurrency limit applies to this request
    "#);
}

#[tokio::test]
async fn leases() {
    let bodies = [
        "{}",
        r#"{"lease": 5}"#,
        r#"{"lease": "xyz"}"#,
        r#"{"lease": "abc"}"#,
        r#"{"lease": "aa", "release": "bb"}"#,
    ];
    assert_snapshot!(told("/v1/release", &bodies).await, @r#"
    {}
      400 bad_request: missing field `lease` at line 1 column 2
    {"lease": 5}
      400 bad_request: lease: invalid type: integer `5`, expected a string at line 1 column 11
    {"lease": "xyz"}
      400 bad_request: `lease`: this is not a lease: send back the `lease` that was given, as it is
    {"lease": "abc"}
      400 bad_request: `lease`: this is not a lease: send back the `lease` that was given, as it is
    {"lease": "aa", "release": "bb"}
      400 bad_request: release: unknown field `release`, expected `lease` at line 1 column 25
    "#);
}

#[tokio::test]
async fn not_text() {
    let (status, body) = post(&gate(), "/v1/check", b"{\"policy\": \"\xff\"}".to_vec()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_snapshot!(body, @r#"{"error":{"code":"bad_request","message":"the body is not UTF-8 from byte 12 on: send {\"policy\": \"...\", \"key\": \"...\"} or {\"domain\": \"...\", \"descriptors\": [{\"entries\": [{\"key\": \"...\", \"value\": \"...\"}]}]}"}}"#);
}

#[tokio::test]
async fn deep_nesting() {
    let body = format!(r#"{{"policy": {}"#, "[".repeat(100_000));
    assert_eq!(post(&gate(), "/v1/check", body).await.0, StatusCode::BAD_REQUEST);
    let body = format!(r#"{{"domain": "web", "descriptors": {}"#, r#"[{"entries": "#.repeat(50_000));
    assert_eq!(post(&gate(), "/v1/check", body).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn long_messages_are_cut() {
    let body = json!({"policy": "x".repeat(100_000), "key": "y"}).to_string();
    let (status, answer) = post(&gate(), "/v1/check", body).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(answer.len() < 1_000);
}

fn with(descriptors: usize, entries: usize) -> String {
    let entry = json!({"key": "k", "value": "v"});
    let descriptor = json!({"entries": vec![entry; entries]});
    json!({"domain": "web", "descriptors": vec![descriptor; descriptors]}).to_string()
}

#[tokio::test]
async fn at_most_so_many() {
    let gate = gate();
    assert_eq!(post(&gate, "/v1/check", with(DESCRIPTORS_MAX, ENTRIES_MAX)).await.0, StatusCode::OK);
    let (status, body) = post(&gate, "/v1/check", with(DESCRIPTORS_MAX + 1, 1)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_snapshot!(body, @r#"{"error":{"code":"bad_request","message":"descriptors: this list is longer than 128 at line 1 column 4933"}}"#);
    let (status, body) = post(&gate, "/v1/check", with(1, ENTRIES_MAX + 1)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_snapshot!(body, @r#"{"error":{"code":"bad_request","message":"descriptors[0].entries: this list is longer than 32 at line 1 column 835"}}"#);
}

#[tokio::test]
async fn too_large() {
    let gate = gate();
    let padded = |len: usize| {
        let body = r#"{"policy": "uploads", "key": "x"}"#;
        format!("{body}{}", " ".repeat(len - body.len()))
    };
    assert_eq!(post(&gate, "/v1/check", padded(BODY_BYTES_MAX)).await.0, StatusCode::OK);
    let (status, body) = post(&gate, "/v1/check", padded(BODY_BYTES_MAX + 1)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_snapshot!(body, @r#"{"error":{"code":"body_too_large","message":"the body is larger than 1048576 bytes: ask about less at once"}}"#);
    assert_eq!(
        post(&gate, "/v1/acquire", padded(ACQUIRE_BYTES_MAX + 1)).await.0,
        StatusCode::PAYLOAD_TOO_LARGE
    );

    // One that says so beforehand is not read at all.
    let announced = Request::post("/v1/check").header("content-length", BODY_BYTES_MAX + 1);
    let (head, _) = send(&gate, announced.body(Body::from("{}")).unwrap()).await;
    assert_eq!(head.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(bad_requests(&gate), 3);
}

#[tokio::test]
async fn not_loaded() {
    let question = json!({"policy": "search", "key": "x"}).to_string();
    for path in ["/v1/check", "/v1/peek", "/v1/acquire"] {
        let request = Request::post(path).body(Body::from(question.clone())).unwrap();
        let (head, body) = send(&empty_gate(), request).await;
        assert_eq!(head.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(head.headers()["retry-after"], "1");
        assert!(body.contains("not_loaded"), "{body}");
    }
}

#[tokio::test]
async fn nowhere() {
    let (head, body) = send(&gate(), Request::post("/check").body(Body::from("{}")).unwrap()).await;
    assert_eq!(
        (head.status(), &head.headers()["content-type"]),
        (StatusCode::NOT_FOUND, &super::super::JSON)
    );
    assert_snapshot!(body, @r#"
    {"error":{"code":"not_found","message":"there is nothing at this path; POST to /v1/check, /v1/peek, /v1/acquire, /v1/release, /v1/reserve, /v1/settle or /json; GET /v1/auth, /healthz, /readyz or /healthcheck"}}
    "#);
}
