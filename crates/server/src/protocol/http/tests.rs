//! The HTTP listener, asked as a client would ask it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod auth;
mod bad_input;
mod json;
mod leases;
mod reservations;
mod slow;
mod tokens;

use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use insta::assert_snapshot;
use serde_json::{Value, json};
use tollgate::core::Span;
use tollgate::policy::{FileSpec, Period, Unit};
use tollgate::{KeyAct, KeyActKind, KeySubject};
use tower::ServiceExt;

use super::router;
use crate::gate::{Gate, GateSettings};
use crate::headers::samples::{
    at_once, blocked, bucket, domain, engine_settings, named, per_age, policy, queue, rule, shadow,
};

/// A gate with a rule of every kind.
pub(super) fn gate() -> Arc<Gate> {
    let gate = empty_gate();
    let quota = |units| tollgate::policy::Rule { quota_mode: true, ..rule(vec![per_age(units)]) };
    let descriptors = vec![
        ("user", None, rule(vec![per_age(2)])),
        ("plan", Some("free"), rule(vec![named("burst", bucket(60, 5)), named("daily", bucket(6, 3))])),
        ("trial", None, shadow(rule(vec![per_age(1)]))),
        ("upload", None, rule(vec![at_once(1)])),
        ("small", None, quota(1)),
        ("large", None, quota(2)),
    ];
    let mut tiered = policy("tiered", vec![per_age(1)]);
    tiered.rule.limits[0].tiers = vec![("pro".into(), per_age(10).allowance)];
    let policies = vec![
        policy("tokens", vec![per_age(1_000)]),
        policy("search", vec![per_age(2)]),
        policy("uploads", vec![at_once(1)]),
        policy("mail", vec![queue()]),
        policy("closed", vec![blocked(Period::Unit(Unit::Hour))]),
        tiered,
    ];
    gate.install(vec![FileSpec { domain: Some(domain("web", descriptors)), policies }]);
    gate.set_ready(true);
    gate
}

pub(super) fn empty_gate() -> Arc<Gate> {
    Arc::new(Gate::new(GateSettings { engine: engine_settings(), ..GateSettings::default() }).unwrap())
}

pub(super) async fn send(gate: &Arc<Gate>, request: Request<Body>) -> (Response<()>, String) {
    let response = router(Arc::clone(gate)).oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (Response::from_parts(head, ()), String::from_utf8(body.to_vec()).unwrap())
}

pub(super) async fn post(gate: &Arc<Gate>, path: &str, body: impl Into<Body>) -> (StatusCode, String) {
    let (head, body) = send(gate, Request::post(path).body(body.into()).unwrap()).await;
    (head.status(), body)
}

/// Posts JSON, and reads JSON.
pub(super) async fn ask(gate: &Arc<Gate>, path: &str, body: Value) -> (u16, Value) {
    let (status, body) = post(gate, path, body.to_string()).await;
    (status.as_u16(), serde_json::from_str(&body).unwrap())
}

async fn statuses(gate: &Arc<Gate>, path: &str, body: &Value, times: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..times {
        statuses.push(ask(gate, path, body.clone()).await.0);
    }
    statuses
}

/// Times depend on the clock of the machine. They are checked to be there, and blanked.
pub(super) fn without_times(mut value: Value) -> String {
    fn blank(value: &mut Value) {
        match value {
            Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| match name.as_str() {
                "retry_after" | "reset_at" | "reset_after" if value.is_number() => *value = json!("TIME"),
                "message" => *value = json!(value.as_str().unwrap().split(" in ").next().unwrap()),
                _ => blank(value),
            }),
            Value::Array(items) => items.iter_mut().for_each(blank),
            _ => {}
        }
    }
    blank(&mut value);
    value.to_string().replace("},{", "},\n{").replace("[{", "[\n{")
}

fn user(value: &str) -> Value {
    json!({"domain": "web", "descriptors": [{"entries": [{"key": "user", "value": value}]}]})
}

