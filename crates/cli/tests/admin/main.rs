//! The admin API over real HTTP, as operators and their tools use it: every path, on a real database, and what it does to decisions.
#![allow(clippy::unwrap_used, clippy::panic)]

mod access;
mod audit;
mod client;
mod conditions;
mod fleet;
mod full;
mod keys;
mod locked;
mod policies;
mod quotas;
mod schemathesis;
mod switches;
mod usage;

use serde_json::{Value, json};
use tollgate_testkit::real::{Launch, Tollgate};

use crate::client::{Api, json_of};

/// Rules of files, which what is in the database adds to and takes the place of.
const RULES: &str = "
domain: shop
tenant_key: api_key
descriptors:
- key: api_key
  rate_limit: {unit: hour, requests_per_unit: 3, tiers: {gold: {requests_per_unit: 5}}}
  descriptors:
  - key: endpoint
    value: POST /v1/orders
    rate_limit: {unit: day, requests_per_unit: 2}
policies:
  search: {requests: 3, period: 1h}
  reports: {requests: 4, period: 1h}
";

pub(crate) fn launch() -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", RULES)
}

/// What `/v1/check` is asked about a tenant.
pub(crate) fn of_tenant(tenant: &str) -> Value {
    json!({ "domain": "shop", "descriptors": [{ "entries": [{ "key": "api_key", "value": tenant }] }] })
}

/// The same about its orders.
pub(crate) fn of_orders(tenant: &str) -> Value {
    let entries =
        json!([{ "key": "api_key", "value": tenant }, { "key": "endpoint", "value": "POST /v1/orders" }]);
    json!({ "domain": "shop", "descriptors": [{ "entries": entries }] })
}

pub(crate) fn of_policy(policy: &str, key: &str) -> Value {
    json!({ "policy": policy, "key": key })
}

/// Everything that is done with a database, on one of this address. It may be used by nobody else, and nothing may be in it.
fn scenes(database: &str) {
    let mut server: Tollgate = launch().flag("database", database).flag("admin-rate", "off").start();
    let scenes: [fn(&Api<'_>); 14] = [
        policies::take_the_place_of_those_in_files,
        policies::of_a_domain,
        policies::are_listed_in_pages,
        conditions::protect_from_overwriting,
        conditions::a_repeated_request_is_done_once,
        quotas::change_the_limits_of_one_tenant,
        quotas::have_a_beginning_and_an_end,
        quotas::of_any_name,
        usage::is_what_was_counted,
        keys::are_banned_and_boosted,
        keys::are_inspected_and_reset,
        switches::let_everything_pass,
        audit::tells_who_did_what,
        nodes_and_reload,
    ];
    for scene in scenes {
        scene(&Api::new(&server));
    }
    server.restart();
    let api = Api::new(&server);
    quotas::outlive_the_server(&api);
    audit::is_still_whole(&api);
    let token = server.admin_token();
    assert!(!server.logs().contains(&token) && !server.greeting().contains(&token), "a token is told");
}

fn nodes_and_reload(api: &Api<'_>) {
    let before = api.read("/nodes");
    let node = &before["items"][0];
    assert!(node["version"].as_u64().is_some() && node["rules"].is_string(), "{before}");
    let reply = api.send("POST", "/reload", &[], None);
    assert_eq!(reply.status, 202, "{}", reply.body);
    assert!(json_of(&reply)["version"].as_u64().unwrap() > 0);
    api.server.wait_for_log("rules reloaded");
}

#[test]
fn on_sqlite() {
    scenes("sqlite:data/tollgate.db");
}
