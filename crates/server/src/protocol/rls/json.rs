//! The same service for callers that have no gRPC: envoyproxy/ratelimit's `POST /json`, which takes and gives the messages
//! in protobuf's JSON form.

mod read;
#[cfg(test)]
mod tests;
mod write;

use tollgate::Verdict;

#[cfg(test)]
pub(super) use self::write::structure as metadata_json;

use super::answer;
use crate::gate::Gate;
use crate::metrics::Protocol;

/// Answers a request in JSON. What is wrong with a bad one is said in plain text.
pub(crate) async fn json_check(gate: &Gate, body: &[u8]) -> Result<(Verdict, String), String> {
    let message = read::request(body).map_err(|error| {
        gate.metrics().observe_bad_request(Protocol::Http);
        error.to_string()
    })?;
    let (verdict, response) =
        answer(gate, &message, Protocol::Http).await.map_err(|refusal| refusal.to_string())?;
    Ok((verdict, write::response(&response)))
}
