//! The way to Redis is slow, or breaks.

use std::time::Duration;

use tollgate_testkit::real::Detour;
use tollgate_testkit::real::redis::RedisServer;

use crate::{Consistency, OPEN, Scene, played};

played! {
    two_milliseconds_more_change_nothing
    fifty_milliseconds_more_change_nothing_within_the_deadline
    what_comes_after_the_deadline_is_given_back
    a_way_that_falls_silent_is_left_for_another
    connections_that_are_reset_charge_nobody_twice
    a_question_whose_answer_is_lost_is_not_asked_again
}

/// Answers that are late, but not too late, change nothing.
fn check_delay(consistency: Consistency, delay: Duration) {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    let mut scene = Scene::start(consistency, &format!("redis://{}", detour.address()));
    detour.delay(delay);
    scene.check_well();
    assert_eq!(scene.openings(), 0);
    scene.check_counted();
}

fn two_milliseconds_more_change_nothing(consistency: Consistency) {
    check_delay(consistency, Duration::from_millis(2));
}

fn fifty_milliseconds_more_change_nothing_within_the_deadline(consistency: Consistency) {
    check_delay(consistency, Duration::from_millis(50));
}

fn what_comes_after_the_deadline_is_given_back(consistency: Consistency) {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    let mut scene = Scene::impatient(consistency, &format!("redis://{}", detour.address()));
    detour.delay(Duration::from_millis(1_500));
    scene.load.pass(5); // Those that were on their way.
    scene.check_away();
    detour.delay(Duration::ZERO);
    scene.check_recovers();
    let late = scene.metric("ratelimit_redis_late_grants_total", "");
    assert!(late > 3, "{late} were granted late: too few to be told from a rounding");
    scene.check_counted();
}

fn a_way_that_falls_silent_is_left_for_another(consistency: Consistency) {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    let mut scene = Scene::impatient(consistency, &format!("redis://{}", detour.address()));
    let first = scene.load.pass(1).start;
    detour.silence();
    // Redis itself is well, so nobody has to do anything.
    scene.check_recovers();
    let rounds = first..scene.load.pass(1).end;
    assert_eq!(scene.load.admitted(&rounds, OPEN), rounds.len() as u64, "open rules admit");
    scene.check_counted_at_least();
}

fn connections_that_are_reset_charge_nobody_twice(consistency: Consistency) {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    let mut scene = Scene::start(consistency, &format!("redis://{}", detour.address()));
    // Every question has a key of its own, so that each of them is seen in the counts.
    let keys: Vec<&'static str> = (0..60).map(|number| &*format!("key-{number}").leak()).collect();
    detour.lose_every(Some(8));
    let first = scene.load.pass(1).start;
    let is_admitted = |key: &&'static str| scene.ask(("closed", *key)).status == 200;
    let (admitted, denied): (Vec<&str>, Vec<&str>) = keys.into_iter().partition(is_admitted);
    let rounds = first..scene.load.pass(50).end;
    assert!(detour.lost() > 2, "nothing was lost");
    detour.lose_every(None);
    scene.check_recovers();
    assert_eq!(scene.load.admitted(&rounds, OPEN), rounds.len() as u64, "open rules admit");
    for key in &admitted {
        assert_eq!(scene.counted(("closed", *key)), 1, "{key} was admitted once");
    }
    for key in &denied {
        assert!(scene.counted(("closed", *key)) <= 1, "{key} was asked for once");
    }
    assert!(
        !admitted.is_empty() && !denied.is_empty(),
        "{} admitted, {} denied",
        admitted.len(),
        denied.len()
    );
    scene.check_counted_at_least();
}

fn a_question_whose_answer_is_lost_is_not_asked_again(consistency: Consistency) {
    let redis = RedisServer::start();
    let detour = Detour::to(redis.address());
    let mut scene = Scene::start(consistency, &format!("redis://{}", detour.address()));
    scene.load.finish();
    for key in ["carl", "dora", "emil", "fred"] {
        detour.lose_next();
        let reply = scene.ask(("closed", key));
        assert_eq!(
            (reply.status, reply.the("x-tollgate-reason")),
            (503, "fail_closed: the connection broke")
        );
        scene.check_reached();
        assert_eq!(scene.counted(("closed", key)), 1, "asked twice, or never");
    }
    assert_eq!(detour.lost(), 4);
}
