//! The kill switch: everything, domains or rules that let all requests pass.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value};
use tollgate::core::Time;
use tollgate::policy::Snapshot;
use tollgate_control::{Action, Document, Kind};

use super::answers::{document_of, looked_at, put_origin, tagged};
use super::ask::Ask;
use super::moment;
use super::operation::{Fields, Operation, PLAIN, Told, Verb};
use super::problem::{Problem, internal};
use crate::admin::documents::{SWITCHES_ID, SwitchBody, SwitchDetail};
use crate::admin::role::Role;
use crate::aside::aside;

/// The most domains or rules that are switched off by name.
const NAMES_MAX: usize = 1_000;
const REASON_CHARACTERS_MAX: usize = 512;

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        path: "/switches",
        name: "getSwitches",
        summary: "What is switched off.",
        fields: Fields::Looks,
        answers: &[Told::tagged(200, "Switches")],
        handler: |ask| Box::pin(get(ask)),
        ..PLAIN
    },
    Operation {
        method: Verb::Put,
        path: "/switches",
        role: Some(Role::Operator),
        name: "putSwitches",
        summary: "Switches everything, domains or rules off, and all else on.",
        fields: Fields::Changes,
        body: Some("SwitchesBody"),
        answers: &[Told::tagged(200, "Switches")],
        handler: |ask| Box::pin(put(ask)),
        ..PLAIN
    },
];

async fn get(ask: Ask) -> Result<Response, Problem> {
    let document = ask.database().await?.document(Kind::Switch, SWITCHES_ID).await?;
    let version = document.as_ref().map_or(0, |document| document.version);
    looked_at(&ask, version, &told(document.as_ref(), ask.api.gate.now())?)
}

async fn put(ask: Ask) -> Result<Response, Problem> {
    let body: SwitchBody = ask.json()?;
    check_details(&body, ask.api.gate.now())?;
    if body.domains.len() > NAMES_MAX || body.rules.len() > NAMES_MAX {
        return Err(Problem::invalid(
            format!("more than {NAMES_MAX} names"),
            "`all` switches everything off",
        ));
    }
    let text = serde_json::to_string(&body).map_err(|error| internal(&error))?;
    let mut change = ask.change(Action::PUT, (Kind::Switch, SWITCHES_ID), Some(text))?;
    change.condition = ask.condition()?;
    let changed = ask.api.control()?.change(change).await?;
    let document = document_of(&changed)?;
    let mut told = told(Some(document), ask.api.gate.now())?;
    let snapshot = ask.api.gate.snapshot();
    let warnings =
        aside(move || snapshot.map(|snapshot| warnings(&body, &snapshot)).unwrap_or_default()).await?;
    told.insert("warnings".to_owned(), warnings.into());
    tagged(StatusCode::OK, document.version, &told)
}

/// Refuses details of a switch that is on, and ends that are no timestamps to come.
fn check_details(body: &SwitchBody, now: Time) -> Result<(), Problem> {
    let off: Vec<String> = body.switched_off().iter().map(|off| off.target.to_string()).collect();
    for (name, SwitchDetail { until, reason }) in &body.details {
        if !off.contains(name) {
            return Err(Problem::invalid(
                format!("`details` names {name:?}, which is not switched off"),
                "it is `all`, or `domain NAME` or `rule NAME` of one that is listed",
            ));
        }
        let until_ms = until.as_deref().map(|until| {
            moment::parse_ms(until).ok_or_else(|| Problem::Invalid(vec![moment::wrong("until", until)]))
        });
        if until_ms.transpose()?.is_some_and(|until_ms| until_ms <= moment::ms(now)) {
            return Err(Problem::invalid(
                format!("`until` of {name:?} is in the past"),
                "name a moment that is to come",
            ));
        }
        if reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARACTERS_MAX) {
            let what = format!("`reason` has more than {REASON_CHARACTERS_MAX} characters");
            return Err(Problem::invalid(what, "say it in a sentence"));
        }
    }
    Ok(())
}

/// A document as it is at present: what has ended is not switched off any more.
fn told(document: Option<&Document>, now: Time) -> Result<Map<String, Value>, Problem> {
    let Some(document) = document else {
        // No operator has switched anything yet.
        let mut told = body_told(&SwitchBody::default())?;
        told.insert("version".to_owned(), 0.into());
        told.insert("changed_at".to_owned(), Value::Null);
        told.insert("changed_by".to_owned(), Value::Null);
        return Ok(told);
    };
    let body: SwitchBody = serde_json::from_str(&document.body).map_err(|error| internal(&error))?;
    let mut told = body_told(&body.not_over(now))?;
    put_origin(&mut told, document);
    Ok(told)
}

fn body_told(body: &SwitchBody) -> Result<Map<String, Value>, Problem> {
    let Ok(Value::Object(mut told)) = serde_json::to_value(body) else { return Err(Problem::Internal) };
    told.entry("details").or_insert_with(|| Value::Object(Map::new()));
    Ok(told)
}

/// Names that mean nothing at present.
fn warnings(body: &SwitchBody, snapshot: &Snapshot) -> Vec<String> {
    let no_domain = body.domains.iter().filter(|name| snapshot.domain(name).is_none());
    let mut warnings: Vec<String> =
        no_domain.map(|name| format!("there is no domain {name:?} at present")).collect();
    let mut unmet: Vec<&String> = body.rules.iter().collect();
    if !unmet.is_empty() {
        let places: std::collections::HashSet<String> = snapshot.places().map(ToString::to_string).collect();
        unmet.retain(|name| !places.contains(*name));
    }
    let no_rule = |name: &&String| {
        format!("there is no rule {name:?} at present: rules are written DOMAIN: PATH, or policy NAME")
    };
    warnings.extend(unmet.iter().map(no_rule));
    warnings
}
