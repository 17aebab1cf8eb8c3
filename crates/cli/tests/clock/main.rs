//! Clocks that jump: nothing is deleted, no quota is spent twice, and no caller is denied for longer than its limit says.
#![allow(clippy::unwrap_used)]

mod followed;
mod redis;

use serde_json::{Value, json};
use tollgate_testkit::real::postgres::PostgresServer;
use tollgate_testkit::real::{Launch, Signal, Tollgate, WallTime, until};

const RULES: &str = "
policies:
  durable: {requests: 20, calendar: month, durable: true, local_fraction: 0}
  local: {requests: 20, calendar: month}
";
const QUOTA: u64 = 20;
const DAY_S: i64 = 86_400;
/// No month is longer.
const MONTH_S: f64 = 31.0 * 86_400.0;
const POLICIES: [&str; 2] = ["durable", "local"];

fn launch(wall_time: &WallTime, database: &str) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", RULES);
    wall_time.of(launch.flag("database", database).flag("database-deadline", "10s"))
}

fn check(server: &Tollgate, policy: &str) -> (u16, Value) {
    let reply = server.post("/v1/check", &json!({ "policy": policy, "key": "acme" }));
    (reply.status, serde_json::from_str(&reply.body).unwrap())
}

fn use_up(server: &Tollgate, policy: &str) {
    for _ in 0..QUOTA {
        assert_eq!(check(server, policy).0, 200);
    }
}

fn is_denied_within_a_month(server: &Tollgate, policy: &str) {
    let (status, answer) = check(server, policy);
    assert_eq!(status, 429, "{policy}: {answer}");
    let retry_after = answer["retry_after"].as_f64().unwrap();
    assert!(retry_after <= MONTH_S, "{policy}: {retry_after}");
}

fn remaining(server: &Tollgate, policy: &str) -> u64 {
    let reply = server.post("/v1/peek", &json!({ "policy": policy, "key": "acme" }));
    let body: Value = serde_json::from_str(&reply.body).unwrap();
    body["remaining"].as_u64().unwrap()
}

fn stop(server: &mut Tollgate) {
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(0));
}

fn until_seen(server: &Tollgate, event: &str) {
    let series = format!("ratelimit_clock_events_total{{event=\"{event}\"}}");
    until(&format!("the server has noticed that the clock has {event}"), || {
        (server.metric(&series) > 0).then_some(())
    });
}

/// The glitch ends, and the server is asked before, during and after it, and after a restart.
fn outlives_a_glitch(database: &str) {
    let wall_time = WallTime::new();
    let mut server = launch(&wall_time, database).start();
    for policy in POLICIES {
        use_up(&server, policy);
    }
    for glitch_s in [45 * DAY_S, -45 * DAY_S] {
        wall_time.set(glitch_s);
        until_seen(&server, "jumped");
        server.wait_for_log("wall time has jumped");
        for policy in POLICIES {
            is_denied_within_a_month(&server, policy);
        }
        wall_time.set(0);
        until_seen(&server, "came_back");
        for policy in POLICIES {
            is_denied_within_a_month(&server, policy);
        }
    }
    server.restart();
    is_denied_within_a_month(&server, "durable");
}

#[test]
fn a_glitch_of_45_days_gives_no_quota_twice_and_denies_for_no_longer_on_sqlite() {
    outlives_a_glitch("sqlite:data/tollgate.db");
}

#[test]
fn a_glitch_of_45_days_gives_no_quota_twice_and_denies_for_no_longer_on_postgres() {
    outlives_a_glitch(&PostgresServer::start().url());
}

/// Its windows are those of the wrong time. What was counted and the history are there again when the clock is right.
#[test]
fn a_server_that_starts_with_a_wrong_clock_deletes_nothing() {
    for wrong_s in [25 * DAY_S, 500 * DAY_S, -40 * DAY_S] {
        let wall_time = WallTime::new();
        let mut server = launch(&wall_time, "sqlite:data/tollgate.db").start();
        (0..15).for_each(|_| assert_eq!(check(&server, "durable").0, 200));
        stop(&mut server);

        wall_time.set(wrong_s);
        server.restart();
        let (status, answer) = check(&server, "durable");
        assert_eq!(status, 200, "{answer}");
        server.wait_for_log("nothing is deleted for 24 hours");
        stop(&mut server);

        wall_time.set(0);
        server.restart();
        assert_eq!(remaining(&server, "durable"), 5, "after {wrong_s} s");
        assert_eq!(check(&server, "durable").1["remaining"], 4);
        let today = server.ask_admin("GET", "/admin/v1/usage/acme/days?from=2020-01-01&to=2100-01-01", None);
        let days: Value = serde_json::from_str(&today.body).unwrap();
        let units = |day: &Value| day["units"].as_u64().unwrap();
        let days = days["items"].as_array().or_else(|| days["days"].as_array()).unwrap();
        let most = days.iter().map(units).max();
        assert_eq!(most, Some(16), "the history of today, after {wrong_s} s: {}", today.body);
    }
}
