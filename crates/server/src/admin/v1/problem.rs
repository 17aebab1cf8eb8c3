//! Why a request of the admin API has no answer, and how it is told: as `application/problem+json` (RFC 9457). The one place where errors
//! become responses here.

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use tollgate::RequestError;
use tollgate::core::Span;
use tollgate::policy::Problems;
use tollgate_control::{ChangeError, DatabaseError, Version};

use super::super::role::Role;
use crate::aside::EndedEarly;
use crate::body::BodyError;
use crate::control::{NoRoom, Refused};
use crate::protocol::http::Problem as QuestionProblem;

pub(super) const MEDIA_TYPE: &str = "application/problem+json";
/// Details repeat what was sent. What is longer is cut.
const DETAIL_CHARACTERS_MAX: usize = 1_024;
/// How soon a database may be back, and rules be loaded.
const RETRY_S: u64 = 1;
const TICKS_PER_SECOND: u64 = 1_000_000_000;

/// Why a request has no answer.
#[derive(Debug)]
pub(in crate::admin) enum Problem {
    /// The path, the query or a header field is wrong, or the body is not JSON.
    BadRequest(String),
    /// The body is not JSON, at this place.
    NotJson(Mistake),
    /// No token, or a wrong one.
    Unauthorized,
    /// A role that may not.
    Forbidden { needed: Role, has: Role },
    /// A name that is not ours.
    ForeignHost,
    /// A page that is not ours.
    ForeignOrigin,
    /// Nothing here.
    NotFound(String),
    /// The wrong verb.
    MethodNotAllowed,
    /// As many as can be are there.
    NoRoom(NoRoom),
    /// Somebody else was first.
    Condition { current: Option<Version> },
    /// No body, or not in time.
    Body(BodyError),
    /// Not JSON.
    MediaType,
    /// JSON that means nothing.
    Invalid(Vec<Mistake>),
    /// The same key for something else.
    RepeatDiffers,
    /// Too many requests.
    TooMany { retry_after: Span },
    /// The database is out of reach. Where something was to be changed, this says that nothing was.
    Away(String),
    /// The database takes too long. The same.
    Slow(String),
    /// The database takes no more. The same.
    Full(String),
    /// Nobody knows whether anything was changed.
    Unknown(String),
    /// There is no database, by the settings.
    NoDatabase,
    /// No rules yet.
    NotLoaded,
    /// Shared counters did not answer.
    Unreset(usize),
    /// A mistake of ours. What it was is in the log.
    Internal,
}

/// One thing that is wrong with a body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::admin) struct Mistake {
    /// Counted from 1. Nothing where the whole is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) column: Option<u32>,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

/// How a problem is told.
#[derive(Debug, Serialize)]
struct Told<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: String,
    #[serde(skip_serializing_if = "<[Mistake]>::is_empty")]
    errors: &'a [Mistake],
}

impl Mistake {
    pub(super) fn new(message: impl Into<String>, hint: impl Into<String>) -> Mistake {
        Mistake { message: message.into(), hint: Some(hint.into()), ..Mistake::default() }
    }
}

