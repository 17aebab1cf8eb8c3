//! A ring of real nodes that know nothing of each other.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::collections::HashMap;

use common::{PATIENCE, address, ask, bucket, connect, fleet_with, remaining, started, take, until};
use tollgate_redis::{Address, Settings, SettingsError};
use tollgate_store::authority::Failure;
use tollgate_testkit::real::redis::RedisServer;

fn text(servers: &[RedisServer]) -> String {
    let nodes: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    format!("redis+ring://{}", nodes.join(","))
}

fn servers(count: usize) -> Vec<RedisServer> {
    (0..count).map(|_| RedisServer::start()).collect()
}

fn keys(server: &RedisServer) -> i64 {
    server.client().run("DBSIZE").integer()
}

#[tokio::test]
async fn all_processes_agree_on_who_keeps_a_key() {
    let (mut servers, limit) = (servers(3), bucket(100));
    let one = connect(&text(&servers)).await;
    let questions = (0..300).map(|number| (take(number, &limit), None));
    assert!(one.ask_all(questions, PATIENCE).await.iter().all(Result::is_ok));
    let kept: Vec<i64> = servers.iter().map(keys).collect();
    // One of them also keeps the list of the nodes, and since when there is one.
    assert!(kept.iter().sum::<i64>() <= 302 && kept.iter().all(|kept| *kept > 50), "{kept:?}");
    servers.reverse();
    let other = connect(&text(&servers)).await;
    for number in 0..300 {
        assert_eq!(remaining(&other, number, &limit).await, 99);
    }
}

#[tokio::test]
async fn leases_come_back_to_who_granted_them() {
    let (servers, limit) = (servers(3), bucket(100));
    let (one, other) = (connect(&text(&servers)).await, connect(&text(&servers)).await);
    for number in 0..20 {
        let rest = common::lease(&one, number, &limit).await;
        assert_eq!(remaining(&other, number, &limit).await, 50);
        common::check_returned_once(&one, rest).await;
        assert_eq!(remaining(&other, number, &limit).await, 99);
    }
}

#[tokio::test]
async fn every_thread_knows_who_keeps_a_key() {
    let (servers, limit) = (servers(3), bucket(100));
    let authority = connect(&text(&servers)).await;
    let mut kept: HashMap<_, Vec<u64>> = HashMap::new();
    for number in 0..60 {
        let shard = authority.fleet().shard_of(take(number, &limit).key, None).unwrap();
        kept.entry(shard).or_default().push(number);
    }
    assert_eq!(kept.len(), 3);
    for numbers in kept.values() {
        for server in &servers {
            server.client().run("FLUSHDB");
        }
        let questions = numbers.iter().map(|&number| (take(number, &limit), None));
        assert!(authority.ask_all(questions, PATIENCE).await.iter().all(Result::is_ok));
        // Another one may keep the list of the nodes, and since when there is one.
        let full = servers.iter().filter(|server| keys(server) > 2).count();
        assert_eq!(full, 1, "one node has all of them");
    }
}

#[tokio::test]
async fn one_lost_node_affects_only_its_keys() {
    let (mut servers, limit) = (servers(3), bucket(1_000));
    let authority = connect(&text(&servers)).await;
    servers[1].kill();
    until("its breaker opens", async || {
        let answers = authority.ask_all((0..60).map(|number| (take(number, &limit), None)), PATIENCE).await;
        let failed = answers.iter().filter(|answer| answer.is_err()).count();
        assert!((5..=40).contains(&failed), "{failed} of 60 failed");
        answers.contains(&Err(Failure::NotAsked)).then_some(())
    })
    .await;
    let stats = authority.fleet().stats();
    let open: Vec<_> =
        stats.iter().filter(|stats| stats.breakers_open > 0).map(|stats| &stats.name).collect();
    assert_eq!(open, [&servers[1].address().to_string()]);
}

#[tokio::test]
async fn who_goes_away_between_two_answers_keeps_nothing() {
    let (servers, limit) = (servers(2), bucket(1_000));
    let authority = connect(&text(&servers)).await;
    servers[1].freeze();
    let questions: Vec<_> = (0..20).map(|number| (take(number, &limit), None)).collect();
    let asked = tokio::spawn({
        let authority = authority.clone();
        async move { authority.ask_all(questions, PATIENCE).await }
    });
    let first = servers[0].address().to_string();
    until("the first has answered", async || {
        let stats = authority.fleet().stats();
        let first = stats.iter().find(|stats| stats.name == first)?;
        (first.round_trips.iter().sum::<u64>() > 0).then_some(())
    })
    .await;
    asked.abort();
    assert!(asked.await.is_err(), "the second node has answered");
    servers[1].thaw();
    for number in 0..20 {
        until("it is given back", async || {
            (remaining(&authority, number, &limit).await == 1_000).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn what_is_pinned_is_kept_on_a_node_of_its_own() {
    let (servers, own, limit) = (servers(2), RedisServer::start(), bucket(100));
    let mut settings = Settings::new(address(&text(&servers)));
    settings.pins = vec![
        ("big".to_owned(), own.address().to_string().parse().unwrap()),
        ("second".to_owned(), servers[1].address().to_string().parse().unwrap()),
    ];
    let authority = started(&fleet_with(settings)).await;
    let big = authority.fleet().pin("big");
    assert!(big.is_some() && authority.fleet().pin("small").is_none());
    for number in 0..50 {
        assert!(authority.ask(take(number, &limit), big, PATIENCE).await.is_ok());
    }
    assert_eq!(keys(&own), 50);
    let second = authority.fleet().pin("second");
    let before = keys(&servers[0]);
    for number in 0..20 {
        assert!(authority.ask(take(number, &limit), second, PATIENCE).await.is_ok());
    }
    assert_eq!(keys(&servers[0]), before);
    assert!(ask(&authority, take(1, &limit)).await.is_ok());
}

#[test]
fn only_a_ring_has_pins() {
    let one: Address = address("redis://h");
    let mut settings = Settings::new(one);
    settings.pins = vec![("big".to_owned(), "h2".parse().unwrap())];
    let made = tollgate_redis::Fleet::new(settings, std::sync::Arc::default());
    assert_eq!(made.err(), Some(SettingsError::PinsWithoutRing));
}
