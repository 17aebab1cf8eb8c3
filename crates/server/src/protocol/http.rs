//! HTTP: `/v1/check` and its kin, for callers that have no gRPC and no Redis client.
//!
//! | path | answer |
//! |---|---|
//! | `POST /v1/check` | 200 or 429: may it pass? |
//! | `POST /v1/peek` | what `/v1/check` would answer, 200 or 429; nothing is taken |
//! | `POST /v1/acquire` | as `/v1/check`, with a `lease` on what is held until it is released |
//! | `POST /v1/release` | 200: ends a lease; 503 if nobody knows whether it has |
//! | `POST /v1/reserve` | as `/v1/check`, for a cost that is an estimate: with a `reservation` |
//! | `POST /v1/settle` | 200: the real cost takes the place of the estimate, once; 202: it will |
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
mod web_hosts;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use http::header::{CONTENT_TYPE, HOST};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tollgate::{DecidedBy, Lease, RequestError, Reservation, ReservationClient, Verdict};
use tower::Service as _;

pub(crate) use self::answer::{body as verdict_body, denial_body};
pub(crate) use self::problem::Problem;
pub(crate) use self::question::{Object, Question};
use self::question::{read_lease, read_settle};
use self::quick::Left;
pub(crate) use self::web_hosts::WebHosts;
use crate::access::{Attempts, Scope, Verb, narrowed};
use crate::body::{self, Sent};
use crate::connection;
use crate::drain::{Drain, Stopper};
use crate::gate::Gate;
use crate::headers::{self, Wanted};
use crate::metrics::Protocol;
use crate::protocol::rls::json::{BadJson, json_check};
use crate::stream::Stream;

/// The largest body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// The largest body of a request to hold something. Its lease is longer than that, and has to fit into another body.
const ACQUIRE_BYTES_MAX: usize = 64 << 10;

/// The largest body of a request to reserve something: as long as the reservation is open, it is remembered.
const RESERVE_BYTES_MAX: usize = 64 << 10;

/// How long a client that has shown too many wrong tokens has to take its answers.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(1);

/// Most answers have at most so many header fields.
const FIELDS_USUAL: usize = 8;

/// Where estimates are reserved.
const RESERVE_PATH: &str = "/v1/reserve";

const JSON: HeaderValue = HeaderValue::from_static("application/json");

const WHERE_TO_GO: &str = "POST to /v1/check, /v1/peek, /v1/acquire, /v1/release, /v1/reserve, /v1/settle or /json; GET /v1/auth, /healthz, /readyz or /healthcheck";

const ABOUT: &str = r#"Tollgate, a rate limiter. May this request pass?

  curl -i http://HOST/v1/check -d '{"policy": "NAME", "key": "WHOM TO COUNT"}'
  curl -i http://HOST/v1/check -d '{"domain": "NAME", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}'

200 is yes, 429 is no, 403 is a banned key.

POST /v1/check      take what is asked for
POST /v1/peek       the same answer, nothing taken
POST /v1/acquire    hold a place until it is released: {"policy", "key"} gives {"lease"}
POST /v1/release    {"lease"}
POST /v1/reserve    take an estimate: {"policy", "key", "cost"} gives {"reservation"}
POST /v1/settle     {"reservation", "cost"}: the real cost; the rest comes back, an excess is booked
GET  /v1/auth       for proxies that ask before they let a request through
POST /json          as envoyproxy/ratelimit
GET  /healthz, /readyz, /healthcheck
"#;

/// Serves one connection until it closes.
pub(crate) async fn serve<I>(mut stream: Stream<I>, service: Service, mut drain: Drain)
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let left = quick::serve(&mut stream, &service.gate, &mut drain).await;
    let wants_token = service.gate.access().wants_token(Protocol::Http);
    let attempts = wants_token.then(|| Arc::new(Attempts::new(stream.peer().address.ip())));
    let known = attempts.clone();
    let service = Service { client: stream.room().reservation_client(), ..service };
    let answer = move |mut request: http::Request<connection::Sent>| {
        if let Some(attempts) = &known {
            request.extensions_mut().insert(Arc::clone(attempts));
        }
        service.clone().answer(request)
    };
    let served = async |drain| match left {
        Left::Nothing => {}
        Left::All => connection::serve(stream, answer, drain).await,
        Left::Rest => connection::go_on(stream, answer, drain).await,
    };
    let Some(attempts) = attempts else { return served(drain).await };
    // Too many wrong tokens end the connection as the end of the server does: HTTP/2 gets GOAWAY.
    let ending = Stopper::new();
    let stopped = async {
        drain.begun().await;
        ending.stop();
        std::future::pending::<()>().await;
    };
    let refused = async {
        attempts.ended().await;
        ending.stop();
        tokio::time::sleep(REFUSED_TIMEOUT).await;
    };
    tokio::select! {
        () = served(ending.drain()) => {}
        () = stopped => {}
        () = refused => tracing::debug!("a client has shown too many wrong tokens"),
    }
}

