//! Several processes that spend leases of one limit.

use std::thread;

use tollgate_testkit::real::redis::{RedisClient, RedisServer, Reply};
use tollgate_testkit::real::{Signal, Tollgate};

use crate::launch;

/// Hardly anything comes back while a test runs, so that all that is ever admitted is the burst.
const RULES: &str = "
policies:
  bucket: {requests: 1, period: 1h, burst: 10000, consistency: leased, fail_mode: closed}
  strict: {requests: 1, period: 1h, burst: 10000, consistency: leased, strict: true, fail_mode: closed}
  window: {requests: 10000, period: 720h, algorithm: fixed_window, consistency: leased, fail_mode: closed}
";
const LIMIT: usize = 10_000;
const PROCESSES: usize = 4;
const POLICIES: [&str; 3] = ["bucket", "strict", "window"];
/// So many are under way at once on a connection.
const TOGETHER: usize = 20;

/// Asks so often for one key. Tells how often it was admitted.
fn ask(tollgate: &Tollgate, policy: &str, asks: usize) -> usize {
    let mut client = RedisClient::connect(tollgate.resp()).unwrap();
    let mut admitted = 0;
    for _ in 0..asks / TOGETHER {
        for _ in 0..TOGETHER {
            client.send(&[b"TG.CHECK", policy.as_bytes(), b"key"]).unwrap();
        }
        for _ in 0..TOGETHER {
            let Reply::Array(answer) = client.receive().unwrap() else { panic!("no answer") };
            admitted += usize::try_from(answer[0].integer()).unwrap();
        }
    }
    admitted
}

/// All processes ask so often, at the same time.
fn ask_all(servers: &[Tollgate], policy: &str, asks: usize) -> usize {
    thread::scope(|scope| {
        let asking: Vec<_> =
            servers.iter().map(|server| scope.spawn(move || ask(server, policy, asks))).collect();
        asking.into_iter().map(|asked| asked.join().unwrap()).sum()
    })
}

#[test]
fn a_process_that_stops_gives_back_what_it_has_leased() {
    let redis = RedisServer::start();
    let store = format!("redis://{}", redis.address());
    let start = || launch(RULES, &store).flag("store-nodes", "2").start();
    let mut stopping = start();
    assert_eq!(ask(&stopping, "window", 600), 600);
    // Who asks for the second time may have leased some by then.
    let remaining = || {
        let asked_once = start();
        let mut client = RedisClient::connect(asked_once.resp()).unwrap();
        let Reply::Array(answer) = client.run("TG.CHECK window key 1") else { panic!("no answer") };
        answer[2].integer()
    };
    let leased = stopping.metric("ratelimit_lease_units");
    assert!(leased > 0);
    assert!(
        remaining() < 10_000 - 600 - i64::try_from(leased / 2).unwrap(),
        "what is leased is not there for others"
    );
    stopping.signal(Signal::TERM);
    assert_eq!(stopping.wait(), Some(0));
    assert_eq!(remaining(), 10_000 - 600 - 2, "all but what was spent");
}

#[test]
fn four_processes_spend_leases_and_keep_the_limit() {
    let redis = RedisServer::start();
    let store = format!("redis://{}", redis.address());
    let start = |_| launch(RULES, &store).flag("store-nodes", "4").start();
    let servers: Vec<Tollgate> = (0..PROCESSES).map(start).collect();
    for policy in POLICIES {
        let mut admitted = ask_all(&servers, policy, 1_000);
        assert_eq!(admitted, 4_000, "{policy}: far from the limit, everybody passes");
        admitted += ask_all(&servers, policy, 3_000);
        // What one has in its lease while another is denied is spent by nobody.
        assert!((LIMIT * 7 / 10..=LIMIT + 1).contains(&admitted), "{policy}: {admitted}");
    }
    let by_lease: u64 = servers
        .iter()
        .map(|server| server.metric("ratelimit_shared_decisions_total{decided_by=\"lease\"}"))
        .sum();
    assert!(by_lease > 10_000, "{by_lease} of leases");
}
