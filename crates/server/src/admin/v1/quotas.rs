//! Quotas: what one tenant may, by its tier and by overrides of its own; now, or from a moment on, or until one.

mod record;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::response::Response;
use serde_json::Value;
use tollgate_control::{Action, ChangeError, Changed, Condition, Document, Kind};

use self::record::Record;
use super::answers::{document_of, done, looked_at, tagged, written};
use super::ask::Ask;
use super::moment;
use super::operation::{Fields, Operation, PLAIN, Told, Verb};
use super::pages::{AFTER, LIMIT, documents};
use super::problem::Problem;
use crate::admin::role::Role;
use crate::aside::aside;
use crate::control::Refused;

/// How often a change is tried again, if others change the same meanwhile.
const TRIES_MAX: usize = 8;

const QUOTA: Operation = Operation { path: "/quotas/{api_key}", ..PLAIN };

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        path: "/quotas",
        name: "listQuotas",
        summary: "The quotas of all tenants that have one of their own.",
        query: &[LIMIT, AFTER],
        answers: &[Told::json(200, "QuotaPage")],
        handler: |ask| Box::pin(list(ask)),
        ..PLAIN
    },
    Operation {
        name: "getQuota",
        summary: "The quota of one tenant, what of it is in force now, and what is to come.",
        fields: Fields::Looks,
        answers: &[Told::tagged(200, "Quota")],
        problems: &[404, 503],
        handler: |ask| Box::pin(get(ask)),
        ..QUOTA
    },
    Operation {
        method: Verb::Put,
        role: Some(Role::Operator),
        name: "putQuota",
        summary: "Writes it. What is to be in force later leaves in force until then what is now.",
        fields: Fields::Changes,
        body: Some("QuotaBody"),
        answers: &[Told::tagged(200, "Quota"), Told::tagged(201, "Quota")],
        problems: &[409, 503],
        handler: |ask| Box::pin(put(ask)),
        ..QUOTA
    },
    Operation {
        method: Verb::Delete,
        role: Some(Role::Operator),
        name: "deleteQuota",
        summary: "Removes it: the rules alone count from now on.",
        fields: Fields::Changes,
        answers: &[Told::json(200, "Done")],
        problems: &[404, 503],
        handler: |ask| Box::pin(delete(ask)),
        ..QUOTA
    },
];

async fn list(ask: Ask) -> Result<Response, Problem> {
    documents(&ask, Kind::Quota, told).await
}

async fn get(ask: Ask) -> Result<Response, Problem> {
    let key = ask.id()?;
    let document = ask.database().await?.document(Kind::Quota, key).await?;
    let document = document.ok_or_else(|| missing(key))?;
    looked_at(&ask, document.version, &told(&document, moment::ms(ask.api.gate.now()))?)
}

async fn put(ask: Ask) -> Result<Response, Problem> {
    let (key, text) = (ask.id()?.to_owned(), ask.text.clone());
    let record = aside(move || Record::read(&key, &text)).await??;
    let changed = write(&ask, &record).await?;
    let document = document_of(&changed)?;
    let mut told = told(document, moment::ms(ask.api.gate.now()))?;
    let gate = Arc::clone(&ask.api.gate);
    told["warnings"] = aside(move || record.warnings(&gate)).await?.into();
    tagged(written(&changed), document.version, &told)
}

/// Writes a record. If it is for later, it takes along what is in force now; should that change meanwhile, it is looked at again.
async fn write(ask: &Ask, record: &Record) -> Result<Changed, Problem> {
    let key = ask.id()?;
    let wanted = ask.condition()?;
    let now_ms = moment::ms(ask.api.gate.now());
    if record.is_over(now_ms) {
        return repeated(ask, record).await;
    }
    for _ in 0..TRIES_MAX {
        let (body, condition) = if record.is_for_later(now_ms) {
            let current = ask.database().await?.document(Kind::Quota, key).await?;
            let before = current.as_ref().map(Record::of).transpose()?;
            let before = before.and_then(|before| before.in_force(now_ms).cloned());
            let as_read =
                current.map_or(Condition::IfAbsent, |document| Condition::IfVersion(document.version));
            let condition = match (&wanted, &as_read) {
                (Condition::Any, _) | (Condition::IfPresent, Condition::IfVersion(_)) => as_read,
                (Condition::IfOneOf(versions), Condition::IfVersion(version))
                    if versions.contains(version) =>
                {
                    as_read
                }
                _ => wanted.clone(),
            };
            (record.with_before(before), condition)
        } else {
            (record.text(), wanted.clone())
        };
        let mut change = ask.change(Action::PUT, (Kind::Quota, key), Some(body))?;
        let is_as_read = condition != wanted;
        change.condition = condition;
        match ask.api.control()?.change(change).await {
            Err(Refused::Database(ChangeError::Condition { .. })) if is_as_read => {}
            changed => return Ok(changed?),
        }
    }
    Err(Problem::Away("others keep changing the same quota; nothing was changed".to_owned()))
}

/// A record whose time is over can only be the repetition of a request that was made in time.
async fn repeated(ask: &Ask, record: &Record) -> Result<Changed, Problem> {
    let over = || {
        Problem::invalid("`expires_at` is in the past", "name a moment that is to come, or delete the quota")
    };
    let mut change = ask.change(Action::PUT, (Kind::Quota, ask.id()?), Some(record.text()))?;
    change.repeat.as_ref().ok_or_else(over)?;
    change.condition = Condition::IfOneOf(Vec::new());
    ask.api.control()?.change(change).await.map_err(|error| match error.into() {
        Problem::Condition { .. } => over(),
        other => other,
    })
}

async fn delete(ask: Ask) -> Result<Response, Problem> {
    let key = ask.id()?;
    let mut change = ask.change(Action::DELETE, (Kind::Quota, key), None)?;
    change.condition = ask.condition()?;
    let changed = ask.api.control()?.change(change).await.map_err(|error| match error.into() {
        Problem::NotFound(_) => missing(key),
        other => other,
    })?;
    done(&changed)
}

fn told(document: &Document, now_ms: i64) -> Result<Value, Problem> {
    let record = Record::of(document)?;
    Ok(Value::Object(record.told(document, now_ms)))
}

fn missing(key: &str) -> Problem {
    Problem::NotFound(format!("{key:?} has no quota of its own: the rules alone count"))
}
