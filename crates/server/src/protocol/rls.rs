//! gRPC: Envoy asks its rate limit service here, and so does everything that speaks Envoy's protocol.
//!
//! An error makes Envoy let its request through. So nothing that a client can put into a header causes one: values may be as long
//! as all the headers that Envoy takes, and need not be text. What is refused is what only a configuration can get wrong.

mod account;
mod arrival;
mod back;
mod batch;
mod connection;
mod decode;
mod encode;
mod front;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod health;
pub(crate) mod json;
mod metadata;
mod others;
mod reply;
#[cfg(test)]
mod tests;
mod walk;
mod wire;
mod write;

use std::sync::Arc;

use thiserror::Error;
use tollgate::{NotARequestId, RequestError, RequestId, Verdict};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;

pub(crate) use self::connection::serve;
use self::health::GateHealth;
use self::wire::{RateLimitRequest, RateLimitResponse, RateLimitService, RateLimitServiceServer};
use crate::access::{Forbidden, Scope, Verb};
use crate::gate::{Begun, Gate};
use crate::metrics::Protocol;

/// All headers of one request that Envoy takes, unless configured otherwise, are 60 KiB; with some room for keys.
const DESCRIPTOR_BYTES_MAX: usize = 64 << 10;
/// A whole question: as many descriptors as there may be, each with a copy of the longest header that Envoy takes. Were it less, a
/// client could choose a header that makes the question too long, and so have its request let through.
const MESSAGE_BYTES_MAX: usize = decode::DESCRIPTORS_MAX * DESCRIPTOR_BYTES_MAX;
/// A message about health, or about the services themselves: names of services and files.
const SMALL_MESSAGE_BYTES_MAX: usize = 16 << 10;

/// Before every message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// The one method that is called all the time.
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// The metadata that carries the id of a request, so that it can be repeated.
const REQUEST_ID: &str = "tollgate-request-id";
/// The metadata of an answer to a request that was charged before under its id.
const REPEATED: &str = "tollgate-repeated";
/// What the methods of the health protocol begin with. They need no token.
const HEALTH: &str = "/grpc.health.v1.Health/";
/// The one method whose answer has no end: it tells of every change.
const HEALTH_WATCH: &str = "/grpc.health.v1.Health/Watch";

/// What answers the calls of the gRPC listener.
pub(crate) struct Services {
    gate: Arc<Gate>,
    /// Everything by tonic.
    router: axum::Router,
}

impl Services {
    pub(crate) fn new(gate: Arc<Gate>) -> Services {
        Services { router: router(Arc::clone(&gate)), gate }
    }
}

/// The message of a body that holds just one, which is not compressed.
fn message_of(body: &[u8]) -> Option<&[u8]> {
    let (prefix, message) = body.split_first_chunk::<PREFIX_BYTES>()?;
    let [0, length @ ..] = prefix else { return None };
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    (length == message.len() && length <= MESSAGE_BYTES_MAX).then_some(message)
}

/// All messages of a body. tonic answers the first and reads the others as well.
fn messages_of(mut body: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let ([_, length @ ..], rest) = body.split_first_chunk::<PREFIX_BYTES>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (message, after) = rest.split_at_checked(length)?;
        body = after;
        Some(message)
    })
}

/// All services of the gRPC listener, as tonic has them.
fn router(gate: Arc<Gate>) -> axum::Router {
    let rate_limits = RateLimitServiceServer::new(RateLimits(Arc::clone(&gate)))
        .max_decoding_message_size(MESSAGE_BYTES_MAX);
    let health = HealthServer::new(GateHealth::new(gate)).max_decoding_message_size(SMALL_MESSAGE_BYTES_MAX);
    let routes = Routes::new(rate_limits).add_service(health);
    match reflected(routes.clone()) {
        Ok(routes) => routes.into_axum_router(),
        Err(error) => {
            tracing::error!(%error, "no gRPC reflection");
            routes.into_axum_router()
        }
    }
}

