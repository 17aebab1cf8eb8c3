//! What gRPC demands of a server. tonic knows it: whatever is sent, it and the connection of our own answer alike.

use bytes::Bytes;
use http::Request;
use prost::Message;

use super::super::MESSAGE_BYTES_MAX;
use super::super::decode::{DESCRIPTORS_MAX, ENTRIES_MAX};
use super::served::{Told, ask, client, framed, framed_bytes, question, serve, serve_by_tonic};
use super::*;

const RULES: &str = r"
domain: d
descriptors:
- key: one
  rate_limit: {unit: year, requests_per_unit: 1, name: only}
- key: many
  rate_limit: {unit: year, requests_per_unit: 1000000}
";
const WINDOW_BYTES: u32 = 1 << 20;

/// Sends the same to both, in one piece, cut in the middle, and byte by byte, and gives what both have answered.
async fn check_settings(settings: &GateSettings, request: &Request<()>, body: &[u8]) -> Told {
    let gates = [gate_with(RULES, settings.clone()), gate_with(RULES, settings.clone())];
    let mut ours = client(serve(&gates[0]).await.0, WINDOW_BYTES).await;
    let mut tonics = client(serve_by_tonic(&gates[1]).await, WINDOW_BYTES).await;
    let halves = body.split_at(body.len() / 2);
    let bytes: Vec<&[u8]> = body.chunks(1).take(if body.len() < 200 { 200 } else { 0 }).collect();
    let cuts = [vec![body], vec![halves.0, halves.1], bytes, vec![body, &[]]];
    let mut last = None;
    for pieces in cuts.iter().filter(|pieces| !pieces.is_empty() || body.is_empty()) {
        let (our, tonics) =
            (ask(&mut ours, request.clone(), pieces).await, ask(&mut tonics, request.clone(), pieces).await);
        assert_eq!(timeless(&our), timeless(&tonics), "{request:?} {:?}", &body[..body.len().min(100)]);
        last = Some(our);
    }
    last.unwrap()
}

/// An answer without what depends on the moment. That both write the same about the same verdict is shown elsewhere.
fn timeless(told: &Told) -> (Told, Option<RateLimitResponse>) {
    let bodiless = Told { body: Bytes::new(), ..told.clone() };
    let Some(message) = told.body.get(5..) else { return (bodiless, None) };
    let mut response = RateLimitResponse::decode(message).unwrap();
    for status in &mut response.statuses {
        status.duration_until_reset = None;
    }
    for header in &mut response.response_headers_to_add {
        header.value.clear();
    }
    response.raw_body.truncate(1);
    (bodiless, Some(response))
}

async fn check(request: &Request<()>, body: &[u8], grpc_status: &str) -> Told {
    let told = check_settings(&settings(), request, body).await;
    assert_eq!((told.http_status, told.grpc_status()), (200, Some(grpc_status)), "{told:?}");
    told
}

fn with(mut request: Request<()>, name: &'static str, value: &'static str) -> Request<()> {
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}

fn to(path: &str) -> Request<()> {
    let mut request = question();
    *request.uri_mut() = format!("http://tollgate{path}").parse().unwrap();
    request
}

#[tokio::test]
async fn questions() {
    let told = check(&question(), &framed(&message(&[of("many")])), "0").await;
    assert_eq!(told.overall(), "OK");
    let told = check(&question(), &framed(&message(&[of("one"), of("many")])), "0").await;
    assert_eq!(told.overall(), "OVER_LIMIT");
    let mut binary = message(&[of("many")]);
    binary.descriptors[0].entries[0].value = vec![0xff, b'v'];
    check(&question(), &framed(&binary), "0").await;
    // A group that nobody knows is skipped.
    let grouped = [message(&[of("many")]).encode_to_vec(), vec![0x2b, 0x08, 0x01, 0x2c]].concat();
    check(&question(), &framed_bytes(&grouped), "0").await;
}

