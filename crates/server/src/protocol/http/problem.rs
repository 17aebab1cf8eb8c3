//! Why a request has no answer, and how HTTP says so. The one place where errors become responses.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use thiserror::Error;
use tollgate::authority::Failure;
use tollgate::{ReleaseError, RequestError, Reservation, ReservationScope, SettleError};

use super::JSON;
use crate::access::Forbidden;
use crate::body::BodyError;
use crate::headers;

/// Messages repeat what was sent. What is longer is cut.
const MESSAGE_CHARACTERS_MAX: usize = 512;

/// How soon rules may be loaded, and long requests of others be over.
const RETRY_S: u64 = 1;

/// Why a request has no answer.
#[derive(Debug, Error)]
pub(crate) enum Problem {
    /// What was sent is wrong.
    #[error("{0}")]
    BadRequest(String),
    /// There is no such policy.
    #[error("{0}")]
    UnknownPolicy(String),
    /// There is no body.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// Too early.
    #[error("no rules are loaded yet: try again in a moment")]
    NotLoaded,
    /// Shared counters did not answer.
    #[error("the shared count is out of reach, and the lease may still hold something: send it again")]
    NotReleased(Failure),
    /// A lease that cannot be released here.
    #[error(transparent)]
    UnknownLease(#[from] ReleaseError),
    /// There is no room for another reservation.
    #[error("{0}")]
    TooManyReservations(RequestError),
    /// The key, the tenant or the client has as many as one may have.
    #[error("{error}")]
    TooManyReservationsOf {
        /// Whose.
        scope: ReservationScope,
        /// What the engine says.
        error: RequestError,
    },
    /// The id of another request.
    #[error("{0}")]
    IdConflict(RequestError),
    /// There is no room for another request id.
    #[error("{0}")]
    TooManyIds(RequestError),
    /// A reservation that cannot be settled, or not again.
    #[error("{0}")]
    NotSettled(SettleError),
    /// Whoever settles it was stopped.
    #[error("the server is stopping, and may not have settled the reservation")]
    Stopping,
    /// No token, or a wrong one.
    #[error("a token is needed: send the header `Authorization: Bearer TOKEN`")]
    Unauthorized,
    /// A proxy has shown no token, or a wrong one. A 401 would be passed on: to a browser, it means that its user is not logged in.
    #[error("this proxy has to show a token of the rate limiter, in the header `X-Tollgate-Token`")]
    ProxyUnauthorized,
    /// The token lacks a scope.
    #[error("{0}")]
    Forbidden(Forbidden),
    /// The same of a proxy's token. A 403 would be passed on as a denial.
    #[error("{0}: the proxy has to show another one, in the header `X-Tollgate-Token`")]
    ProxyForbidden(Forbidden),
    /// A browser that was led here by another name.
    #[error(
        "the header Host names neither an address nor localhost: add the name to `http_hosts`, or set `http_tokens`"
    )]
    ForeignHost,
    /// A web page of another site.
    #[error("web pages of other origins may not use this listener: add the host of the page to `http_hosts`")]
    ForeignOrigin,
    /// Nothing here.
    #[error("there is nothing at this path; {0}")]
    NotFound(&'static str),
    /// The wrong verb.
    #[error("this path takes another method: see the Allow header")]
    MethodNotAllowed,
}

/// How a problem is told.
#[derive(Debug, Serialize)]
struct Told<'a> {
    error: Details<'a>,
}

#[derive(Debug, Serialize)]
struct Details<'a> {
    code: &'a str,
    message: &'a str,
}

impl Problem {
    pub(crate) fn bad_request(message: impl Into<String>) -> Problem {
        Problem::BadRequest(message.into())
    }

