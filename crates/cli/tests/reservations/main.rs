//! Costs that are reserved as an estimate and settled when they are known, over HTTP: in one process, and where several share a count in Redis.
#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};
use tollgate_testkit::real::redis::RedisServer;
use tollgate_testkit::real::tokens::{TokenReplay, TokenRow, TokenTotals, charged_tokens, token_rules};
use tollgate_testkit::real::{Launch, Tollgate, until};

/// Hardly a test runs while one window ends and the next begins.
const WINDOW: &str = "period: 30d, algorithm: fixed_window";
const RULES: &str = "
policies:
  tokens: {requests: 1000, period: 30d, algorithm: fixed_window}
  bucket: {requests: 1, period: 1h, burst: 1000}
";

fn launch(rules: &str) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", rules)
}

fn sharing(rules: &str, redis: &RedisServer) -> Tollgate {
    let store = format!("redis://{}", redis.address());
    // Longer than a busy machine lets it wait.
    launch(rules).flag("store", &store).flag("store-secret", "secret").flag("store-deadline", "2s").start()
}

fn ask(tollgate: &Tollgate, path: &str, body: &Value) -> (u16, Value) {
    let reply = tollgate.post(path, body);
    (
        reply.status,
        serde_json::from_str(&reply.body).unwrap_or_else(|error| panic!("{error}: {}", reply.body)),
    )
}

fn reserve(tollgate: &Tollgate, policy: &str, cost: u64) -> Value {
    let (status, answer) =
        ask(tollgate, "/v1/reserve", &json!({"policy": policy, "key": "ann", "cost": cost}));
    assert_eq!(status, 200, "{answer}");
    answer["reservation"].clone()
}

fn left(tollgate: &Tollgate, policy: &str) -> u64 {
    let (_, answer) = ask(tollgate, "/v1/peek", &json!({"policy": policy, "key": "ann", "cost": 0}));
    answer["remaining"].as_u64().unwrap()
}

fn rows() -> Vec<TokenRow> {
    let row = |at: u64| TokenRow { context: 100 + at * 37 % 900, generated: at * 61 % 400 };
    (0..200).map(row).collect()
}

/// Replays a made-up trace: some are denied, some cost more than was reserved, and what is charged is what was used.
fn check_trace(servers: &[Tollgate]) {
    let addresses: Vec<_> = servers.iter().map(Tollgate::http).collect();
    let replay = TokenReplay { generated_guess: 200, clients: 4, open_each: 3 };
    let totals = replay.run(&addresses, &rows());
    let TokenTotals { admitted, denied, reserved, returned, booked, real } = totals;
    assert!(admitted > 50 && denied > 0 && returned > 0 && booked > 0, "{totals:?}");
    assert_eq!(admitted + denied, 200);
    assert_eq!(reserved + booked - returned, real);
    for address in addresses {
        assert_eq!(charged_tokens(address, real), real, "{totals:?}");
    }
}

#[test]
fn what_is_charged_is_what_was_used() {
    let tollgate = launch(&token_rules(100_000, WINDOW)).start();
    check_trace(&[tollgate]);
}

#[test]
fn what_is_charged_in_redis_is_what_was_used() {
    let redis = RedisServer::start();
    let rules = token_rules(100_000, WINDOW);
    check_trace(&[sharing(&rules, &redis), sharing(&rules, &redis)]);
}

#[test]
fn what_is_charged_of_leases_is_what_was_used() {
    let redis = RedisServer::start();
    let rules = token_rules(100_000, &format!("{WINDOW}, consistency: leased"));
    check_trace(&[sharing(&rules, &redis)]);
}

#[test]
fn what_is_charged_of_durable_counts_is_what_was_used() {
    // Nothing is in hand, or half a minute would pass until all of it has come back.
    let terms = "calendar: month, durable: true, local_fraction: 0";
    check_trace(&[launch(&token_rules(100_000, terms)).flag("database-deadline", "10s").start()]);
}

#[test]
fn what_was_reserved_in_redis_is_settled_there_once() {
    let redis = RedisServer::start();
    let [one, other] = [(); 2].map(|()| sharing(RULES, &redis));
    for policy in ["tokens", "bucket"] {
        for (cost, expected) in [(40, 960), (0, 960), (100, 860), (360, 500)] {
            let reservation = reserve(&one, policy, 100);
            let settle = json!({"reservation": reservation, "cost": cost});
            let (status, settled) = ask(&one, "/v1/settle", &settle);
            assert_eq!((status, &settled["charged"]), (200, &json!(cost)), "{settled}");
            assert_eq!(settled["decisions"][0]["remaining"], json!(expected), "{settled}");
            assert_eq!(ask(&one, "/v1/settle", &settle).0, 409);
            assert_eq!(left(&other, policy), expected, "{policy}, {cost}");
        }
    }
}

#[test]
fn what_nobody_settles_expires_and_stays_charged() {
    let tollgate = launch(RULES).start();
    let question = json!({"policy": "tokens", "key": "ann", "cost": 100, "expires_in": "10ms"});
    let (_, answer) = ask(&tollgate, "/v1/reserve", &question);
    until("it has expired", || (tollgate.metric("ratelimit_reservations_expired_total") == 1).then_some(()));
    let settle = json!({"reservation": answer["reservation"], "cost": 0});
    let (status, problem) = ask(&tollgate, "/v1/settle", &settle);
    assert_eq!((status, &problem["error"]["code"]), (410, &json!("reservation_expired")));
    assert_eq!(left(&tollgate, "tokens"), 900);
    assert_eq!(tollgate.metric("ratelimit_reservations_open"), 0);
}

#[test]
fn a_server_that_was_restarted_knows_nothing_of_reservations() {
    let mut tollgate = launch(RULES).start();
    let reservation = reserve(&tollgate, "tokens", 100);
    tollgate.restart();
    let (status, problem) = ask(&tollgate, "/v1/settle", &json!({"reservation": reservation, "cost": 0}));
    assert_eq!((status, &problem["error"]["code"]), (404, &json!("unknown_reservation")));
}

#[test]
fn any_server_settles_what_was_reserved_in_redis() {
    let redis = RedisServer::start();
    let [one, other] = [(); 2].map(|()| sharing(RULES, &redis));
    for policy in ["tokens", "bucket"] {
        for (cost, expected) in [(40, 960), (100, 860), (360, 500)] {
            let settle = json!({"reservation": reserve(&one, policy, 100), "cost": cost});
            let (status, settled) = ask(&other, "/v1/settle", &settle);
            assert_eq!((status, &settled["charged"]), (200, &json!(cost)), "{settled}");
            assert_eq!(settled["decisions"][0]["remaining"], json!(expected), "{settled}");
            for server in [&one, &other] {
                assert_eq!(ask(server, "/v1/settle", &settle).0, 409);
            }
            // What is booked is told without waiting.
            until("both know it", || (left(&one, policy) == expected).then_some(()));
        }
    }
    assert_eq!(other.metric("ratelimit_reservations_settled_elsewhere_total"), 6);
}
