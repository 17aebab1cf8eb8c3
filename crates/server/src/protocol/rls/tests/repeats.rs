//! Calls whose metadata has the id of a request.

use http::Request;

use super::served::{ask, client, framed, question, serve};
use super::*;
use crate::access::Access;

const RULES: &str = "
domain: d
descriptors:
- {key: ten, rate_limit: {unit: year, requests_per_unit: 10}}
- {key: held, rate_limit: {algorithm: concurrency, requests: 5, period: 60s}}
";
const TOKEN: &str = "0123456789abcdef";
const WINDOW_BYTES: u32 = 1 << 20;
const OK: &str = "0";
const INVALID_ARGUMENT: &str = "3";
const ALREADY_EXISTS: &str = "6";
const PERMISSION_DENIED: &str = "7";
const UNAVAILABLE: &str = "14";

fn with_id(id: &str) -> Request<()> {
    let mut request = question();
    request.headers_mut().insert("tollgate-request-id", id.parse().unwrap());
    request.headers_mut().insert("x-tollgate-token", TOKEN.parse().unwrap());
    request
}

#[tokio::test]
async fn a_call_with_an_id_is_charged_once_however_its_message_arrives() {
    let gate = gate(RULES);
    let mut client = client(serve(&gate).await.0, WINDOW_BYTES).await;
    let body = framed(&message(&[costing("ten", 3)]));
    let (first, second) = body.split_at(7);
    for pieces in [&[&*body][..], &[first, second], &[&*body]] {
        let told = ask(&mut client, with_id("x"), pieces).await;
        assert_eq!((told.grpc_status(), told.overall()), (Some(OK), "OK"));
    }
    assert_eq!((gate.engine().request_id_stats().repeated, gate.engine().request_id_stats().held), (2, 1));
    // Without an id it is a request like any other, and so is one with the headers of a client.
    let mut plain = question();
    plain.headers_mut().insert("x-request-id", "x".parse().unwrap());
    assert_eq!(ask(&mut client, plain, &[&body]).await.overall(), "OK");
    assert_eq!(gate.engine().request_id_stats().repeated, 2);
}

#[tokio::test]
async fn what_is_wrong_with_an_id_has_a_status_of_its_own() {
    let request_ids =
        tollgate::RequestIdSettings { bytes_max: 2 * tollgate::RequestIdSettings::ID_BYTES, tenant_parts: 1 };
    let engine = EngineSettings { request_ids, ..settings().engine };
    let gate = gate_with(RULES, GateSettings { engine, ..settings() });
    let mut client = client(serve(&gate).await.0, WINDOW_BYTES).await;
    let one = framed(&message(&[of("ten")]));
    let other = framed(&message(&[costing("ten", 2)]));
    let held = framed(&message(&[of("held")]));
    let too_long = "x".repeat(129);
    for (id, body, status) in [
        ("x", &one, OK),
        ("x", &other, ALREADY_EXISTS),
        ("a b", &one, INVALID_ARGUMENT),
        (&*too_long, &one, INVALID_ARGUMENT),
        ("held", &held, INVALID_ARGUMENT),
        ("y", &one, OK),
        ("z", &one, UNAVAILABLE),
        ("x", &one, OK),
    ] {
        let told = ask(&mut client, with_id(id), &[body]).await;
        assert_eq!(told.grpc_status(), Some(status), "{id}: {told:?}");
    }
    let stats = gate.engine().request_id_stats();
    assert_eq!((stats.held, stats.refused, stats.conflicts), (2, 1, 1));
}

#[tokio::test]
async fn an_id_needs_a_scope_of_its_own() {
    let body = framed(&message(&[of("ten")]));
    for (scopes, status) in [("", OK), ("scopes=check,request_id", OK), ("scopes=check", PERMISSION_DENIED)] {
        let gate = Arc::into_inner(gate_with(RULES, settings())).unwrap();
        let gate = Arc::new(gate.with_access(Access::of_lines(&format!("{TOKEN} {scopes}"))));
        let mut client = client(serve(&gate).await.0, WINDOW_BYTES).await;
        let told = ask(&mut client, with_id("x"), &[&body]).await;
        assert_eq!(told.grpc_status(), Some(status), "{scopes}: {told:?}");
        let mut plain = with_id("x");
        plain.headers_mut().remove("tollgate-request-id");
        assert_eq!(ask(&mut client, plain, &[&body]).await.grpc_status(), Some(OK));
    }
}
