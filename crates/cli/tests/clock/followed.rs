//! Jumps that are followed: at once where another clock shows the same time, else after a while, and back the same way.

use tollgate_testkit::real::postgres::PostgresLaunch;
use tollgate_testkit::real::redis::RedisLaunch;
use tollgate_testkit::real::{Launch, Tollgate, WallTime, until};

use crate::{DAY_S, check, until_seen};

const RULES: &str = "
policies:
  durable: {requests: 20, calendar: day, durable: true, local_fraction: 0}
  local: {requests: 20, calendar: day, consistency: local}
  blocks: {requests: 100000, calendar: day, durable: true}
";
const SHARED: &str = "
policies:
  shared: {requests: 20, calendar: day, consistency: exact, fail_mode: closed}
  local: {requests: 20, calendar: day, consistency: local}
";
const QUOTA: u64 = 20;

fn launch(wall_time: &WallTime, rules: &str) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", rules);
    wall_time.of(launch.flag("database-deadline", "10s"))
}

fn events(server: &Tollgate, event: &str) -> u64 {
    server.metric(&format!("ratelimit_clock_events_total{{event=\"{event}\"}}"))
}

/// Waits for less than the minute after which a jump would be followed without another clock.
fn until_followed(server: &Tollgate, times: u64) {
    until(&format!("{times} jumps are followed"), || (events(server, "followed") == times).then_some(()));
    server.wait_for_log("followed a jump of wall time");
    assert_eq!(server.metric("ratelimit_clock_unconfirmed_seconds"), 0);
}

/// Uses up a day's quota, jumps to the next day, and back. The count of the first day is there again if it is kept for each window.
fn follows_to_the_next_day_and_back(server: &Tollgate, wall_time: &WallTime, policies: &[&str]) {
    for policy in policies {
        (0..QUOTA).for_each(|_| assert_eq!(check(server, policy).0, 200, "{policy}"));
        assert_eq!(check(server, policy).0, 429, "{policy}");
    }
    wall_time.set(DAY_S);
    until_followed(server, 1);
    for policy in policies {
        let (status, answer) = check(server, policy);
        assert_eq!((status, &answer["remaining"]), (200, &(QUOTA - 1).into()), "{policy}: {answer}");
    }
    wall_time.set(0);
    until_followed(server, 2);
    assert_eq!(events(server, "came_back"), 0);
}

#[test]
fn a_jump_that_postgres_shows_too_is_followed_at_once_and_back() {
    let wall_time = WallTime::new();
    let postgres = PostgresLaunch::default().wall_time(&wall_time).start();
    let server = launch(&wall_time, RULES).flag("database", &postgres.url()).start();
    follows_to_the_next_day_and_back(&server, &wall_time, &["durable", "local"]);
    assert_eq!(check(&server, "durable").0, 429, "the count of the right day is there again");
    let leased = "ratelimit_shared_decisions_total{decided_by=\"lease\"}";
    let before = server.metric(leased);
    until("blocks are leased again", || {
        (0..20).for_each(|_| assert_eq!(check(&server, "blocks").0, 200));
        (server.metric(leased) > before).then_some(())
    });
}

#[test]
fn a_jump_that_redis_shows_too_is_followed_at_once_and_back() {
    let wall_time = WallTime::new();
    let redis = RedisLaunch::redis().wall_time(&wall_time).start();
    let store = format!("redis://{}", redis.address());
    let server = launch(&wall_time, SHARED).flag("store", &store).flag("store-deadline", "10s").start();
    follows_to_the_next_day_and_back(&server, &wall_time, &["shared", "local"]);
}

#[test]
fn a_jump_without_another_clock_is_followed_after_a_while_and_back() {
    let wall_time = WallTime::new();
    let server = launch(&wall_time, RULES)
        .flag("database", "sqlite:data/tollgate.db")
        .flag("clock-jump-delay", "3s")
        .start();
    follows_to_the_next_day_and_back(&server, &wall_time, &["durable", "local"]);
    until_seen(&server, "jumped");
    server.wait_for_log("wall time has jumped");
    assert_eq!(events(&server, "jumped"), 2, "each was noticed before it was followed");
    assert_eq!(check(&server, "durable").0, 429, "the count of the right day is there again");
}
