//! Requests that are repeated under one id: charged once, in one process and at every server of a fleet.

use std::path::Path;
use std::thread;

use serde_json::{Value, json};
use tollgate_testkit::real::redis::RedisServer;
use tollgate_testkit::real::{Client, Launch, Tollgate, python, until};

use crate::launch;

const RULES: &str = "
domain: shop
descriptors:
  - {key: all, value: x, rate_limit: {requests: 1000, period: 30d, algorithm: fixed_window, fail_mode: closed}}
  - {key: user, rate_limit: {requests: 1000, period: 30d, algorithm: fixed_window, fail_mode: closed}}
  - {key: few, rate_limit: {requests: 1, period: 30d, algorithm: fixed_window, fail_mode: closed}}
  - {key: here, rate_limit: {requests: 1000, period: 30d, algorithm: fixed_window, consistency: local}}
policies:
  plain: {requests: 1000, period: 30d, algorithm: fixed_window, fail_mode: closed}
  book: {requests: 1000, period: 30d, algorithm: fixed_window, overshoot: book, fail_mode: closed}
  leased: {requests: 1000, period: 30d, algorithm: fixed_window, consistency: leased, fail_mode: closed}
";
const LIMIT: u64 = 1_000;
const TRIES: u64 = 6;

fn local() -> Tollgate {
    Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", RULES).start()
}

fn shared(redis: &RedisServer) -> Tollgate {
    launch(RULES, &format!("redis://{}", redis.address())).flag("store-secret", "secret").start()
}

fn ask(server: &Tollgate, path: &str, body: &Value) -> (u16, Value) {
    let reply = server.post(path, body);
    (reply.status, serde_json::from_str(&reply.body).unwrap())
}

fn check(server: &Tollgate, policy: &str, cost: u64, id: &str) -> (u16, Value) {
    ask(server, "/v1/check", &json!({"policy": policy, "key": "ann", "cost": cost, "request_id": id}))
}

/// Whether a repeat is answered as one.
fn check_repeated(server: &Tollgate, policy: &str, cost: u64, id: &str, is_repeated: bool) {
    let (status, answer) = check(server, policy, cost, id);
    assert_eq!((status, &answer["allowed"]), (200, &json!(true)), "{answer}");
    assert_eq!(answer["repeated"], if is_repeated { json!(true) } else { Value::Null }, "{answer}");
}

fn used(server: &Tollgate, policy: &str) -> u64 {
    let (_, answer) = ask(server, "/v1/peek", &json!({"policy": policy, "key": "ann", "cost": 0}));
    LIMIT - answer["decisions"][0]["remaining"].as_u64().unwrap()
}

/// A question about descriptors of one entry each.
fn descriptors(entries: &[(&str, &str)], id: Option<&str>) -> Value {
    let descriptor = |(key, value): &(&str, &str)| json!({"entries": [{"key": key, "value": value}]});
    let descriptors: Vec<Value> = entries.iter().map(descriptor).collect();
    let mut question = json!({"domain": "shop", "descriptors": descriptors});
    if let Some(id) = id {
        question["request_id"] = json!(id);
    }
    question
}

fn remaining(server: &Tollgate, entries: &[(&str, &str)]) -> Vec<u64> {
    let (_, answer) = ask(server, "/v1/peek", &descriptors(entries, None));
    let decisions = answer["decisions"].as_array().unwrap();
    decisions.iter().map(|decision| decision["remaining"].as_u64().unwrap()).collect()
}

#[test]
fn six_tries_with_one_id_are_charged_once() {
    let redis = RedisServer::start();
    for server in [local(), shared(&redis)] {
        for (policy, cost) in [("plain", 7), ("book", 11), ("leased", 13)] {
            for number in 0..TRIES {
                check_repeated(&server, policy, cost, "x", number > 0);
            }
            assert_eq!(used(&server, policy), cost, "{policy}");
            check_repeated(&server, policy, cost, "y", false);
            assert_eq!(used(&server, policy), 2 * cost, "{policy}");
        }
        assert_eq!(server.metric("ratelimit_request_ids_repeated_total"), 3 * (TRIES - 1));
        assert_eq!(server.metric("ratelimit_request_ids_held"), 6);
    }
}

#[test]
fn tries_at_the_same_time_are_charged_once() {
    let redis = RedisServer::start();
    let servers = [shared(&redis), shared(&redis)];
    let alone = [local()];
    for servers in [&servers[..], &alone] {
        thread::scope(|scope| {
            for number in 0..16 {
                let server = &servers[number % servers.len()];
                scope.spawn(move || (0..8).for_each(|_| assert_eq!(check(server, "plain", 5, "x").0, 200)));
            }
        });
        assert_eq!(used(&servers[0], "plain"), 5);
    }
}

