//! Settlements that Redis does not confirm in time: pending, retried, and charged once.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::real::redis::RedisServer;
use tollgate_testkit::real::{Client, Detour, Tollgate, until};

use crate::{ask, launch, left, reserve};

/// Nothing is decided without Redis, so that all that is charged is charged there.
const RULES: &str = "
policies:
  tokens: {requests: 1000000, period: 30d, algorithm: fixed_window, fail_mode: closed}
  leased: {requests: 1000000, period: 30d, algorithm: fixed_window, fail_mode: closed, consistency: leased}
";
const LIMIT: u64 = 1_000_000;
const SERVERS: usize = 3;
const PENDING: &str = "ratelimit_unconfirmed_total";
const REFUSED: &str = "ratelimit_unconfirmed_refused_total";
const LOST: &str = "ratelimit_unconfirmed_lost_total";
const WAITING: &str = "ratelimit_unconfirmed_waiting";

/// Servers that give Redis so long to answer.
fn fleet(redis: SocketAddr, deadline: &str) -> [Tollgate; SERVERS] {
    let store = format!("redis://{redis}");
    [(); SERVERS].map(|()| {
        launch(RULES)
            .flag("store", &store)
            .flag("store-secret", "secret")
            .flag("store-deadline", deadline)
            .start()
    })
}

/// The sum of a metric over all servers.
fn sum(servers: &[Tollgate], series: &str) -> u64 {
    servers.iter().map(|server| server.metric(series)).sum()
}

/// Waits until nothing is pending any more.
fn wait_until_confirmed(servers: &[Tollgate]) {
    until("all settlements are confirmed", || (sum(servers, WAITING) == 0).then_some(()));
}

fn used(server: &Tollgate, policy: &str) -> u64 {
    until("Redis answers", || {
        let (status, answer) = ask(server, "/v1/peek", &json!({"policy": policy, "key": "ann", "cost": 0}));
        (status == 200 && answer["decisions"][0]["decided_by"] == "authority").then_some(())
    });
    LIMIT - left(server, policy)
}

#[test]
fn a_settlement_that_redis_answers_after_the_deadline_is_pending_and_charged_once() {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    let servers = fleet(detour.address(), "100ms");
    for policy in ["tokens", "leased"] {
        let (mut real, pending_before) = (0, sum(&servers, PENDING));
        for cost in [0, 40, 100, 1_100] {
            for settling in 0..SERVERS {
                let reservation = until("Redis answers", || {
                    let question = json!({"policy": policy, "key": "ann", "cost": 100});
                    ask(&servers[0], "/v1/reserve", &question).1["reservation"].as_str().map(str::to_owned)
                });
                detour.delay(Duration::from_millis(300));
                let settle = json!({"reservation": reservation, "cost": cost});
                let (status, settled) = ask(&servers[settling], "/v1/settle", &settle);
                assert_eq!((status, &settled["pending"]), (202, &json!(true)), "{settled}");
                assert_eq!(ask(&servers[settling], "/v1/settle", &settle).0, 409);
                detour.delay(Duration::ZERO);
                real += cost;
            }
        }
        wait_until_confirmed(&servers);
        if policy == "tokens" {
            assert_eq!(used(&servers[0], policy), real);
        }
        let pending = sum(&servers, PENDING) - pending_before;
        assert_eq!(pending, 12, "each answer said that it was pending");
    }
    assert_eq!((sum(&servers, REFUSED), sum(&servers, LOST)), (0, 0));
}

