//! `/v1/auth`, asked as proxies ask it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use http::{HeaderValue, Method, Request, Response};
use insta::assert_snapshot;
use proptest::prelude::*;
use tollgate::policy::Source;

use super::{empty_gate, engine_settings, send};
use crate::fuzzing::at_once;
use crate::gate::{Gate, GateSettings, PathForm};
use crate::protocol::http::auth::answer;
use crate::stream::Peer;

const SHOP: &str = r#"
domain: shop
forward_auth:
- actions:
  - request_headers: {header_name: ":path", descriptor_key: path}
  - request_headers: {header_name: ":method", descriptor_key: method}
- actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
- actions: [{request_headers: {header_name: ":authority", descriptor_key: host}}]
- actions: [{request_headers: {header_name: ":scheme", descriptor_key: scheme}}]
- actions: [{query_parameters: {query_parameter_name: a b, descriptor_key: parameter}}]
- actions: [{generic_key: {descriptor_value: address}}, {remote_address: {}}]
descriptors:
- {key: path, value: /login, descriptors: [{key: method, value: POST, rate_limit: {unit: day, requests_per_unit: 0}}]}
- {key: user, rate_limit: {name: per-user, unit: day, requests_per_unit: 2}}
- {key: host, value: closed.example, rate_limit: {unit: day, requests_per_unit: 0}}
- {key: scheme, value: gopher, rate_limit: {unit: day, requests_per_unit: 0}}
- {key: parameter, value: c/d, rate_limit: {unit: day, requests_per_unit: 0}}
- {key: generic_key, value: address, descriptors: [{key: remote_address, value: 192.0.2.66, rate_limit: {unit: day, requests_per_unit: 0}}]}
policies:
  two: {requests: 2, period: 1d}
"#;

type Fields<'a> = &'a [(&'a str, &'a str)];

fn gate_with(files: &[&str]) -> Arc<Gate> {
    let gate = empty_gate();
    let sources: Vec<_> =
        files.iter().enumerate().map(|(at, text)| Source::new(format!("{at}.yaml"), *text)).collect();
    gate.load(&sources).unwrap();
    gate.set_ready(true);
    gate
}

