//! The way to Redis is slow, or breaks.

use std::time::Duration;

use tollgate_testkit::real::Detour;
use tollgate_testkit::real::redis::RedisServer;

use crate::scene::launch;
use crate::{CLOSED, LOCAL, OPEN, Scene};

const SUBJECTS: [crate::load::Subject; 3] = [OPEN, CLOSED, LOCAL];

/// Answers that are late, but not too late, change nothing.
fn check_delay(delay: Duration) {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    // A question may have to wait for the flight before its own, so it takes up to two round trips.
    let launch = launch(&format!("redis://{}", detour.address())).flag("store-deadline", "1s");
    let mut scene = Scene::of(launch, &SUBJECTS);
    detour.delay(delay);
    scene.check_exact();
    assert_eq!(scene.openings(), 0);
    scene.check_counted();
}

#[test]
fn two_milliseconds_more_change_nothing() {
    check_delay(Duration::from_millis(2));
}

#[test]
fn fifty_milliseconds_more_change_nothing_within_the_deadline() {
    check_delay(Duration::from_millis(50));
}

#[test]
fn what_comes_after_the_deadline_is_given_back() {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    let mut scene = Scene::start(&format!("redis://{}", detour.address()));
    detour.delay(Duration::from_millis(400));
    scene.load.pass(5); // Those that were on their way.
    scene.check_away();
    detour.delay(Duration::ZERO);
    scene.check_recovers();
    assert!(scene.metric("ratelimit_redis_late_grants_total", "") > 0, "nothing was granted late");
    scene.check_counted();
}

#[test]
fn connections_that_are_reset_charge_nobody_twice() {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    let mut scene = Scene::start(&format!("redis://{}", detour.address()));
    detour.lose_every(Some(20));
    let rounds = scene.load.pass(200);
    assert_eq!(scene.load.admitted(&rounds, OPEN), 200, "open rules admit");
    assert!(scene.load.admitted(&rounds, CLOSED) > 0, "nothing was admitted between resets");
    assert!(detour.lost() > 2, "nothing was lost");
    detour.lose_every(None);
    scene.check_recovers();
    scene.check_counted_at_least();
}

#[test]
fn a_question_whose_answer_is_lost_is_not_asked_again() {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    let mut scene = Scene::of(launch(&format!("redis://{}", detour.address())), &[CLOSED]);
    scene.load.finish();
    for (key, lost) in [("carl", 1), ("dora", 2)] {
        let connections = detour.lost();
        detour.lose_every(Some(1));
        let reply = scene.ask(("closed", key));
        assert_eq!((reply.status, reply.the("x-tollgate-reason")), (503, "fail_closed: out of reach"));
        assert!(detour.lost() > connections, "{lost}: no answer was lost");
        detour.lose_every(None);
        scene.check_reached();
        assert_eq!(scene.counted(("closed", key)), 1, "asked twice, or never");
    }
}
