//! The admin listener: what operators and their tools look at, and what they change.
//!
//! Metrics, health and the names of what is loaded are told to everybody who gets here. All else is below `/admin/v1`, where nobody gets
//! without a token: see [`guard`].

mod access_log;
pub(crate) mod documents;
mod guard;
mod hosts;
mod rate;
mod role;
mod shared_rendering;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod token;
pub(crate) mod v1;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, VARY};
use http::{HeaderMap, Method, StatusCode, Uri};
use serde::Serialize;
use tollgate::policy::{Place, Snapshot};

pub use self::documents::key_id;
pub(crate) use self::guard::Guard;
pub use self::hosts::AdminHost;
pub(crate) use self::hosts::Hosts;
pub use self::rate::AdminRate;
pub use self::role::Role;
use self::shared_rendering::SharedRendering;
pub use self::token::{AdminToken, AdminTokenError, AdminTokenSource};
pub(crate) use self::token::{Callers, LoadedCallers};
pub(crate) use self::v1::Api;
use self::v1::problem::Problem;
use crate::gate::{Gate, SwitchTarget, SwitchedOff};
use crate::metrics::classic;
use crate::protocol::http::{health, wrong_method};
use crate::rulebook::{Origin, Origins, domain_name, policy_name};

/// The two formats of metrics that Prometheus reads.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

const ABOUT: &str = "Tollgate, a rate limiter: the admin listener.

GET /metrics                  what was decided, for Prometheus
GET /config                   the domains and policies that are loaded
GET /healthz                  200 as long as the process lives
GET /readyz                   200 if it wants requests, else 503
GET /admin/v1/openapi.json    what operators can change, with a token
";

/// All routes of the admin listener.
pub(crate) fn router(api: Api) -> Router {
    let api = Arc::new(api);
    let (metrics_pages, config_pages) = (Arc::default(), Arc::default());
    let open = Router::new()
        .route("/", get(async || ABOUT))
        .route("/metrics", get(async move |State(gate), fields| metrics(&metrics_pages, gate, &fields).await))
        .route("/config", get(async move |State(gate)| config(&config_pages, gate).await))
        .merge(health())
        .with_state(Arc::clone(&api.gate));
    open.merge(v1::routes().with_state(Arc::clone(&api)))
        .fallback(nowhere)
        .method_not_allowed_fallback(wrong_method_anywhere)
        .layer(from_fn_with_state(api, guard::guard))
}

async fn nowhere(uri: Uri) -> Response {
    if guard::is_guarded(uri.path()) {
        return v1::not_found().into_response();
    }
    (StatusCode::NOT_FOUND, ABOUT).into_response()
}

/// What to say to a method that a path does not take. The router adds which it does.
async fn wrong_method_anywhere(uri: Uri, method: Method) -> Response {
    if guard::is_guarded(uri.path()) {
        return Problem::MethodNotAllowed.into_response();
    }
    wrong_method(method).await
}

/// All numbers as text, in both formats that Prometheus reads.
#[derive(Clone, Debug)]
struct MetricsPage {
    openmetrics: Bytes,
    classic: Bytes,
}

async fn metrics(
    pages: &SharedRendering<Result<MetricsPage, fmt::Error>>,
    gate: Arc<Gate>,
    fields: &HeaderMap,
) -> Response {
    let render = move || {
        let text = gate.metrics_text()?;
        Ok(MetricsPage { classic: classic(&text).into(), openmetrics: text.into() })
    };
    match pages.get(render).await {
        Ok(Ok(page)) if wants_openmetrics(fields) => {
            ([(CONTENT_TYPE, OPENMETRICS), (VARY, "accept")], page.openmetrics).into_response()
        }
        Ok(Ok(page)) => ([(CONTENT_TYPE, CLASSIC), (VARY, "accept")], page.classic).into_response(),
        Ok(Err(error)) => unrendered("metrics", &error),
        Err(error) => unrendered("metrics", &error),
    }
}

fn unrendered(what: &str, error: &dyn Error) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot render {what}: {error}\n")).into_response()
}

/// Whether whoever asks reads the newer format. Prometheus names both, and prefers it.
fn wants_openmetrics(fields: &HeaderMap) -> bool {
    let texts = fields.get_all(ACCEPT).iter().filter_map(|field| field.to_str().ok());
    let mut ranges = texts.flat_map(|text| text.split(','));
    ranges.any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_meant =
            parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text"));
        let is_refused = |part: &str| {
            let weight = part.strip_prefix("q=").and_then(|weight| weight.parse::<f64>().ok());
            weight.is_some_and(|weight| weight <= 0.0)
        };
        is_meant && !parts.any(is_refused)
    })
}

