//! Calls that are not of `ShouldRateLimit`: how many there may be, and how long they may take.
//!
//! Time is paused where something has to be waited for: it jumps to the next timer as soon as nothing else is to be done.

use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::Request;
use tokio::time::timeout;

use super::served::{ask, begin, client, framed, framed_bytes, question, serve, serve_in, told};
use super::*;
use crate::room::Room;

const RULES: &str = r"
domain: d
descriptors:
- key: many
  rate_limit: {unit: year, requests_per_unit: 1000000}
";
const WINDOW_BYTES: u32 = 1 << 20;
/// Longer than anything takes that has an end.
const FOR_EVER: Duration = Duration::from_mins(5);
const HEALTH: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
/// Asks reflection for the names of all services.
const LIST_SERVICES: &[u8] = b"\x3a\x01*";

fn to(path: &str) -> Request<()> {
    let mut request = question();
    *request.uri_mut() = format!("http://tollgate{path}").parse().unwrap();
    request
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_message_never_comes_is_given_up() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    for path in [HEALTH, WATCH] {
        let (answer, mut stream) = begin(&mut client, to(path));
        stream.send_data(Bytes::from_static(&[0, 0]), false).unwrap();
        let told = told(timeout(FOR_EVER, answer).await.unwrap().unwrap()).await;
        assert_eq!(told.grpc_status(), Some("4"), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_in_an_unusual_form_has_to_come_as_well() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    let mut request = question();
    request.headers_mut().insert("grpc-encoding", "gzip".parse().unwrap());
    let (answer, _stream) = begin(&mut client, request);
    let told = told(timeout(FOR_EVER, answer).await.unwrap().unwrap()).await;
    assert_eq!(told.grpc_status(), Some("4"));
}

#[tokio::test(start_paused = true)]
async fn a_call_of_reflection_ends_after_a_while() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    let (answer, mut stream) = begin(&mut client, to(REFLECTION));
    stream.send_data(framed_bytes(LIST_SERVICES).into(), false).unwrap();
    let mut body = answer.await.unwrap().into_body();
    let first = body.data().await.unwrap().unwrap();
    assert!(first.len() > 50, "{first:?}");
    let error = timeout(FOR_EVER, body.data()).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.reason(), Some(Reason::CANCEL));
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_reflection_that_is_not_taken_is_given_up() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, 0).await;
    let (answer, mut stream) = begin(&mut client, to(REFLECTION));
    stream.send_data(framed_bytes(LIST_SERVICES).into(), false).unwrap();
    let mut body = answer.await.unwrap().into_body();
    let error = timeout(FOR_EVER, body.data()).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.reason(), Some(Reason::CANCEL));
}

#[tokio::test(start_paused = true)]
async fn a_watch_has_no_end() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    let (answer, mut stream) = begin(&mut client, to(WATCH));
    stream.send_data(framed_bytes(&[]).into(), true).unwrap();
    let mut body = answer.await.unwrap().into_body();
    assert_eq!(body.data().await.unwrap().unwrap().len(), 7);
    // The client's answers to pings need the system, for which paused time does not wait: so the steps are small.
    for _ in 0..2000 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        tokio::task::spawn_blocking(std::thread::yield_now).await.unwrap();
    }
    assert!(timeout(Duration::from_secs(1), body.data()).await.is_err());
}

#[tokio::test]
async fn sixteen_watches_leave_room_for_questions_and_for_no_other_call() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    let mut watches = Vec::new();
    for _ in 0..16 {
        let (answer, mut stream) = begin(&mut client, to(WATCH));
        stream.send_data(framed_bytes(&[]).into(), true).unwrap();
        watches.push((answer.await.unwrap(), stream));
    }
    for path in [WATCH, HEALTH, REFLECTION, "/no.such.Service/Method"] {
        let told = ask(&mut client, to(path), &[&framed_bytes(&[])]).await;
        assert_eq!(told.grpc_status(), Some("8"), "{path}");
    }
    let body = framed(&message(&[of("many")]));
    assert_eq!(ask(&mut client, question(), &[&body]).await.overall(), "OK");
    assert_eq!(ask(&mut client, question(), &[&body[..7], &body[7..]]).await.overall(), "OK");
    watches.pop().unwrap().1.send_reset(Reason::CANCEL);
    // The reset may come later than the next call.
    let mut told = None;
    while told.as_deref() != Some("0") {
        let answer = ask(&mut client, to(HEALTH), &[&framed_bytes(&[])]).await;
        told = answer.grpc_status().map(str::to_owned);
    }
}

#[tokio::test]
async fn health_is_answered_though_the_account_is_full() {
    let (address, _stopper) = serve_in(Room::new(100, 0), &gate(RULES)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    let body = framed(&message(&[of("many")]));
    for _ in 0..100 {
        assert_eq!(ask(&mut client, to(HEALTH), &[&framed_bytes(&[])]).await.grpc_status(), Some("0"));
        assert_eq!(ask(&mut client, question(), &[&body]).await.overall(), "OK");
        assert_eq!(ask(&mut client, question(), &[&body[..7], &body[7..]]).await.overall(), "OK");
    }
    // Many at a time are not.
    let begun: Vec<_> = (0..16).map(|_| begin(&mut client, to(HEALTH))).collect();
    assert_eq!(ask(&mut client, to(HEALTH), &[&framed_bytes(&[])]).await.grpc_status(), Some("8"));
    drop(begun);
}

#[tokio::test]
async fn a_long_message_of_another_call_is_refused() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    let told = ask(&mut client, to(HEALTH), &[&[0, 0, 0, 0x40, 1]]).await;
    assert_eq!(told.grpc_status(), Some("11"));
    let (answer, mut stream) = begin(&mut client, to(REFLECTION));
    stream.send_data(vec![0; 17 << 10].into(), false).unwrap();
    let error = match answer.await {
        Ok(answer) => answer.into_body().data().await.unwrap().unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.reason(), Some(Reason::PROTOCOL_ERROR));
}

#[tokio::test]
async fn the_message_of_another_call_is_charged_once() {
    // A call, its message of 15 KiB and its answer fit, beyond the 20 KiB of the first buffers. A second copy does not.
    let (address, _stopper) = serve_in(Room::new(100, 24 << 10), &gate(RULES)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    let service = [&[0x0a, 0x98, 0x75][..], &[b's'; 15_000]].concat();
    let told = ask(&mut client, to(HEALTH), &[&framed_bytes(&service)]).await;
    assert_eq!(told.grpc_status(), Some("5"), "there is no such service");
}
