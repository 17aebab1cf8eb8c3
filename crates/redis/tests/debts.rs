//! What has to be given back while Redis cannot take it: it is, later, and once.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{
    address, ask, bucket, connect, fleet_with, question, remaining, started, take, try_remaining, until,
};
use tokio::time::sleep;
use tollgate_core::{Cost, SharedLimit, Span};
use tollgate_redis::{Authority, Settings};
use tollgate_store::authority::{Act, Grant, Question};
use tollgate_testkit::real::Detour;
use tollgate_testkit::real::redis::{RedisClient, RedisLaunch, RedisServer, Reply};

const UNITS: u64 = 1_000;

fn give_back(grant: &Grant, limit: &Arc<SharedLimit>, units: u64) -> Question {
    question(1, limit, Act::GiveBack { units, counted_at: grant.at, undoes: true })
}

/// Takes five units, and gives them back while Redis is sick: from `sicken` on it says that it cannot, or cannot be reached.
async fn check(
    server: &RedisServer,
    sicken: impl FnOnce(&mut RedisClient),
    heal: impl FnOnce(&mut RedisClient),
) {
    let (authority, limit) = (connect(&format!("redis://{}", server.address())).await, bucket(UNITS));
    let five = question(1, &limit, Act::Take(Cost::new(5)));
    let grant = ask(&authority, five).await.unwrap();
    let mut client = server.client();
    sicken(&mut client);
    until("it cannot be asked", async || ask(&authority, take(2, &limit)).await.err()).await;
    let failed = |authority: &Authority| authority.fleet().stats()[0].failures.iter().sum::<u64>();
    let before = failed(&authority);
    authority.send_back([(give_back(&grant, &limit, 5), None)]);
    until("it fails again, or is not asked", async || {
        let _ = ask(&authority, take(2, &limit)).await;
        (failed(&authority) > before + 3).then_some(())
    })
    .await;
    heal(&mut client);
    until("it is given back", async || {
        (try_remaining(&authority, 1, &limit).await == Ok(UNITS)).then_some(())
    })
    .await;
}

fn run(client: &mut RedisClient, command: &str) {
    assert!(!matches!(client.run(command), Reply::Error(_)), "{command}");
}

#[tokio::test]
async fn what_a_busy_server_refuses_is_given_back_later() {
    let server = RedisLaunch::redis().setting("busy-reply-threshold 50").start();
    let mut blocker = server.client();
    let block = |_: &mut RedisClient| {
        blocker.send(&[b"EVAL", b"while true do end", b"0"]).unwrap();
    };
    check(&server, block, |client| run(client, "SCRIPT KILL")).await;
}

#[tokio::test]
async fn nothing_is_leased_to_who_does_not_wait_any_more() {
    let server = RedisLaunch::redis().setting("busy-reply-threshold 50").start();
    let authority = connect(&format!("redis://{}", server.address())).await;
    let (limit, mut blocker) = (bucket(UNITS), server.client());
    blocker.send(&[b"EVAL", b"while true do end", b"0"]).unwrap();
    until("it cannot be asked", async || {
        let asked = authority.ask(take(2, &limit), None, Duration::from_millis(10)).await;
        asked.err()
    })
    .await;
    for number in 0..20 {
        let act = Act::Lease { units: 5, nodes: 1, number, life: Span::from_ticks(10_000_000_000) };
        let asked = authority.ask(question(1, &limit, act), None, Duration::from_millis(10)).await;
        assert!(asked.is_err());
    }
    run(&mut server.client(), "SCRIPT KILL");
    until("it answers", async || try_remaining(&authority, 2, &limit).await.ok()).await;
    for _ in 0..50 {
        sleep(Duration::from_millis(20)).await;
        let left = until("it answers", async || try_remaining(&authority, 1, &limit).await.ok()).await;
        assert_eq!(left, UNITS, "nobody would give it back");
    }
}