/// Six clients settle one reservation while Redis stands still. Returns the answers.
fn settle_at_once(servers: &[Tollgate], reservation: &Value) -> Vec<(u16, Value)> {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|client| {
                let address = servers[client % servers.len()].http();
                scope.spawn(move || {
                    let settle = json!({"reservation": reservation, "cost": 1_100});
                    let mut client = Client::connect(address).unwrap();
                    let reply = client.post("/v1/settle", &settle.to_string());
                    (reply.status, serde_json::from_str(&reply.body).unwrap())
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

#[test]
fn of_six_clients_that_settle_one_reservation_without_redis_one_is_charged_and_none_is_told_so() {
    let redis = RedisServer::start();
    let servers = fleet(redis.address(), "50ms");
    let reservation = reserve(&servers[0], "tokens", 100);
    redis.freeze();
    let answers = settle_at_once(&servers, &reservation);
    redis.thaw();
    let count = |status: u16| answers.iter().filter(|answer| answer.0 == status).count();
    assert_eq!((count(200), count(202), count(409)), (0, SERVERS, 6 - SERVERS), "{answers:?}");
    assert!(
        answers.iter().all(|(status, body)| (*status == 202) == (body["pending"] == true)),
        "{answers:?}"
    );
    wait_until_confirmed(&servers);
    assert_eq!(used(&servers[1], "tokens"), 1_100);
    assert_eq!(sum(&servers, REFUSED), 2, "the other two are known to have changed nothing");
    for server in &servers {
        let settle = json!({"reservation": reservation, "cost": 1_100});
        assert_eq!(ask(server, "/v1/settle", &settle).0, 409);
    }
}

#[test]
fn a_settlement_whose_connection_breaks_after_it_was_sent_is_charged_once() {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    let servers = fleet(detour.address(), "2s");
    let reservation = reserve(&servers[0], "tokens", 100);
    detour.lose_next();
    let settle = json!({"reservation": reservation, "cost": 1_100});
    let (status, settled) = ask(&servers[0], "/v1/settle", &settle);
    assert_eq!((status, &settled["pending"]), (202, &json!(true)), "{settled}");
    wait_until_confirmed(&servers);
    assert_eq!(used(&servers[0], "tokens"), 1_100);
    assert_eq!((sum(&servers, REFUSED), sum(&servers, LOST)), (0, 0));
}

/// Pairs of reserve and settle at random servers, while Redis stands still for 5 ms every 200 ms.
#[test]
fn with_hiccups_of_redis_what_is_charged_is_what_was_used() {
    const PAIRS: u64 = 2_000;
    const CLIENTS: u64 = 4;
    const ROUNDS_MAX: usize = 30;
    let redis = RedisServer::start();
    let servers = fleet(redis.address(), "2ms");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let real = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(200));
                redis.freeze();
                thread::sleep(Duration::from_millis(5));
                redis.thaw();
            }
        });
        let run_all = || {
            let servers = &servers;
            let run = |client| scope.spawn(move || run_pairs(servers, client, PAIRS / CLIENTS));
            let clients: Vec<_> = (0..CLIENTS).map(run).collect();
            clients.into_iter().map(|client| client.join().unwrap()).sum::<u64>()
        };
        // A fast machine may get through between two hiccups.
        let mut real = run_all();
        for _ in 1..ROUNDS_MAX {
            if sum(&servers, PENDING) > 0 {
                break;
            }
            real += run_all();
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        real
    });
    wait_until_confirmed(&servers);
    until("all that came too late is given back", || (used(&servers[0], "tokens") == real).then_some(()));
    assert!(sum(&servers, PENDING) > 0, "no settlement was late");
    assert_eq!((sum(&servers, REFUSED), sum(&servers, LOST)), (0, 0));
}

/// Reserves and settles at one server after the other. Returns what was really used.
fn run_pairs(servers: &[Tollgate], client: u64, pairs: u64) -> u64 {
    let mut clients: Vec<Client> =
        servers.iter().map(|server| Client::connect(server.http()).unwrap()).collect();
    let (mut real, mut turn) = (0, client);
    for _ in 0..pairs {
        turn += 1;
        let question = json!({"policy": "tokens", "key": "ann", "cost": 10});
        let at = usize::try_from(turn % 3).unwrap();
        let reply = clients[at].post("/v1/reserve", &question.to_string());
        if reply.status != 200 {
            continue;
        }
        let answer: Value = serde_json::from_str(&reply.body).unwrap();
        let cost = turn * 7 % 40;
        let settle = json!({"reservation": answer["reservation"], "cost": cost});
        let at = usize::try_from(turn / 3 % 3).unwrap();
        let reply = clients[at].post("/v1/settle", &settle.to_string());
        assert!(matches!(reply.status, 200 | 202), "{}", reply.body);
        real += cost;
    }
    real
}
