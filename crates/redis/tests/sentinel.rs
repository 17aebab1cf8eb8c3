//! A real master, its replica and three sentinels.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use common::{address, ask, bucket, connect, fleet_with, started, take, try_remaining, until};
use tollgate_redis::{Authority, Credentials, Secret, Settings};
use tollgate_store::authority::Failure;
use tollgate_testkit::real::redis::{RedisSentinel, Reply};

const UNITS: u64 = 1_000;

async fn five_taken(servers: &RedisSentinel) -> Authority {
    let authority = connect(&servers.address()).await;
    for _ in 0..5 {
        assert!(ask(&authority, take(1, &bucket(UNITS))).await.unwrap().decision.is_allowed());
    }
    assert!(servers.master.client().run("DBSIZE").integer() > 0);
    until("the replica knows", async || (servers.replica.client().run("DBSIZE").integer() > 0).then_some(()))
        .await;
    authority
}

/// The new master answers, and knows what was counted.
async fn check_resumed(servers: &RedisSentinel, authority: &Authority) {
    let left =
        until("a master answers", async || try_remaining(authority, 1, &bucket(UNITS)).await.ok()).await;
    assert_eq!(left, UNITS - 5);
    servers.replica.client().run("FLUSHALL");
    until("it is the new master", async || {
        (try_remaining(authority, 1, &bucket(UNITS)).await == Ok(UNITS)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_new_master_is_asked_after_a_failover_in_good_order() {
    let servers = RedisSentinel::start();
    let authority = five_taken(&servers).await;
    servers.fail_over();
    check_resumed(&servers, &authority).await;
}

#[tokio::test]
async fn a_lease_comes_back_to_the_new_master_once() {
    let servers = RedisSentinel::start();
    let authority = five_taken(&servers).await;
    let rest = common::lease(&authority, 2, &bucket(UNITS)).await;
    let other = common::lease(&authority, 3, &bucket(UNITS)).await;
    common::check_returned_once(&authority, other.clone()).await;
    until("the replica knows", async || {
        let keys = || servers.master.client().run("DBSIZE").integer();
        (servers.replica.client().run("DBSIZE").integer() == keys()).then_some(())
    })
    .await;
    servers.fail_over();
    until("the old one is none any more", async || {
        let Reply::Array(role) = servers.master.client().run("ROLE") else { return None };
        (role[0].text() == "slave").then_some(())
    })
    .await;
    until("a master answers", async || try_remaining(&authority, 2, &bucket(UNITS)).await.ok()).await;
    common::check_returned_once(&authority, rest).await;
    assert_eq!(try_remaining(&authority, 2, &bucket(UNITS)).await, Ok(UNITS - 1));
    assert!(!ask(&authority, other).await.unwrap().decision.is_allowed(), "it came back to the old one");
}

#[tokio::test]
async fn the_new_master_is_asked_when_the_old_one_is_lost() {
    let mut servers = RedisSentinel::start();
    let authority = five_taken(&servers).await;
    servers.master.kill();
    servers.wait_for_failover();
    check_resumed(&servers, &authority).await;
}

#[tokio::test]
async fn the_new_master_is_asked_when_the_old_one_falls_silent() {
    let servers = RedisSentinel::start();
    let authority = five_taken(&servers).await;
    servers.master.freeze();
    let asked = tokio::spawn({
        let authority = authority.clone();
        async move { ask(&authority, take(1, &bucket(UNITS))).await }
    });
    until("a question is on its way", async || (authority.fleet().stats()[0].flights > 5).then_some(()))
        .await;
    servers.wait_for_failover();
    // The connection to the old one is given up, long before its silence would be a reason.
    assert_eq!(asked.await.unwrap(), Err(Failure::Lost));
    check_resumed(&servers, &authority).await;
}

#[tokio::test]
async fn sentinels_have_passwords_of_their_own() {
    let servers = RedisSentinel::start();
    for sentinel in &servers.sentinels {
        sentinel.client().run("ACL SETUSER default on >watch");
    }
    let mut settings = Settings::new(address(&servers.address()));
    let stranger = Authority::start(&fleet_with(settings.clone()));
    settings.sentinel_credentials = Credentials { user: None, password: Some(Secret::new("watch")) };
    let authority = started(&fleet_with(settings)).await;
    assert!(ask(&authority, take(1, &bucket(UNITS))).await.is_ok());
    until("the sentinels tell strangers nothing", async || {
        let answer = ask(&stranger, take(1, &bucket(UNITS))).await;
        assert!(answer.is_err(), "told");
        (answer == Err(Failure::Unreachable)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn users_with_the_rights_that_the_documents_name_are_enough() {
    let servers = RedisSentinel::start();
    let [rights, sentinel_rights] = common::documented_rights();
    for server in [&servers.master, &servers.replica] {
        common::add_user(server, &rights);
    }
    for sentinel in &servers.sentinels {
        common::add_user(sentinel, &sentinel_rights);
    }
    let user = Credentials { user: Some("tollgate".to_owned()), password: Some(Secret::new("s3cret")) };
    let mut settings = Settings::new(address(&common::as_user(&servers.address())));
    settings.sentinel_credentials = user;
    let authority = started(&fleet_with(settings)).await;
    assert!(ask(&authority, take(1, &bucket(UNITS))).await.is_ok());
    servers.fail_over();
    until("the new master is asked", async || {
        let _ = ask(&authority, take(2, &bucket(UNITS))).await;
        (authority.fleet().stats()[0].breaks > 0 && authority.ready(common::PATIENCE).await).then_some(())
    })
    .await;
}
