//! The one node that counts everything dies, comes back, or stands still.

use tollgate_testkit::real::redis::{RedisLaunch, RedisServer, Reply};
use tollgate_testkit::real::{Proxy, Signal};

use crate::scene::SHARE;
use crate::{Consistency, Scene, played};

played! {
    rules_decide_while_a_node_is_dead_and_it_does_when_it_is_back
    what_a_frozen_node_grants_too_late_is_given_back
    a_server_that_starts_without_its_node_finds_it_later
    a_server_stops_in_good_order_while_its_node_stands_still
}

fn rules_decide_while_a_node_is_dead_and_it_does_when_it_is_back(consistency: Consistency) {
    let mut redis = RedisServer::start();
    let mut scene = Scene::start(consistency, &format!("redis://{}", redis.address()));
    redis.kill();
    scene.check_away();
    redis.restart();
    scene.check_recovers();
    scene.load.finish();
}

fn what_a_frozen_node_grants_too_late_is_given_back(consistency: Consistency) {
    let redis = RedisServer::start();
    let mut scene = Scene::impatient(consistency, &format!("redis://{}", redis.address()));
    redis.freeze();
    scene.check_away();
    redis.thaw();
    scene.check_recovers();
    assert!(scene.metric("ratelimit_redis_late_grants_total", "") > 0, "nothing was granted late");
    scene.check_counted();
}

fn a_server_that_starts_without_its_node_finds_it_later(consistency: Consistency) {
    let address = Proxy::free_address();
    let mut scene = Scene::without_store(consistency, &format!("redis://{address}"));
    scene.check_away();
    let _redis = RedisLaunch::redis().at(address).start();
    scene.check_recovers();
    scene.check_counted();
}

/// A limit that a call brings along is in no rule that could say that it is leased.
#[test]
fn calls_that_bring_a_limit_along_spend_the_share_of_the_node() {
    let mut redis = RedisServer::start();
    let mut scene = Scene::start(Consistency::Exact, &format!("redis://{}", redis.address()));
    let mut client = scene.resp();
    // A bucket as large as those of the rules.
    let mut admitted = |times: u64| {
        let is_admitted = |_: &u64| match client.run("CL.THROTTLE ann 9999 1 3600") {
            Reply::Array(answer) => answer[0].integer() == 0,
            other => panic!("no answer: {other:?}"),
        };
        (0..times).filter(is_admitted).count() as u64
    };
    assert_eq!(admitted(30), 30);
    redis.kill();
    assert_eq!(admitted(30), SHARE);
    redis.restart();
    scene.check_recovers();
    assert_eq!(admitted(30), 30);
    scene.load.finish();
}

fn a_server_stops_in_good_order_while_its_node_stands_still(consistency: Consistency) {
    let redis = RedisServer::start();
    let mut scene = Scene::impatient(consistency, &format!("redis://{}", redis.address()));
    redis.freeze();
    scene.load.pass(10);
    scene.load.finish();
    scene.tollgate.signal(Signal::TERM);
    assert_eq!(scene.tollgate.wait(), Some(0));
    assert!(!scene.tollgate.logs().contains("still open"), "{}", scene.tollgate.logs());
    redis.thaw();
}
