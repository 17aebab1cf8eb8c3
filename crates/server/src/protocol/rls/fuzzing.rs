//! Any bytes as a message of Envoy's: all readers understand the same, and what is understood is answered as Envoy can read it.

#![allow(clippy::expect_used)] // That is how a target says that it has found something.

mod frames;

use prost::Message;
use tollgate::Verdict;
use tonic::Code as GrpcCode;

pub use self::frames::frames;
use super::walk::{Room, check_bounds};
use super::wire::{Code, RateLimitRequest, RateLimitResponse};
use super::write::Writer;
use super::{answer, decode, encode, message_of};
use crate::fuzzing::{at_once, check_field, with_gate};
use crate::gate::Gate;
use crate::metrics::Protocol;

/// What a message asks, in the words of the engine, or why it is refused. Nothing, if it is no message.
type Understood = Option<Result<String, String>>;

/// A message.
pub fn rls(bytes: &[u8]) {
    let understood = by_prost(bytes);
    // What is left to prost is understood by it alone.
    if let Some(question) = by_walk(bytes) {
        assert_eq!(Some(Ok(question)), understood);
    }
    // Too many descriptors or entries are found before prost makes room for them.
    if let Some(understood) = understood {
        assert_eq!(check_bounds(bytes).is_ok(), understood.is_ok());
    }
    if let Ok(message) = RateLimitRequest::decode(bytes) {
        with_gate(|gate| check_answers(gate, &message));
    }
}

fn by_prost(bytes: &[u8]) -> Understood {
    let message = RateLimitRequest::decode(bytes).ok()?;
    let question = decode::with_request(&message, |request| format!("{request:?}"));
    Some(question.map_err(|refusal| refusal.to_string()))
}

fn by_walk(bytes: &[u8]) -> Option<String> {
    let (mut room, mut question) = (Room::default(), None);
    let mut questions = room.questions();
    let is_read = questions.read(bytes);
    room.ask(questions, |requests| question = requests.first().map(|request| format!("{request:?}")));
    assert_eq!(is_read, question.is_some());
    question
}

/// Asks more than once: the first time nothing has been counted yet.
fn check_answers(gate: &Gate, message: &RateLimitRequest) {
    for _ in 0..3 {
        match at_once(answer((gate, None), message, Protocol::Rls)) {
            Ok((verdict, mut response)) => {
                if !verdict.allowed() {
                    encode::tell_denied(&mut response, &verdict);
                }
                check_response(message, &response);
                check_written(gate, &verdict, &response);
            }
            Err(refusal) => {
                let status = tonic::Status::from(refusal);
                assert!(matches!(status.code(), GrpcCode::InvalidArgument | GrpcCode::Unknown), "{status:?}");
                assert!(!status.message().is_empty());
            }
        }
    }
}

/// What is written by hand is what prost writes. Metadata is left to prost.
fn check_written(gate: &Gate, verdict: &Verdict, response: &RateLimitResponse) {
    let mut writer = Writer::default();
    let message = message_of(writer.answer(verdict, gate.settings())).expect("one message, with a prefix");
    let received = RateLimitResponse::decode(message).expect("an answer can be read");
    assert_eq!(received, RateLimitResponse { dynamic_metadata: None, ..response.clone() });
}

fn check_response(message: &RateLimitRequest, response: &RateLimitResponse) {
    let sent = response.encode_to_vec();
    let received = RateLimitResponse::decode(sent.as_slice()).expect("an answer can be read");
    assert_eq!(&received, response);

    assert_eq!(response.statuses.len(), message.descriptors.len());
    let is_over = response.overall_code() == Code::OverLimit;
    assert!(is_over || response.overall_code() == Code::Ok, "{response:?}");
    let any_over = response.statuses.iter().any(|status| status.code() == Code::OverLimit);
    assert!(any_over || !is_over, "denied, and nobody knows by what: {response:?}");
    for header in &response.response_headers_to_add {
        check_field(&header.key, &header.value);
    }
    if is_over {
        let body: serde_json::Value = serde_json::from_slice(&response.raw_body).expect("a body of JSON");
        assert!(body["code"].is_string(), "{body}");
    } else {
        assert!(response.raw_body.is_empty());
    }
}
