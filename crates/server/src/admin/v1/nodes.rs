//! The nodes of the fleet, and how far each has come.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};
use tollgate_control::NodeState;

use super::answers;
use super::ask::Ask;
use super::moment;
use super::operation::{Operation, PLAIN, Told};
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
    let (control, database) = (ask.api.control()?, ask.database().await?);
    let now_ms = moment::ms(ask.api.gate.now());
    let mut nodes = database.nodes(now_ms).await?;
    // The others are shown as of their last heartbeat, this one as it is now.
    if let Some(own) = nodes.iter_mut().find(|node| node.node == control.node_id()) {
        (own.version, own.seen_at_ms) = (control.applied(), now_ms);
    }
    let head = database.head().await?.version;
    let items: Vec<Value> = nodes.iter().map(told).collect();
    answers::json(StatusCode::OK, &json!({ "head": head, "items": items, "next": null }))
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
