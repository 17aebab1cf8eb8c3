//! Costs that are reserved as an estimate and settled when they are known, over HTTP: in one process, and where several share a count in Redis.
#![allow(clippy::unwrap_used, clippy::panic)]

mod durable;
mod pairs;
mod unconfirmed;

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};
use tollgate_testkit::real::redis::RedisServer;
use tollgate_testkit::real::tokens::{TokenReplay, TokenRow, TokenTotals, charged_tokens, token_rules};
use tollgate_testkit::real::{Client, Launch, Tollgate, until};

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

/// So small that the table of open reservations is full at once: it has an eighth of this.
const MEMORY_BYTES: u64 = 4 << 20;
const GREEDY: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const MODEST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

fn launch_small() -> Launch {
    launch(RULES).flag("memory", "4MiB")
}

/// Reserves under a key from an address of this machine.
fn reserve_from(client: &mut Client, key: &str) -> (u16, Value) {
    let question = json!({"policy": "tokens", "key": key, "cost": 1, "expires_in": "24h"});
    let reply = client.post("/v1/reserve", &question.to_string());
    let has_retry = reply.headers.iter().any(|(name, _)| name == "retry-after");
    assert_eq!(has_retry, reply.status != 200, "{}", reply.body);
    (reply.status, serde_json::from_str(&reply.body).unwrap())
}

/// Reserves under one invented key after another and settles nothing. Returns the first
/// reservation, and why there are no more.
fn fill(client: &mut Client) -> (Value, u16, Value) {
    let mut first = Value::Null;
    for number in 0..10_000 {
        let (status, answer) = reserve_from(client, &format!("invented-{number}"));
        match status {
            200 if number == 0 => first = answer["reservation"].clone(),
            200 => {}
            _ => return (first, status, answer["error"]["code"].clone()),
        }
    }
    panic!("nothing bounds the reservations of one client");
}

#[test]
fn one_address_cannot_keep_another_from_reserving() {
    let tollgate = launch_small().start();
    let [mut greedy, mut modest] =
        [GREEDY, MODEST].map(|address| Client::connect_from(address, tollgate.http()).unwrap());
    let (first, status, code) = fill(&mut greedy);
    assert_eq!((status, &code), (429, &json!("too_many_reservations_of_client")));
    let bytes = tollgate.metric("ratelimit_reservations_bytes");
    assert!(bytes <= MEMORY_BYTES / 16 && bytes > MEMORY_BYTES / 20, "{bytes} bytes are half of the table");
    // A new connection is the same client. Another address has its own half.
    let mut again = Client::connect_from(GREEDY, tollgate.http()).unwrap();
    assert_eq!(reserve_from(&mut again, "other").0, 429);
    assert_eq!(reserve_from(&mut modest, "other").0, 200);
    // What is settled makes room for the client that had reserved it, whichever client settles it.
    let settle = json!({"reservation": first, "cost": 0}).to_string();
    assert_eq!(modest.post("/v1/settle", &settle).status, 200);
    assert_eq!(reserve_from(&mut greedy, "other").0, 200);
    assert_eq!(reserve_from(&mut greedy, "other").0, 429);
}

#[test]
fn an_exempt_address_can_fill_the_table_which_follows_memory() {
    let tollgate = launch_small().flag("connections-per-client-exempt", &GREEDY.to_string()).start();
    let (_, status, code) = fill(&mut Client::connect_from(GREEDY, tollgate.http()).unwrap());
    assert_eq!((status, &code), (503, &json!("too_many_reservations")));
    let bytes = tollgate.metric("ratelimit_reservations_bytes");
    assert!(bytes <= MEMORY_BYTES / 8 && bytes > MEMORY_BYTES / 10, "{bytes}");
}
