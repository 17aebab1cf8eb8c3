//! Answers of the admin API: JSON that nobody stores on its way, with the version of what it tells as an ETag.

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use serde::Serialize;
use serde_json::{Map, Value};
use tollgate_control::{Changed, Document, Version};

use super::ask::Ask;
use super::problem::{Problem, internal};
use super::{conditions, moment};

const JSON: &str = "application/json";

/// A body, and nothing more to say.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Result<Response, Problem> {
    let body = serde_json::to_string(value).map_err(|error| internal(&error))?;
    Ok(text(status, body))
}

/// The same of JSON that is written already.
pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Response {
    (status, [(CONTENT_TYPE, JSON), (CACHE_CONTROL, "no-store")], body.into()).into_response()
}

/// A body with its version.
pub(super) fn tagged(
    status: StatusCode,
    version: Version,
    value: &impl Serialize,
) -> Result<Response, Problem> {
    let mut response = json(status, value)?;
    response.headers_mut().insert(ETAG, conditions::tag(version));
    Ok(response)
}

/// What somebody looks at; nothing, if that one has it already.
pub(super) fn looked_at(ask: &Ask, version: Version, value: &impl Serialize) -> Result<Response, Problem> {
    if conditions::is_known(&ask.head.headers, version)? {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        response.headers_mut().insert(ETAG, conditions::tag(version));
        return Ok(response);
    }
    tagged(StatusCode::OK, version, value)
}

/// The status of a document that was written: whether there was one before.
pub(super) fn written(changed: &Changed) -> StatusCode {
    if changed.before.is_some() { StatusCode::OK } else { StatusCode::CREATED }
}

/// A change after which there is nothing to show.
pub(super) fn done(changed: &Changed) -> Result<Response, Problem> {
    json(StatusCode::OK, &serde_json::json!({ "version": changed.version }))
}

/// What is told of every document.
pub(super) fn put_origin(told: &mut Map<String, Value>, document: &Document) {
    told.insert("version".to_owned(), document.version.into());
    told.insert("changed_at".to_owned(), moment::of_ms(document.changed_at_ms).into());
    told.insert("changed_by".to_owned(), document.changed_by.clone().into());
}

/// The body of a document. What is not JSON was not written by us.
pub(super) fn body_of(document: &Document) -> Result<Map<String, Value>, Problem> {
    serde_json::from_str(&document.body).map_err(|error| internal(&error))
}

/// The document of a change.
pub(super) fn document_of(changed: &Changed) -> Result<&Document, Problem> {
    changed.document.as_ref().ok_or(Problem::Internal)
}