/// What is loaded.
#[derive(Debug, Default, Serialize)]
struct Config<'a> {
    ready: bool,
    loaded: bool,
    rules: usize,
    limits: usize,
    /// What operators have switched off.
    switched_off: Vec<SwitchedOffConfig>,
    domains: Vec<DomainConfig<'a>>,
    policies: Vec<PolicyConfig<'a>>,
}

#[derive(Debug, Serialize)]
struct SwitchedOffConfig {
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

#[derive(Debug, Serialize)]
struct DomainConfig<'a> {
    name: &'a str,
    enabled: bool,
    #[serde(flatten)]
    origin: OriginConfig<'a>,
    rules: usize,
    limits: usize,
}

/// Which source is in force, and which file it replaces.
#[derive(Debug, Default, Serialize)]
struct OriginConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<&'a str>,
}

impl<'a> OriginConfig<'a> {
    fn of(origin: Option<&'a Origin>) -> OriginConfig<'a> {
        let replaces = origin.and_then(|origin| origin.replaces.as_deref());
        OriginConfig { source: origin.map(|origin| &*origin.source), replaces }
    }
}

#[derive(Debug, Serialize)]
struct PolicyConfig<'a> {
    name: &'a str,
    enabled: bool,
    #[serde(flatten)]
    origin: OriginConfig<'a>,
    limits: usize,
}

async fn config(pages: &SharedRendering<Result<Bytes, String>>, gate: Arc<Gate>) -> Response {
    let render = move || config_text(&gate).map(Bytes::from).map_err(|error| error.to_string());
    match pages.get(render).await {
        Ok(Ok(page)) => ([(CONTENT_TYPE, "application/json")], page).into_response(),
        Ok(Err(error)) => unrendered("the configuration", &*Box::<dyn Error>::from(error)),
        Err(error) => unrendered("the configuration", &error),
    }
}

fn config_text(gate: &Gate) -> serde_json::Result<String> {
    let (snapshot, off, origins) = (gate.engine().snapshot(), gate.switched_off(), gate.origins());
    let config = snapshot.as_deref().map(|snapshot| Config::of(snapshot, &off, &origins));
    let config = config.unwrap_or_default();
    let switched_off = off
        .iter()
        .map(|off| SwitchedOffConfig { what: off.target.to_string(), until: off.until_text() })
        .collect();
    serde_json::to_string(&Config { ready: gate.is_ready(), switched_off, ..config })
}

impl<'a> Config<'a> {
    fn of(snapshot: &'a Snapshot, off: &[SwitchedOff], origins: &'a Origins) -> Config<'a> {
        let is_off = |target: &SwitchTarget| {
            off.iter().any(|off| off.target == SwitchTarget::All || off.target == *target)
        };
        // Once through all places: there may be many, and many domains.
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for place in snapshot.places() {
            let (rules, limits) = counts.entry(place.domain()).or_default();
            *rules += 1;
            *limits += place.limits().len();
        }
        let domain = |name: &'a str| {
            let (rules, limits) = counts.get(name).copied().unwrap_or_default();
            let enabled = snapshot.domain(name).is_some_and(tollgate::policy::Domain::enabled)
                && !is_off(&SwitchTarget::Domain(name.to_owned()));
            let origin = OriginConfig::of(origins.get(&domain_name(name)));
            DomainConfig { name, enabled, origin, rules, limits }
        };
        let policy = |name: &'a str| {
            let place = snapshot.policy(name).map(|index| snapshot.place(index));
            let enabled =
                |place: &Place| place.rule().enabled && !is_off(&SwitchTarget::Rule(place.to_string()));
            let (enabled, limits) =
                place.map_or((false, 0), |place: &Place| (enabled(place), place.limits().len()));
            let origin = OriginConfig::of(origins.get(&policy_name(name)));
            PolicyConfig { name, enabled, origin, limits }
        };
        Config {
            ready: false,
            loaded: true,
            switched_off: Vec::new(),
            rules: counts.values().map(|(rules, _)| rules).sum(),
            limits: counts.values().map(|(_, limits)| limits).sum(),
            domains: snapshot.domain_names().into_iter().map(domain).collect(),
            policies: snapshot.policy_names().iter().map(|name| policy(name)).collect(),
        }
    }
}