#[test]
fn a_repeat_at_another_server_and_after_a_kill_is_charged_once() {
    let redis = RedisServer::start();
    let [mut one, other] = [shared(&redis), shared(&redis)];
    check_repeated(&one, "plain", 7, "x", false);
    check_repeated(&other, "plain", 7, "x", true);
    one.restart();
    check_repeated(&one, "plain", 7, "x", true);
    assert_eq!(used(&one, "plain"), 7);
}

#[test]
fn the_same_id_with_another_cost_or_key_is_an_error_and_charges_nothing() {
    let redis = RedisServer::start();
    let fleet = [shared(&redis), shared(&redis)];
    let alone = local();
    for [first, second] in [[&alone, &alone], [&fleet[0], &fleet[0]], [&fleet[0], &fleet[1]]] {
        assert_eq!(check(first, "plain", 7, "x").0, 200);
        let (status, answer) = check(second, "plain", 8, "x");
        assert_eq!((status, &answer["error"]["code"]), (409, &json!("request_id_conflict")), "{answer}");
        assert_eq!(used(first, "plain"), 7);
        let ann = [("all", "x"), ("user", "ann")];
        assert_eq!(ask(first, "/v1/check", &descriptors(&ann, Some("x"))).0, 200);
        let bob = [("all", "x"), ("user", "bob")];
        let (status, answer) = ask(second, "/v1/check", &descriptors(&bob, Some("x")));
        assert_eq!((status, &answer["error"]["code"]), (409, &json!("request_id_conflict")), "{answer}");
        until("it is undone", || (remaining(first, &bob) == [LIMIT - 1, LIMIT]).then_some(()));
    }
}

#[test]
fn a_denied_request_is_not_remembered_and_neither_is_what_it_undoes() {
    let redis = RedisServer::start();
    for server in [local(), shared(&redis)] {
        let few = [("few", "ann")];
        assert_eq!(ask(&server, "/v1/check", &descriptors(&few, None)).0, 200);
        let all = [("here", "ann"), ("user", "ann"), ("few", "ann")];
        for _ in 0..3 {
            let (status, answer) = ask(&server, "/v1/check", &descriptors(&all, Some("x")));
            assert_eq!((status, &answer["repeated"]), (429, &Value::Null), "{answer}");
            // A try that comes before the undo of the last one finds its charge, and gives it up as well.
            until("it is undone", || (remaining(&server, &all) == [LIMIT, LIMIT, 0]).then_some(()));
        }
        assert_eq!(server.metric("ratelimit_request_ids_held"), 0);
        // Where the id was forgotten, it is free for another request.
        let two = [("here", "ann"), ("user", "ann")];
        for number in 0..3 {
            let (status, answer) = ask(&server, "/v1/check", &descriptors(&two, Some("x")));
            assert_eq!((status, answer["repeated"] == json!(true)), (200, number > 0), "{answer}");
        }
        assert_eq!(remaining(&server, &two), [LIMIT - 1, LIMIT - 1]);
    }
}

#[test]
fn a_booking_that_is_repeated_while_redis_stands_still_is_booked_once() {
    let redis = RedisServer::start();
    let store = format!("redis://{}", redis.address());
    let servers = [(); 2].map(|()| launch(RULES, &store).flag("store-deadline", "50ms").start());
    redis.freeze();
    for server in servers.iter().cycle().take(6) {
        let (status, answer) = check(server, "book", 10, "x");
        assert_eq!((status, &answer["pending"]), (200, &json!(true)), "{answer}");
    }
    redis.thaw();
    for server in &servers {
        until("nothing is kept", || (server.metric("ratelimit_unconfirmed_waiting") == 0).then_some(()));
        assert_eq!(server.metric("ratelimit_unconfirmed_refused_total"), 0);
    }
    until("Redis answers", || {
        (check(&servers[0], "book", 10, "x").1["pending"] == Value::Null).then_some(())
    });
    assert_eq!(used(&servers[0], "book"), 10);
}

#[test]
fn a_booking_whose_connection_breaks_is_retried_and_booked_once() {
    let redis = RedisServer::start();
    let detour = tollgate_testkit::real::Detour::to(redis.address());
    let server = launch(RULES, &format!("redis://{}", detour.address())).start();
    check_repeated(&server, "book", 10, "x", false);
    detour.lose_next();
    let (status, answer) = check(&server, "book", 10, "y");
    assert_eq!((status, &answer["pending"]), (200, &json!(true)), "{answer}");
    until("nothing is kept", || (server.metric("ratelimit_unconfirmed_waiting") == 0).then_some(()));
    // Each thread of the server connects again by itself.
    until("Redis answers", || (check(&server, "book", 10, "y").1["pending"] == Value::Null).then_some(()));
    check_repeated(&server, "book", 10, "y", true);
    assert_eq!(used(&server, "book"), 20);
}

