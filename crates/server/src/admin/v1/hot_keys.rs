//! The keys that take most of this process's decisions.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use tollgate::HotKey;

use super::answers;
use super::ask::Ask;
use super::operation::{Operation, PLAIN, Told};
use super::problem::Problem;

/// The most keys that are shown.
const SHOWN_MAX: usize = 100;
/// Who is asked more seldom than once in so many seconds has gone.
const SILENT_S: f64 = 600.0;

pub(super) const OPERATIONS: &[Operation] = &[Operation {
    path: "/hotkeys",
    name: "listHotKeys",
    summary: "The keys that take most of this process's decisions, the heaviest first.",
    answers: &[Told::json(200, "HotKeys")],
    problems: &[],
    handler: |ask| Box::pin(async move { list(&ask) }),
    ..PLAIN
}];

#[derive(Debug, Serialize)]
struct HotKeys<'a> {
    keys: Vec<Shown<'a>>,
}

/// A key, as it is shown.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    id: u64,
    domain: &'a str,
    rule: &'a str,
    limit: &'a str,
    key: &'a str,
    per_second: f64,
    per_second_error: f64,
    share: f64,
    denied_ratio: f64,
    hot: bool,
    leased: bool,
}

fn list(ask: &Ask) -> Result<Response, Problem> {
    let gate = &ask.api.gate;
    let heaviest = gate.engine().hot_keys(SHOWN_MAX, gate.now());
    let is_there = |hot: &&HotKey| hot.per_second > 1.0 / SILENT_S;
    let keys = heaviest.iter().filter(is_there).map(Shown::new).collect();
    answers::json(StatusCode::OK, &HotKeys { keys })
}

impl<'a> Shown<'a> {
    fn new(hot: &'a HotKey) -> Shown<'a> {
        Shown {
            id: hot.id,
            domain: &hot.name.domain,
            rule: &hot.name.rule,
            limit: &hot.name.limit,
            key: &hot.name.key,
            per_second: rounded(hot.per_second),
            per_second_error: rounded(hot.per_second_error),
            share: rounded(hot.share),
            denied_ratio: rounded(hot.denied_ratio),
            hot: hot.is_hot,
            leased: hot.is_leased,
        }
    }
}

/// To four places: the rest is noise.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}
