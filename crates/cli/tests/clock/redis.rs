//! The clock of Redis is set back: what was counted still counts, and no caller waits longer than its limit says.

use serde_json::{Value, json};
use tollgate_testkit::real::redis::{RedisLaunch, RedisServer};
use tollgate_testkit::real::{Launch, Tollgate, WallTime, until};

use crate::check;

const RULES: &str = "
policies:
  log: {requests: 3, period: 5s, algorithm: sliding_log, fail_mode: closed}
  jobs: {requests: 2, period: 5s, algorithm: concurrency, fail_mode: closed}
";
const PERIOD_S: f64 = 5.0;
const HOUR_S: i64 = 3_600;

fn start(wall_time: &WallTime) -> (RedisServer, Tollgate) {
    let redis = RedisLaunch::redis().wall_time(wall_time).start();
    let launch = Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", RULES);
    let launch = launch.flag("store", &format!("redis://{}", redis.address())).flag("store-deadline", "10s");
    let server = launch.start();
    (redis, server)
}

fn acquire(server: &Tollgate) -> Option<String> {
    let reply = server.post("/v1/acquire", &json!({"policy": "jobs", "key": "acme"}));
    serde_json::from_str::<Value>(&reply.body).unwrap()["lease"].as_str().map(str::to_owned)
}

fn release(server: &Tollgate, permit: &str) -> Value {
    serde_json::from_str(&server.post("/v1/release", &json!({"lease": permit})).body).unwrap()
}

#[test]
fn a_log_denies_for_one_period_at_most_when_the_clock_of_redis_is_set_back_by_an_hour() {
    let wall_time = WallTime::new();
    let (_redis, server) = start(&wall_time);
    (0..3).for_each(|_| assert_eq!(check(&server, "log").0, 200));
    assert_eq!(check(&server, "log").0, 429);
    wall_time.set(-HOUR_S);
    // The denial before is remembered until the log admits again; then Redis is asked.
    let (status, answer) = check(&server, "log");
    assert_eq!(status, 429, "what was taken still counts: {answer}");
    let longest = until("the log admits", || {
        let (status, answer) = check(&server, "log");
        let retry_after = answer["retry_after"].as_f64().unwrap_or(0.0);
        assert!(retry_after <= PERIOD_S, "{answer}");
        (status == 200).then_some(retry_after)
    });
    assert!(longest <= PERIOD_S);
    (0..2).for_each(|_| assert_eq!(check(&server, "log").0, 200));
    assert_eq!(check(&server, "log").0, 429, "three in five seconds, and no more");
}

#[test]
fn permits_end_after_the_longest_hold_when_the_clock_of_redis_is_set_back_by_an_hour() {
    let wall_time = WallTime::new();
    let (_redis, server) = start(&wall_time);
    let permits = [(); 2].map(|()| acquire(&server).unwrap());
    wall_time.set(-HOUR_S);
    assert_eq!(acquire(&server), None, "both are held");
    assert_eq!(release(&server, &permits[0]), json!({"released": true}));
    let third = acquire(&server).unwrap();
    assert_eq!(acquire(&server), None, "two are held again");
    until("a permit from before has ended", || acquire(&server));
    assert_eq!(release(&server, &permits[1]), json!({"released": false}), "it has ended");
    assert_ne!(third, permits[1]);
}
