//! Policies and domains in the database: what they say takes the place of what files say under the same name.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value};
use tollgate::policy::Problems;
use tollgate_control::{Action, Changed, Document, Kind};

use super::answers::{body_of, document_of, done, looked_at, put_origin, tagged, written};
use super::ask::{Ask, read_json};
use super::operation::{Fields, Operation, PLAIN, Told, Verb};
use super::pages::{AFTER, LIMIT, documents};
use super::problem::{Mistake, Problem};
use crate::admin::documents::policy_source;
use crate::admin::role::Role;
use crate::aside::aside;
use crate::gate::Gate;
use crate::rulebook::{Origins, domain_name, policy_name};

const POLICY: Operation = Operation { path: "/policies/{id}", ..PLAIN };

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        path: "/policies",
        name: "listPolicies",
        summary: "The policies and domains of the database.",
        query: &[LIMIT, AFTER],
        answers: &[Told::json(200, "PolicyPage")],
        handler: |ask| Box::pin(list(ask)),
        ..PLAIN
    },
    Operation {
        name: "getPolicy",
        summary: "One of them.",
        fields: Fields::Looks,
        answers: &[Told::tagged(200, "Policy")],
        problems: &[404, 503],
        handler: |ask| Box::pin(get(ask)),
        ..POLICY
    },
    Operation {
        method: Verb::Put,
        role: Some(Role::Admin),
        name: "putPolicy",
        summary: "Writes a policy, or a domain under its name. It takes the place of what files say.",
        fields: Fields::Changes,
        body: Some("PolicyBody"),
        answers: &[Told::tagged(200, "Policy"), Told::tagged(201, "Policy")],
        handler: |ask| Box::pin(put(ask)),
        ..POLICY
    },
    Operation {
        method: Verb::Delete,
        role: Some(Role::Admin),
        name: "deletePolicy",
        summary: "Removes it: what files say counts again.",
        fields: Fields::Changes,
        answers: &[Told::json(200, "Done")],
        problems: &[404, 503],
        handler: |ask| Box::pin(delete(ask)),
        ..POLICY
    },
];

async fn list(ask: Ask) -> Result<Response, Problem> {
    let origins = ask.api.gate.origins();
    documents(&ask, Kind::Policy, move |document, _| told(document, &origins).map(Value::Object)).await
}

async fn get(ask: Ask) -> Result<Response, Problem> {
    let id = ask.id()?;
    let document = ask.database().await?.document(Kind::Policy, id).await?;
    let document = document.ok_or_else(|| missing(id))?;
    looked_at(&ask, document.version, &told(&document, &ask.api.gate.origins())?)
}

async fn put(ask: Ask) -> Result<Response, Problem> {
    let id = ask.id()?;
    let (gate, own, text) = (Arc::clone(&ask.api.gate), id.to_owned(), ask.text.clone());
    let body = aside(move || checked(&gate, &own, &text)).await??;
    let mut change = ask.change(Action::PUT, (Kind::Policy, id), Some(Value::Object(body).to_string()))?;
    change.condition = ask.condition()?;
    let changed = ask.api.control()?.change(change).await?;
    answer(&changed, &ask.api.gate.origins())
}

async fn delete(ask: Ask) -> Result<Response, Problem> {
    let id = ask.id()?;
    let mut change = ask.change(Action::DELETE, (Kind::Policy, id), None)?;
    change.condition = ask.condition()?;
    let changed = ask.api.control()?.change(change).await.map_err(|error| match error.into() {
        Problem::NotFound(_) => missing(id),
        other => other,
    })?;
    done(&changed)
}

fn answer(changed: &Changed, origins: &Origins) -> Result<Response, Problem> {
    let document = document_of(changed)?;
    let status: StatusCode = written(changed);
    tagged(status, document.version, &told(document, origins)?)
}

/// A document, and the file that it replaces on this server.
fn told(document: &Document, origins: &Origins) -> Result<Map<String, Value>, Problem> {
    let body = body_of(document)?;
    let name =
        if body.contains_key("domain") { domain_name(&document.id) } else { policy_name(&document.id) };
    let replaces = origins.get(&name).and_then(|origin| origin.replaces.clone());
    let mut told = Map::new();
    told.insert("id".to_owned(), document.id.clone().into());
    told.insert("policy".to_owned(), Value::Object(body));
    told.insert("replaces".to_owned(), replaces.into());
    put_origin(&mut told, document);
    Ok(told)
}

fn missing(id: &str) -> Problem {
    Problem::NotFound(format!(
        "the database has no policy {id:?}; /config shows what files and database say together"
    ))
}

/// The document, if it can be read as rules.
fn checked(gate: &Gate, id: &str, text: &str) -> Result<Map<String, Value>, Problem> {
    let body: Map<String, Value> = read_json(text)?;
    match body.get("domain") {
        Some(Value::String(domain)) if domain != id => {
            let hint = format!("write the domain to /policies/{domain}, or name it {id:?} in the body");
            return Err(Problem::invalid(
                format!("the domain is named {domain:?}, and the path names {id:?}"),
                hint,
            ));
        }
        Some(Value::String(_)) if body.contains_key("policies") => {
            let hint = "write each policy to /policies/NAME";
            return Err(Problem::invalid("`policies` have no place in the document of a domain", hint));
        }
        Some(Value::String(_)) | None => {}
        Some(_) => return Err(Problem::invalid("`domain` is not a text", format!("name it {id:?}"))),
    }
    // As it is stored. Where something is wrong, it is read as it was sent, to say where.
    let stored = Value::Object(body.clone()).to_string();
    let problems = problems_of(gate, id, &body, &stored);
    if problems.is_empty() {
        return Ok(body);
    }
    let sent = problems_of(gate, id, &body, text);
    Err(placed(if sent.len() == problems.len() { sent } else { problems }, &body))
}

/// What would be wrong with all rules together, if this were one of them.
fn problems_of(gate: &Gate, id: &str, body: &Map<String, Value>, text: &str) -> Problems {
    let source = policy_source(id, body.contains_key("domain"), text);
    gate.check_document(id, source).err().unwrap_or_default()
}

/// A policy is read with its name on a line before it.
fn placed(problems: Problems, body: &Map<String, Value>) -> Problem {
    let lines_before = u32::from(!body.contains_key("domain"));
    let Problem::Invalid(mistakes) = Problem::from(problems) else { return Problem::Internal };
    let place = |mistake: Mistake| match mistake.line.and_then(|line| line.checked_sub(lines_before)) {
        Some(line) if line > 0 => Mistake { line: Some(line), ..mistake },
        _ => Mistake { line: None, column: None, ..mistake },
    };
    Problem::Invalid(mistakes.into_iter().map(place).collect())
}
