//! Single keys: what was counted of one, and what an operator does about it: forget it, ban it, or give it more for a while.

mod act;
#[cfg(test)]
mod tests;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value, json};
use tollgate_control::{Action, Condition, Document, Kind};

use self::act::ActFields;
use super::answers::{self, body_of, document_of, done, put_origin, tagged, written};
use super::ask::{Ask, read_json};
use super::operation::{Fields, Form, Operation, PLAIN, Parameter, Told, Verb};
use super::pages::{AFTER, LIMIT, documents_that};
use super::problem::Problem;
use super::{moment, usage};
use crate::admin::documents::{ActName, KeySubjectBody};
use crate::admin::role::Role;
use crate::metrics::Protocol;
use crate::protocol::http::{Question, verdict_body};

const OVER: Parameter = Parameter {
    name: "over",
    about: "Whether those are told of, too, that are over. If nothing is said, they are not.",
    form: Form::Word(&["true", "false"]),
};

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        path: "/keys",
        name: "listKeys",
        summary: "The keys that are banned or boosted.",
        query: &[LIMIT, AFTER, OVER],
        answers: &[Told::json(200, "KeyPage")],
        handler: |ask| Box::pin(list(ask)),
        ..PLAIN
    },
    Operation {
        method: Verb::Post,
        path: "/keys/inspect",
        name: "inspectKey",
        summary: "What a request of this key would be answered now. Nothing is taken.",
        body: Some("KeyQuestion"),
        answers: &[Told::json(200, "Verdict")],
        problems: &[404, 503],
        handler: |ask| Box::pin(inspect(ask)),
        ..PLAIN
    },
    Operation {
        method: Verb::Post,
        path: "/keys/reset",
        role: Some(Role::Operator),
        name: "resetKey",
        summary: "Forgets what was counted of a key.",
        fields: Fields::Acts,
        body: Some("KeyQuestion"),
        answers: &[Told::json(200, "Reset")],
        problems: &[404, 503],
        handler: |ask| Box::pin(reset(ask)),
        ..PLAIN
    },
    Operation {
        method: Verb::Post,
        path: "/keys/ban",
        role: Some(Role::Operator),
        name: "banKey",
        summary: "Denies all requests of a key until a moment.",
        fields: Fields::Acts,
        body: Some("Ban"),
        answers: &[Told::tagged(200, "Key"), Told::tagged(201, "Key")],
        problems: &[409, 503],
        handler: |ask| Box::pin(act(ask, ActName::Ban)),
        ..PLAIN
    },
    Operation {
        method: Verb::Post,
        path: "/keys/boost",
        role: Some(Role::Operator),
        name: "boostKey",
        summary: "Multiplies the limits of a key until a moment.",
        fields: Fields::Acts,
        body: Some("Boost"),
        answers: &[Told::tagged(200, "Key"), Told::tagged(201, "Key")],
        problems: &[409, 503],
        handler: |ask| Box::pin(act(ask, ActName::Boost)),
        ..PLAIN
    },
    Operation {
        method: Verb::Delete,
        path: "/keys/{id}",
        role: Some(Role::Operator),
        name: "deleteKey",
        summary: "Ends a ban or a boost.",
        fields: Fields::Changes,
        answers: &[Told::json(200, "Done")],
        problems: &[404, 503],
        handler: |ask| Box::pin(delete(ask)),
        ..PLAIN
    },
];

async fn list(ask: Ask) -> Result<Response, Problem> {
    let with_over = ask.query.text(OVER.name) == Some("true");
    let is_wanted: fn(&Value) -> bool = if with_over { |_| true } else { |told| told["active"] == true };
    let told = |document: &Document, now_ms| told(document, now_ms).map(Value::Object);
    documents_that(&ask, Kind::Key, told, is_wanted).await
}

async fn inspect(ask: Ask) -> Result<Response, Problem> {
    let _: Map<String, Value> = ask.json()?; // What is not JSON is another mistake than what says nothing.
    let question = Question::read(ask.text.as_bytes())?;
    let begun = question.ask(true, |request| ask.api.gate.begin(request, Protocol::Http))?;
    let (verdict, _) = begun.finish().await;
    let mut told: Map<String, Value> = read_json(&verdict_body(&verdict))?;
    // What the verdict is does not depend on the database.
    let act = act_on(&ask).await;
    if act.is_err() {
        told.insert("act_unknown".to_owned(), true.into());
    }
    told.insert("act".to_owned(), act.ok().flatten().map_or(Value::Null, Value::Object));
    answers::json(StatusCode::OK, &told)
}

