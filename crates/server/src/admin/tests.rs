//! The admin listener, asked as operators and their tools would ask it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt;
use insta::assert_snapshot;
use tollgate::core::Time;
use tollgate::policy::FileSpec;
use tower::ServiceExt;

use super::testing::{READER, api};
use super::{CLASSIC, OPENMETRICS, router};
use crate::gate::{Gate, GateSettings, SwitchTarget, SwitchedOff};
use crate::headers::samples::{bucket, domain, engine_settings, per_minute, policy, rule};
use crate::metrics::Protocol;

fn gate() -> Arc<Gate> {
    Arc::new(Gate::new(GateSettings { engine: engine_settings(), ..GateSettings::default() }).unwrap())
}

fn load(gate: &Gate) {
    let descriptors = vec![
        ("user", None, rule(vec![per_minute(2)])),
        ("plan", Some("free"), rule(vec![bucket(60, 5), per_minute(2)])),
    ];
    let policies = vec![policy("search", vec![per_minute(2)])];
    gate.install(vec![FileSpec { domain: Some(domain("web", descriptors)), policies }]);
    gate.set_ready(true);
}

async fn send(gate: &Arc<Gate>, method: Method, path: &str) -> (http::response::Parts, String) {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {READER}"));
    send_request(gate, request.body(Body::empty()).unwrap()).await
}