#[test]
fn a_settlement_that_is_repeated_under_its_id_is_answered_as_the_first() {
    let redis = RedisServer::start();
    let fleet = [shared(&redis), shared(&redis)];
    let alone = local();
    for [first, second] in [[&alone, &alone], [&fleet[0], &fleet[0]], [&fleet[0], &fleet[1]]] {
        let before = used(first, "plain");
        let reserve = json!({"policy": "plain", "key": "ann", "cost": 10});
        let reservation = ask(first, "/v1/reserve", &reserve).1["reservation"].clone();
        let settle = |server: &Tollgate, cost: u64, id: &str| {
            let body = json!({"reservation": reservation, "cost": cost, "request_id": id});
            ask(server, "/v1/settle", &body)
        };
        let (status, answer) = settle(first, 4, "x");
        assert_eq!((status, &answer["repeated"]), (200, &Value::Null), "{answer}");
        for server in [second, first, second] {
            let (status, answer) = settle(server, 4, "x");
            assert_eq!((status, &answer["repeated"]), (200, &json!(true)), "{answer}");
            assert_eq!((&answer["charged"], &answer["returned"]), (&json!(4), &json!(6)), "{answer}");
        }
        assert_eq!((settle(second, 5, "x").0, settle(second, 4, "y").0), (409, 409));
        assert_eq!(used(first, "plain") - before, 4);
    }
}

#[test]
fn too_many_ids_are_refused_with_503_and_charge_nothing() {
    // So little memory is room for a few thousand ids, and for a quarter of them of one key.
    let launch = Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", RULES);
    let server = launch.flag("memory", "16MiB").start();
    let mut client = Client::connect(server.http()).unwrap();
    let mut book = |id: u64| {
        let body = json!({"policy": "book", "key": "ann", "cost": 1, "request_id": id.to_string()});
        client.post("/v1/check", &body.to_string())
    };
    let full = (0..100_000).find(|id| book(*id).status == 503).unwrap();
    let reply = book(full);
    assert!(reply.body.contains("\"too_many_request_ids\""), "{}", reply.body);
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(server.metric("ratelimit_request_ids_held"), full);
    assert!(server.metric("ratelimit_request_ids_bytes") <= (16 << 20) / 16 / 4);
    assert_eq!(server.metric("ratelimit_request_ids_refused_total"), 2);
    let body = json!({"policy": "plain", "key": "bob", "request_id": "x"});
    assert_eq!(ask(&server, "/v1/check", &body).0, 200, "others still have room");
    let (_, answer) = ask(&server, "/v1/check", &json!({"policy": "plain", "key": "ann"}));
    assert_eq!(answer["remaining"], json!(LIMIT - 1), "a request without an id needs none");
}

#[test]
fn bad_ids_are_refused_and_a_clients_header_is_no_id() {
    let server = local();
    for id in ["", "a b", "ü", &"x".repeat(129)] {
        let (status, answer) = check(&server, "plain", 1, id);
        assert_eq!((status, &answer["error"]["code"]), (400, &json!("bad_request")), "{answer}");
    }
    let body = json!({"policy": "plain", "key": "ann", "request_id": "x"});
    for path in ["/v1/peek", "/v1/acquire", "/v1/reserve"] {
        assert_eq!(ask(&server, path, &body).0, 400, "{path}");
    }
    let plain = json!({"policy": "plain", "key": "ann"}).to_string();
    let headers = [("x-request-id", "x"), ("tollgate-request-id", "x"), ("idempotency-key", "x")];
    for _ in 0..2 {
        let mut client = Client::connect(server.http()).unwrap();
        assert_eq!(client.send("POST", "/v1/check", &headers, &plain).unwrap().status, 200);
    }
    assert_eq!(used(&server, "plain"), 2);
}

#[test]
fn grpc_metadata_carries_an_id() {
    let redis = RedisServer::start();
    for server in [local(), shared(&redis)] {
        let ask = |id: &str, hits: u64| {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/grpc_client.py");
            let descriptor =
                json!({"entries": [{"key": "user", "value": "ann"}], "hitsAddend": hits.to_string()});
            let request = json!({"domain": "shop", "descriptors": [descriptor]});
            let request = json!({"metadata": {"tollgate-request-id": id}, "request": request});
            let arguments = [server.grpc().port().to_string(), server.pid().to_string(), "repeat".to_owned()];
            let finished = python(&script, &[&arguments[..], &[request.to_string()]].concat());
            assert_eq!(finished.code, Some(0), "{}", finished.stderr);
            serde_json::from_str::<Value>(&finished.stdout).unwrap()
        };
        assert_eq!(ask("x", 3), json!(["OK", null]));
        assert_eq!(ask("x", 3), json!(["OK", "true"]));
        assert_eq!(ask("x", 4), json!(["ALREADY_EXISTS", null]));
        assert_eq!(ask("a b", 4), json!(["INVALID_ARGUMENT", null]));
        assert_eq!(remaining(&server, &[("user", "ann")]), [LIMIT - 3]);
    }
}
