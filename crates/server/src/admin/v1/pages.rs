//! Lists, a page at a time.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};
use tollgate_control::{Document, Kind, PAGE_ROWS_MAX};

use super::answers;
use super::ask::Ask;
use super::operation::{Form, Parameter};
use super::problem::Problem;

const ITEMS_DEFAULT: u64 = 100;
const ITEMS_MAX: u64 = PAGE_ROWS_MAX as u64;

pub(super) const LIMIT: Parameter = Parameter {
    name: "limit",
    about: "How many at most.",
    form: Form::Count { min: 1, max: ITEMS_MAX, default: Some(ITEMS_DEFAULT) },
};
pub(super) const AFTER: Parameter =
    Parameter { name: "after", about: "Go on where another page ended: its `next`.", form: Form::Text };

/// How many are wanted.
pub(super) fn limit(ask: &Ask) -> usize {
    let limit = ask.query.number(LIMIT.name).unwrap_or(ITEMS_DEFAULT);
    usize::try_from(limit).unwrap_or(1)
}

/// How many to look for: one more, to know whether that is all. The largest page is all that a database gives at once.
pub(super) fn looked_for(limit: usize) -> usize {
    (limit + 1).min(PAGE_ROWS_MAX)
}

/// Whether another page follows one for which so many were found. After the largest, it may turn out to be empty.
pub(super) fn has_more(limit: usize, found: usize) -> bool {
    found > limit || (limit == PAGE_ROWS_MAX && found == limit)
}

/// A page of documents, each as it is told.
pub(super) async fn documents(
    ask: &Ask,
    kind: Kind,
    told: impl Fn(&Document) -> Result<Value, Problem>,
) -> Result<Response, Problem> {
    let limit = limit(ask);
    let database = ask.database().await?;
    let mut found = database.documents(kind, ask.query.text(AFTER.name), looked_for(limit)).await?;
    let has_more = has_more(limit, found.len());
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|document| document.id.clone());
    let items = found.iter().map(told).collect::<Result<Vec<_>, _>>()?;
    page(&items, next.as_deref())
}

/// A page.
pub(super) fn page(items: &[Value], next: Option<&str>) -> Result<Response, Problem> {
    answers::json(StatusCode::OK, &json!({ "items": items, "next": next }))
}