/// What the HTTP listener answers with, where [`quick`] does not. The question that is asked most goes past the router, which would cost
/// about as much as the answer.
#[derive(Clone)]
pub(crate) struct Service {
    gate: Arc<Gate>,
    router: Router,
    /// Whose reservations those of the connection are. `None` before there is one, and for exempt
    /// clients.
    client: Option<ReservationClient>,
}

impl Service {
    pub(crate) fn new(gate: Arc<Gate>) -> Service {
        Service { router: router(Arc::clone(&gate)), gate, client: None }
    }

    pub(crate) async fn answer(
        mut self,
        mut request: http::Request<connection::Sent>,
    ) -> Result<Response, Infallible> {
        if request.method() == Method::POST && request.uri().path() == "/v1/check" {
            return Ok(match guard::admit(&self.gate, &mut request) {
                Ok(()) => answer_check(&self.gate, request).await.into_response(),
                Err(response) => *response,
            });
        }
        if let (Some(client), RESERVE_PATH) = (self.client, request.uri().path()) {
            request.extensions_mut().insert(client);
        }
        self.router.call(request).await
    }
}

/// All routes of the HTTP listener.
pub(crate) fn router(gate: Arc<Gate>) -> Router {
    let routes = Router::new()
        .route("/", get(about))
        .route("/v1/check", post(check))
        .route("/v1/peek", post(peek))
        .route("/v1/acquire", post(acquire))
        .route("/v1/release", post(release))
        .route(RESERVE_PATH, post(reserve))
        .route("/v1/settle", post(settle))
        .route("/v1/auth", any(auth::auth))
        .route("/json", post(json))
        .merge(health())
        .route("/healthcheck", get(healthcheck))
        .fallback(async || Problem::NotFound(WHERE_TO_GO))
        .method_not_allowed_fallback(wrong_method)
        .with_state(Arc::clone(&gate));
    guard::before(routes, gate)
}

/// How to ask, by the name under which the client has reached the listener.
async fn about(request: Request) -> String {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| request.uri().authority().map(Authority::as_str)).unwrap_or("HOST:PORT");
    // What stands in a command that people copy has no sign that a shell would take for something else.
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '.' | ':' | '-' | '[' | ']');
    let host = if host.chars().all(is_plain) { host } else { "HOST:PORT" };
    ABOUT.replace("http://HOST/", &format!("http://{host}/"))
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
    let scope = guard::scope_of(&request);
    let (older, body) = (wants_older(&request), whole_body(gate, request, BODY_BYTES_MAX).await?);
    let question = counted(gate, Question::read(&body))?;
    let begun = question.ask(false, |request| {
        permit(gate, scope.as_deref(), request, Verb::Check)?;
        gate.begin(request, Protocol::Http).map_err(|error| told(scope.as_deref(), error))
    })?;
    let verdict = begun.finish_once().await?;
    Ok(respond(&verdict, older, answer::body(&verdict)))
}

async fn peek(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let scope = guard::scope_of(&request);
    let (older, body) = (wants_older(&request), whole_body(&gate, request, BODY_BYTES_MAX).await?);
    let question = counted(&gate, Question::read(&body).and_then(Question::without_id))?;
    let begun = question.ask(true, |request| {
        permit(&gate, scope.as_deref(), request, Verb::Check)?;
        gate.begin(request, Protocol::Http).map_err(|error| told(scope.as_deref(), error))
    })?;
    let (verdict, _) = begun.finish().await;
    Ok(respond(&verdict, older, answer::body(&verdict)))
}

async fn acquire(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let scope = guard::scope_of(&request);
    let (older, body) = (wants_older(&request), whole_body(&gate, request, ACQUIRE_BYTES_MAX).await?);
    let question = counted(&gate, Question::read(&body).and_then(Question::without_id))?;
    let begun = question.ask(false, |request| {
        permit(&gate, scope.as_deref(), request, Verb::Check)?;
        gate.begin_hold(request, Protocol::Http).map_err(|error| told(scope.as_deref(), error))
    })?;
    let (verdict, lease) = begun.finish().await;
    Ok(respond(&verdict, older, answer::body_with_lease(&verdict, lease.as_ref())))
}

