//! Denials that a server remembers, so that it need not ask Redis again.

use serde_json::{Value, json};
use tollgate_testkit::real::redis::RedisServer;

use crate::launch;

#[test]
fn a_remembered_denial_promises_nothing_to_a_larger_cost() {
    let redis = RedisServer::start();
    // A unit comes back every 10 s.
    let rules = "policies: {p: {requests: 10, period: 100s, burst: 10}}";
    let server = launch(rules, &format!("redis://{}", redis.address())).start();
    let check = |cost: u64| {
        let reply = server.post("/v1/check", &json!({"policy": "p", "key": "k", "cost": cost}));
        let said: Value = serde_json::from_str(&reply.body).unwrap();
        (reply.status, said["retry_after"].as_f64())
    };
    assert_eq!(check(10).0, 200);
    for _ in 0..3 {
        let (status, retry_after) = check(1);
        assert!(status == 429 && retry_after.is_some_and(|seconds| seconds <= 10.0), "{retry_after:?}");
    }
    let (status, retry_after) = check(10);
    assert!(status == 429 && retry_after.is_some_and(|seconds| seconds > 50.0), "{retry_after:?}");
}
