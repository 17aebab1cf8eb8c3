//! A real Cluster: keys that move, nodes that are lost, nodes that take over.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{ask, bucket, connect, key, remaining, take, until};
use tollgate_core::SharedLimit;
use tollgate_redis::Authority;
use tollgate_store::authority::Failure;
use tollgate_store::authority::slots::slot_of;
use tollgate_testkit::real::redis::RedisCluster;

const UNITS: u64 = 10_000;

fn slot(number: u64) -> u16 {
    slot_of(format!("{:03x}", key(number).0 >> 116).as_bytes())
}

/// The first key that this master keeps.
fn key_of(cluster: &RedisCluster, master: usize) -> u64 {
    (0..10_000).find(|number| cluster.keeper(slot(*number)) == master).expect("keys are spread")
}

/// Takes so often, and is admitted every time.
async fn take_times(authority: &Authority, number: u64, limit: &Arc<SharedLimit>, times: u64) {
    for _ in 0..times {
        let grant = ask(authority, take(number, limit)).await.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(grant.decision.is_allowed());
    }
}

#[tokio::test]
async fn a_key_is_followed_where_it_moves() {
    let (cluster, limit) = (RedisCluster::start(3), bucket(UNITS));
    for master in &cluster.masters {
        common::add_user(master, &common::documented_rights()[0]);
    }
    let authority = connect(&common::as_user(&cluster.address())).await;
    let number = key_of(&cluster, 0);
    let slot = slot(number);
    let keeper = |number| authority.fleet().shard_of(take(number, &limit).key, None);
    let (keeper_before, other) = (keeper(number), keeper(key_of(&cluster, 1)));
    assert!(keeper_before.is_some() && other.is_some() && keeper_before != other);
    take_times(&authority, number, &limit, 5).await;

    cluster.begin_move(slot, 0, 1);
    take_times(&authority, number, &limit, 5).await;
    cluster.move_keys(slot, 0, 1);
    // Now the old keeper says for each call where to ask.
    take_times(&authority, number, &limit, 5).await;
    assert_eq!(remaining(&authority, number, &limit).await, UNITS - 15);
    cluster.end_move(slot, 1);
    // Now it says so for good.
    take_times(&authority, number, &limit, 5).await;
    assert_eq!(remaining(&authority, number, &limit).await, UNITS - 20);
    assert_eq!(keeper(number), other, "whoever asks knows it too");
    assert_eq!(cluster.masters[0].client().run("DBSIZE").integer(), 0, "it counted what is not its own");
}

#[tokio::test]
async fn a_lease_comes_back_where_its_key_has_moved() {
    let (cluster, limit) = (RedisCluster::start(3), bucket(UNITS));
    let authority = connect(&cluster.address()).await;
    let number = key_of(&cluster, 0);
    let rest = common::lease(&authority, number, &limit).await;
    cluster.begin_move(slot(number), 0, 1);
    cluster.move_keys(slot(number), 0, 1);
    common::check_returned_once(&authority, rest.clone()).await;
    cluster.end_move(slot(number), 1);
    assert_eq!(remaining(&authority, number, &limit).await, UNITS - 1);
    assert!(!ask(&authority, rest).await.unwrap().decision.is_allowed(), "it came back before");
}

#[tokio::test]
async fn slots_move_under_load_and_nothing_is_counted_twice() {
    const UNITS: u64 = 1 << 20; // More than are asked for meanwhile.
    let (cluster, limit) = (RedisCluster::start(3), bucket(UNITS));
    let authority = connect(&cluster.address()).await;
    let number = key_of(&cluster, 0);
    let is_over = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn({
        let (authority, limit, is_over) = (authority.clone(), Arc::clone(&limit), Arc::clone(&is_over));
        async move {
            let mut taken = 0;
            while !is_over.load(Ordering::Relaxed) {
                let asked = (0..16).map(|_| (take(number, &limit), None));
                for answer in authority.ask_all(asked, common::PATIENCE).await {
                    assert!(answer.unwrap_or_else(|failure| panic!("{failure}")).decision.is_allowed());
                    taken += 1;
                }
            }
            taken
        }
    });
    let moves = tokio::task::spawn_blocking(move || {
        let slot = slot(number);
        for (from, to) in [(0, 1), (1, 2), (2, 0), (0, 1)] {
            cluster.begin_move(slot, from, to);
            cluster.move_keys(slot, from, to);
            cluster.end_move(slot, to);
        }
        cluster
    });
    let _cluster = moves.await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    let taken = load.await.unwrap();
    assert_eq!(remaining(&authority, number, &limit).await, UNITS - taken);
}

