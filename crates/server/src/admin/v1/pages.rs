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
use super::rendering::Rendering;
use crate::aside::aside;

const ITEMS_DEFAULT: u64 = 100;
const ITEMS_MAX: u64 = PAGE_ROWS_MAX as u64;
/// The most pages of the database that are looked through for one of ours.
const LOOKS_MAX: usize = 16;

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
    told: impl Fn(&Document, i64) -> Result<Value, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    let _rendering = Rendering::begin(ask).await?;
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

/// The same of those that are wanted, as they are told. Where they are few among the others, a page has fewer, or none, and others follow all the same.
pub(super) async fn documents_that(
    ask: &Ask,
    kind: Kind,
    told: fn(&Document, i64) -> Result<Value, Problem>,
    is_wanted: fn(&Value) -> bool,
) -> Result<Response, Problem> {
    let _rendering = Rendering::begin(ask).await?;
    let (database, limit) = (ask.database().await?, limit(ask));
    let now_ms = moment::ms(ask.api.gate.now());
    let (mut items, mut next) = (Vec::new(), ask.query.text(AFTER.name).map(str::to_owned));
    for _ in 0..LOOKS_MAX {
        let found = database.documents(kind, next.as_deref(), PAGE_ROWS_MAX).await?;
        let taken = aside(move || {
            let next = take(&mut items, limit, &found, |document| {
                let told = told(document, now_ms)?;
                Ok(Some(told).filter(is_wanted))
            });
            next.map(|next| (items, next))
        });
        (items, next) = taken.await??;
        if next.is_none() || items.len() >= limit {
            break;
        }
    }
    aside(move || page(&items, next.as_deref())).await?
}

/// Takes what is wanted of a page of the database, up to a limit. Returns where to go on.
fn take(
    items: &mut Vec<Value>,
    limit: usize,
    found: &Page<Document>,
    wanted: impl Fn(&Document) -> Result<Option<Value>, Problem>,
) -> Result<Option<String>, Problem> {
    let mut left = found.rows.iter();
    while items.len() < limit {
        let Some(document) = left.next() else { break };
        items.extend(wanted(document)?);
    }
    let looked_at = found.rows.len() - left.len();
    let has_more = found.has_more || left.len() > 0;
    let last = looked_at.checked_sub(1).and_then(|last| found.rows.get(last));
    Ok(last.filter(|_| has_more).map(|document| document.id.clone()))
}

/// A page.
pub(super) fn page(items: &[Value], next: Option<&str>) -> Result<Response, Problem> {
    answers::json(StatusCode::OK, &json!({ "items": items, "next": next }))
}