    /// How it is told: the status, when to try again in seconds, and a body of JSON.
    pub(super) fn told(&self) -> (StatusCode, Option<u64>, String) {
        let (status, code) = self.status_and_code();
        let message: String = self.to_string().chars().take(MESSAGE_CHARACTERS_MAX).collect();
        let told = Told { error: Details { code, message: &message } };
        // Two strings in two objects: that cannot fail.
        let body = serde_json::to_string(&told).unwrap_or_default();
        let is_worth_a_retry =
            matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS);
        (status, is_worth_a_retry.then_some(RETRY_S), body)
    }

    fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Problem::Body(BodyError::TooSlow { .. }) => (StatusCode::REQUEST_TIMEOUT, "body_too_slow"),
            Problem::BadRequest(_) | Problem::Body(BodyError::Unreadable(_)) => {
                (StatusCode::BAD_REQUEST, "bad_request")
            }
            Problem::UnknownPolicy(_) => (StatusCode::NOT_FOUND, "unknown_policy"),
            Problem::Body(BodyError::TooLarge { .. }) => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
            Problem::Body(BodyError::Busy(_)) => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Problem::NotLoaded => (StatusCode::SERVICE_UNAVAILABLE, "not_loaded"),
            Problem::NotReleased(_) | Problem::NotSettled(SettleError::Unavailable) => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
            }
            Problem::UnknownLease(_) => (StatusCode::NOT_FOUND, "unknown_lease"),
            Problem::TooManyReservations(_) => (StatusCode::SERVICE_UNAVAILABLE, "too_many_reservations"),
            Problem::TooManyReservationsOf { scope: ReservationScope::Key, .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many_reservations_of_key")
            }
            Problem::TooManyReservationsOf { scope: ReservationScope::Tenant, .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many_reservations_of_tenant")
            }
            Problem::TooManyReservationsOf { scope: ReservationScope::Client, .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many_reservations_of_client")
            }
            Problem::IdConflict(_) | Problem::NotSettled(SettleError::IdConflict) => {
                (StatusCode::CONFLICT, "request_id_conflict")
            }
            Problem::TooManyIds(_) | Problem::NotSettled(SettleError::TooManyIds) => {
                (StatusCode::SERVICE_UNAVAILABLE, "too_many_request_ids")
            }
            Problem::NotSettled(SettleError::Unknown) => (StatusCode::NOT_FOUND, "unknown_reservation"),
            Problem::NotSettled(SettleError::Settled) => (StatusCode::CONFLICT, "already_settled"),
            Problem::NotSettled(SettleError::Expired) => (StatusCode::GONE, "reservation_expired"),
            Problem::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
            Problem::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Problem::ProxyUnauthorized => (StatusCode::INTERNAL_SERVER_ERROR, "proxy_unauthorized"),
            Problem::Forbidden(_) => (StatusCode::FORBIDDEN, "forbidden"),
            Problem::ProxyForbidden(_) => (StatusCode::INTERNAL_SERVER_ERROR, "proxy_forbidden"),
            Problem::ForeignHost => (StatusCode::FORBIDDEN, "foreign_host"),
            Problem::ForeignOrigin => (StatusCode::FORBIDDEN, "foreign_origin"),
            Problem::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            Problem::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
        }
    }
}

impl From<Forbidden> for Problem {
    fn from(forbidden: Forbidden) -> Problem {
        Problem::Forbidden(forbidden)
    }
}

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Problem {
        match error {
            RequestError::NoDomain => Problem::bad_request("`domain` is empty: say whose rules are meant"),
            RequestError::NoDescriptors => Problem::bad_request(
                r#"`descriptors` is empty: add at least one, such as {"entries": [{"key": "...", "value": "..."}]}"#,
            ),
            RequestError::NotLoaded => Problem::NotLoaded,
            RequestError::UnknownPolicy { .. } => Problem::UnknownPolicy(error.to_string()),
            RequestError::UnknownUnit { .. }
            | RequestError::UnknownTier { .. }
            | RequestError::NothingToHold => Problem::bad_request(error.to_string()),
            RequestError::HeldNotReserved => Problem::bad_request(
                "a concurrency limit applies to this request: places in it are held with /v1/acquire, not reserved",
            ),
            RequestError::EstimateOfItsOwn { index } => Problem::bad_request(format!(
                "descriptors[{index}] has `hits_addend` or `is_negative_hits`: a reservation has one estimate, the `hits_addend` of the request"
            )),
            RequestError::ReservedTooLong => {
                let hours_max = Reservation::LIFE_MAX.ticks() / 3_600_000_000_000;
                Problem::bad_request(format!("`expires_in` must be from 1ms to {hours_max}h"))
            }
            RequestError::IdConflict => Problem::IdConflict(error),
            RequestError::TooManyIds => Problem::TooManyIds(error),
            RequestError::HeldNotRepeated | RequestError::IdNotTaken => {
                Problem::bad_request(error.to_string())
            }
            RequestError::TooManyReservations => Problem::TooManyReservations(error),
            RequestError::TooManyReservationsOf(scope) => Problem::TooManyReservationsOf { scope, error },
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, retry_after_s, body) = self.told();
        let mut response = (status, [(CONTENT_TYPE, JSON)], body).into_response();
        let field = match self {
            Problem::Unauthorized => Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            _ => retry_after_s.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))),
        };
        response.headers_mut().extend(field);
        if let Problem::NotReleased(failure) = self
            && let Ok(reason) = HeaderValue::try_from(format!("not_released: {failure}"))
        {
            response.headers_mut().insert(headers::REASON, reason);
        }
        response
    }
}
