//! Which rule a request meets on this server, why, and where that rule comes from.

use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::answers;
use super::ask::Ask;
use super::operation::{Operation, PLAIN, Told, Verb};
use super::problem::Problem;
use crate::admin::documents::EntryBody;
use crate::aside::aside;
use crate::protocol::http::Object;
use crate::rulebook::{domain_name, policy_name};

pub(super) const OPERATIONS: &[Operation] = &[Operation {
    method: Verb::Post,
    path: "/explain",
    name: "explain",
    summary: "Which rule of those in force a descriptor or a policy meets, why, and where it comes from.",
    body: Some("ExplainQuestion"),
    answers: &[Told::json(200, "Explanation")],
    problems: &[503],
    handler: |ask| Box::pin(explain(ask)),
    ..PLAIN
}];

/// What is to be explained.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainBody {
    policy: Option<String>,
    domain: Option<String>,
    entries: Option<Vec<Object<EntryBody>>>,
}

async fn explain(ask: Ask) -> Result<Response, Problem> {
    let body: ExplainBody = ask.json()?;
    let origins = ask.api.gate.origins();
    let snapshot = ask.api.gate.snapshot().ok_or(Problem::Internal)?;
    let (name, explanation) = match (body.policy, body.domain, body.entries) {
        (Some(policy), None, None) => {
            let name = policy_name(&policy);
            (name, aside(move || snapshot.explain_policy(&policy)).await?)
        }
        (None, Some(domain), Some(entries)) => {
            let explain = move || {
                let entries: Vec<(&str, &str)> =
                    entries.iter().map(|Object(entry)| (&*entry.key, &*entry.value)).collect();
                (domain_name(&domain), snapshot.explain(&domain, &entries))
            };
            aside(explain).await?
        }
        _ => {
            let hint =
                r#"send {"policy": "..."} or {"domain": "...", "entries": [{"key": "...", "value": "..."}]}"#;
            return Err(Problem::invalid("the body names neither a policy nor a domain and entries", hint));
        }
    };
    let origin = origins.get(&name);
    answers::json(
        StatusCode::OK,
        &json!({
            "lines": explanation.lines(),
            "meets_a_limit": explanation.meets_a_limit(),
            "source": origin.map(|origin| &origin.source),
            "replaces": origin.and_then(|origin| origin.replaces.as_ref()),
        }),
    )
}