async fn release(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let scope = guard::scope_of(&request);
    gate.permit(Protocol::Http, scope.as_deref(), |scope| scope.permit_verb(Verb::Check))?;
    let body = whole_body(&gate, request, BODY_BYTES_MAX).await?;
    let lease = counted(&gate, read_lease(&body))?;
    let lease = lease.map(|lease| lease.parse::<Lease>()).transpose();
    let lease = lease.map_err(|error| Problem::bad_request(format!("`lease`: {error}")));
    let released = match counted(&gate, lease)? {
        Some(lease) => {
            let released = gate.begin_release(&lease, Protocol::Http)?;
            gate.release(released).await.map_err(Problem::NotReleased)?
        }
        None => false,
    };
    let body = if released { r#"{"released":true}"# } else { r#"{"released":false}"# };
    Ok(([(CONTENT_TYPE, JSON)], body).into_response())
}

async fn reserve(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let scope = guard::scope_of(&request);
    let client = request.extensions().get::<ReservationClient>().copied();
    let (older, body) = (wants_older(&request), whole_body(&gate, request, RESERVE_BYTES_MAX).await?);
    let (question, life) = counted(&gate, Question::read_reserve(&body))?;
    let life = life.unwrap_or(Reservation::LIFE_USUAL);
    let begun = question.ask(false, |request| {
        permit(&gate, scope.as_deref(), request, Verb::Reserve)?;
        let begun = gate.begin_reserve(client, request, life, Protocol::Http);
        begun.map_err(|error| told(scope.as_deref(), error))
    })?;
    let (verdict, reserved) = begun.finish_reserving().await;
    Ok(respond(&verdict, older, answer::body_with_reservation(&verdict, reserved.as_ref())))
}

async fn settle(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let scope = guard::scope_of(&request);
    gate.permit(Protocol::Http, scope.as_deref(), |scope| scope.permit_verb(Verb::Reserve))?;
    let body = whole_body(&gate, request, BODY_BYTES_MAX).await?;
    let settle = counted(&gate, read_settle(&body))?;
    if settle.id().is_some() {
        gate.permit(Protocol::Http, scope.as_deref(), |scope| scope.permit_verb(Verb::RequestId))?;
    }
    // It is done once and to its end, even if nobody waits for that any more.
    let settling =
        async move { gate.settle(&settle.reservation, settle.cost, settle.id(), Protocol::Http).await };
    let settled = tokio::spawn(settling).await.map_err(|_| Problem::Stopping)?;
    let (verdict, settlement) = settled.map_err(Problem::NotSettled)?;
    let status = if verdict.is_pending() { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, [(CONTENT_TYPE, JSON)], answer::settled_body(&verdict, &settlement)).into_response())
}

async fn json(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let scope = guard::scope_of(&request);
    let (older, body) = (wants_older(&request), whole_body(&gate, request, BODY_BYTES_MAX).await?);
    Ok(match json_check(&gate, scope.as_deref(), &body).await {
        Ok((verdict, answer)) => respond(&verdict, older, answer),
        // In plain text, as envoyproxy/ratelimit has it.
        Err(BadJson::Wrong(why)) => (StatusCode::BAD_REQUEST, why).into_response(),
        Err(BadJson::Forbidden(forbidden)) => return Err(forbidden.into()),
    })
}

/// Whether the token of a request permits it. One that does not charges nothing.
fn permit(
    gate: &Gate,
    scope: Option<&Scope>,
    request: &tollgate::Request<'_>,
    verb: Verb,
) -> Result<(), Problem> {
    Ok(gate.permit(Protocol::Http, scope, |scope| scope.permit(request, verb))?)
}

/// What the client is told of an error.
fn told(scope: Option<&Scope>, error: RequestError) -> Problem {
    narrowed(scope, error).into()
}

/// Reads a whole body.
async fn whole_body<B: Sent>(gate: &Gate, request: http::Request<B>, max: usize) -> Result<Bytes, Problem> {
    counted(gate, body::read(request, max).await.map_err(Problem::from))
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

/// The status of a denied request: 429 is about the client, 503 about the system, 403 about a ban.
fn denied_status(verdict: &Verdict) -> StatusCode {
    match verdict.decided_by() {
        DecidedBy::FailClosed => StatusCode::SERVICE_UNAVAILABLE,
        DecidedBy::Ban => StatusCode::FORBIDDEN,
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
