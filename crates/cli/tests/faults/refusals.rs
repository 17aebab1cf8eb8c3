//! Redis answers, but that it cannot, will not, or may not.

use std::cell::RefCell;

use tollgate_testkit::real::redis::{RedisClient, RedisLaunch, RedisServer, Reply};
use tollgate_testkit::real::until;

use crate::scene::launch;
use crate::{CLOSED, Consistency, Scene, played};

played! {
    scripts_that_are_forgotten_are_told_again
    a_foreign_script_that_blocks_for_five_seconds_is_an_outage
    a_foreign_script_that_blocks_for_five_seconds_in_silence_is_an_outage
    a_full_memory_is_an_outage
    a_node_that_was_demoted_is_an_outage
    rights_that_are_taken_away_are_an_outage
    a_user_who_is_turned_out_is_an_outage
}

/// Redis refuses from the moment that `sicken` is over until `heal`.
fn check(
    consistency: Consistency,
    redis: &RedisServer,
    sicken: impl FnOnce(&mut RedisClient),
    heal: impl FnOnce(&mut RedisClient),
) {
    check_in(Scene::impatient(consistency, &format!("redis://{}", redis.address())), redis, sicken, heal);
}

fn check_in(
    mut scene: Scene,
    redis: &RedisServer,
    sicken: impl FnOnce(&mut RedisClient),
    heal: impl FnOnce(&mut RedisClient),
) {
    sicken(&mut redis.client());
    scene.load.pass(1); // What was on its way.
    scene.check_away();
    heal(&mut redis.client());
    scene.check_recovers();
    scene.check_counted();
}

fn run(client: &mut RedisClient, commands: &[&str]) {
    for command in commands {
        assert_eq!(client.run(command), Reply::Simple("OK".to_owned()), "{command}");
    }
}

fn scripts_that_are_forgotten_are_told_again(consistency: Consistency) {
    let redis = RedisServer::start();
    let mut scene = Scene::start(consistency, &format!("redis://{}", redis.address()));
    let mut client = redis.client();
    let first = scene.load.pass(1).start;
    for _ in 0..20 {
        run(&mut client, &["SCRIPT FLUSH"]);
        scene.load.pass(3);
    }
    let rounds = first..scene.load.pass(1).end;
    assert_eq!(scene.load.admitted(&rounds, CLOSED), rounds.len() as u64, "something was not asked");
    assert_eq!(scene.openings(), 0);
    scene.check_counted();
}

const BLOCK_FOR_5_S: &[u8] = b"
local function now()
  local time = redis.call('TIME')
  return time[1] + time[2] / 1000000
end
local ends = now() + 5
while now() < ends do end
";

/// Redis runs somebody's script for five seconds. After so many milliseconds it begins to say that it is busy.
fn check_blocked(consistency: Consistency, busy_reply_ms: u32, is_blocked: fn(&mut RedisClient)) {
    let redis = RedisLaunch::redis().setting(&format!("busy-reply-threshold {busy_reply_ms}")).start();
    let blocker = RefCell::new(redis.client());
    let block = |client: &mut RedisClient| {
        blocker.borrow_mut().send(&[b"EVAL", BLOCK_FOR_5_S, b"0"]).unwrap();
        is_blocked(client);
    };
    // Several questions, each of which may wait until its deadline, have to be over before the script is.
    let launch = launch(consistency, &format!("redis://{}", redis.address())).flag("store-deadline", "300ms");
    let scene = Scene::of(consistency, launch);
    // It ends by itself.
    check_in(scene, &redis, block, |_| assert_eq!(blocker.borrow_mut().receive().unwrap(), Reply::Nil));
}

fn a_foreign_script_that_blocks_for_five_seconds_is_an_outage(consistency: Consistency) {
    check_blocked(consistency, 200, |client| {
        until("the script runs", || {
            matches!(client.run("PING"), Reply::Error(message) if message.starts_with("BUSY")).then_some(())
        });
    });
}

fn a_foreign_script_that_blocks_for_five_seconds_in_silence_is_an_outage(consistency: Consistency) {
    check_blocked(consistency, 60_000, |_| ());
}

fn a_full_memory_is_an_outage(consistency: Consistency) {
    let redis = RedisServer::start();
    let fill = ["CONFIG SET maxmemory-policy noeviction", "CONFIG SET maxmemory 1"];
    check(
        consistency,
        &redis,
        |client| run(client, &fill),
        |client| run(client, &["CONFIG SET maxmemory 0"]),
    );
}

fn a_node_that_was_demoted_is_an_outage(consistency: Consistency) {
    let redis = RedisServer::start();
    let demote = ["REPLICAOF 127.0.0.1 1"];
    check(consistency, &redis, |client| run(client, &demote), |client| run(client, &["REPLICAOF NO ONE"]));
}

/// A Redis at which a user with a password may do what Tollgate does, and a server that is this user.
fn guarded(consistency: Consistency) -> (RedisServer, Scene) {
    let redis = RedisServer::start();
    run(&mut redis.client(), &["ACL SETUSER tollgate on >s3cret ~tollgate:* +@all -@admin"]);
    let launch = launch(consistency, &format!("redis://tollgate:s3cret@{}", redis.address()))
        .flag("log-level", "trace");
    (redis, Scene::of(consistency, launch))
}

fn check_revoked(consistency: Consistency, revoke: &[&str], restore: &[&str], said: &str) {
    let (redis, mut scene) = guarded(consistency);
    let mut client = redis.client();
    for command in revoke {
        assert!(!matches!(client.run(command), Reply::Error(_)), "{command}");
    }
    scene.load.pass(1); // What was on its way.
    scene.check_away();
    scene.tollgate.wait_for_log(said);
    run(&mut client, restore);
    scene.check_recovers();
    scene.check_counted_at_least();
    assert!(!scene.tollgate.logs().contains("s3cret"), "the password is in the logs");
}

fn rights_that_are_taken_away_are_an_outage(consistency: Consistency) {
    check_revoked(
        consistency,
        &["ACL SETUSER tollgate nocommands"],
        &["ACL SETUSER tollgate +@all -@admin"],
        "NOPERM",
    );
}

fn a_user_who_is_turned_out_is_an_outage(consistency: Consistency) {
    let revoke = ["ACL SETUSER tollgate off", "CLIENT KILL USER tollgate"];
    check_revoked(consistency, &revoke, &["ACL SETUSER tollgate on"], "WRONGPASS");
}
