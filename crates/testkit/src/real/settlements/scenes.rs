//! Three servers, and what happens to what they share.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use super::super::postgres::{PostgresLaunch, PostgresServer};
use super::super::process::Signal;
use super::super::redis::{RedisSentinel, RedisServer};
use super::super::tollgate::{Launch, Tollgate};
use super::super::wait::until;
use super::load::Load;
use super::{Attempt, Cause, ESTIMATE, Keys, LIMIT, Settlements, Told};

const SERVERS: usize = 3;
/// Redis stands still for so long, and so often.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_EVERY: Duration = Duration::from_millis(200);
/// Metrics that tell of what was not confirmed in time: names, and a label.
const OF_REDIS: &[(&str, &str)] = &[
    ("ratelimit_unconfirmed_total", ""),
    ("ratelimit_unconfirmed_refused_total", ""),
    ("ratelimit_unconfirmed_lost_total", ""),
    ("ratelimit_redis_late_grants_total", ""),
    ("ratelimit_redis_errors_total", "kind=\"timed_out\""),
    ("ratelimit_redis_errors_total", "kind=\"lost\""),
];
const OF_POSTGRES: &[(&str, &str)] = &[
    ("ratelimit_durable_transactions_failed_total", ""),
    ("ratelimit_durable_undone_total", ""),
    ("ratelimit_durable_forgotten_total", ""),
];
/// Settlements that are being retried, for Redis and for a database.
const WAITING: &str = "ratelimit_unconfirmed_waiting";
const OWED: [&str; 3] = [WAITING, "ratelimit_durable_owed", "ratelimit_durable_waiting"];

fn launch(binary: &str, terms: &str) -> Launch {
    // Nothing is decided without the shared count, so that all that is charged is charged there.
    let rules = format!("policies:\n  tokens: {{requests: {LIMIT}, {terms}, fail_mode: closed}}\n");
    Launch::new(binary).rules("rules.yaml", &rules).flag("workers", "1").flag("store-secret", "secret")
}

fn on_redis(binary: &str, store: &str) -> Vec<Tollgate> {
    let start = |_| launch(binary, "period: 30d, algorithm: fixed_window").flag("store", store).start();
    (0..SERVERS).map(start).collect()
}

fn addresses(servers: &[Tollgate]) -> Vec<SocketAddr> {
    servers.iter().map(Tollgate::http).collect()
}

/// Waits until no server retries anything any more.
fn wait_until_told(servers: &[Tollgate], gauges: &[&str]) {
    until("all settlements are confirmed", || {
        let waiting = |server: &Tollgate| gauges.iter().map(|gauge| server.metric(gauge)).sum::<u64>();
        (servers.iter().map(waiting).sum::<u64>() == 0).then_some(())
    });
}

fn metrics(servers: &[Tollgate], of: &[(&'static str, &'static str)]) -> Vec<(&'static str, u64)> {
    let sum = |name, label| servers.iter().map(|server| server.metric_sum(name, label)).sum::<u64>();
    of.iter().map(|&(name, label)| (if label.is_empty() { name } else { label }, sum(name, label))).collect()
}

/// Redis stands still for 5 ms every 200 ms, while all pairs charge one key. The servers wait for it for 2 ms.
pub fn pause_redis(binary: &str, pairs: u64) -> Settlements {
    let redis = RedisServer::start();
    let servers = on_redis(binary, &format!("redis://{}", redis.address()));
    let load = Load::new(addresses(&servers), Keys::One, pairs);
    let attempts = load.run(|| {
        while !load.is_over() {
            thread::sleep(PAUSE_EVERY);
            redis.freeze();
            thread::sleep(PAUSE);
            redis.thaw();
        }
    });
    wait_until_told(&servers, &[WAITING]);
    let settlements = Settlements::judge_sum(&attempts, servers[0].http());
    Settlements { metrics: metrics(&servers, OF_REDIS), ..settlements }
}

