//! Bookings that Redis or the database does not confirm: accepted, and counted once.

use std::path::Path;

use serde_json::{Value, json};
use tollgate_testkit::real::postgres::PostgresServer;
use tollgate_testkit::real::redis::{RedisClient, RedisServer, Reply};
use tollgate_testkit::real::{Detour, Launch, Tollgate, python, until};

use crate::launch;

const RULES: &str = "
domain: llm
descriptors:
  - {key: tenant, rate_limit: {requests: 100000, period: 30d, algorithm: fixed_window, fail_mode: closed}}
policies:
  closed: {requests: 100000, period: 30d, algorithm: fixed_window, overshoot: book, fail_mode: closed}
  open: {requests: 100000, period: 30d, algorithm: fixed_window, overshoot: book, fail_mode: open}
";
const DURABLE: &str = "
policies:
  closed: {requests: 100000, calendar: month, durable: true, local_fraction: 0, overshoot: book}
";
const OWED: &str = "ratelimit_durable_owed";
const LIMIT: u64 = 100_000;
const TRIES: u64 = 6;
const COST: u64 = 10;

/// Books over HTTP. The caller is told that it is done, or will be, and nothing that makes it try again.
fn book(server: &Tollgate, policy: &str) -> Value {
    let reply = server.post("/v1/check", &json!({"policy": policy, "key": "ann", "cost": COST}));
    assert_eq!((reply.status, reply.header("retry-after")), (200, None), "{}", reply.body);
    serde_json::from_str(&reply.body).unwrap()
}

fn book_unconfirmed(server: &Tollgate, policy: &str) {
    let answer = book(server, policy);
    assert_eq!((&answer["allowed"], &answer["pending"]), (&json!(true), &json!(true)), "{answer}");
    assert_eq!(answer["decisions"][0]["decided_by"], "pending", "{answer}");
}

fn used(server: &Tollgate, question: &Value) -> Option<u64> {
    let reply = server.post("/v1/peek", question);
    let answer: Value = serde_json::from_str(&reply.body).unwrap();
    let decision = &answer["decisions"][0];
    (decision["decided_by"] == "authority").then(|| LIMIT - decision["remaining"].as_u64().unwrap())
}

fn used_of(server: &Tollgate, policy: &str) -> Option<u64> {
    used(server, &json!({"policy": policy, "key": "ann", "cost": 0}))
}

/// Waits until so much is counted, and looks whether it stays so when nothing is kept any more.
fn check_used(server: &Tollgate, policy: &str, expected: u64) {
    check_used_when(server, policy, expected, "ratelimit_unconfirmed_waiting");
}

fn check_used_when(server: &Tollgate, policy: &str, expected: u64, kept: &str) {
    until("it is booked", || (used_of(server, policy)? >= expected).then_some(()));
    until("nothing is kept", || (server.metric(kept) == 0).then_some(()));
    assert_eq!(used_of(server, policy), Some(expected));
}

fn start(redis: &RedisServer) -> Tollgate {
    launch(RULES, &format!("redis://{}", redis.address())).flag("store-deadline", "50ms").start()
}

#[test]
fn each_booking_while_redis_stands_still_is_accepted_and_booked_once() {
    let redis = RedisServer::start();
    let server = start(&redis);
    redis.freeze();
    for policy in ["closed", "open"] {
        for _ in 0..TRIES {
            book_unconfirmed(&server, policy);
        }
    }
    redis.thaw();
    for policy in ["closed", "open"] {
        check_used(&server, policy, TRIES * COST);
    }
}

#[test]
fn each_booking_while_redis_is_killed_is_accepted_and_booked_once() {
    let mut redis = RedisServer::start();
    let server = start(&redis);
    redis.kill();
    until("the server knows it", || (book(&server, "open")["pending"] == true).then_some(()));
    for _ in 0..TRIES {
        book_unconfirmed(&server, "closed");
    }
    redis.restart();
    check_used(&server, "closed", TRIES * COST);
    assert_eq!(server.metric("ratelimit_unconfirmed_lost_total"), 0);
}

#[test]
fn a_booking_is_accepted_over_every_protocol() {
    let redis = RedisServer::start();
    let server = start(&redis);
    let mut resp = RedisClient::connect(server.resp()).unwrap();
    redis.freeze();
    book_unconfirmed(&server, "closed");
    let Reply::Array(answer) = resp.run(&format!("TG.CHECK closed ann {COST}")) else { panic!("no answer") };
    assert_eq!(answer[0].integer(), 1);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/grpc_client.py");
    let entries = json!([{"key": "tenant", "value": "ann"}]);
    let request =
        json!([{"domain": "llm", "descriptors": [{"entries": entries, "hitsAddend": COST.to_string()}]}]);
    let arguments = [server.grpc().port().to_string(), server.pid().to_string(), "ask".to_owned()];
    let finished = python(&script, &[&arguments[..], &[request.to_string()]].concat());
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let answer: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(answer["overallCode"], "OK", "{answer:#}");
    let headers = answer["responseHeadersToAdd"].as_array().unwrap();
    let has_reason = |header: &&Value| header["key"] == "x-tollgate-reason";
    let reason = headers.iter().find(has_reason).unwrap()["value"].as_str().unwrap();
    assert!(reason.starts_with("pending: "), "{reason}");
    assert!(headers.iter().all(|header| header["key"] != "retry-after"), "{answer:#}");
    redis.thaw();
    check_used(&server, "closed", 2 * COST);
    let question = json!({"domain": "llm", "descriptors": [{"entries": entries, "hits_addend": 0}]});
    until("it is booked", || (used(&server, &question)? == COST).then_some(()));
}

#[test]
fn a_booking_whose_connection_breaks_after_it_was_sent_is_not_repeated_and_is_counted_as_uncertain() {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    let server = launch(RULES, &format!("redis://{}", detour.address())).start();
    assert_eq!(book(&server, "closed")["pending"], Value::Null, "Redis has answered");
    detour.lose_next();
    book_unconfirmed(&server, "closed");
    check_used(&server, "closed", 2 * COST);
    let lost = format!("ratelimit_redis_lost_bookings_total{{shard=\"{}\"}}", detour.address());
    assert_eq!(server.metric(&lost), 1);
}

fn start_durable(database: &str) -> Tollgate {
    let launch = Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", DURABLE);
    launch.flag("database", database).flag("database-deadline", "100ms").start()
}

#[test]
fn each_booking_while_the_database_stands_still_is_accepted_and_booked_once() {
    let postgres = PostgresServer::start();
    let server = start_durable(&postgres.url());
    until("the database counts", || used_of(&server, "closed"));
    postgres.freeze();
    for _ in 0..TRIES {
        book_unconfirmed(&server, "closed");
    }
    postgres.thaw();
    check_used_when(&server, "closed", TRIES * COST, OWED);
}

#[test]
fn each_booking_before_the_database_was_reached_is_accepted_and_booked_once() {
    let mut postgres = PostgresServer::start();
    let mut server = start_durable(&postgres.url());
    until("the database counts", || used_of(&server, "closed"));
    postgres.kill();
    server.restart();
    for _ in 0..TRIES {
        book_unconfirmed(&server, "closed");
    }
    postgres.restart();
    check_used_when(&server, "closed", TRIES * COST, OWED);
}
