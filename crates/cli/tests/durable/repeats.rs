//! Requests that are repeated under one id, on durable quotas: charged once, whichever server is asked and killed.

use serde_json::{Value, json};
use tollgate_testkit::real::postgres::PostgresServer;
use tollgate_testkit::real::{Tollgate, until};

use crate::launch;

const RULES: &str = "
policies:
  once: {requests: 1000, calendar: month, durable: true, local_fraction: 0.1, overshoot: book}
  spent: {requests: 1000, calendar: month, durable: true, local_fraction: 0.1, fail_mode: closed}
";
const LIMIT: u64 = 1_000;

fn start(database: &str) -> Tollgate {
    launch(database).rules("once.yaml", RULES).start()
}

fn check(server: &Tollgate, policy: &str, cost: u64, id: &str) -> (u16, Value) {
    let body = json!({"policy": policy, "key": "acme", "cost": cost, "request_id": id});
    let reply = server.post("/v1/check", &body);
    (reply.status, serde_json::from_str(&reply.body).unwrap())
}

/// What the database has counted.
fn used(server: &Tollgate, policy: &str) -> u64 {
    until("the database answers", || {
        let reply = server.post("/v1/peek", &json!({"policy": policy, "key": "acme", "cost": 0}));
        let answer: Value = serde_json::from_str(&reply.body).unwrap();
        let decision = &answer["decisions"][0];
        (decision["decided_by"] == "authority").then(|| LIMIT - decision["remaining"].as_u64().unwrap())
    })
}

/// Six tries, at two servers where there are two, the first of which is killed in between.
fn six_tries_are_charged_once(servers: &mut [Tollgate]) {
    for policy in ["once", "spent"] {
        until("the database counts", || (used(&servers[0], policy) == 0).then_some(()));
        for number in 0..6 {
            if number == 3 {
                servers[0].restart();
                until("the database counts", || (used(&servers[0], policy) > 0).then_some(()));
            }
            let (status, answer) = check(&servers[number % servers.len()], policy, 7, "x");
            assert_eq!((status, answer["repeated"] == json!(true)), (200, number > 0), "{answer}");
        }
        let (status, answer) = check(&servers[0], policy, 8, "x");
        assert_eq!((status, &answer["error"]["code"]), (409, &json!("request_id_conflict")), "{answer}");
        assert_eq!(used(&servers[0], policy), 7);
        check(&servers[0], policy, 7, "y");
        assert_eq!(used(&servers[0], policy), 14);
    }
}

#[test]
fn six_tries_with_one_id_are_charged_once_on_sqlite() {
    six_tries_are_charged_once(&mut [start("sqlite:data/tollgate.db")]);
}

#[test]
fn six_tries_with_one_id_are_charged_once_by_two_servers_on_postgres() {
    let postgres = PostgresServer::start();
    six_tries_are_charged_once(&mut [start(&postgres.url()), start(&postgres.url())]);
}

#[test]
fn a_booking_that_is_repeated_while_the_database_stands_still_is_booked_once() {
    let postgres = PostgresServer::start();
    let servers = [(); 2].map(|()| {
        launch(&postgres.url()).rules("once.yaml", RULES).flag("database-deadline", "100ms").start()
    });
    for server in &servers {
        until("the database counts", || (used(server, "once") == 0).then_some(()));
    }
    postgres.freeze();
    for server in servers.iter().cycle().take(6) {
        let (status, answer) = check(server, "once", 10, "x");
        assert_eq!((status, &answer["pending"]), (200, &json!(true)), "{answer}");
    }
    postgres.thaw();
    for server in &servers {
        until("nothing is owed", || (server.metric("ratelimit_durable_owed") == 0).then_some(()));
    }
    assert_eq!(used(&servers[0], "once"), 10);
    assert_eq!(postgres.sql("SELECT SUM(counted - given_back) FROM usage_days").trim(), "10");
}