/// The ban or boost of the key that a body names, if it names one and there is a database to look into.
async fn act_on(ask: &Ask) -> Result<Option<Map<String, Value>>, Problem> {
    let Ok(subject) = serde_json::from_str::<KeySubjectBody>(&ask.text) else { return Ok(None) };
    if ask.api.control.is_none() {
        return Ok(None);
    }
    let document = ask.database().await?.document(Kind::Key, &subject.id()).await?;
    let now_ms = moment::ms(ask.api.gate.now());
    document.map(|document| told(&document, now_ms)).transpose()
}

async fn reset(ask: Ask) -> Result<Response, Problem> {
    let sent: Map<String, Value> = ask.json()?;
    let question = Question::read(ask.text.as_bytes())?;
    // Whether there is such a policy is found out before anything is written down.
    drop(question.ask(true, |request| ask.api.gate.begin(request, Protocol::Http))?);
    let told = Value::Object(sent).to_string();
    let id = blake3::hash(told.as_bytes()).to_hex()[..32].to_owned();
    let change = ask.change(Action::RESET, (Kind::Usage, &id), Some(told))?;
    let changed = ask.api.control()?.change(change.clone()).await?;
    if !changed.is_finished {
        let questions = question.ask(false, |request| usage::forget(&ask.api.gate, request))?;
        usage::finish_reset(&ask.api.gate, questions).await?;
        usage::finished(&ask, &change, &changed).await;
    }
    answers::json(StatusCode::OK, &json!({ "version": changed.version, "subjects": 1 }))
}

async fn act(ask: Ask, name: ActName) -> Result<Response, Problem> {
    let fields: ActFields = ask.json()?;
    let body = fields.checked(name)?;
    let is_over = act::is_over(&body, moment::ms(ask.api.gate.now()));
    let (id, subject) = (body.subject.id(), body.subject.clone());
    let text = serde_json::to_string(&body).map_err(|error| super::problem::internal(&error))?;
    let action = match name {
        ActName::Ban => Action::BAN,
        ActName::Boost => Action::BOOST,
    };
    let mut change = ask.change(action, (Kind::Key, &id), Some(text))?;
    if is_over {
        // It may have been made in time, by the same request.
        change.repeat.as_ref().ok_or_else(act::over)?;
        change.condition = Condition::IfOneOf(Vec::new());
    }
    let changed = ask.api.control()?.change(change).await.map_err(|error| match error.into() {
        Problem::Condition { .. } if is_over => act::over(),
        other => other,
    })?;
    let document = document_of(&changed)?;
    let mut told = told(document, moment::ms(ask.api.gate.now()))?;
    let warnings = ask.api.gate.snapshot().map(|snapshot| act::warnings(&subject, name, &snapshot));
    told.insert("warnings".to_owned(), warnings.unwrap_or_default().into());
    tagged(written(&changed), document.version, &told)
}

async fn delete(ask: Ask) -> Result<Response, Problem> {
    let id = ask.id()?;
    let mut change = ask.change(Action::DELETE, (Kind::Key, id), None)?;
    change.condition = ask.condition()?;
    let changed = ask.api.control()?.change(change).await.map_err(|error| match error.into() {
        Problem::NotFound(_) => Problem::NotFound("no key of this id is banned or boosted".to_owned()),
        other => other,
    })?;
    done(&changed)
}

fn told(document: &Document, now_ms: i64) -> Result<Map<String, Value>, Problem> {
    let mut told = Map::new();
    told.insert("id".to_owned(), document.id.clone().into());
    told.extend(body_of(document)?);
    let until_ms = told.get("until").and_then(Value::as_str).and_then(moment::parse_ms);
    let is_active = until_ms.is_some_and(|until_ms| until_ms > now_ms);
    told.insert("active".to_owned(), is_active.into());
    put_origin(&mut told, document);
    Ok(told)
}
