//! Who may ask over HTTP: whoever shows a token, where the listener wants one. Whether the server lives, and what it is, everybody may
//! know: orchestrators have no tokens.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;

use super::problem::Problem;
use crate::gate::Gate;
use crate::metrics::Protocol;

/// What is answered to everybody.
const OPEN_PATHS: [&str; 4] = ["/", "/healthz", "/readyz", "/healthcheck"];

/// Where proxies ask, and pass on what they are answered.
const PROXIES_PATH: &str = "/v1/auth";

/// Puts the question before all routes, if there is one.
pub(super) fn before(routes: Router, gate: Arc<Gate>) -> Router {
    if gate.access().wants_token(Protocol::Http) {
        routes.layer(from_fn_with_state(gate, guard))
    } else {
        routes
    }
}

/// Whether a request may go on, or what it is answered.
pub(super) fn admit(gate: &Gate, path: &str, fields: &HeaderMap) -> Result<(), Problem> {
    match path {
        _ if OPEN_PATHS.contains(&path) || gate.admits(Protocol::Http, fields) => Ok(()),
        PROXIES_PATH => Err(Problem::ProxyUnauthorized),
        _ => Err(Problem::Unauthorized),
    }
}

async fn guard(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    match admit(&gate, request.uri().path(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}
