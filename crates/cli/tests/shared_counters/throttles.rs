//! Callers that bring their own numbers.

use tollgate_testkit::real::redis::{RedisClient, RedisServer, Reply};

use crate::launch;

#[test]
fn numbers_that_cannot_be_shared_are_told_of() {
    let redis = RedisServer::start();
    let server =
        launch("policies: {p: {requests: 1, period: 1h}}", &format!("redis://{}", redis.address())).start();
    let mut client = RedisClient::connect(server.resp()).unwrap();
    let mut throttle = |count: u64| {
        let Reply::Array(answer) = client.run(&format!("CL.THROTTLE k 0 {count} 1")) else {
            panic!("no answer")
        };
        answer[1].integer()
    };
    assert_eq!((throttle(2_000_000), throttle(3_000_000)), (1, 1));
    let said = "CL.THROTTLE was called with numbers that are too large for a count that is shared";
    server.wait_for_log(said);
    assert_eq!(server.logs().matches(said).count(), 1, "{}", server.logs());
    let by_redis = "ratelimit_shared_decisions_total{decided_by=\"authority\"}";
    assert_eq!(server.metric(by_redis), 0);
    assert_eq!(throttle(1_000_000), 1);
    assert_eq!(server.metric(by_redis), 1);
}

#[test]
fn a_call_that_only_asks_is_no_decision() {
    let redis = RedisServer::start();
    let rules = "policies: {p: {requests: 1, period: 1h}}";
    let server = launch(rules, &format!("redis://{}", redis.address())).start();
    let mut client = RedisClient::connect(server.resp()).unwrap();
    for (quantity, decisions) in [(0, 0), (1, 1), (0, 1)] {
        let reply = client.run(&format!("CL.THROTTLE k 4 1 60 {quantity}"));
        assert!(matches!(reply, Reply::Array(_)), "{reply:?}");
        let by_redis = server.metric("ratelimit_shared_decisions_total{decided_by=\"authority\"}");
        assert_eq!(by_redis, decisions, "after a quantity of {quantity}");
    }
}
