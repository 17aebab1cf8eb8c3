//! Durable quotas, end to end: what is counted survives servers that are killed and databases that go away, and nothing is admitted beyond it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod history;
mod outages;
mod owed;
mod repeats;

use serde_json::{Value, json};
use tollgate_testkit::real::postgres::PostgresServer;
use tollgate_testkit::real::{DurableQuota, Launch, Signal, Tollgate};

const RULES: &str = "
domain: llm
tenant_key: tenant
descriptors:
- key: tenant
  rate_limit: {requests: 1000, calendar: month, anchor_day: 15, zone: Europe/Berlin, durable: true, local_fraction: 0}
policies:
  monthly: {requests: 100000, calendar: month, durable: true, local_fraction: 0.05}
  exact: {requests: 50, calendar: day, durable: true}
  hourly: {requests: 100, period: 1h, fail_mode: open, durable: true, local_fraction: 0.5}
  plain: {requests: 5, period: 1h}
";
const MONTHLY: DurableQuota = DurableQuota { policy: "monthly", key: "acme", units: 100_000 };
/// What one process may have in hand of it: its block.
const BLOCK_MAX: u64 = 5_000;
/// In the suite; `tollgate-bench durable-faults` kills more often.
const KILLS: u64 = 4;

fn launch(database: &str) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", RULES);
    launch.flag("database", database).flag("database-deadline", "10s").flag("admin-rate", "off")
}

/// Asks whether one of a key may pass.
fn check(server: &Tollgate, policy: &str, key: &str) -> (u16, Value) {
    let reply = server.post("/v1/check", &json!({ "policy": policy, "key": key }));
    (reply.status, serde_json::from_str(&reply.body).unwrap())
}

fn is_kept_when_killed(database: &str) {
    let mut server = launch(database).start();
    let mut lost = 0;
    for kill in 1..=KILLS {
        let killed = MONTHLY.kill(&mut server, 3_000 * kill);
        assert!(killed.admitted > 0 && killed.lost() <= BLOCK_MAX + DurableQuota::UNHEARD_MAX, "{killed:?}");
        lost += killed.lost();
    }
    let before = MONTHLY.used(&server);
    let rest = MONTHLY.use_up(std::slice::from_ref(&server));
    assert_eq!(before + rest, MONTHLY.units, "all that was left, and not one more; {lost} were lost before");
}

#[test]
fn what_is_counted_survives_a_server_that_is_killed_on_sqlite() {
    is_kept_when_killed("sqlite:data/tollgate.db");
}

#[test]
fn what_is_counted_survives_a_server_that_is_killed_on_postgres() {
    is_kept_when_killed(&PostgresServer::start().url());
}

#[test]
fn two_servers_share_one_quota_to_the_unit() {
    let postgres = PostgresServer::start();
    let servers = [launch(&postgres.url()).start(), launch(&postgres.url()).start()];
    assert_eq!(MONTHLY.use_up(&servers), MONTHLY.units);
    for server in &servers {
        assert_eq!(check(server, "monthly", "acme").0, 429);
    }
    let leases = servers[0].metric("ratelimit_shared_decisions_total{decided_by=\"lease\"}");
    assert!(leases > 10_000, "{leases} of blocks");
}

#[test]
fn a_server_that_stops_gives_back_its_block() {
    let mut server = launch("sqlite:data/tollgate.db").start();
    for _ in 0..200 {
        assert_eq!(check(&server, "monthly", "acme").0, 200);
    }
    assert!(server.metric("ratelimit_durable_units") > 0);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(0));
    server.restart();
    assert_eq!(MONTHLY.used(&server), 200);
}

#[test]
fn a_small_quota_is_exact_and_outlives_the_server() {
    let mut server = launch("sqlite:data/tollgate.db").start();
    for left in (25..50).rev() {
        let (status, answer) = check(&server, "exact", "acme");
        assert_eq!((status, &answer["remaining"]), (200, &json!(left)));
    }
    server.restart();
    let passed = (0..40).filter(|_| check(&server, "exact", "acme").0 == 200).count();
    assert_eq!(passed, 25);
    assert_eq!(check(&server, "exact", "somebody else").0, 200);
}

/// What was used since a reset stays used when its request comes again, as from somebody who has lost the answer.
#[test]
fn a_reset_that_is_repeated_forgives_nothing_again() {
    let server = launch("sqlite:data/tollgate.db").start();
    let token = format!("Bearer {}", server.admin_token());
    let reset = |path: &str, key: &str, body: &str| {
        let mut fields =
            vec![("host", "localhost"), ("authorization", token.as_str()), ("idempotency-key", key)];
        if !body.is_empty() {
            fields.push(("content-type", "application/json"));
        }
        let mut client = tollgate_testkit::real::Client::connect(server.admin()).unwrap();
        let reply = client.send("POST", path, &fields, body).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
        serde_json::from_str::<Value>(&reply.body).unwrap()
    };
    let key = ("/admin/v1/keys/reset", r#"{"policy": "exact", "key": "acme"}"#);
    let all = ("/admin/v1/usage/acme/reset", "");
    for (path, body) in [key, all] {
        let remaining = || check(&server, "exact", "acme").1["remaining"].clone();
        remaining();
        let first = reset(path, path, body);
        assert_eq!((remaining(), remaining()), (json!(49), json!(48)), "forgotten");
        assert_eq!(reset(path, path, body), first);
        assert_eq!(remaining(), 47, "what was used since stays");
        let other = reset(path, &format!("{path}/2"), body);
        assert_ne!(other, first);
        assert_eq!(remaining(), 49);
    }
}

#[test]
fn one_request_meets_durable_and_other_limits_all_or_nothing() {
    let rules = "
domain: shop
descriptors:
- key: tenant
  rate_limits:
  - {name: here, requests: 3, period: 1h}
  - {name: kept, requests: 50, calendar: day, durable: true}
";
    let mut server = launch("sqlite:data/tollgate.db").rules("shop.yaml", rules).start();
    let ask = |server: &Tollgate| {
        let entries = json!([{ "key": "tenant", "value": "acme" }]);
        server.post("/v1/check", &json!({ "domain": "shop", "descriptors": [{ "entries": entries }] }))
    };
    let statuses: Vec<u16> = (0..6).map(|_| ask(&server).status).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429]);
    server.restart();
    let body: Value = serde_json::from_str(&ask(&server).body).unwrap();
    let limits = body["decisions"].as_array().unwrap();
    let remaining =
        |title: &str| limits.iter().find(|limit| limit["title"] == title).unwrap()["remaining"].clone();
    assert_eq!(remaining("here"), 2, "forgotten");
    assert_eq!(remaining("kept"), 46, "who is denied uses up nothing");
}

#[test]
fn rules_that_become_durable_are_so_on_connections_that_are_open() {
    let server = launch("sqlite:data/tollgate.db").start();
    let mut client = tollgate_testkit::real::Client::connect(server.http()).unwrap();
    let mut ask = || client.post("/v1/check", r#"{"policy": "changing", "key": "a"}"#);
    server.write_rules("changing.yaml", "policies: {changing: {requests: 1000000, calendar: day}}\n");
    tollgate_testkit::real::until("the rule is there", || (ask().status == 200).then_some(()));
    server.write_rules(
        "changing.yaml",
        "policies: {changing: {requests: 1000000, calendar: day, durable: true}}\n",
    );
    tollgate_testkit::real::until("it is durable", || {
        let reply = ask();
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.body.contains(r#""decided_by":"authority""#).then_some(())
    });
}
