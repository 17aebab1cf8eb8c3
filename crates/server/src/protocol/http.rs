//! HTTP: `/v1/check` and its kin, for callers that have no gRPC and no Redis client.
//!
//! | path | answer |
//! |---|---|
//! | `POST /v1/check` | 200 or 429: may it pass? |
//! | `POST /v1/peek` | what `/v1/check` would answer, 200 or 429; nothing is taken |
//! | `POST /v1/acquire` | as `/v1/check`, with a `lease` on what is held until it is released |
//! | `POST /v1/release` | 200: ends a lease; 503 if nobody knows whether it has |
//! | `GET /v1/auth` | for proxies that ask before they let a request through: 200 or 429; any method |
//! | `POST /json` | as envoyproxy/ratelimit |
//! | `GET /healthz`, `/readyz`, `/healthcheck` | whether it lives, and whether it wants requests |
//!
//! Every answer has the header fields of [`crate::headers`]; the older ones too, if the query has `headers=older`.

mod answer;
mod auth;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod guard;
mod problem;
mod question;
mod quick;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{BoxError, Router};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::io::{AsyncRead, AsyncWrite};
use tollgate::{DecidedBy, Lease, Verdict};
use tower::Service as _;

pub(crate) use self::answer::denial_body;
use self::problem::Problem;
use self::question::{Question, read_lease};
use self::quick::Left;
use crate::connection;
use crate::drain::Drain;
use crate::gate::Gate;
use crate::headers::{self, Wanted};
use crate::metrics::Protocol;
use crate::protocol::rls::json::json_check;
use crate::room::AllHeld;
use crate::stream::Stream;

/// The largest body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How long a client may take to send a body: one that never does must not keep its connection.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest body of a request to hold something. Its lease is longer than that, and has to fit into another body.
const ACQUIRE_BYTES_MAX: usize = 64 << 10;

/// Most answers have at most so many header fields.
const FIELDS_USUAL: usize = 8;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

const WHERE_TO_GO: &str = "POST to /v1/check, /v1/peek, /v1/acquire, /v1/release or /json; GET /v1/auth, /healthz, /readyz or /healthcheck";

const ABOUT: &str = r#"Tollgate, a rate limiter. May this request pass?

  curl -i http://localhost:8080/v1/check -d '{"policy": "NAME", "key": "WHOM TO COUNT"}'
  curl -i http://localhost:8080/v1/check -d '{"domain": "NAME", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}'

200 is yes, 429 is no.

POST /v1/check      take what is asked for
POST /v1/peek       the same answer, nothing taken
POST /v1/acquire    hold a place until it is released: {"policy", "key"} gives {"lease"}
POST /v1/release    {"lease"}
GET  /v1/auth       for proxies that ask before they let a request through
POST /json          as envoyproxy/ratelimit
GET  /healthz, /readyz, /healthcheck
"#;

/// Serves one connection until it closes.
pub(crate) async fn serve<I>(mut stream: Stream<I>, service: Service, mut drain: Drain)
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    // The short way answers at once. Where counters are shared, answers may have to be waited for.
    let left = if service.gate.is_sharing() {
        Left::All
    } else {
        quick::serve(&mut stream, &service.gate, &mut drain).await
    };
    let answer = move |request| service.clone().answer(request);
    match left {
        Left::Nothing => {}
        Left::All => connection::serve(stream, answer, drain).await,
        Left::Rest => connection::go_on(stream, answer, drain).await,
    }
}

/// What the HTTP listener answers with, where [`quick`] does not. The question that is asked most goes past the router, which would cost
/// about as much as the answer.
#[derive(Clone)]
pub(crate) struct Service {
    gate: Arc<Gate>,
    router: Router,
}

impl Service {
    pub(crate) fn new(gate: Arc<Gate>) -> Service {
        Service { router: router(Arc::clone(&gate)), gate }
    }

    pub(crate) async fn answer(
        mut self,
        request: http::Request<connection::Sent>,
    ) -> Result<Response, Infallible> {
        let path = request.uri().path();
        if request.method() == Method::POST && path == "/v1/check" {
            return Ok(match guard::admit(&self.gate, path, request.headers()) {
                Ok(()) => answer_check(&self.gate, request).await.into_response(),
                Err(problem) => problem.into_response(),
            });
        }
        self.router.call(request).await
    }
}

/// All routes of the HTTP listener.
pub(crate) fn router(gate: Arc<Gate>) -> Router {
    let routes = Router::new()
        .route("/", get(async || ABOUT))
        .route("/v1/check", post(check))
        .route("/v1/peek", post(peek))
        .route("/v1/acquire", post(acquire))
        .route("/v1/release", post(release))
        .route("/v1/auth", any(auth::auth))
        .route("/json", post(json))
        .merge(health())
        .route("/healthcheck", get(healthcheck))
        .fallback(async || Problem::NotFound(WHERE_TO_GO))
        .method_not_allowed_fallback(wrong_method)
        .with_state(Arc::clone(&gate));
    guard::before(routes, gate)
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
    answer_check(&gate, request).await
}

async fn answer_check<B: Sent>(gate: &Gate, request: http::Request<B>) -> Result<Response, Problem> {
    let (older, body) = (wants_older(&request), body(gate, request, BODY_BYTES_MAX).await?);
    let question = counted(gate, Question::read(&body))?;
    let begun = question.ask(false, |request| gate.begin(request, Protocol::Http))?;
    let (verdict, _) = begun.finish().await;
    Ok(respond(&verdict, older, answer::body(&verdict)))
}