/// The routes, and those that describe them to tools such as grpcurl, of both versions that are in use.
fn reflected(routes: Routes) -> Result<Routes, tonic_reflection::server::Error> {
    let describe = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(wire::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let v1 = describe().build_v1()?.max_decoding_message_size(SMALL_MESSAGE_BYTES_MAX);
    let v1alpha = describe().build_v1alpha()?.max_decoding_message_size(SMALL_MESSAGE_BYTES_MAX);
    Ok(routes.add_service(v1).add_service(v1alpha))
}

/// The service that Envoy asks.
struct RateLimits(Arc<Gate>);

#[tonic::async_trait]
impl RateLimitService for RateLimits {
    async fn should_rate_limit(
        &self,
        request: tonic::Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, tonic::Status> {
        let scope = request.extensions().get::<Arc<Scope>>().map(Arc::as_ref);
        let id = request_id(&self.0, request.metadata())?;
        let begun = begin((&self.0, scope), (request.get_ref(), id), Protocol::Rls)?;
        let verdict = begun.finish_once().await.map_err(Refusal::from)?;
        let mut response = respond(&self.0, request.get_ref(), &verdict);
        if !verdict.allowed() {
            encode::tell_denied(&mut response, &verdict);
        }
        let mut response = tonic::Response::new(response);
        if verdict.is_repeated() {
            response.metadata_mut().insert(REPEATED, MetadataValue::from_static("true"));
        }
        Ok(response)
    }
}

/// Why a message has no answer.
#[derive(Debug, Error)]
enum Refusal {
    #[error("the request has more than {max} descriptors")]
    TooManyDescriptors { max: usize },
    #[error("descriptor {index} has more than {max} entries")]
    TooManyEntries { index: usize, max: usize },
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("{REQUEST_ID}: {0}")]
    RequestId(NotARequestId),
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
}

impl From<Refusal> for tonic::Status {
    fn from(refusal: Refusal) -> tonic::Status {
        match &refusal {
            Refusal::TooManyDescriptors { .. }
            | Refusal::TooManyEntries { .. }
            | Refusal::RequestId(_)
            | Refusal::Request(RequestError::HeldNotRepeated) => {
                tonic::Status::invalid_argument(refusal.to_string())
            }
            Refusal::Request(RequestError::IdConflict) => tonic::Status::already_exists(refusal.to_string()),
            Refusal::Request(RequestError::TooManyIds) => tonic::Status::unavailable(refusal.to_string()),
            // What envoyproxy/ratelimit answers: its callers may look for it.
            Refusal::Request(_) => tonic::Status::unknown(refusal.to_string()),
            Refusal::Forbidden(_) => tonic::Status::permission_denied(refusal.to_string()),
        }
    }
}

/// The id of a request, if its metadata has one.
fn request_id<'m>(gate: &Gate, metadata: &'m MetadataMap) -> Result<Option<RequestId<'m>>, Refusal> {
    let Some(value) = metadata.get(REQUEST_ID) else { return Ok(None) };
    let id = value.to_str().map_err(|_| NotARequestId).and_then(RequestId::new);
    let id = id.inspect_err(|_| gate.metrics().observe_bad_request(Protocol::Rls));
    id.map(Some).map_err(Refusal::RequestId)
}

/// Refuses a message with too many descriptors or entries, before prost makes room for them.
fn check_bounds(gate: &Gate, message: &[u8]) -> Result<(), Refusal> {
    let checked = walk::check_bounds(message);
    checked.inspect_err(|_| gate.metrics().observe_bad_request(Protocol::Rls))
}

/// Asks the gate what a message asks.
async fn answer(
    (gate, scope): (&Gate, Option<&Scope>),
    message: &RateLimitRequest,
    protocol: Protocol,
) -> Result<(Verdict, RateLimitResponse), Refusal> {
    let (verdict, _) = begin((gate, scope), (message, None), protocol)?.finish().await;
    let response = respond(gate, message, &verdict);
    Ok((verdict, response))
}

fn begin<'g>(
    (gate, scope): (&'g Gate, Option<&Scope>),
    (message, id): (&RateLimitRequest, Option<RequestId<'_>>),
    protocol: Protocol,
) -> Result<Begun<'g>, Refusal> {
    let begin = |request: &tollgate::Request<'_>| {
        let request = &tollgate::Request { id, ..*request };
        gate.permit(protocol, scope, |scope| scope.permit(request, Verb::Check))?;
        Ok(gate.begin(request, protocol)?)
    };
    decode::with_request(message, begin).inspect_err(|_| gate.metrics().observe_bad_request(protocol))?
}

fn respond(gate: &Gate, message: &RateLimitRequest, verdict: &Verdict) -> RateLimitResponse {
    let mut response = encode::response(verdict, gate.settings());
    if gate.settings().rls_dynamic_metadata {
        response.dynamic_metadata = Some(metadata::dynamic_metadata(message, verdict));
    }
    response
}