#[tokio::test]
async fn a_replica_that_takes_over_in_good_order_is_asked() {
    let (cluster, limit) = (RedisCluster::with_replicas(3), bucket(UNITS));
    let authority = connect(&cluster.address()).await;
    let number = key_of(&cluster, 1);
    take_times(&authority, number, &limit, 5).await;
    cluster.fail_over(1);
    until("the new master answers", async || ask(&authority, take(number, &limit)).await.ok()).await;
    assert_eq!(remaining(&authority, number, &limit).await, UNITS - 6);
}

#[tokio::test]
async fn a_lost_master_is_replaced_and_the_others_do_not_notice() {
    let (mut cluster, limit) = (RedisCluster::with_replicas(3), bucket(UNITS));
    let authority = connect(&cluster.address()).await;
    let (lost, other) = (key_of(&cluster, 0), key_of(&cluster, 2));
    take_times(&authority, lost, &limit, 5).await;
    cluster.masters[0].kill();
    let mut failures = 0;
    until("the replica answers in its stead", async || {
        take_times(&authority, other, &limit, 1).await;
        let answer = ask(&authority, take(lost, &limit)).await;
        failures += usize::from(answer.is_err());
        answer.ok()
    })
    .await;
    assert!(failures > 0, "nobody noticed that a master was lost");
}

#[tokio::test]
async fn one_of_three_that_is_lost_for_good_affects_only_its_keys() {
    let (mut cluster, limit) = (RedisCluster::start(3), bucket(UNITS));
    let authority = connect(&cluster.address()).await;
    let (lost, other) = (key_of(&cluster, 0), key_of(&cluster, 2));
    cluster.masters[0].kill();
    until("its breaker opens", async || {
        take_times(&authority, other, &limit, 1).await;
        (ask(&authority, take(lost, &limit)).await == Err(Failure::NotAsked)).then_some(())
    })
    .await;
    take_times(&authority, other, &limit, 50).await;
}

#[tokio::test]
async fn a_master_that_falls_silent_is_replaced_and_the_others_do_not_notice() {
    let (cluster, limit) = (RedisCluster::with_replicas(3), bucket(UNITS));
    let authority = connect(&cluster.address()).await;
    let (lost, other) = (key_of(&cluster, 0), key_of(&cluster, 2));
    take_times(&authority, lost, &limit, 5).await;
    cluster.masters[0].freeze();
    let mut failures = Vec::new();
    until("the replica answers in its stead", async || {
        take_times(&authority, other, &limit, 1).await;
        let answer = authority.ask(take(lost, &limit), None, Duration::from_millis(5)).await;
        failures.extend(answer.err());
        answer.ok()
    })
    .await;
    assert_eq!(failures.first(), Some(&Failure::TimedOut));
    assert!(failures.contains(&Failure::NotAsked), "everybody has waited for it");
}

#[tokio::test]
async fn a_node_of_a_cluster_is_not_taken_for_one_node() {
    let (cluster, limit) = (RedisCluster::start(3), bucket(UNITS));
    let authority = connect(&format!("redis://{}", cluster.masters[0].address())).await;
    let elsewhere = key_of(&cluster, 1);
    assert_eq!(ask(&authority, take(elsewhere, &limit)).await, Err(Failure::Refused));
    assert!(ask(&authority, take(key_of(&cluster, 0), &limit)).await.is_ok());
}
