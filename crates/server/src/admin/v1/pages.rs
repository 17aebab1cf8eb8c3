//! Lists, a page at a time. A page may be a megabyte of JSON, so it is read and written on a thread that decides nothing.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};
use tollgate_control::{Document, Kind, PAGE_ROWS_MAX, Page};

use super::answers;
use super::ask::Ask;
use super::moment;
use super::operation::{Form, Parameter};
use super::problem::Problem;
use crate::aside::aside;

const ITEMS_DEFAULT: u64 = 100;
const ITEMS_MAX: u64 = PAGE_ROWS_MAX as u64;

pub(super) const LIMIT: Parameter = Parameter {
    name: "limit",
    about: "How many at most. There are fewer where they are large.",
    form: Form::Count { min: 1, max: ITEMS_MAX, default: Some(ITEMS_DEFAULT) },
};
pub(super) const AFTER: Parameter =
    Parameter { name: "after", about: "Go on where another page ended: its `next`.", form: Form::Text };

/// How many are wanted.
pub(super) fn limit(ask: &Ask) -> usize {
    let limit = ask.query.number(LIMIT.name).unwrap_or(ITEMS_DEFAULT);
    usize::try_from(limit).unwrap_or(1)
}

/// How many rows to look for, where all are small: one more, to know whether that is all. The largest page is all that a database gives at once.
pub(super) fn looked_for(limit: usize) -> usize {
    (limit + 1).min(PAGE_ROWS_MAX)
}

/// Whether another page follows one for which so many were found. After the largest, it may turn out to be empty.
pub(super) fn has_more(limit: usize, found: usize) -> bool {
    found > limit || (limit == PAGE_ROWS_MAX && found == limit)
}

/// A page of documents, each as it is told at a moment.
pub(super) async fn documents(
    ask: &Ask,
    kind: Kind,
    told: fn(&Document, i64) -> Result<Value, Problem>,
) -> Result<Response, Problem> {
    let after = ask.query.text(AFTER.name);
    let Page { rows, has_more } = ask.database().await?.documents(kind, after, limit(ask)).await?;
    let now_ms = moment::ms(ask.api.gate.now());
    let written = aside(move || {
        let next = rows.last().filter(|_| has_more).map(|document| document.id.as_str());
        let items = rows.iter().map(|document| told(document, now_ms)).collect::<Result<Vec<_>, _>>()?;
        page(&items, next)
    });
    written.await?
}

/// A page.
pub(super) fn page(items: &[Value], next: Option<&str>) -> Result<Response, Problem> {
    answers::json(StatusCode::OK, &json!({ "items": items, "next": next }))
}
