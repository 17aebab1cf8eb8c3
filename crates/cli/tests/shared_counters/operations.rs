//! Every operation under every fault of Redis: what the caller is told, and what is counted afterwards. The table in
//! docs/consistency.md says the same.

mod durable;

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::real::redis::{RedisLaunch, RedisServer};
use tollgate_testkit::real::{Client, Detour, Signal, Tollgate, until};

use crate::launch;

const RULES: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {requests: 1000, period: 30d, algorithm: fixed_window, fail_mode: closed}}
policies:
  plain: {requests: 1000, period: 30d, algorithm: fixed_window, fail_mode: closed}
  booked: {requests: 1000, period: 30d, algorithm: fixed_window, overshoot: book, fail_mode: closed}
  held: {requests: 1000, period: 1h, algorithm: concurrency, fail_mode: closed}
";
const LIMIT: u64 = 1_000;
/// What is counted before the operation.
const BEFORE: u64 = 100;
/// What the operation asks for.
const COST: u64 = 10;
/// How often a count is read that is not what is expected.
const LOOKS_MAX: u32 = 100;
/// What a settlement finds to be the real cost of `COST` reserved units.
const REAL: u64 = 25;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    Check,
    Book,
    Refund,
    Reserve,
    Settle,
    Acquire,
    Release,
    Reset,
}

use Operation::{Acquire, Book, Check, Refund, Release, Reserve, Reset, Settle};

const OPERATIONS: [Operation; 8] = [Check, Book, Refund, Reserve, Settle, Acquire, Release, Reset];

/// What the caller is told.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    /// 200.
    Done,
    /// 200 or 202 with `pending`, and no Retry-After.
    Pending,
    /// 503: the caller may retry.
    Unavailable,
    /// The connection ends.
    Nothing,
}

/// An operation on a key of its own, ready to be sent.
struct Prepared {
    operation: Operation,
    path: &'static str,
    body: Value,
}

impl Operation {
    /// A check of some units of the operation's counter.
    fn question(self, cost: u64) -> Value {
        match self {
            Refund => {
                let entries = json!([{"key": "user", "value": "ann"}]);
                json!({"domain": "shop", "descriptors": [{"entries": entries, "hits_addend": cost}]})
            }
            Book => json!({"policy": "booked", "key": "ann", "cost": cost}),
            Acquire | Release => json!({"policy": "held", "key": format!("{self:?}"), "cost": cost}),
            _ => json!({"policy": "plain", "key": format!("{self:?}"), "cost": cost}),
        }
    }

    /// Counts `BEFORE` units, and says what to send.
    fn prepare(self, server: &Tollgate) -> Prepared {
        let is_held = matches!(self, Acquire | Release);
        let first = if self == Settle || self == Release { BEFORE - COST } else { BEFORE };
        ask(server, if is_held { "/v1/acquire" } else { "/v1/check" }, &self.question(first));
        let question = self.question(COST);
        let (path, body) = match self {
            Check | Book => ("/v1/check", question),
            Refund => {
                let mut refund = question;
                refund["descriptors"][0]["is_negative_hits"] = json!(true);
                ("/v1/check", refund)
            }
            Reserve => ("/v1/reserve", question),
            Settle => {
                let reservation = ask(server, "/v1/reserve", &question)["reservation"].clone();
                ("/v1/settle", json!({"reservation": reservation, "cost": REAL}))
            }
            Acquire => ("/v1/acquire", question),
            Release => {
                let permit = ask(server, "/v1/acquire", &question)["lease"].clone();
                ("/v1/release", json!({"lease": permit}))
            }
            Reset => ("/admin/v1/keys/reset", self.question(0)),
        };
        assert_eq!(until("Redis answers", || counted(server, self)), BEFORE, "{self:?}");
        Prepared { operation: self, path, body }
    }

    /// What is counted once it is done.
    fn once(self) -> u64 {
        match self {
            Check | Book | Reserve | Acquire => BEFORE + COST,
            Refund | Release => BEFORE - COST,
            Settle => BEFORE - COST + REAL,
            Reset => 0,
        }
    }
}

/// Asks until Redis answers: each thread of the server finds a restarted Redis by itself.
fn ask(server: &Tollgate, path: &str, body: &Value) -> Value {
    until("Redis answers", || {
        let reply = server.post(path, body);
        (reply.status == 200).then(|| serde_json::from_str(&reply.body).unwrap())
    })
}

/// What Redis has counted. None if it did not answer.
fn counted(server: &Tollgate, operation: Operation) -> Option<u64> {
    let reply = server.post("/v1/peek", &operation.question(0));
    let answer: Value = serde_json::from_str(&reply.body).unwrap();
    let decision = &answer["decisions"][0];
    (decision["decided_by"] == "authority").then(|| LIMIT - decision["remaining"].as_u64().unwrap())
}

impl Prepared {
    fn send(&self, server: &Tollgate) -> Told {
        let reply = if self.operation == Reset {
            let authorization = format!("Bearer {}", server.admin_token());
            let headers = [
                ("host", "localhost"),
                ("authorization", &*authorization),
                ("content-type", "application/json"),
            ];
            let client = Client::connect(server.admin());
            client.and_then(|mut client| client.send("POST", self.path, &headers, &self.body.to_string()))
        } else {
            let client = Client::connect(server.http());
            client.and_then(|mut client| client.send("POST", self.path, &[], &self.body.to_string()))
        };
        let Ok(reply) = reply else { return Told::Nothing };
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        let told = match (reply.status, body["pending"] == true) {
            (200, false) => Told::Done,
            (200 | 202, true) => Told::Pending,
            (503, false) => Told::Unavailable,
            _ => panic!("{:?}: {} {}", self.operation, reply.status, reply.body),
        };
        assert_eq!(reply.header("retry-after").is_some(), told == Told::Unavailable, "{:?}", self.operation);
        told
    }
}

