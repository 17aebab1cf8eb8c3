//! HTTP: `/v1/check` and its kin, for callers that have no gRPC and no Redis client.
//!
//! | path | answer |
//! |---|---|
//! | `POST /v1/check` | 200 or 429: may it pass? |
//! | `POST /v1/peek` | what `/v1/check` would answer, 200 or 429; nothing is taken |
//! | `POST /v1/acquire` | as `/v1/check`, with a `lease` on what is held until it is released |
//! | `POST /v1/release` | 200: ends a lease |
//! | `POST /json` | as envoyproxy/ratelimit |
//! | `GET /healthz`, `/readyz`, `/healthcheck` | whether it lives, and whether it wants requests |
//!
//! Every answer has the header fields of [`crate::headers`]; the older ones too, if the query has `headers=older`.

mod answer;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod problem;
mod question;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tollgate::{Lease, Verdict};

pub(crate) use self::answer::denial_body;
use self::problem::Problem;
use self::question::{Question, read_lease};
use crate::gate::Gate;
use crate::headers::{self, Wanted};
use crate::metrics::Protocol;
use crate::protocol::rls::json::json_check;

/// The largest body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How long a client may take to send a body: one that never does must not keep its connection.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest body of a request to hold something. Its lease is longer than that, and has to fit into another body.
const ACQUIRE_BYTES_MAX: usize = 64 << 10;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

const WHERE_TO_GO: &str =
    "POST to /v1/check, /v1/peek, /v1/acquire, /v1/release or /json; GET /healthz, /readyz or /healthcheck";

const ABOUT: &str = r#"Tollgate, a rate limiter. May this request pass?

  curl -i http://localhost:8080/v1/check -d '{"policy": "NAME", "key": "WHOM TO COUNT"}'
  curl -i http://localhost:8080/v1/check -d '{"domain": "NAME", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}'

200 is yes, 429 is no.

POST /v1/check      take what is asked for
POST /v1/peek       the same answer, nothing taken
POST /v1/acquire    hold a place until it is released: {"policy", "key"} gives {"lease"}
POST /v1/release    {"lease"}
POST /json          as envoyproxy/ratelimit
GET  /healthz, /readyz, /healthcheck
"#;

/// All routes of the HTTP listener.
pub(crate) fn router(gate: Arc<Gate>) -> Router {
    Router::new()
        .route("/", get(async || ABOUT))
        .route("/v1/check", post(check))
        .route("/v1/peek", post(peek))
        .route("/v1/acquire", post(acquire))
        .route("/v1/release", post(release))
        .route("/json", post(json))
        .merge(health())
        .route("/healthcheck", get(healthcheck))
        .fallback(async || Problem::NotFound(WHERE_TO_GO))
        .method_not_allowed_fallback(wrong_method)
        .with_state(gate)
}

/// What orchestrators ask. The admin listener has it too.
pub(crate) fn health() -> Router<Arc<Gate>> {
    Router::new().route("/healthz", get(async || "ok\n")).route("/readyz", get(readyz))
}

/// What to say to a method that a path does not take. The router adds which it does.
pub(crate) async fn wrong_method(method: Method) -> Response {
    match method {
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        _ => Problem::MethodNotAllowed.into_response(),
    }
}

async fn readyz(State(gate): State<Arc<Gate>>) -> (StatusCode, &'static str) {
    if gate.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}

/// As envoyproxy/ratelimit answers it.
async fn healthcheck(State(gate): State<Arc<Gate>>) -> (StatusCode, &'static str) {
    if gate.is_ready() { (StatusCode::OK, "OK") } else { (StatusCode::INTERNAL_SERVER_ERROR, "NOT_SERVING") }
}

async fn check(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let (older, body) = (wants_older(&request), body(&gate, request, BODY_BYTES_MAX).await?);
    let question = counted(&gate, Question::read(&body))?;
    let verdict = question.ask(false, |request| gate.decide(request, Protocol::Http))?;
    Ok(respond(&verdict, older, answer::body(&verdict)))
}

async fn peek(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let (older, body) = (wants_older(&request), body(&gate, request, BODY_BYTES_MAX).await?);
    let question = counted(&gate, Question::read(&body))?;
    let verdict = question.ask(true, |request| gate.decide(request, Protocol::Http))?;
    Ok(respond(&verdict, older, answer::body(&verdict)))
}

async fn acquire(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let (older, body) = (wants_older(&request), body(&gate, request, ACQUIRE_BYTES_MAX).await?);
    let question = counted(&gate, Question::read(&body))?;
    let (verdict, lease) = question.ask(false, |request| gate.acquire(request, Protocol::Http))?;
    Ok(respond(&verdict, older, answer::body_with_lease(&verdict, lease.as_ref())))
}

async fn release(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body(&gate, request, BODY_BYTES_MAX).await?;
    let lease = counted(&gate, read_lease(&body))?;
    let lease = lease.map(|lease| lease.parse::<Lease>()).transpose();
    let lease = lease.map_err(|error| Problem::bad_request(format!("`lease`: {error}")));
    let released = counted(&gate, lease)?.is_some_and(|lease| gate.release(&lease));
    let body = if released { r#"{"released":true}"# } else { r#"{"released":false}"# };
    Ok(([(CONTENT_TYPE, JSON)], body).into_response())
}

async fn json(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let (older, body) = (wants_older(&request), body(&gate, request, BODY_BYTES_MAX).await?);
    Ok(match json_check(&gate, &body) {
        Ok((verdict, answer)) => respond(&verdict, older, answer),
        // In plain text, as envoyproxy/ratelimit has it.
        Err(why) => (StatusCode::BAD_REQUEST, why).into_response(),
    })
}

/// Reads a whole body.
async fn body(gate: &Gate, request: Request, max: usize) -> Result<Bytes, Problem> {
    counted(gate, read_body(request, max).await)
}

async fn read_body(request: Request, max: usize) -> Result<Bytes, Problem> {
    let (head, body) = request.into_parts();
    // Said before anything is read, so that the sender need not bother.
    let length =
        head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > max as u64) {
        return Err(Problem::BodyTooLarge { max });
    }
    let body: Limited<Body> = Limited::new(body, max);
    match tokio::time::timeout(BODY_TIMEOUT, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::BodyTooLarge { max }),
        Ok(Err(error)) => Err(Problem::Unreadable(axum::Error::new(error))),
        Err(_) => Err(Problem::BodyTooSlow { seconds: BODY_TIMEOUT.as_secs() }),
    }
}

/// Counts what will have no answer. The gate does so itself with what it is asked.
fn counted<T, E>(gate: &Gate, answer: Result<T, E>) -> Result<T, E> {
    if answer.is_err() {
        gate.metrics().observe_bad_request(Protocol::Http);
    }
    answer
}

fn wants_older(request: &Request) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|parameter| parameter == "headers=older"))
}

fn respond(verdict: &Verdict, older: bool, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    if !verdict.allowed() {
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    }
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, JSON);
    put_fields(fields, verdict, older);
    response
}

fn put_fields(fields: &mut HeaderMap, verdict: &Verdict, older: bool) {
    for (name, value) in headers::fields(verdict, Wanted { x_ratelimit: true, older }) {
        // Values are printable ASCII; what were not could not be sent.
        if let Ok(value) = HeaderValue::try_from(value) {
            fields.insert(HeaderName::from_static(name), value);
        }
    }
}