#[tokio::test]
async fn questions_with_metadata() {
    let settings = GateSettings { rls_dynamic_metadata: true, ..settings() };
    let told = check_settings(&settings, &question(), &framed(&message(&[of("many")]))).await;
    let response = RateLimitResponse::decode(&told.body[5..]).unwrap();
    assert!(response.dynamic_metadata.is_some());
}

#[tokio::test]
async fn what_cannot_be_asked() {
    check(&question(), &framed(&message(&[])), "2").await;
    check(&question(), &framed(&RateLimitRequest { domain: String::new(), ..message(&[of("one")]) }), "2")
        .await;
    check(&question(), &framed(&message(&[limited("one", 1, 99)])), "2").await;
    check(&question(), &framed(&message(&vec![of("one"); DESCRIPTORS_MAX + 1])), "3").await;
    check(&question(), &framed(&message(&[descriptor(&[("a", "b"); ENTRIES_MAX + 1])])), "3").await;
}

#[tokio::test]
async fn bodies_that_hold_no_message() {
    let whole = framed(&message(&[of("many")]));
    check(&question(), &[], "13").await;
    for end in [1, 4, 5, whole.len() - 1] {
        check(&question(), &whole[..end], "13").await;
    }
    check(&question(), &[whole.as_slice(), &[0]].concat(), "13").await;
    check(&question(), &[1, 0, 0, 0, 0], "13").await;
    check(&question(), &[2, 0, 0, 0, 0], "13").await;
    for bytes in [&[0x0a][..], &[0x08, 1], &[0x0a, 1, 0xff], &[0x2b], &[0x2c], &[0x07], &[0xff; 11]] {
        check(&question(), &framed_bytes(bytes), "13").await;
    }
}

#[tokio::test]
async fn two_messages() {
    let whole = framed(&message(&[of("many")]));
    check(&question(), &[whole.as_slice(), &whole].concat(), "0").await;
    check(&question(), &[whole.as_slice(), &framed_bytes(&[0x0a])].concat(), "13").await;
}

#[tokio::test]
async fn a_message_that_is_too_long() {
    let length = u32::try_from(MESSAGE_BYTES_MAX + 1).unwrap().to_be_bytes();
    check(&question(), &[&[0], length.as_slice(), &[0x0a; 50]].concat(), "11").await;
}

#[tokio::test]
async fn compression() {
    let whole = framed(&message(&[of("many")]));
    check(&with(question(), "grpc-encoding", "identity"), &whole, "0").await;
    check(&with(question(), "grpc-encoding", "gzip"), &whole, "12").await;
    check(&with(question(), "grpc-accept-encoding", "gzip,identity"), &whole, "0").await;
}

#[tokio::test]
async fn content_types() {
    let whole = framed(&message(&[of("many")]));
    check(&with(question(), "content-type", "application/grpc+proto"), &whole, "0").await;
    // tonic would answer, but the protocol demands otherwise.
    let mut ours = client(serve(&gate(RULES)).await.0, WINDOW_BYTES).await;
    let told = ask(&mut ours, with(question(), "content-type", "application/json"), &[&whole]).await;
    assert_eq!((told.http_status, told.grpc_status()), (415, None));
    let mut bare = question();
    bare.headers_mut().remove("content-type");
    assert_eq!(ask(&mut ours, bare, &[&whole]).await.http_status, 415);
}

#[tokio::test]
async fn other_methods() {
    let service = "/envoy.service.ratelimit.v3.RateLimitService";
    for path in [&format!("{service}/Other"), &format!("{service}/"), service, "/", "/other.Service/Method"] {
        check(&to(path), &framed(&message(&[of("many")])), "12").await;
    }
    check(&to("/grpc.health.v1.Health/Check"), &framed_bytes(&[]), "0").await;
    check(&to("/grpc.health.v1.Health/Check"), &framed_bytes(&[0x0a, 1, b'x']), "5").await;
    let mut get = question();
    *get.method_mut() = http::Method::GET;
    check(&get, &framed(&message(&[of("many")])), "0").await;
}