#[tokio::test]
async fn a_policy_admits_and_then_denies() {
    let gate = gate();
    let question = json!({"policy": "search", "key": "alice"});
    let (status, answer) = ask(&gate, "/v1/check", question.clone()).await;
    assert_eq!(status, 200);
    assert_snapshot!(without_times(answer), @r#"
    {"allowed":true,"limit":2,"remaining":1,"retry_after":null,"reset_at":"TIME","quota":2,"window":864000000,"scope":"search","decisions":[
    {"policy":"search","rule":"search","title":"search","enforcement":"enforced","allowed":true,"cost":1,"limit":2,"remaining":1,"quota":2,"window":864000000,"retry_after":null,"reset_after":"TIME"}]}
    "#);
    assert_eq!(statuses(&gate, "/v1/check", &question, 1).await, [200]);
    let (status, answer) = ask(&gate, "/v1/check", question).await;
    assert_eq!(status, 429);
    assert!(answer["retry_after"].as_f64().unwrap() <= 864_000_000.0);
    assert_snapshot!(without_times(answer), @r#"
    {"allowed":false,"code":"rate_limited","message":"too many requests for \"search\": try again","limit":2,"remaining":0,"retry_after":"TIME","reset_at":"TIME","quota":2,"window":864000000,"scope":"search","decisions":[
    {"policy":"search","rule":"search","title":"search","enforcement":"enforced","allowed":false,"cost":1,"limit":2,"remaining":0,"quota":2,"window":864000000,"retry_after":"TIME","reset_after":"TIME"}]}
    "#);
    // Another key has counters of its own.
    assert_eq!(ask(&gate, "/v1/check", json!({"policy": "search", "key": "bob"})).await.0, 200);
}

#[tokio::test]
async fn descriptors_meet_rules() {
    let gate = gate();
    let entries = |key: &str, value: &str| json!({"entries": [{"key": key, "value": value}]});
    let descriptors = json!([
        entries("user", "alice"),
        entries("nobody", "x"),
        entries("plan", "free"),
        entries("trial", "x")
    ]);
    let (status, answer) =
        ask(&gate, "/v1/check", json!({"domain": "web", "descriptors": descriptors})).await;
    assert_eq!(status, 200);
    assert_snapshot!(without_times(answer), @r#"
    {"allowed":true,"limit":2,"remaining":1,"retry_after":null,"reset_at":"TIME","quota":2,"window":864000000,"scope":"user","decisions":[
    {"descriptor":0,"domain":"web","rule":"user","title":"user","enforcement":"enforced","allowed":true,"cost":1,"limit":2,"remaining":1,"quota":2,"window":864000000,"retry_after":null,"reset_after":"TIME"},
    {"descriptor":2,"domain":"web","rule":"plan=free","name":"burst","title":"burst","enforcement":"enforced","allowed":true,"cost":1,"limit":5,"remaining":4,"quota":60,"window":60,"retry_after":null,"reset_after":"TIME"},
    {"descriptor":2,"domain":"web","rule":"plan=free","name":"daily","title":"daily","enforcement":"enforced","allowed":true,"cost":1,"limit":3,"remaining":2,"quota":6,"window":60,"retry_after":null,"reset_after":"TIME"},
    {"descriptor":3,"domain":"web","rule":"trial","title":"trial","enforcement":"shadow","allowed":true,"cost":1,"limit":1,"remaining":0,"quota":1,"window":864000000,"retry_after":null,"reset_after":"TIME"}]}
    "#);
}

#[tokio::test]
async fn what_meets_no_rule_passes() {
    let gate = gate();
    let (head, body) = send(
        &gate,
        Request::post("/v1/check").body(user("x").to_string().replace("web", "elsewhere").into()).unwrap(),
    )
    .await;
    assert_eq!(head.status(), 200);
    assert!(!head.headers().keys().any(|name| name.as_str().contains("ratelimit")));
    assert_snapshot!(body, @r#"{"allowed":true,"limit":null,"remaining":null,"retry_after":null,"reset_at":null,"quota":null,"window":null,"scope":null,"unmatched":"domain","decisions":[]}"#);
}

#[tokio::test]
async fn a_ban_is_answered_as_a_ban() {
    let gate = gate();
    let until = gate.now().plus(Span::from_ticks(3_600_000_000_000));
    let ban = |subject| KeyAct { subject, until, what: KeyActKind::Ban };
    let entries = vec![("user".into(), "mallory".into())];
    let subjects = [
        KeySubject::Policy { name: "search".into(), key: b"mallory".to_vec() },
        KeySubject::Descriptor { domain: "web".into(), entries },
    ];
    gate.engine().set_key_acts(subjects.map(ban).to_vec()).unwrap();
    let policy = json!({"policy": "search", "key": "mallory"});
    for (path, question) in [
        ("/v1/check", &policy),
        ("/v1/peek", &policy),
        ("/v1/reserve", &policy),
        ("/v1/check", &user("mallory")),
        ("/json", &user("mallory")),
    ] {
        let request = Request::post(path).body(question.to_string().into()).unwrap();
        let (head, body) = send(&gate, request).await;
        assert_eq!(head.status(), 403, "{path}");
        let told: Vec<_> =
            head.headers().iter().filter(|(name, _)| !name.as_str().starts_with("content-")).collect();
        let told: Vec<String> =
            told.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        assert_eq!(told, ["retry-after: 3600", "x-tollgate-reason: banned"], "{path}");
        if path == "/json" {
            assert!(body.contains("OVER_LIMIT") && !body.contains("currentLimit"), "{body}");
            continue;
        }
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (&body["code"], &body["limit"], &body["decisions"]),
            (&json!("banned"), &Value::Null, &json!([]))
        );
        let message = body["message"].as_str().unwrap();
        assert!(message.starts_with("an operator has banned this key until 20"), "{message}");
    }
    assert_eq!(ask(&gate, "/v1/check", json!({"policy": "search", "key": "ann"})).await.0, 200);
}

#[tokio::test]
async fn header_fields() {
    let gate = gate();
    let mut names = String::new();
    for path in ["/v1/check", "/v1/check?headers=older", "/v1/check"] {
        let body = Body::from(user("alice").to_string());
        let (head, _) = send(&gate, Request::post(path).body(body).unwrap()).await;
        writeln!(names, "{} {path}", head.status().as_u16()).unwrap();
        for (name, value) in head.headers().iter().filter(|(name, _)| *name != "content-length") {
            let value = value.to_str().unwrap();
            let timed = ["x-ratelimit-reset", "ratelimit-reset", "retry-after"].contains(&name.as_str());
            let value = if timed { "TIME" } else { value.split(";t=").next().unwrap() };
            writeln!(names, "  {name}: {value}").unwrap();
        }
    }
    assert_snapshot!(names, @r#"
    200 /v1/check
      content-type: application/json
      x-ratelimit-limit: 2
      x-ratelimit-remaining: 1
      x-ratelimit-reset: TIME
      ratelimit-policy: "user";q=2;w=864000000
      ratelimit: "user";r=1
    200 /v1/check?headers=older
      content-type: application/json
      x-ratelimit-limit: 2
      x-ratelimit-remaining: 0
      x-ratelimit-reset: TIME
      ratelimit-policy: "user";q=2;w=864000000
      ratelimit: "user";r=0
      ratelimit-limit: 2
      ratelimit-remaining: 0
      ratelimit-reset: TIME
    429 /v1/check
      content-type: application/json
      x-ratelimit-limit: 2
      x-ratelimit-remaining: 0
      x-ratelimit-reset: TIME
      ratelimit-policy: "user";q=2;w=864000000
      ratelimit: "user";r=0
      retry-after: TIME
    "#);
}

#[tokio::test]
async fn costs() {
    let gate = gate();
    let check = async |body: Value| ask(&gate, "/v1/check", body).await;
    // Zero asks without taking.
    assert_eq!(check(json!({"policy": "search", "key": "a", "cost": 0})).await.1["remaining"], 2);
    assert_eq!(check(json!({"policy": "search", "key": "a", "cost": 2})).await.1["remaining"], 0);
    let (status, answer) = check(json!({"policy": "search", "key": "a", "cost": u64::MAX})).await;
    assert_eq!((status, &answer["code"]), (429, &json!("cost_above_limit")));
    assert_snapshot!(answer["message"].as_str().unwrap(), @r#"a cost of 18446744073709551615 can never pass "search", which holds at most 2"#);

    let user = |hits: Value| {
        let mut body = user("a");
        body.as_object_mut().unwrap().extend(hits.as_object().unwrap().clone());
        body
    };
    // As with Envoy, zero means one for the whole request, but none for a descriptor.
    assert_eq!(check(user(json!({"hits_addend": 0}))).await.1["remaining"], 1);
    let mut peeking = user(json!({}));
    peeking["descriptors"][0]["hits_addend"] = json!(0);
    assert_eq!(check(peeking.clone()).await.1["remaining"], 1);
    assert_eq!(check(user(json!({"hits_addend": 1}))).await.1["remaining"], 0);
    // Units can be given back.
    peeking["descriptors"][0]["hits_addend"] = json!(2);
    peeking["descriptors"][0]["is_negative_hits"] = json!(true);
    assert_eq!(check(peeking).await.1["decisions"][0]["remaining"], 2);
}

#[tokio::test]
async fn a_limit_of_its_own() {
    let gate = gate();
    let mut body = user("alice");
    body["descriptors"][0]["limit"] = json!({"requests_per_unit": 1, "unit": "HOUR"});
    assert_eq!(ask(&gate, "/v1/check", body.clone()).await.0, 200);
    let (status, answer) = ask(&gate, "/v1/check", body).await;
    assert_eq!(status, 429);
    assert_snapshot!(without_times(answer), @r#"
    {"allowed":false,"code":"rate_limited","message":"too many requests for \"override\": try again","limit":1,"remaining":0,"retry_after":"TIME","reset_at":"TIME","quota":1,"window":3600,"scope":"override","decisions":[
    {"descriptor":0,"rule":"override","title":"override","enforcement":"enforced","allowed":false,"cost":1,"limit":1,"remaining":0,"quota":1,"window":3600,"retry_after":"TIME","reset_after":"TIME"}]}
    "#);
}

#[tokio::test]
async fn peeking_takes_nothing() {
    let gate = gate();
    let question = user("alice");
    assert_eq!(statuses(&gate, "/v1/peek", &question, 5).await, [200; 5]);
    assert_eq!(statuses(&gate, "/v1/check", &question, 2).await, [200; 2]);
    assert_eq!(statuses(&gate, "/v1/peek", &question, 1).await, [429]);
    let text = gate.metrics_text().unwrap();
    assert!(text.contains("ratelimit_requests_total{protocol=\"http\",outcome=\"peek\"} 6"), "{text}");
    assert!(text.contains("ratelimit_requests_total{protocol=\"http\",outcome=\"denied\"} 0"), "{text}");
    assert!(text.contains("rule=\"user\",outcome=\"allowed\"} 2"), "{text}");
    assert!(text.contains("rule=\"user\",outcome=\"denied\"} 0"), "{text}");
}

#[tokio::test]
async fn shadow_rules_are_reported_to_the_caller_only() {
    let gate = gate();
    let question = json!({"domain": "web", "descriptors": [{"entries": [{"key": "trial", "value": "x"}]}]});
    ask(&gate, "/v1/check", question.clone()).await;
    let (status, answer) = ask(&gate, "/v1/check", question).await;
    assert_eq!((status, &answer["limit"]), (200, &Value::Null));
    let decision = &answer["decisions"][0];
    assert_eq!((&decision["allowed"], &decision["enforcement"]), (&json!(false), &json!("shadow")));
}

#[tokio::test]
async fn quotas_deny_together() {
    let gate = gate();
    let entries = |key: &str| json!({"entries": [{"key": key, "value": "x"}]});
    let question = json!({"domain": "web", "descriptors": [entries("small"), entries("large")]});
    assert_eq!(statuses(&gate, "/v1/check", &question, 3).await, [200, 200, 429]);
}

#[tokio::test]
async fn queues_say_how_long_to_hold_a_request_back() {
    let gate = gate();
    let question = json!({"policy": "mail", "key": "x"});
    assert!(ask(&gate, "/v1/check", question.clone()).await.1.get("wait").is_none());
    let (status, answer) = ask(&gate, "/v1/check", question).await;
    let wait = answer["wait"].as_f64().unwrap();
    assert!(status == 200 && wait > 0.0 && wait <= 3_600.0, "{wait}");
}

#[tokio::test]
async fn tiers() {
    let gate = gate();
    let limit = async |body| ask(&gate, "/v1/check", body).await.1["limit"].clone();
    assert_eq!(limit(json!({"policy": "tiered", "key": "x"})).await, 1);
    assert_eq!(limit(json!({"policy": "tiered", "key": "x", "tier": "pro"})).await, 10);
}

#[tokio::test]
async fn the_body_of_a_denial_alone() {
    let gate = gate();
    let denied = |policy: &str, cost| {
        let request = tollgate::Request::policy(policy, b"x").cost(cost);
        super::denial_body(&gate.decide(&request, crate::metrics::Protocol::Rls).unwrap())
    };
    assert_snapshot!(denied("closed", 1), @r#"{"code":"blocked","message":"\"closed\" lets nothing through","retry_after":3600,"limit":0,"quota":0,"window":3600,"scope":"closed"}"#);
    assert_snapshot!(denied("uploads", 2), @r#"{"code":"cost_above_limit","message":"a cost of 2 can never pass \"uploads\", which holds at most 1","retry_after":3600,"limit":1,"quota":1,"window":null,"scope":"uploads"}"#);
    denied("uploads", 1);
    assert_snapshot!(denied("uploads", 1), @r#"{"code":"too_many_at_once","message":"\"uploads\" lets 1 be at it at once: try again when one is done","retry_after":1,"limit":1,"quota":1,"window":null,"scope":"uploads"}"#);
}

#[tokio::test]
async fn health() {
    let gate = gate();
    let paths = ["/healthz", "/readyz", "/healthcheck"];
    let mut told = String::new();
    for ready in [true, false] {
        gate.set_ready(ready);
        for path in paths {
            let (head, body) = send(&gate, Request::get(path).body(Body::empty()).unwrap()).await;
            writeln!(told, "{path}: {} {}", head.status().as_u16(), body.trim_end()).unwrap();
        }
    }
    assert_snapshot!(told, @r"
    /healthz: 200 ok
    /readyz: 200 ready
    /healthcheck: 200 OK
    /healthz: 200 ok
    /readyz: 503 not ready
    /healthcheck: 500 NOT_SERVING
    ");
}

#[tokio::test]
async fn methods() {
    let gate = gate();
    let mut told = String::new();
    let asked = [
        (Method::GET, "/"),
        (Method::HEAD, "/"),
        (Method::HEAD, "/healthz"),
        (Method::GET, "/v1/check"),
        (Method::OPTIONS, "/v1/check"),
        (Method::POST, "/healthz"),
    ];
    for (method, path) in asked {
        let request = Request::builder().method(&method).uri(path).body(Body::empty()).unwrap();
        let (head, body) = send(&gate, request).await;
        let allow = head.headers().get("allow").map(|allow| allow.to_str().unwrap());
        let first = body.lines().next().unwrap_or_default();
        let line = format!("{method} {path}: {} {allow:?} {first}", head.status().as_u16());
        writeln!(told, "{}", line.trim_end()).unwrap();
    }
    assert_snapshot!(told, @r#"
    GET /: 200 None Tollgate, a rate limiter. May this request pass?
    HEAD /: 200 None
    HEAD /healthz: 200 None
    GET /v1/check: 405 Some("POST") {"error":{"code":"method_not_allowed","message":"this path takes another method: see the Allow header"}}
    OPTIONS /v1/check: 204 Some("POST")
    POST /healthz: 405 Some("GET,HEAD") {"error":{"code":"method_not_allowed","message":"this path takes another method: see the Allow header"}}
    "#);
}