#[tokio::test]
async fn what_a_loading_server_refuses_is_given_back_later() {
    // It hears others after each key that it loads, and takes its time over that.
    let settings =
        ["enable-debug-command yes", "key-load-delay 3000", "loading-process-events-interval-bytes 1024"];
    let launch = settings.into_iter().fold(RedisLaunch::redis(), RedisLaunch::setting);
    let server = launch.start();
    let mut loader = server.client();
    run(&mut loader, "DEBUG POPULATE 500 key 1024");
    let load = |client: &mut RedisClient| {
        loader.send(&[b"DEBUG", b"RELOAD"]).unwrap();
        let is_loading =
            |reply: Reply| matches!(reply, Reply::Error(message) if message.starts_with("LOADING"));
        while !is_loading(client.run("GET key:1")) {}
    };
    check(&server, load, |_| ()).await;
    assert_eq!(loader.receive().unwrap(), Reply::Simple("OK".to_owned()));
}

#[tokio::test]
async fn what_a_replica_refuses_is_given_back_to_the_master() {
    let server = RedisServer::start();
    let demote = |client: &mut RedisClient| run(client, "REPLICAOF 127.0.0.1 1");
    check(&server, demote, |client| run(client, "REPLICAOF NO ONE")).await;
}

#[tokio::test]
async fn what_cannot_be_sent_is_given_back_later() {
    let server = RedisServer::start();
    let shut_out = |client: &mut RedisClient| {
        run(client, "ACL SETUSER default resetpass >other");
        run(client, "CLIENT KILL TYPE normal SKIPME yes");
    };
    check(&server, shut_out, |client| run(client, "ACL SETUSER default nopass")).await;
}

/// Three questions, each on its way to a server that does not answer: with one that is there already, no more may be in the air.
async fn fill_air(authority: &Authority, limit: &Arc<SharedLimit>) {
    let before = authority.fleet().stats()[0].flights;
    for number in 1..=3 {
        let (asking, limit) = (authority.clone(), Arc::clone(limit));
        tokio::spawn(async move { ask(&asking, take(100 + number, &limit)).await });
        until("it flies", async || (authority.fleet().stats()[0].flights == before + number).then_some(()))
            .await;
    }
}

#[tokio::test]
async fn of_a_connection_that_breaks_only_what_was_not_sent_is_told_again() {
    let server = RedisServer::start();
    let way = Detour::to(server.address());
    // Nothing else is said, so that it is seen what is.
    let settings =
        Settings { nodes: Some(1), ..Settings::new(address(&format!("redis://{}", way.address()))) };
    let (authority, limit) = (started(&fleet_with(settings)).await, bucket(UNITS));
    let ten = question(1, &limit, Act::Take(Cost::new(10)));
    let grant = ask(&authority, ten).await.unwrap();
    let other = ask(&authority, question(2, &limit, Act::Take(Cost::new(10)))).await.unwrap();
    server.freeze();
    // Sent, and not answered: whether it is done is not known.
    let flights = authority.fleet().stats()[0].flights;
    authority.send_back([(give_back(&grant, &limit, 3), None)]);
    until("it flies", async || (authority.fleet().stats()[0].flights == flights + 1).then_some(())).await;
    // Behind as much as may be in the air.
    fill_air(&authority, &limit).await;
    let waiting = question(2, &limit, Act::GiveBack { units: 3, counted_at: other.at, undoes: true });
    authority.send_back([(waiting, None)]);
    way.reset();
    until("the connection is known to be broken", async || {
        (authority.fleet().stats()[0].breaks > 0).then_some(())
    })
    .await;
    server.thaw();
    until("what was not sent is given back", async || {
        (try_remaining(&authority, 2, &limit).await == Ok(UNITS - 7)).then_some(())
    })
    .await;
    let left = remaining(&authority, 1, &limit).await;
    assert!(left == UNITS - 10 || left == UNITS - 7, "given back twice: {left}");
    for number in 101..=103 {
        let left = remaining(&authority, number, &limit).await;
        assert!(left >= UNITS - 1, "asked twice: {left}");
    }
}
