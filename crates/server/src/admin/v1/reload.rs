//! Rules of files, read again when somebody says so.

use axum::response::Response;
use http::StatusCode;
use serde_json::json;
use tollgate_control::{Action, Kind};

use super::answers;
use super::ask::Ask;
use super::operation::{Fields, Operation, PLAIN, Told, Verb};
use super::problem::Problem;
use crate::admin::role::Role;

pub(super) const OPERATIONS: &[Operation] = &[Operation {
    method: Verb::Post,
    path: "/reload",
    role: Some(Role::Operator),
    name: "reload",
    summary: "Has the rules of files, certificates and tokens read again by this node, changed or not.",
    fields: Fields::Acts,
    answers: &[Told::json(202, "Done")],
    handler: |ask| Box::pin(reload(ask)),
    ..PLAIN
}];

async fn reload(ask: Ask) -> Result<Response, Problem> {
    let control = ask.api.control()?;
    let change = ask.change(Action::RELOAD, (Kind::Rules, "files"), Some("{}".to_owned()))?;
    let changed = control.change(change).await?;
    if !changed.is_repeat {
        control.reload();
    }
    answers::json(StatusCode::ACCEPTED, &json!({ "version": changed.version }))
}