async fn peek(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let (older, body) = (wants_older(&request), body(&gate, request, BODY_BYTES_MAX).await?);
    let question = counted(&gate, Question::read(&body))?;
    let begun = question.ask(true, |request| gate.begin(request, Protocol::Http))?;
    let (verdict, _) = begun.finish().await;
    Ok(respond(&verdict, older, answer::body(&verdict)))
}

async fn acquire(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let (older, body) = (wants_older(&request), body(&gate, request, ACQUIRE_BYTES_MAX).await?);
    let question = counted(&gate, Question::read(&body))?;
    let begun = question.ask(false, |request| gate.begin_hold(request, Protocol::Http))?;
    let (verdict, lease) = begun.finish().await;
    Ok(respond(&verdict, older, answer::body_with_lease(&verdict, lease.as_ref())))
}

async fn release(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body(&gate, request, BODY_BYTES_MAX).await?;
    let lease = counted(&gate, read_lease(&body))?;
    let lease = lease.map(|lease| lease.parse::<Lease>()).transpose();
    let lease = lease.map_err(|error| Problem::bad_request(format!("`lease`: {error}")));
    let released = match counted(&gate, lease)? {
        Some(lease) => gate.release(&lease).await.map_err(Problem::NotReleased)?,
        None => false,
    };
    let body = if released { r#"{"released":true}"# } else { r#"{"released":false}"# };
    Ok(([(CONTENT_TYPE, JSON)], body).into_response())
}

async fn json(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let (older, body) = (wants_older(&request), body(&gate, request, BODY_BYTES_MAX).await?);
    Ok(match json_check(&gate, &body).await {
        Ok((verdict, answer)) => respond(&verdict, older, answer),
        // In plain text, as envoyproxy/ratelimit has it.
        Err(why) => (StatusCode::BAD_REQUEST, why).into_response(),
    })
}

/// Reads a whole body.
async fn body<B: Sent>(gate: &Gate, request: http::Request<B>, max: usize) -> Result<Bytes, Problem> {
    counted(gate, read_body(request, max).await)
}

/// A body that a client sends.
trait Sent: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin {}
impl<B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin> Sent for B {}

async fn read_body<B: Sent>(request: http::Request<B>, max: usize) -> Result<Bytes, Problem> {
    let (head, body) = request.into_parts();
    // Said before anything is read, so that the sender need not bother.
    let length =
        head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > max as u64) {
        return Err(Problem::BodyTooLarge { max });
    }
    match tokio::time::timeout(BODY_TIMEOUT, gather(Limited::new(body, max))).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::BodyTooLarge { max }),
        Ok(Err(error)) => Err(unreadable(error)),
        Err(_) => Err(Problem::BodyTooSlow { seconds: BODY_TIMEOUT.as_secs() }),
    }
}

/// Why a body could not be read. The router puts errors into others.
fn unreadable(error: BoxError) -> Problem {
    let outermost: &(dyn Error + 'static) = &*error;
    let mut causes = std::iter::successors(Some(outermost), |&cause| cause.source());
    match causes.find_map(|cause| cause.downcast_ref::<AllHeld>()) {
        Some(&all_held) => Problem::Busy(all_held),
        None => Problem::Unreadable(axum::Error::new(error)),
    }
}

/// Puts the pieces of a body together as they come. A list of pieces would take many times their length if each is a single byte.
async fn gather<B: Sent>(mut body: Limited<B>) -> Result<Bytes, BoxError> {
    let (mut first, mut all) = (Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame?.into_data() else { continue };
        if first.is_empty() && all.is_empty() {
            first = piece; // Most bodies come in one piece, which need not be copied.
        } else {
            let to_come = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
            append(&mut all, &std::mem::take(&mut first), None);
            append(&mut all, &piece, to_come);
        }
    }
    Ok(if all.is_empty() { first } else { Bytes::from(all) })
}

/// Adds a piece. Memory at most doubles, and goes no further than what is to come, if that is known.
fn append(all: &mut Vec<u8>, piece: &[u8], to_come: Option<usize>) {
    let length = all.len() + piece.len();
    if length > all.capacity() {
        let end = to_come.map_or(usize::MAX, |bytes| length.saturating_add(bytes));
        all.reserve_exact((2 * all.capacity()).clamp(length, end) - all.len());
    }
    all.extend_from_slice(piece);
}

/// Counts what will have no answer. The gate does so itself with what it is asked.
fn counted<T, E>(gate: &Gate, answer: Result<T, E>) -> Result<T, E> {
    if answer.is_err() {
        gate.metrics().observe_bad_request(Protocol::Http);
    }
    answer
}

fn wants_older<B>(request: &http::Request<B>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|parameter| parameter == "headers=older"))
}

fn respond(verdict: &Verdict, older: bool, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    if !verdict.allowed() {
        *response.status_mut() = denied_status(verdict);
    }
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, JSON);
    put_fields(fields, verdict, older);
    response
}

/// A client over its limit is told so; one that nobody could decide about is told that it is not its fault.
fn denied_status(verdict: &Verdict) -> StatusCode {
    match verdict.decided_by() {
        DecidedBy::FailClosed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::TOO_MANY_REQUESTS,
    }
}

fn put_fields(fields: &mut HeaderMap, verdict: &Verdict, older: bool) {
    fields.reserve(FIELDS_USUAL);
    headers::each(verdict, Wanted { x_ratelimit: true, older }, &mut String::new(), |name, value| {
        // Values are printable ASCII; what were not could not be sent.
        if let Ok(value) = HeaderValue::from_str(value) {
            fields.insert(HeaderName::from_static(name), value);
        }
    });
}
