//! Any bytes as a message of Envoy's: all readers understand the same, and what is understood is answered as Envoy can read it.

#![allow(clippy::expect_used)] // That is how a target says that it has found something.

use prost::Message;
use tonic::Code as GrpcCode;

use super::wire::{Code, RateLimitRequest, RateLimitResponse};
use super::{answer, decode, encode};
use crate::fuzzing::{check_field, with_gate};
use crate::gate::Gate;
use crate::metrics::Protocol;

/// What a message asks, in the words of the engine, or why it is refused. Nothing, if it is no message.
type Understood = Option<Result<String, String>>;

/// Everybody who reads messages. The first is the oracle.
const READERS: [fn(&[u8]) -> Understood; 1] = [by_prost];

/// A message.
pub fn rls(bytes: &[u8]) {
    let [oracle, others @ ..] = READERS;
    let understood = oracle(bytes);
    for reader in others {
        assert_eq!(reader(bytes), understood);
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

/// Asks more than once: the first time nothing has been counted yet.
fn check_answers(gate: &Gate, message: &RateLimitRequest) {
    for _ in 0..3 {
        match answer(gate, message, Protocol::Rls) {
            Ok((verdict, mut response)) => {
                if !verdict.allowed() {
                    encode::tell_denied(&mut response, &verdict);
                }
                check_response(message, &response);
            }
            Err(refusal) => {
                let status = tonic::Status::from(refusal);
                assert!(matches!(status.code(), GrpcCode::InvalidArgument | GrpcCode::Unknown), "{status:?}");
                assert!(!status.message().is_empty());
            }
        }
    }
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