async fn send_request(gate: &Arc<Gate>, request: Request<Body>) -> (http::response::Parts, String) {
    let (head, body) = router(api(gate)).oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn metrics_in_the_format_that_is_asked_for() {
    let of_prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
         application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    let cases = [
        (None, CLASSIC),
        (Some("*/*"), CLASSIC),
        (Some("text/plain"), CLASSIC),
        (Some("text/plain, application/openmetrics-text; q=0"), CLASSIC),
        (Some("application/openmetrics-text"), OPENMETRICS),
        (Some("text/plain;q=0.5 , Application/OpenMetrics-Text"), OPENMETRICS),
        (Some(of_prometheus), OPENMETRICS),
    ];
    for (accept, kind) in cases {
        let request = Request::get("/metrics");
        let request = accept.into_iter().fold(request, |request, accept| request.header("accept", accept));
        let (head, body) = send_request(&gate(), request.body(Body::empty()).unwrap()).await;
        assert_eq!((head.status.as_u16(), head.headers["content-type"].to_str().unwrap()), (200, kind));
        assert!(body.contains("\ntollgate_build_info{version="), "{body}");
        assert_eq!(body.ends_with("# EOF\n"), kind == OPENMETRICS, "{accept:?}");
    }
}

#[tokio::test]
async fn config_says_what_is_loaded() {
    let gate = gate();
    assert_snapshot!(send(&gate, Method::GET, "/config").await.1, @r#"{"ready":false,"loaded":false,"rules":0,"limits":0,"switched_off":[],"domains":[],"policies":[]}"#);
    load(&gate);
    assert_snapshot!(send(&gate, Method::GET, "/config").await.1, @r#"{"ready":true,"loaded":true,"rules":3,"limits":4,"switched_off":[],"domains":[{"name":"web","enabled":true,"rules":2,"limits":3}],"policies":[{"name":"search","enabled":true,"limits":1}]}"#);
}

#[tokio::test]
async fn config_says_what_is_switched_off() {
    let gate = gate();
    load(&gate);
    let off = |target| SwitchedOff { target, until: Time::MAX, reason: None };
    let config = async || send(&gate, Method::GET, "/config").await.1;
    let ended = SwitchedOff { until: Time::from_ticks(1), ..off(SwitchTarget::All) };
    gate.switch(vec![off(SwitchTarget::Domain("web".to_owned())), ended]);
    let told = config().await;
    assert!(
        told.contains(r#""switched_off":[{"what":"domain web"}],"domains":[{"name":"web","enabled":false,"#),
        "{told}"
    );
    assert!(told.contains(r#"{"name":"search","enabled":true,"#), "{told}");
    let until = Time::from_ticks(2_524_608_000_000_000_000);
    gate.switch(vec![SwitchedOff { until, ..off(SwitchTarget::Rule("policy search".to_owned())) }]);
    let told = config().await;
    assert!(told.contains(r#"[{"what":"rule policy search","until":"2050-01-01T00:00:00Z"}]"#), "{told}");
    assert!(told.contains(r#"{"name":"search","enabled":false,"#), "{told}");
}

#[tokio::test]
async fn hot_keys_are_shown_the_heaviest_first() {
    let gate = gate();
    load(&gate);
    assert_snapshot!(send(&gate, Method::GET, "/admin/v1/hotkeys").await.1, @r#"{"keys":[]}"#);
    for (key, times) in [(&b"alice"[..], 2), (b"bob", 4), (b"\"\xff", 1)] {
        for _ in 0..times {
            gate.decide(&tollgate::Request::policy("search", key), Protocol::Http).unwrap();
        }
    }
    let (head, body) = send(&gate, Method::GET, "/admin/v1/hotkeys").await;
    assert_eq!(head.headers["content-type"], "application/json");
    let told: serde_json::Value = serde_json::from_str(&body).unwrap();
    let mut shown = String::new();
    for key in told["keys"].as_array().unwrap() {
        assert!(key["per_second"].as_f64().unwrap() > 0.5, "{key}");
        let parts = [
            "id",
            "domain",
            "rule",
            "limit",
            "key",
            "per_second_error",
            "share",
            "denied_ratio",
            "hot",
            "leased",
        ];
        let told: Vec<String> = parts.iter().map(|part| key[part].to_string()).collect();
        writeln!(shown, "{}", told.join(" ")).unwrap();
    }
    assert_snapshot!(shown, @r#"
    2 "" "search" "search" "bob" 0.0 0.5714 0.5 false false
    1 "" "search" "search" "alice" 0.0 0.2857 0.0 false false
    3 "" "search" "search" "\"�" 0.0 0.1429 0.0 false false
    "#);
}

#[tokio::test]
async fn everything_else() {
    let gate = gate();
    load(&gate);
    let mut told = String::new();
    let asked = [
        (Method::GET, "/"),
        (Method::GET, "/healthz"),
        (Method::GET, "/readyz"),
        (Method::GET, "/nowhere"),
        (Method::POST, "/admin/v1/hotkeys"),
        (Method::OPTIONS, "/admin/v1/hotkeys"),
        (Method::HEAD, "/admin/v1/hotkeys"),
        (Method::GET, "/admin/v1/nowhere"),
        (Method::GET, "/admin/v1"),
        (Method::GET, "/admin/v1/"),
        (Method::GET, "/admin/v11"),
        (Method::POST, "/metrics"),
        (Method::OPTIONS, "/metrics"),
        (Method::HEAD, "/metrics"),
    ];
    for (method, path) in asked {
        let (head, body) = send(&gate, method.clone(), path).await;
        let first = body.lines().next().unwrap_or_default();
        let line = format!("{method} {path}: {} {first}", head.status.as_u16());
        writeln!(told, "{}", line.trim_end()).unwrap();
    }
    assert_snapshot!(told, @r#"
    GET /: 200 Tollgate, a rate limiter: the admin listener.
    GET /healthz: 200 ok
    GET /readyz: 200 ready
    GET /nowhere: 404 Tollgate, a rate limiter: the admin listener.
    POST /admin/v1/hotkeys: 405 {"type":"urn:tollgate:method","title":"This path takes another method","status":405,"detail":"the header Allow says which methods there are"}
    OPTIONS /admin/v1/hotkeys: 405 {"type":"urn:tollgate:method","title":"This path takes another method","status":405,"detail":"the header Allow says which methods there are"}
    HEAD /admin/v1/hotkeys: 200
    GET /admin/v1/nowhere: 404 {"type":"urn:tollgate:not-found","title":"There is nothing here","status":404,"detail":"there is nothing at this path; see /admin/v1/openapi.json"}
    GET /admin/v1: 404 {"type":"urn:tollgate:not-found","title":"There is nothing here","status":404,"detail":"there is nothing at this path; see /admin/v1/openapi.json"}
    GET /admin/v1/: 404 {"type":"urn:tollgate:not-found","title":"There is nothing here","status":404,"detail":"there is nothing at this path; see /admin/v1/openapi.json"}
    GET /admin/v11: 404 Tollgate, a rate limiter: the admin listener.
    POST /metrics: 405 {"error":{"code":"method_not_allowed","message":"this path takes another method: see the Allow header"}}
    OPTIONS /metrics: 204
    HEAD /metrics: 200
    "#);
}
