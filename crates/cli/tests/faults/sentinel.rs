//! A master whose replica takes over, because sentinels say so.

use tollgate_testkit::real::redis::{RedisSentinel, RedisServer};

use crate::{CLOSED, Consistency, Scene, played};

played! {
    the_replica_that_takes_over_is_asked_and_remembers
}

fn the_replica_that_takes_over_is_asked_and_remembers(consistency: Consistency) {
    let mut servers = RedisSentinel::start();
    let mut scene = Scene::start(consistency, &servers.address());
    let subject = ("closed", "carl");
    for _ in 0..5 {
        assert_eq!(scene.ask(subject).status, 200);
    }
    let known = scene.counted(CLOSED);
    servers.master.wait_for_replica("waited-for");
    // Nobody takes over before it was seen what becomes of requests meanwhile.
    servers.sentinels.iter().for_each(RedisServer::freeze);
    servers.master.kill();
    scene.load.pass(1); // What was on its way.
    scene.check_away();
    servers.sentinels.iter().for_each(RedisServer::thaw);
    servers.wait_for_failover();
    scene.check_recovers();
    scene.wait_for_count(subject, &(5..=5));
    scene.check_taken_over(CLOSED, known);
}