/// The master is killed in the midst, and its replica takes over.
///
/// Replication is asynchronous: what the master answered last, the replica may not have. The master sends its answers
/// and the stream to its replica in the same turn of its event loop, so that only few operations can be missing.
pub fn fail_over_redis(binary: &str, pairs: u64) -> Settlements {
    let mut redis = RedisSentinel::start();
    let servers = on_redis(binary, &redis.address());
    let load = Load::new(addresses(&servers), Keys::OneEach, pairs);
    let mut kill = 0..=0;
    let attempts = load.run(|| {
        load.wait_for(50);
        kill = around(&load, || redis.master.kill());
        redis.wait_for_failover();
    });
    wait_until_told(&servers, &[WAITING]);
    let settlements = Settlements::judge_each(&attempts, servers[0].http(), |attempt, charged| {
        let Attempt { told, used, operations: [reserved, settled], .. } = *attempt;
        let is_settled = matches!(told, Told::Settled | Told::Pending);
        let lacks_settlement = charged == ESTIMATE && kill.contains(&settled);
        let lacks_reservation = charged == used.saturating_sub(ESTIMATE) && kill.contains(&reserved);
        if is_settled && (lacks_settlement || lacks_reservation) {
            return Cause::Unreplicated;
        }
        cause_told(attempt, charged, &[])
    });
    Settlements { metrics: metrics(&servers, OF_REDIS), ..settlements }
}

/// Before a kill, so many operations may have been answered whose effect is not kept.
const BEFORE: u64 = 100;

/// Kills something. Tells which operations were answered shortly before, and until it was dead.
fn around(load: &Load, kill: impl FnOnce()) -> RangeInclusive<u64> {
    let before = load.operations();
    kill();
    before.saturating_sub(BEFORE)..=load.operations()
}

/// A caller whose reservation was not confirmed may be charged with the estimate. So may one whose settlement was
/// pending when a server was killed.
fn cause_told(attempt: &Attempt, charged: u64, kills: &[RangeInclusive<u64>]) -> Cause {
    let is_excused = match attempt.told {
        Told::Settled => false,
        Told::Pending => kills.iter().any(|kill| kill.contains(&attempt.operations[1])),
        Told::Unavailable | Told::Unanswered => true,
    };
    if is_excused && charged == ESTIMATE { Cause::Told } else { Cause::Unexplained }
}

/// PostgreSQL is restarted in good order, then each server is killed and restarted, then PostgreSQL is killed.
pub fn restart_postgres(binary: &str, pairs: u64) -> Settlements {
    let mut postgres = PostgresLaunch::default().durable().start();
    let start = |_| {
        launch(binary, "calendar: month, durable: true, local_fraction: 0")
            .flag("database", &postgres.url())
            .flag("database-deadline", "2s")
            .start()
    };
    let mut servers: Vec<Tollgate> = (0..SERVERS).map(start).collect();
    let load = Load::new(addresses(&servers), Keys::OneEach, pairs);
    let mut kills = Vec::new();
    let attempts = load.run(|| {
        load.wait_for(15);
        postgres.stop_and_start();
        for (killed, percent) in [35, 50, 65].into_iter().enumerate() {
            load.wait_for(percent);
            // A pending settlement is in the memory of its server alone, and dies with it.
            wait_until_told(&servers, &OWED[..2]);
            let server = &mut servers[killed];
            kills.push(around(&load, || {
                server.signal(Signal::KILL);
                server.wait();
            }));
            server.restart();
        }
        load.wait_for(80);
        postgres.restart();
    });
    wait_until_told(&servers, &OWED);
    let settlements = Settlements::judge_each(&attempts, servers[0].http(), |attempt, charged| {
        cause_told(attempt, charged, &kills)
    });
    check_history(&postgres, &settlements);
    Settlements { metrics: metrics(&servers, OF_POSTGRES), ..settlements }
}

/// Counters and the history of usage must say the same.
fn check_history(postgres: &PostgresServer, settlements: &Settlements) {
    let sum = |column: &str, table: &str| -> u64 {
        let sum = postgres.sql(&format!("SELECT COALESCE(SUM({column}), 0) FROM {table}"));
        sum.trim().parse().expect("a number")
    };
    let (counted, history) = (sum("used", "counters"), sum("counted - given_back", "usage_days"));
    assert_eq!((counted, history), (settlements.charged, settlements.charged), "{settlements:?}");
}
