//! The nodes of the fleet, and how far each has come.

use axum::response::Response;
use serde_json::{Value, json};
use tollgate_control::NodeState;

use super::ask::Ask;
use super::moment;
use super::operation::{Operation, PLAIN, Told};
use super::pages::page;
use super::problem::Problem;

pub(super) const OPERATIONS: &[Operation] = &[Operation {
    path: "/nodes",
    name: "listNodes",
    summary: "The nodes that share this database, which version each has applied, and by which rules it decides.",
    answers: &[Told::json(200, "NodePage")],
    handler: |ask| Box::pin(list(ask)),
    ..PLAIN
}];

async fn list(ask: Ask) -> Result<Response, Problem> {
    let nodes = ask.database().await?.nodes(moment::ms(ask.api.gate.now())).await?;
    page(&nodes.iter().map(told).collect::<Vec<_>>(), None)
}

fn told(node: &NodeState) -> Value {
    json!({
        "node": node.node,
        "name": node.name,
        "version": node.version,
        "rules": node.rules,
        "started_at": moment::of_ms(node.started_at_ms),
        "seen_at": moment::of_ms(node.seen_at_ms),
    })
}
