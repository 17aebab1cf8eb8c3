//! Who may come to the admin API: whoever asks for one of its own hosts, with a token, and not too often. It stands before all of its
//! paths, known or not, so that strangers do not even learn which there are.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tollgate::core::{LimitError, Time};

use super::access_log::{AccessLog, Record};
use super::hosts::{Foreign, Hosts};
use super::rate::{AdminRate, Rates};
use super::token::{Caller, Callers};
use super::v1::problem::Problem;
use super::v1::{Api, OPENAPI_PATH, PREFIX};
use crate::access;
use crate::metrics::AdminOutcome;

/// What requests have to pass.
pub(crate) struct Guard {
    callers: Arc<Callers>,
    hosts: Hosts,
    rates: Rates,
    log: AccessLog,
}

/// A request that is not let in, and its caller if that is known.
struct Refusal {
    caller: Option<Caller>,
    problem: Problem,
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Refusal {
        Refusal { caller: None, problem }
    }
}

impl Guard {
    pub(crate) fn new(
        callers: Arc<Callers>,
        hosts: Hosts,
        rate: Option<AdminRate>,
    ) -> Result<Guard, LimitError> {
        Ok(Guard { callers, hosts, rates: Rates::new(rate)?, log: AccessLog::default() })
    }

    /// The caller of a request. There is none where no token is needed.
    fn admit(&self, request: &Request, now: Time) -> Result<Option<Caller>, Refusal> {
        self.hosts.check(request.uri(), request.headers()).map_err(|foreign| match foreign {
            Foreign::Host => Problem::ForeignHost,
            Foreign::Origin => Problem::ForeignOrigin,
        })?;
        if request.uri().path() == OPENAPI_PATH {
            return Ok(None);
        }
        let shown = access::shown(request.headers());
        let Some(caller) = shown.and_then(|shown| self.callers.whose(shown, now)) else {
            return Err(self.turn_away(shown.is_some(), now).into());
        };
        match self.rates.ask(&caller.name, now) {
            Ok(()) => Ok(Some(caller)),
            Err(retry_after) => {
                Err(Refusal { caller: Some(caller), problem: Problem::TooMany { retry_after } })
            }
        }
    }

    /// What a client without a valid token is answered. One that shows nothing does not guess, and is not counted.
    fn turn_away(&self, has_shown: bool, now: Time) -> Problem {
        if !has_shown {
            return Problem::Unauthorized;
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
    let (record, now) = (Record::of(&request), api.gate.now());
    let (caller, response) = match api.guard.admit(&request, now) {
        Ok(caller) => {
            if let Some(caller) = &caller {
                request.extensions_mut().insert(caller.clone());
            }
            (caller, next.run(request).await)
        }
        Err(Refusal { caller, problem }) => (caller, problem.into_response()),
    };
    let (caller, outcome) = (caller.as_ref(), AdminOutcome::of(response.status()));
    api.gate.metrics().observe_admin(caller.map(|caller| caller.role), outcome);
    api.guard.log.record(&record, caller, response.status(), now);
    response
}