/// What must come of an operation.
type Expected = (Operation, Told, u64);

fn start(store: SocketAddr, deadline: &str) -> Tollgate {
    let launch = launch(RULES, &format!("redis://{store}")).flag("store-deadline", deadline);
    launch.flag("store-secret", "secret").start()
}

/// The count, once it is what is expected or long enough has passed, and nothing waits to be sent, as a metric says.
fn counted_in_the_end(server: &Tollgate, operation: Operation, waiting: &str, expected: u64) -> u64 {
    until("nothing waits", || (server.metric(waiting) == 0).then_some(()));
    let mut count = until("Redis answers", || counted(server, operation));
    for _ in 0..LOOKS_MAX {
        if count == expected {
            break;
        }
        thread::sleep(Duration::from_millis(50));
        count = until("Redis answers", || counted(server, operation));
    }
    count
}

fn check(server: &Tollgate, expected: [Expected; 8], play: impl FnMut(&Prepared) -> Told) {
    check_when(server, "ratelimit_unconfirmed_waiting", &expected, play);
}

/// Prepares each operation, lets `play` send it under a fault, and compares what came of it.
fn check_when(
    server: &Tollgate,
    waiting: &str,
    expected: &[Expected],
    mut play: impl FnMut(&Prepared) -> Told,
) {
    let mut wrong = Vec::new();
    for &(operation, told_expected, count_expected) in expected {
        until("Redis answers", || counted(server, operation));
        let prepared = operation.prepare(server);
        let told = play(&prepared);
        let count = counted_in_the_end(server, operation, waiting, count_expected);
        if (told, count) != (told_expected, count_expected) {
            wrong.push(format!("{operation:?}: {told:?}, {count}; not {told_expected:?}, {count_expected}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn operations_that_redis_answers_after_the_deadline() {
    let redis = RedisServer::start();
    let server = start(redis.address(), "100ms");
    let expected = [
        (Check, Told::Unavailable, BEFORE),
        (Book, Told::Pending, Book.once()),
        (Refund, Told::Pending, Refund.once()),
        (Reserve, Told::Unavailable, BEFORE),
        (Settle, Told::Pending, Settle.once()),
        (Acquire, Told::Unavailable, BEFORE),
        (Release, Told::Unavailable, Release.once()),
        (Reset, Told::Unavailable, Reset.once()),
    ];
    check(&server, expected, |prepared| {
        redis.freeze();
        let told = prepared.send(&server);
        redis.thaw();
        told
    });
}

#[test]
fn operations_whose_connection_to_redis_breaks_after_they_were_sent() {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    let server = start(detour.address(), "2s");
    let expected = [
        (Check, Told::Unavailable, Check.once()),
        (Book, Told::Pending, Book.once()),
        (Refund, Told::Pending, Refund.once()),
        (Reserve, Told::Unavailable, Reserve.once()),
        (Settle, Told::Pending, Settle.once()),
        (Acquire, Told::Unavailable, Acquire.once()),
        (Release, Told::Unavailable, Release.once()),
        (Reset, Told::Unavailable, Reset.once()),
    ];
    check(&server, expected, |prepared| {
        detour.lose_next();
        prepared.send(&server)
    });
}

#[test]
fn operations_while_redis_is_killed() {
    let mut redis = RedisLaunch::redis().setting("appendonly yes").setting("appendfsync always").start();
    let server = start(redis.address(), "2s");
    let expected = [
        (Check, Told::Unavailable, BEFORE),
        (Book, Told::Pending, Book.once()),
        (Refund, Told::Pending, Refund.once()),
        (Reserve, Told::Unavailable, BEFORE),
        (Settle, Told::Pending, Settle.once()),
        (Acquire, Told::Unavailable, BEFORE),
        (Release, Told::Unavailable, BEFORE),
        (Reset, Told::Unavailable, BEFORE),
    ];
    check(&server, expected, |prepared| {
        redis.kill();
        let told = prepared.send(&server);
        redis.restart();
        told
    });
}

/// Redis has counted the operation when its server is killed, and the answer is on its way.
#[test]
fn operations_whose_server_is_killed_before_it_answers() {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    let witness = start(redis.address(), "2s");
    let expected = OPERATIONS.map(|operation| (operation, Told::Nothing, operation.once()));
    check(&witness, expected, |prepared| {
        let victim = start(detour.address(), "30s");
        until("Redis answers", || counted(&victim, prepared.operation));
        detour.delay(Duration::from_secs(20));
        let told = thread::scope(|scope| {
            let sender = scope.spawn(|| prepared.send(&victim));
            let once = prepared.operation.once();
            until("Redis has counted it", || (counted(&witness, prepared.operation)? == once).then_some(()));
            victim.signal(Signal::KILL);
            sender.join().unwrap()
        });
        detour.delay(Duration::ZERO);
        told
    });
}