impl Problem {
    /// One thing that is wrong with a body as a whole.
    pub(super) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem::Invalid(vec![Mistake::new(message, hint)])
    }

    /// The status, the name of its kind, and that in words.
    fn kind(&self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Problem::BadRequest(_) | Problem::Body(BodyError::Unreadable(_)) => {
                (StatusCode::BAD_REQUEST, "bad-request", "The request is wrong")
            }
            Problem::NotJson(_) => (StatusCode::BAD_REQUEST, "not-json", "The body is not JSON"),
            Problem::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized", "A token is needed"),
            Problem::Forbidden { .. } => (StatusCode::FORBIDDEN, "role", "The token's role may not do this"),
            Problem::ForeignHost => (StatusCode::FORBIDDEN, "host", "The request is meant for another host"),
            Problem::ForeignOrigin => {
                (StatusCode::FORBIDDEN, "origin", "The request comes from another page")
            }
            Problem::NotFound(_) => (StatusCode::NOT_FOUND, "not-found", "There is nothing here"),
            Problem::MethodNotAllowed => {
                (StatusCode::METHOD_NOT_ALLOWED, "method", "This path takes another method")
            }
            Problem::NoRoom(_) => {
                (StatusCode::CONFLICT, "no-room", "There are as many of these as there can be")
            }
            Problem::Condition { .. } => {
                (StatusCode::PRECONDITION_FAILED, "condition", "The condition does not hold")
            }
            Problem::Body(BodyError::TooSlow { .. }) => {
                (StatusCode::REQUEST_TIMEOUT, "slow-body", "The body did not arrive in time")
            }
            Problem::Body(BodyError::TooLarge { .. }) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "large-body", "The body is too large")
            }
            Problem::Body(BodyError::Busy(_)) => {
                (StatusCode::SERVICE_UNAVAILABLE, "busy", "There is no memory for the body at the moment")
            }
            Problem::MediaType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", "The body has to be application/json")
            }
            Problem::Invalid(_) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "invalid", "The body does not say what it should")
            }
            Problem::RepeatDiffers => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency-key",
                "The idempotency key was used for something else",
            ),
            Problem::TooMany { .. } => (StatusCode::TOO_MANY_REQUESTS, "too-many", "Too many requests"),
            Problem::Away(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "database-away", "The database is out of reach")
            }
            Problem::Slow(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "database-slow", "The database takes too long for this")
            }
            Problem::Full(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "database-full", "The database takes no more")
            }
            Problem::Unknown(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "database-unknown",
                "The database was lost while it was asked",
            ),
            Problem::NoDatabase => {
                (StatusCode::SERVICE_UNAVAILABLE, "no-database", "This server has no database")
            }
            Problem::NotLoaded => (StatusCode::SERVICE_UNAVAILABLE, "not-loaded", "No rules are loaded yet"),
            Problem::Unreset(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "shared-counters", "Shared counters are out of reach")
            }
            Problem::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal", "Something went wrong here"),
        }
    }

    fn detail(&self) -> String {
        match self {
            Problem::BadRequest(detail)
            | Problem::NotFound(detail)
            | Problem::Away(detail)
            | Problem::Slow(detail)
            | Problem::Full(detail) => detail.clone(),
            Problem::NotJson(mistake) => mistake.message.clone(),
            Problem::Unauthorized => {
                "send the header `Authorization: Bearer TOKEN` with a token of this server".to_owned()
            }
            Problem::Forbidden { needed, has } => {
                format!("this needs the role {needed}, and the token has the role {has}")
            }
            Problem::ForeignHost => {
                "the header Host names neither this listener nor this machine: add the name to `admin_hosts`"
                    .to_owned()
            }
            Problem::ForeignOrigin => {
                "the header Origin is not that of this listener: add its host to `admin_hosts`".to_owned()
            }
            Problem::MethodNotAllowed => "the header Allow says which methods there are".to_owned(),
            Problem::NoRoom(why) => format!("{why}; nothing was changed"),
            Problem::Condition { current: Some(version) } => {
                format!("it is at version {version} now: look at it, and send `If-Match: \"{version}\"`")
            }
            Problem::Condition { current: None } => "it does not exist".to_owned(),
            Problem::Body(error) => error.to_string(),
            Problem::MediaType => "send the header `Content-Type: application/json`".to_owned(),
            Problem::Invalid(mistakes) => match mistakes.as_slice() {
                [one] => one.message.clone(),
                many => format!("{} things are wrong: see `errors`", many.len()),
            },
            Problem::RepeatDiffers => {
                "within a day, a key stands for one request: choose another one for another request"
                    .to_owned()
            }
            Problem::TooMany { .. } => "the header Retry-After says when to come back".to_owned(),
            Problem::Unknown(why) => {
                format!("{why}; whether the change was made is not known: look before you ask again")
            }
            Problem::NoDatabase => "it was started with `database: off`".to_owned(),
            Problem::NotLoaded => "try again in a moment".to_owned(),
            Problem::Unreset(count) => {
                format!("{count} shared counters did not answer, and may be as they were: ask once more")
            }
            Problem::Internal => {
                "the server's log says what; nothing is said here that might be secret".to_owned()
            }
        }
    }

    fn errors(&self) -> &[Mistake] {
        match self {
            Problem::Invalid(mistakes) => mistakes,
            Problem::NotJson(mistake) => std::slice::from_ref(mistake),
            _ => &[],
        }
    }

    fn retry_after_s(&self) -> Option<u64> {
        match self {
            Problem::TooMany { retry_after } => Some(retry_after.ticks().div_ceil(TICKS_PER_SECOND).max(1)),
            Problem::NoDatabase => None, // It will not have one before somebody gives it one.
            _ if self.kind().0 == StatusCode::SERVICE_UNAVAILABLE => Some(RETRY_S),
            _ => None,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, kind, title) = self.kind();
        let detail = self.detail().chars().take(DETAIL_CHARACTERS_MAX).collect();
        let told = Told {
            r#type: format!("urn:tollgate:{kind}"),
            title,
            status: status.as_u16(),
            detail,
            errors: self.errors(),
        };
        // Strings and numbers in a struct: that cannot fail.
        let body = serde_json::to_string(&told).unwrap_or_default();
        let mut response =
            (status, [(CONTENT_TYPE, MEDIA_TYPE), (CACHE_CONTROL, "no-store")], body).into_response();
        let fields = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            fields.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tollgate\""));
        }
        fields.extend(self.retry_after_s().map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
        response
    }
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Problem {
        Problem::Body(error)
    }
}

