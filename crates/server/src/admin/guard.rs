//! Who may come to the admin API: whoever asks for one of its own hosts, with a token, and not too often. It stands before all of its
//! paths, known or not, so that strangers do not even learn which there are.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tollgate::core::{LimitError, Time};

use super::hosts::{Foreign, Hosts};
use super::rate::{AdminRate, Rates};
use super::token::{Caller, Callers};
use super::v1::problem::Problem;
use super::v1::{Api, OPENAPI_PATH, PREFIX};
use crate::access;
use crate::seldom::Seldom;

/// What requests have to pass.
pub(crate) struct Guard {
    callers: Arc<Callers>,
    hosts: Hosts,
    rates: Rates,
    wrong_tokens: Seldom,
}

impl Guard {
    pub(crate) fn new(
        callers: Arc<Callers>,
        hosts: Hosts,
        rate: Option<AdminRate>,
    ) -> Result<Guard, LimitError> {
        Ok(Guard { callers, hosts, rates: Rates::new(rate)?, wrong_tokens: Seldom::default() })
    }

    /// Who asks; nobody, where everybody may.
    fn admit(&self, request: &Request, now: Time) -> Result<Option<Caller>, Problem> {
        self.hosts.check(request.uri(), request.headers()).map_err(|foreign| match foreign {
            Foreign::Host => Problem::ForeignHost,
            Foreign::Origin => Problem::ForeignOrigin,
        })?;
        if request.uri().path() == OPENAPI_PATH {
            return Ok(None);
        }
        let shown = access::shown(request.headers());
        let Some(caller) = shown.and_then(|shown| self.callers.whose(shown)) else {
            return Err(self.turn_away(shown.is_some(), now));
        };
        self.rates.ask(&caller.name, now).map_err(|retry_after| Problem::TooMany { retry_after })?;
        Ok(Some(caller))
    }

    /// Nobody has to count those who show nothing: they are not guessing.
    fn turn_away(&self, has_shown: bool, now: Time) -> Problem {
        if !has_shown {
            return Problem::Unauthorized;
        }
        if self.wrong_tokens.is_to_be_told(now) {
            tracing::warn!("somebody has shown the admin API a token that it does not know");
        }
        match self.rates.ask_wrongly(now) {
            Ok(()) => Problem::Unauthorized,
            Err(retry_after) => Problem::TooMany { retry_after },
        }
    }
}

/// Whether a path belongs to the admin API.
pub(super) fn is_guarded(path: &str) -> bool {
    path.strip_prefix(PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(super) async fn guard(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    if !is_guarded(request.uri().path()) {
        return next.run(request).await;
    }
    match api.guard.admit(&request, api.gate.now()) {
        Ok(caller) => {
            if let Some(caller) = caller {
                request.extensions_mut().insert(caller);
            }
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}
