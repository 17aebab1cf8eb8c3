//! `/admin/v1`: what operators change while the server runs, and what they look at.
//!
//! Every path is an [`Operation`]: who may ask, what it takes and what it answers. The routes and the OpenAPI document are both made of
//! these. What goes wrong is told by [`problem`]. Whoever gets here has passed the [`super::guard`].

mod answers;
mod ask;
mod audit;
mod conditions;
mod explain;
mod hot_keys;
mod keys;
mod moment;
mod nodes;
mod openapi;
mod operation;
mod pages;
mod policies;
pub(in crate::admin) mod problem;
mod query;
mod quotas;
mod reload;
mod rendering;
mod schemas;
mod switches;
#[cfg(test)]
mod tests;
mod unique_keys;
mod usage;
mod usage_days;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::on;

use self::ask::Ask;
use self::operation::Operation;
use self::problem::Problem;
use super::guard::Guard;
use crate::control::Control;
use crate::gate::Gate;

/// Where all of it is.
pub(super) const PREFIX: &str = "/admin/v1";
/// The one path that everybody may ask for.
pub(super) const OPENAPI_PATH: &str = "/admin/v1/openapi.json";

/// What the admin API works with.
pub(crate) struct Api {
    pub(crate) gate: Arc<Gate>,
    /// Nothing, where there is no database.
    pub(crate) control: Option<Arc<Control>>,
    pub(crate) guard: Guard,
}

impl Api {
    fn control(&self) -> Result<&Arc<Control>, Problem> {
        self.control.as_ref().ok_or(Problem::NoDatabase)
    }
}

/// Everything that there is to ask.
fn operations() -> impl Iterator<Item = &'static Operation> {
    [
        openapi::OPERATIONS,
        policies::OPERATIONS,
        quotas::OPERATIONS,
        usage::OPERATIONS,
        usage_days::OPERATIONS,
        keys::OPERATIONS,
        switches::OPERATIONS,
        reload::OPERATIONS,
        nodes::OPERATIONS,
        audit::OPERATIONS,
        hot_keys::OPERATIONS,
        explain::OPERATIONS,
    ]
    .into_iter()
    .flatten()
}

/// All routes.
pub(super) fn routes() -> Router<Arc<Api>> {
    operations().fold(Router::new(), |router, operation| {
        let handler =
            async move |State(api): State<Arc<Api>>, request: Request| answer(operation, api, request).await;
        router.route(&format!("{PREFIX}{}", operation.path), on(operation.method.filter(), handler))
    })
}

async fn answer(operation: &'static Operation, api: Arc<Api>, request: Request) -> Response {
    let answer = async { (operation.handler)(Ask::read(operation, api, request).await?).await };
    answer.await.unwrap_or_else(Problem::into_response)
}

/// What to say of a path that nobody knows.
pub(super) fn not_found() -> Problem {
    Problem::NotFound(format!("there is nothing at this path; see {OPENAPI_PATH}"))
}