impl From<Problems> for Problem {
    fn from(problems: Problems) -> Problem {
        let place = |number: u32| Some(number).filter(|number| *number > 0);
        let mistake = |problem: &tollgate::policy::Problem| Mistake {
            line: place(problem.position.line),
            column: place(problem.position.column),
            message: problem.what.clone(),
            hint: problem.hint.clone(),
        };
        Problem::Invalid(problems.iter().map(mistake).collect())
    }
}

impl From<QuestionProblem> for Problem {
    fn from(problem: QuestionProblem) -> Problem {
        match problem {
            QuestionProblem::UnknownPolicy(why) => Problem::NotFound(why),
            QuestionProblem::NotLoaded => Problem::NotLoaded,
            other => Problem::Invalid(vec![Mistake { message: other.to_string(), ..Mistake::default() }]),
        }
    }
}

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Problem {
        QuestionProblem::from(error).into()
    }
}

impl From<DatabaseError> for Problem {
    fn from(error: DatabaseError) -> Problem {
        match error {
            DatabaseError::Off => Problem::NoDatabase,
            DatabaseError::Full(_) => Problem::Full(error.to_string()),
            DatabaseError::Slow(_) => Problem::Slow(error.to_string()),
            DatabaseError::Away(_) | DatabaseError::ReadOnly(_) | DatabaseError::Locked(_) => {
                Problem::Away(error.to_string())
            }
            error => internal(&error),
        }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        match refused {
            Refused::Database(error) => error.into(),
            Refused::NoRoom(why) => Problem::NoRoom(why),
            Refused::EndedEarly(error) => error.into(),
        }
    }
}

impl From<EndedEarly> for Problem {
    fn from(error: EndedEarly) -> Problem {
        internal(&error)
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Problem {
        match error {
            ChangeError::Condition { current } => Problem::Condition { current },
            ChangeError::RepeatDiffers => Problem::RepeatDiffers,
            ChangeError::Missing => Problem::NotFound("there is no such document".to_owned()),
            ChangeError::Invalid(why) => {
                Problem::Invalid(vec![Mistake { message: why, ..Mistake::default() }])
            }
            ChangeError::Full(_) => Problem::Full(error.to_string()),
            ChangeError::Away(_) => Problem::Away(error.to_string()),
            ChangeError::Slow(_) => Problem::Slow(error.to_string()),
            ChangeError::Unknown(why) => Problem::Unknown(why),
            ChangeError::Other(error) => error.into(),
        }
    }
}

/// What is not meant for whoever asks.
pub(super) fn internal(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%error, "the admin API could not answer");
    Problem::Internal
}
