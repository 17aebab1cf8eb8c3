//! Who may use the HTTP listener: clients that show a token, where it wants one, and no web pages of other sites.
//!
//! Health and the description of the server are open to all: orchestrators have no tokens, and nothing is charged there.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::header::CONNECTION;
use http::{HeaderValue, Version};

use super::problem::Problem;
use crate::access::{self, Admitted, Attempts, Scope};
use crate::gate::Gate;
use crate::metrics::Protocol;

/// What is answered to every client.
const OPEN_PATHS: [&str; 4] = ["/", "/healthz", "/readyz", "/healthcheck"];

/// Where proxies ask about their clients' requests. They hand over the header of those, `Host` and `Origin` among it, and pass on
/// what they are answered.
const PROXIES_PATH: &str = "/v1/auth";

/// Guards all routes.
pub(super) fn before(routes: Router, gate: Arc<Gate>) -> Router {
    routes.layer(from_fn_with_state(gate, guard))
}

/// Lets a request go on, with the scope of its token among its extensions, or says what it is answered.
pub(super) fn admit<B>(gate: &Gate, request: &mut http::Request<B>) -> Result<(), Box<Response>> {
    let path = request.uri().path();
    if OPEN_PATHS.contains(&path) {
        return Ok(());
    }
    if path != PROXIES_PATH {
        gate.web_hosts().check(request.uri(), request.headers()).map_err(IntoResponse::into_response)?;
    }
    if !gate.access().wants_token(Protocol::Http) {
        return Ok(());
    }
    let attempts = request.extensions().get::<Arc<Attempts>>().map(Arc::as_ref);
    let shown = access::shown(request.headers());
    if let Ok(Admitted { scope, .. }) = gate.admit(Protocol::Http, shown, attempts) {
        if let Some(scope) = scope {
            request.extensions_mut().insert(scope);
        }
        return Ok(());
    }
    let problem = if path == PROXIES_PATH { Problem::ProxyUnauthorized } else { Problem::Unauthorized };
    let mut response = problem.into_response();
    // In HTTP/2 a GOAWAY says so: see `serve`.
    if attempts.is_some_and(Attempts::is_over) && request.version() <= Version::HTTP_11 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Err(response.into())
}

/// What the token of a request is bounded to, if it is.
pub(super) fn scope_of<B>(request: &http::Request<B>) -> Option<Arc<Scope>> {
    request.extensions().get::<Arc<Scope>>().cloned()
}

async fn guard(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    match admit(&gate, &mut request) {
        Ok(()) => next.run(request).await,
        Err(response) => *response,
    }
}