fn request(peer: &str, target: &str, fields: Fields<'_>) -> Request<Body> {
    let mut request = Request::get(target);
    for (name, value) in fields {
        request = request.header(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    let mut request = request.body(Body::empty()).unwrap();
    request.extensions_mut().insert(Peer { address: SocketAddr::new(peer.parse().unwrap(), 4711) });
    request
}

async fn ask(gate: &Arc<Gate>, peer: &str, target: &str, fields: Fields<'_>) -> (Response<()>, String) {
    send(gate, request(peer, target, fields)).await
}

/// The status of a request that a proxy at 127.0.0.1 asks about.
async fn status(gate: &Arc<Gate>, target: &str, fields: Fields<'_>) -> u16 {
    ask(gate, "127.0.0.1", target, fields).await.0.status().as_u16()
}

fn field<'a>(head: &'a Response<()>, name: &str) -> Option<&'a str> {
    head.headers().get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn a_denial_says_when_to_come_back() {
    let gate = gate_with(&[SHOP]);
    let mut heads = Vec::new();
    for _ in 0..3 {
        heads.push(ask(&gate, "127.0.0.1", "/v1/auth", &[("x-user", "ann")]).await);
    }
    let told = |name: &str| {
        heads.iter().map(|(head, _)| field(head, name).unwrap_or("-").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(heads.iter().map(|(head, _)| head.status().as_u16()).collect::<Vec<_>>(), [200, 200, 429]);
    assert_eq!(told("x-ratelimit-limit"), ["2", "2", "2"]);
    assert_eq!(told("x-ratelimit-remaining"), ["1", "0", "0"]);
    assert_eq!(told("ratelimit-policy"), [r#""per-user";q=2;w=86400"#; 3]);
    assert_eq!(told("content-type"), ["-", "-", "application/json"]);
    assert_eq!(told("retry-after")[..2], ["-", "-"]);
    let retry_after: u64 = told("retry-after")[2].parse().unwrap();
    assert!((1..=172_800).contains(&retry_after), "{retry_after}");
    assert_eq!(heads[0].1, "");
    let denial: serde_json::Value = serde_json::from_str(&heads[2].1).unwrap();
    assert_eq!((&denial["code"], &denial["scope"]), (&"rate_limited".into(), &"per-user".into()));
}

#[tokio::test]
async fn spellings_of_a_path_meet_its_rule_where_paths_are_normalized() {
    for (path_form, expected) in [(PathForm::Normalized, 429), (PathForm::AsSent, 200)] {
        let settings = GateSettings { engine: engine_settings(), path_form, ..GateSettings::default() };
        let gate = Arc::new(Gate::new(settings).unwrap());
        gate.load(&[Source::new("0.yaml", SHOP)]).unwrap();
        gate.set_ready(true);
        let asked = async |path| {
            status(&gate, "/v1/auth", &[("x-forwarded-uri", path), ("x-forwarded-method", "POST")]).await
        };
        assert_eq!(asked("/login").await, 429);
        for path in ["//login", "/x/../login", "/%6Cogin"] {
            assert_eq!(asked(path).await, expected, "{path} {path_form:?}");
        }
    }
}

#[tokio::test]
async fn the_deny_status_is_chosen() {
    let gate = gate_with(&[SHOP]);
    let closed: Fields<'_> = &[("x-forwarded-host", "closed.example")];
    assert_eq!(status(&gate, "/v1/auth", closed).await, 429);
    assert_eq!(status(&gate, "/v1/auth?deny=403", closed).await, 403);
    assert_eq!(status(&gate, "/v1/auth?deny=599&domain=shop", closed).await, 599);
    let (head, _) = ask(&gate, "127.0.0.1", "/v1/auth?headers=older", &[("x-user", "ann")]).await;
    assert_eq!(field(&head, "ratelimit-remaining"), Some("1"));
}

#[tokio::test]
async fn any_method_and_no_descriptor() {
    let gate = gate_with(&[SHOP]);
    for method in [Method::GET, Method::HEAD, Method::POST, Method::OPTIONS, Method::DELETE, Method::PATCH] {
        let mut request = request("127.0.0.1", "/v1/auth", &[("x-forwarded-host", "closed.example")]);
        *request.method_mut() = method.clone();
        assert_eq!(send(&gate, request).await.0.status(), 429, "{method}");
    }
    let nothing = gate_with(&[
        "domain: d\nforward_auth: [{actions: [{request_headers: {header_name: x, descriptor_key: x}}]}]",
    ]);
    let (head, body) = ask(&nothing, "127.0.0.1", "/v1/auth", &[]).await;
    assert_eq!((head.status().as_u16(), body.as_str(), field(&head, "ratelimit")), (200, "", None));
    assert_eq!(status(&nothing, "/v1/auth", &[("x", "a rule for which there is none")]).await, 200);
}

#[tokio::test]
async fn what_the_client_has_sent_is_what_counts() {
    let gate = gate_with(&[SHOP]);
    let login: [Fields<'_>; 4] = [
        &[("x-forwarded-uri", "/login"), ("x-forwarded-method", "POST")],
        &[("x-original-uri", "/login"), ("x-original-method", "POST")],
        &[("x-original-url", "https://shop.example/login"), ("x-original-method", "POST")],
        &[("x-original-uri", "/"), ("x-forwarded-uri", "/login"), ("x-forwarded-method", "POST")],
    ];
    for fields in login {
        assert_eq!(status(&gate, "/v1/auth", fields).await, 429, "{fields:?}");
        // Whoever is no proxy of ours speaks for nobody.
        assert_eq!(ask(&gate, "198.51.100.1", "/v1/auth", fields).await.0.status(), 200, "{fields:?}");
    }
    for (fields, expected) in [
        (&[("x-forwarded-uri", "/login"), ("x-forwarded-method", "GET")][..], 200),
        (&[("x-forwarded-uri", "/login?x=1"), ("x-forwarded-method", "POST")], 200),
        (&[("x-forwarded-uri", "/x?u=http://h/login"), ("x-forwarded-method", "POST")], 200),
        (&[("x-forwarded-host", "closed.example")], 429),
        (&[("host", "closed.example")], 429),
        (&[("host", "closed.example"), ("x-forwarded-host", "open.example")], 200),
        (&[("x-forwarded-proto", "gopher")], 429),
        (&[("x-forwarded-uri", "/?z&a%20b=c%2Fd&a%20b=e")], 429),
        (&[("x-forwarded-uri", "/?a b=c/d#a b=e")], 429),
        (&[("x-forwarded-uri", "/?a+b=c%2Fd")], 200),
        (&[("x-forwarded-uri", "/#?a%20b=c%2Fd")], 200),
        (&[("x-forwarded-for", "192.0.2.66")], 429),
        (&[("x-forwarded-for", "192.0.2.66, 192.0.2.67")], 200),
    ] {
        assert_eq!(status(&gate, "/v1/auth", fields).await, expected, "{fields:?}");
    }
}

#[tokio::test]
async fn a_policy_counts_addresses() {
    let gate = gate_with(&[SHOP]);
    let from = async |address: &str, fields: Fields<'_>| {
        let fields: Vec<_> = fields.iter().copied().chain([("x-forwarded-for", address)]).collect();
        status(&gate, "/v1/auth?policy=two", &fields).await
    };
    assert_eq!(
        [from("192.0.2.1", &[]).await, from("192.0.2.1", &[]).await, from("192.0.2.1", &[]).await],
        [200, 200, 429]
    );
    assert_eq!(from("1.2.3.4, 192.0.2.1", &[]).await, 429);
    assert_eq!(from("::ffff:192.0.2.1", &[]).await, 429);
    assert_eq!(from("192.0.2.2", &[]).await, 200);
    // One network, whatever its addresses.
    assert_eq!(
        [from("2001:db8::1", &[]).await, from("2001:db8::2", &[]).await, from("2001:db8::3", &[]).await],
        [200, 200, 429]
    );
    assert_eq!(from("2001:db8:0:1::1", &[]).await, 200);
}

#[tokio::test]
async fn a_policy_counts_a_header_or_else_addresses() {
    let gate = gate_with(&[SHOP]);
    let by_key = async |key: &str| {
        let fields = [("x-api-key", key), ("x-forwarded-for", "192.0.2.1")];
        let fields = if key.is_empty() { &fields[1..] } else { &fields[..] };
        status(&gate, "/v1/auth?policy=two&key=header:X-Api-Key", fields).await
    };
    assert_eq!([by_key("k").await, by_key("k").await, by_key("k").await], [200, 200, 429]);
    // A key that looks like an address takes nothing from whoever has that address.
    assert_eq!(
        [by_key("192.0.2.1").await, by_key("192.0.2.1").await, by_key("192.0.2.1").await],
        [200, 200, 429]
    );
    assert_eq!([by_key("").await, by_key("").await, by_key("").await], [200, 200, 429]);
    assert_eq!(
        status(&gate, "/v1/auth?policy=two&key=address", &[("x-forwarded-for", "192.0.2.1")]).await,
        429
    );
}

/// What is said to a query, beside `SHOP` and these files.
async fn told(gate: &Arc<Gate>, query: &str) -> String {
    let (head, body) = ask(gate, "127.0.0.1", &format!("/v1/auth{query}"), &[]).await;
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    format!("{} {}", head.status().as_u16(), body["error"]["message"].as_str().unwrap())
}

#[tokio::test]
async fn bad_queries() {
    let gate = gate_with(&[SHOP, "domain: bare"]);
    let mut said = Vec::new();
    let queries = [
        "?domain=shpo",
        "?domain=bare",
        "?policy=tow",
        "?domain=shop&policy=two",
        "?key=header:x",
        "?policy=two&key=x",
        "?policy=two&key=header:",
        "?deny=200",
        "?deny=600",
        "?deny=nginx",
        "?deny=",
        "?headers=newer",
        "?dmain=shop",
        "?policy=two&policy=two",
        "?policy=%",
    ];
    for query in queries {
        said.push(format!("{query}\n  {}", told(&gate, query).await));
    }
    assert_snapshot!(said.join("\n"), @r#"
    ?domain=shpo
      400 unknown domain "shpo": it could be shop
    ?domain=bare
      400 the domain "bare" has no `forward_auth` in its rules: it says how descriptors are made of a request
    ?policy=tow
      400 unknown policy "tow"; it could be two
    ?domain=shop&policy=two
      400 `domain` and `policy` do not go together: keep one of them
    ?key=header:x
      400 `key` goes with `policy`: add policy=NAME, or name the header in `forward_auth` of the rules
    ?policy=two&key=x
      400 `key` is "x", and can be `address` or `header:NAME`
    ?policy=two&key=header:
      400 `key` is "header:", and can be `address` or `header:NAME`
    ?deny=200
      400 `deny` is "200", and must be a status from 400 to 599, such as 403 for nginx
    ?deny=600
      400 `deny` is "600", and must be a status from 400 to 599, such as 403 for nginx
    ?deny=nginx
      400 `deny` is "nginx", and must be a status from 400 to 599, such as 403 for nginx
    ?deny=
      400 `deny` has no value
    ?headers=newer
      400 `headers` is "newer", and can be `older`
    ?dmain=shop
      400 unknown parameter "dmain": the query has domain, policy, key, deny and headers
    ?policy=two&policy=two
      400 `policy` is there twice
    ?policy=%
      400 unknown policy "%"; it could be two
    "#);
    assert_snapshot!(told(&gate_with(&["domain: bare"]), "").await, @"400 no domain has `forward_auth` in its rules: add it, or ask /v1/auth?policy=NAME");
    let two = [
        "domain: a\nforward_auth: [{actions: [{remote_address: {}}]}]",
        "domain: b\nforward_auth: [{actions: [{remote_address: {}}]}]",
    ];
    assert_snapshot!(told(&gate_with(&two), "").await, @"400 which domain is meant? Add domain=NAME to the query: it could be a, b");
    assert_snapshot!(told(&empty_gate(), "").await, @"503 no rules are loaded yet: try again in a moment");
    assert_snapshot!(told(&empty_gate(), "?policy=two").await, @"503 no rules are loaded yet: try again in a moment");
}

#[tokio::test]
async fn huge_values_and_no_text() {
    let gate = gate_with(&[SHOP]);
    let huge = "x".repeat(60_000);
    assert_eq!(status(&gate, "/v1/auth", &[("x-user", &huge), ("x-forwarded-uri", &huge)]).await, 200);
    let mut request = request("127.0.0.1", "/v1/auth", &[]);
    for name in ["x-user", "x-forwarded-uri", "x-forwarded-method", "x-forwarded-host", "x-forwarded-for"] {
        request.headers_mut().insert(name, HeaderValue::from_bytes(b"\xff\xfe?a=\xff").unwrap());
    }
    assert_eq!(send(&gate, request).await.0.status(), 200);
}

proptest! {
    /// Whatever a client sends, there is an answer, and it is never a complaint: a proxy might let the request through then.
    #[test]
    fn no_client_can_make_it_fail(
        fields in prop::collection::vec((
            "(x-user|x-forwarded-uri|x-original-url|x-forwarded-method|x-forwarded-host|x-forwarded-for|x-real-ip|host)",
            prop::collection::vec(prop_oneof![32..=255_u8, Just(b','), Just(b'%'), Just(b'?')], 0..40),
        ), 0..8),
    ) {
        let gate = gate_with(&[SHOP]);
        for target in ["/v1/auth", "/v1/auth?policy=two&key=header:x-user"] {
            let mut request = request("127.0.0.1", target, &[]);
            for (name, value) in &fields {
                let Ok(value) = HeaderValue::from_bytes(value) else { continue };
                request.headers_mut().append(http::HeaderName::try_from(name).unwrap(), value);
            }
            let status = at_once(answer((&gate, None), &request.into_parts().0)).status().as_u16();
            prop_assert!([200, 429].contains(&status), "{}", status);
        }
    }
}
