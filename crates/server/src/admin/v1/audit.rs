//! The audit: who changed what, when, and what was there before. It can be listed, taken away as a whole, and verified.

mod export;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};
use tollgate_control::{AuditFilter, AuditRow, Fault, Kind, Page, Verified, VerifyError, Version};

use super::answers;
use super::ask::Ask;
use super::moment;
use super::operation::{Form, Operation, PLAIN, Parameter, Told};
use super::pages::{LIMIT, limit, page};
use super::problem::Problem;
use super::rendering::Rendering;
use crate::aside::aside;

/// Versions are counted up to what every JSON reader takes as a whole number.
const VERSION_MAX: u64 = (1 << 53) - 1;

const AFTER: Parameter = Parameter {
    name: "after",
    about: "Go on where another page ended: its `next`, which is a version.",
    form: Form::Count { min: 0, max: VERSION_MAX, default: None },
};
const ORDER: Parameter = Parameter {
    name: "order",
    about: "Which come first; the oldest, if nothing is said.",
    form: Form::Word(&["oldest", "newest"]),
};
const WHO: Parameter = Parameter { name: "who", about: "By this one.", form: Form::Text };
const ACTION: Parameter =
    Parameter { name: "action", about: "Such as put, delete, reset, reload, ban, boost.", form: Form::Text };
const KIND: Parameter = Parameter {
    name: "kind",
    about: "About this kind.",
    form: Form::Word(&["policy", "quota", "key", "switch", "usage", "rules"]),
};
const ID: Parameter = Parameter { name: "id", about: "About this one.", form: Form::Text };
const FROM: Parameter = Parameter { name: "from", about: "From this moment on.", form: Form::Moment };
const TO: Parameter = Parameter { name: "to", about: "Before this moment.", form: Form::Moment };

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        path: "/audit",
        name: "listAudit",
        summary: "What was changed, a page at a time.",
        query: &[LIMIT, AFTER, ORDER, WHO, ACTION, KIND, ID, FROM, TO],
        answers: &[Told::json(200, "AuditPage")],
        handler: |ask| Box::pin(list(ask)),
        ..PLAIN
    },
    Operation {
        path: "/audit/export",
        name: "exportAudit",
        summary: "All that was changed, as JSON lines: one AuditRow on each line.",
        query: &[AFTER, WHO, ACTION, KIND, ID, FROM, TO],
        answers: &[Told { status: 200, schema: None, media_type: export::MEDIA_TYPE, has_tag: false }],
        handler: |ask| Box::pin(export(ask)),
        ..PLAIN
    },
    Operation {
        path: "/audit/verify",
        name: "verifyAudit",
        summary: "Whether the chain of the audit holds from its first row to its last.",
        answers: &[Told::json(200, "Verified")],
        handler: |ask| Box::pin(verify(ask)),
        ..PLAIN
    },
];

async fn list(ask: Ask) -> Result<Response, Problem> {
    let _rendering = Rendering::begin(&ask).await?;
    let filter = AuditFilter { limit: limit(&ask), ..filter(&ask) };
    let Page { rows, has_more } = ask.database().await?.audit(&filter).await?;
    let written = aside(move || {
        let next = rows.last().filter(|_| has_more).map(|row| row.version.to_string());
        page(&rows.iter().map(told).collect::<Vec<_>>(), next.as_deref())
    });
    written.await?
}

async fn export(ask: Ask) -> Result<Response, Problem> {
    let (filter, budget) = (filter(&ask), ask.budget().cloned());
    export::start(ask.database().await?, filter, budget).await
}

async fn verify(ask: Ask) -> Result<Response, Problem> {
    let told = match ask.database().await?.verify(None, |_| {}).await {
        Ok(Verified { rows, documents, head }) => json!({
            "ok": true,
            "rows": rows,
            "documents": documents,
            "head": { "version": head.version, "hash": head.hash },
        }),
        Err(VerifyError::Fault(fault)) => {
            tracing::error!(%fault, "the audit is not what it was");
            json!({ "ok": false, "version": version_of(&fault), "detail": fault.to_string() })
        }
        Err(VerifyError::Database(error)) => return Err(error.into()),
    };
    answers::json(StatusCode::OK, &told)
}

/// The row at which it begins, if it is one.
fn version_of(fault: &Fault) -> Option<Version> {
    match *fault {
        Fault::Changed(version)
        | Fault::Removed(version)
        | Fault::Unlinked(version)
        | Fault::Unreadable(version, _)
        | Fault::DocumentRemoved(version)
        | Fault::Anchor(version)
        | Fault::Document { version, .. } => Some(version),
        Fault::Head { stated, .. } => Some(stated),
        Fault::Misplaced(_) | Fault::Unwritten { .. } => None,
    }
}

fn filter(ask: &Ask) -> AuditFilter {
    let text = |parameter: Parameter| ask.query.text(parameter.name).map(str::to_owned);
    AuditFilter {
        after: ask.query.number(AFTER.name),
        is_newest_first: ask.query.text(ORDER.name) == Some("newest"),
        limit: 0,
        who: text(WHO),
        action: text(ACTION),
        kind: text(KIND).and_then(|kind| kind.parse::<Kind>().ok()),
        id: text(ID),
        from_ms: ask.query.moment_ms(FROM.name),
        to_ms: ask.query.moment_ms(TO.name),
    }
}

/// A row as it is shown. What was written before and after is JSON itself.
fn told(row: &AuditRow) -> Value {
    let document = |text: &Option<String>| {
        let text = text.as_deref();
        text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_else(|_| text.into()))
    };
    json!({
        "version": row.version,
        "at": moment::of_ms(row.at_ms),
        "who": row.who,
        "role": row.role,
        "action": row.action,
        "kind": row.kind,
        "id": row.id,
        "before": document(&row.before),
        "after": document(&row.after),
        "previous": row.previous,
        "hash": row.hash,
    })
}
