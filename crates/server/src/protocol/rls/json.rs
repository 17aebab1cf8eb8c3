//! The same service for callers that have no gRPC: envoyproxy/ratelimit's `POST /json`, which takes and gives the messages
//! in protobuf's JSON form.

mod read;
#[cfg(test)]
mod tests;
mod write;

use http::StatusCode;

#[cfg(test)]
pub(super) use self::write::structure as metadata_json;

use super::answer;
use super::wire::Code;
use crate::gate::Gate;
use crate::metrics::Protocol;

/// Answers a request in JSON. What is wrong with a bad one is said in plain text.
pub(crate) fn json_check(gate: &Gate, body: &[u8]) -> (StatusCode, String) {
    let message = match read::request(body) {
        Ok(message) => message,
        Err(error) => {
            gate.metrics().observe_bad_request(Protocol::Http);
            return (StatusCode::BAD_REQUEST, error.to_string());
        }
    };
    match answer(gate, &message, Protocol::Http) {
        Ok((_, response)) if response.overall_code() == Code::OverLimit => {
            (StatusCode::TOO_MANY_REQUESTS, write::response(&response))
        }
        Ok((_, response)) => (StatusCode::OK, write::response(&response)),
        Err(refusal) => (StatusCode::BAD_REQUEST, refusal.to_string()),
    }
}
