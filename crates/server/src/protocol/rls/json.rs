//! The same service for callers that have no gRPC: envoyproxy/ratelimit's `POST /json`, which takes and gives the messages
//! in protobuf's JSON form.

mod read;
#[cfg(test)]
mod tests;
mod write;

use thiserror::Error;
use tollgate::Verdict;

#[cfg(test)]
pub(super) use self::write::structure as metadata_json;

use super::{Refusal, answer};
use crate::access::{Forbidden, Scope};
use crate::gate::Gate;
use crate::metrics::Protocol;

/// Why a request in JSON has no answer.
#[derive(Debug, Error)]
pub(crate) enum BadJson {
    /// What is wrong with it, in plain text.
    #[error("{0}")]
    Wrong(String),
    /// The token does not suffice.
    #[error("{0}")]
    Forbidden(Forbidden),
}

/// Answers a request in JSON. What is wrong with a bad one is said in plain text.
pub(crate) async fn json_check(
    gate: &Gate,
    scope: Option<&Scope>,
    body: &[u8],
) -> Result<(Verdict, String), BadJson> {
    let message = read::request(body).map_err(|error| {
        gate.metrics().observe_bad_request(Protocol::Http);
        BadJson::Wrong(error.to_string())
    })?;
    let answered = answer((gate, scope), &message, Protocol::Http).await;
    let (verdict, response) = answered.map_err(|refusal| match refusal {
        Refusal::Forbidden(forbidden) => BadJson::Forbidden(forbidden),
        refusal => BadJson::Wrong(refusal.to_string()),
    })?;
    Ok((verdict, write::response(&response)))
}
