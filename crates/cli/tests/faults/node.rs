//! The one node that counts everything dies, comes back, or stands still.

use tollgate_testkit::real::redis::RedisServer;

use crate::Scene;

#[test]
fn rules_decide_while_a_node_is_dead_and_it_does_when_it_is_back() {
    let mut redis = RedisServer::start();
    let mut scene = Scene::start(&format!("redis://{}", redis.address()));
    redis.kill();
    scene.check_away();
    redis.restart();
    scene.check_recovers();
    scene.load.finish();
}

#[test]
fn what_a_frozen_node_grants_too_late_is_given_back() {
    let redis = RedisServer::start();
    let mut scene = Scene::start(&format!("redis://{}", redis.address()));
    redis.freeze();
    scene.check_away();
    redis.thaw();
    scene.check_recovers();
    assert!(scene.metric("ratelimit_redis_late_grants_total", "") > 0, "nothing was granted late");
    scene.check_counted();
}
