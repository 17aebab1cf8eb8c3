//! One request of the admin API, read with care: who asks, about what, under which conditions, with which body.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use serde::de::DeserializeOwned;
use tollgate_control::{Action, Change, Condition, Database, Kind, Repeat, Who};

use super::Api;
use super::conditions;
use super::operation::Operation;
use super::problem::{Mistake, Problem};
use super::query::Query;
use super::unique_keys::UniqueKeys;
use crate::admin::token::Caller;
use crate::body;
use crate::connection::Budget;
use crate::protocol::http::Object;

/// The largest body.
pub(super) const BODY_BYTES_MAX: usize = tollgate_control::BODY_BYTES_MAX;
/// The longest id.
pub(super) const ID_BYTES_MAX: usize = tollgate_control::ID_BYTES_MAX;

/// One request.
pub(super) struct Ask {
    pub(super) api: Arc<Api>,
    pub(super) caller: Caller,
    pub(super) query: Query,
    pub(super) head: Parts,
    /// The body, where there is to be one.
    pub(super) text: String,
    id: Option<String>,
    /// What tells it from other requests.
    fingerprint: blake3::Hash,
}

impl Ask {
    /// Reads all of it, if whoever asks may.
    pub(super) async fn read(operation: &Operation, api: Arc<Api>, request: Request) -> Result<Ask, Problem> {
        let (mut head, body) = request.into_parts();
        let caller = match operation.role {
            None => Caller::nobody(),
            Some(needed) => {
                let caller = head.extensions.get::<Caller>().cloned().ok_or(Problem::Unauthorized)?;
                if caller.role < needed {
                    return Err(Problem::Forbidden { needed, has: caller.role });
                }
                caller
            }
        };
        let query = Query::read(head.uri.query().unwrap_or_default(), operation.query)?;
        let ids = RawPathParams::from_request_parts(&mut head, &()).await;
        let ids = ids.map_err(|_| Problem::BadRequest("the path is not UTF-8".to_owned()))?;
        let id = ids.iter().map(|(_, id)| checked_id(id)).next().transpose()?;
        let text = match operation.body {
            Some(_) => read_text(&head, body).await?,
            None => String::new(),
        };
        let mut fingerprint = blake3::Hasher::new();
        for part in [head.method.as_str(), head.uri.path(), &text] {
            fingerprint.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        Ok(Ask { api, caller, query, head, text, id, fingerprint: fingerprint.finalize() })
    }

    /// What the path names.
    pub(super) fn id(&self) -> Result<&str, Problem> {
        self.id.as_deref().ok_or(Problem::Internal)
    }

    /// The body, which says all that `T` needs and nothing else.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        read_json(&self.text)
    }

    /// Under which condition it is meant.
    pub(super) fn condition(&self) -> Result<Condition, Problem> {
        conditions::of_change(&self.head.headers)
    }

    /// What is to be changed, by whoever asks.
    pub(super) fn change(
        &self,
        action: Action,
        (kind, id): (Kind, &str),
        body: Option<String>,
    ) -> Result<Change, Problem> {
        let key = conditions::idempotency_key(&self.head.headers)?;
        let fingerprint = || self.fingerprint.to_hex().to_string();
        Ok(Change {
            who: Who { name: self.caller.name.to_string(), role: self.caller.role.name().to_owned() },
            action,
            kind,
            id: id.to_owned(),
            body,
            condition: Condition::Any,
            repeat: key.map(|key| Repeat { key, fingerprint: fingerprint() }),
        })
    }

    /// What its connection may hold. Nothing, where it came over none.
    pub(super) fn budget(&self) -> Option<&Budget> {
        self.head.extensions.get::<Budget>()
    }

    pub(super) async fn database(&self) -> Result<Arc<Database>, Problem> {
        let control = self.api.control()?;
        Ok(control.database().await?)
    }
}

/// An id as it may stand in a database and in a log.
pub(super) fn checked_id(id: &str) -> Result<String, Problem> {
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        return Err(Problem::BadRequest(format!("an id has 1 to {ID_BYTES_MAX} bytes")));
    }
    if id.contains(char::is_control) {
        return Err(Problem::BadRequest("an id has no control characters".to_owned()));
    }
    Ok(id.to_owned())
}

/// The body, which says that it is JSON.
async fn read_text(head: &Parts, body: Body) -> Result<String, Problem> {
    if !is_json(head) {
        return Err(Problem::MediaType);
    }
    let mut request = Request::new(body);
    *request.headers_mut() = head.headers.clone();
    let bytes = body::read(request, BODY_BYTES_MAX).await?;
    String::from_utf8(bytes.into()).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Problem::BadRequest(format!("the body is not UTF-8 from byte {at} on"))
    })
}

fn is_json(head: &Parts) -> bool {
    let media_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// Reads an object of JSON as `T`, and says where it is wrong. A key that stands twice in an object is wrong: readers
/// disagree on which of the two counts.
pub(super) fn read_json<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    serde_json::from_str::<UniqueKeys>(text).map_err(|error| not_read(&error))?;
    serde_json::from_str::<Object<T>>(text).map(|Object(read)| read).map_err(|error| not_read(&error))
}

fn not_read(error: &serde_json::Error) -> Problem {
    let place = |number: usize| u32::try_from(number).ok().filter(|number| *number > 0);
    let told = error.to_string();
    let message = told.rsplit_once(" at line ").map_or(&*told, |(message, _)| message).to_owned();
    let mistake = Mistake { line: place(error.line()), column: place(error.column()), message, hint: None };
    if error.is_data() { Problem::Invalid(vec![mistake]) } else { Problem::NotJson(mistake) }
}
