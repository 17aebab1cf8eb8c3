//! What a tenant has used: asked of the counters that decide, wherever they are, and of nothing else.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::{Number, json};
use tollgate::authority::Directed;
use tollgate::core::Span;
use tollgate::policy::Place;
use tollgate::{Descriptor, Force, Request, RequestError, Ruling, Status, TenantSubject, Verdict};
use tollgate_control::{Action, Change, Changed, Kind};

use super::answers;
use super::ask::Ask;
use super::moment;
use super::operation::{Fields, Operation, PLAIN, Told, Verb};
use super::problem::Problem;
use crate::admin::documents::EntryBody;
use crate::admin::role::Role;
use crate::aside::aside;
use crate::gate::Gate;
use crate::headers::window;
use crate::metrics::Protocol;

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        path: "/usage/{api_key}",
        name: "getUsage",
        summary: "What a tenant has used of each of its limits, and what is left.",
        answers: &[Told::json(200, "Usage")],
        handler: |ask| Box::pin(get(ask)),
        ..PLAIN
    },
    Operation {
        method: Verb::Post,
        path: "/usage/{api_key}/reset",
        role: Some(Role::Operator),
        name: "resetUsage",
        summary: "Forgets what was counted of a tenant.",
        fields: Fields::Acts,
        answers: &[Told::json(200, "Reset")],
        handler: |ask| Box::pin(reset(ask)),
        ..PLAIN
    },
];

/// What is told of a tenant.
#[derive(Serialize)]
struct Usage<'a> {
    api_key: &'a str,
    limits: Vec<LimitUsage>,
}

/// What is told of one limit.
#[derive(Serialize)]
struct LimitUsage {
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    /// What is counted, for people: `key=value > key=value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    descriptor: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    entries: Vec<EntryBody>,
    rule: String,
    title: String,
    limit: u64,
    used: u64,
    remaining: u64,
    /// The units per window, as the rule puts it.
    quota: u64,
    window_seconds: Option<Number>,
    reset_at: Option<String>,
    enforced: bool,
}

async fn get(ask: Ask) -> Result<Response, Problem> {
    let key = ask.id()?;
    let gate = &ask.api.gate;
    let mut limits = Vec::new();
    for subject in subjects_of(gate, key).await? {
        let begun = with_request(&subject, key, |request| gate.begin(&request.peek(), Protocol::Http))?;
        let (verdict, _) = begun.finish().await;
        limits.extend(limits_told(&verdict, &subject));
    }
    answers::json(StatusCode::OK, &Usage { api_key: key, limits })
}

async fn reset(ask: Ask) -> Result<Response, Problem> {
    let key = ask.id()?;
    let told = json!({ "api_key": key }).to_string();
    let change = ask.change(Action::RESET, (Kind::Usage, key), Some(told))?;
    let changed = ask.api.control()?.change(change.clone()).await?;
    let subjects = subjects_of(&ask.api.gate, key).await?;
    if !changed.is_finished {
        for subject in &subjects {
            let questions = with_request(subject, key, |request| forget(&ask.api.gate, request))?;
            finish_reset(&ask.api.gate, questions).await?;
        }
        finished(&ask, &change, &changed).await;
    }
    answers::json(StatusCode::OK, &json!({ "version": changed.version, "subjects": subjects.len() }))
}

/// What to ask about a tenant. Whoever puts other rules in force may keep us waiting.
async fn subjects_of(gate: &Arc<Gate>, tenant: &str) -> Result<Vec<TenantSubject>, Problem> {
    let (gate, tenant) = (Arc::clone(gate), tenant.to_owned());
    Ok(aside(move || gate.engine().limits_of(&tenant)).await?)
}

/// Notes down that all has been forgotten: when it is asked for again, what was used since stays. Without that it would be done again, for shared counters may
/// not have answered the first time.
pub(super) async fn finished(ask: &Ask, change: &Change, changed: &Changed) {
    let noted = async {
        let database = ask.database().await?;
        Ok::<(), Problem>(database.finish(&change.who, change.repeat.as_ref(), changed.version).await?)
    };
    if noted.await.is_err() {
        let version = changed.version;
        tracing::warn!(
            version,
            "whoever repeats this reset has it done again: that it is done could not be noted"
        );
    }
}

/// Forgets what this process has counted. What is returned, shared counters are to be asked.
pub(super) fn forget(gate: &Gate, request: &Request<'_>) -> Result<Vec<Directed>, RequestError> {
    gate.engine().reset(request, gate.now())
}

/// Has shared counters forget too.
pub(super) async fn finish_reset(gate: &Gate, questions: Vec<Directed>) -> Result<(), Problem> {
    if questions.is_empty() {
        return Ok(());
    }
    let failed = gate.ask(&questions).await.iter().filter(|answer| answer.is_err()).count();
    if failed == 0 { Ok(()) } else { Err(Problem::Unreset(failed)) }
}

/// The question about a subject of a tenant.
fn with_request<R>(subject: &TenantSubject, tenant: &str, ask: impl FnOnce(&Request<'_>) -> R) -> R {
    if let Some(policy) = &subject.policy {
        return ask(&Request::policy(policy, tenant.as_bytes()));
    }
    let entries: Vec<(&str, &str)> =
        subject.entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let descriptors = [Descriptor::new(&entries)];
    ask(&Request::new(&subject.domain, &descriptors))
}

fn limits_told(verdict: &Verdict, subject: &TenantSubject) -> Vec<LimitUsage> {
    let ranges = verdict.statuses().iter().filter_map(|status| match status {
        Status::Limited(range) => Some(range.clone()),
        _ => None,
    });
    ranges
        .flat_map(|range| &verdict.rulings()[range])
        .map(|ruling| limit_told(verdict, ruling, subject))
        .collect()
}

fn limit_told(verdict: &Verdict, ruling: &Ruling, subject: &TenantSubject) -> LimitUsage {
    let decision = &ruling.decision;
    let reset_at = |after: Span| moment::of_time(verdict.now().plus(after));
    LimitUsage {
        domain: subject.policy.is_none().then(|| subject.domain.clone()),
        policy: subject.policy.clone(),
        descriptor: subject.policy.is_none().then(|| descriptor_told(&subject.entries)),
        entries: subject
            .entries
            .iter()
            .map(|(key, value)| EntryBody { key: key.clone(), value: value.clone() })
            .collect(),
        rule: verdict.place(ruling).map(Place::to_string).unwrap_or_default(),
        title: verdict.title(ruling).to_owned(),
        limit: decision.limit,
        used: decision.limit.saturating_sub(decision.remaining),
        remaining: decision.remaining,
        quota: ruling.units,
        window_seconds: window(ruling).and_then(seconds),
        reset_at: decision.reset_after.map(reset_at),
        enforced: matches!(ruling.force, Force::Enforced | Force::Quota),
    }
}

fn descriptor_told(entries: &[(String, String)]) -> String {
    entries.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" > ")
}

/// Whole seconds as a whole number.
fn seconds(length: Duration) -> Option<Number> {
    match length.subsec_nanos() {
        0 => Some(length.as_secs().into()),
        _ => Number::from_f64(length.as_secs_f64()),
    }
}
