//! One real Redis, asked through the whole driver.
#![allow(clippy::expect_used, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{ask, bucket, connect, fleet, question, remaining, started, take, until};
use tollgate_core::{Concurrency, Cost, LeaseRest, Outcome, Span};
use tollgate_redis::Authority;
use tollgate_store::authority::{Act, Failure, OnceAct, OnceId};
use tollgate_testkit::real::redis::{RedisClient, RedisServer, Reply};

fn text(server: &RedisServer) -> String {
    format!("redis://{}", server.address())
}

/// How often a command was called.
fn calls(client: &mut RedisClient, command: &str) -> u64 {
    let stats = client.run("INFO commandstats").text();
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn takes_gives_back_and_resets() {
    let server = RedisServer::start();
    common::add_user(&server, &common::documented_rights()[0]);
    let (authority, limit) = (connect(&common::as_user(&text(&server))).await, bucket(3));
    let first = ask(&authority, take(1, &limit)).await.unwrap();
    assert!(first.decision.is_allowed());
    assert_eq!((first.decision.limit, first.decision.remaining), (3, 2));
    for _ in 0..2 {
        assert!(ask(&authority, take(1, &limit)).await.unwrap().decision.is_allowed());
    }
    let denied = ask(&authority, take(1, &limit)).await.unwrap().decision;
    assert!(
        matches!(denied.outcome, Outcome::NotNow { retry_after } if retry_after > Span::ZERO),
        "{denied:?}"
    );

    let back = Act::GiveBack { units: 2, counted_at: first.at, undoes: false };
    assert!(ask(&authority, question(1, &limit, back)).await.is_ok());
    assert_eq!(remaining(&authority, 1, &limit).await, 2);
    assert!(ask(&authority, take(1, &limit)).await.unwrap().decision.is_allowed(), "a denial was remembered");
    assert!(ask(&authority, question(1, &limit, Act::Reset)).await.is_ok());
    assert_eq!(remaining(&authority, 1, &limit).await, 3);
    assert_eq!(remaining(&authority, 2, &limit).await, 3);
}

#[tokio::test]
async fn what_has_an_id_counts_once() {
    let server = RedisServer::start();
    common::add_user(&server, &common::documented_rights()[0]);
    let address = common::as_user(&text(&server));
    let ([one, other], limit) = ([connect(&address).await, connect(&address).await], bucket(10));
    let id = OnceId { number: (1 << 63) - 1, fingerprint: (1 << 63) - 2 };
    let asked = |id, act| question(1, &limit, Act::Once(id, act));
    let take = OnceAct::Take(Cost::new(3));
    for (number, authority) in [&one, &other, &one].into_iter().enumerate() {
        let grant = ask(authority, asked(id, take)).await.unwrap();
        assert_eq!((grant.decision.is_allowed(), grant.decision.remaining), (true, 7));
        assert_eq!((grant.is_repeated, grant.is_conflict()), (number > 0, false));
    }
    let near = OnceId { fingerprint: id.fingerprint - 1, ..id };
    let other_request = ask(&other, asked(near, take)).await.unwrap();
    assert!(other_request.is_conflict() && !other_request.decision.is_allowed());
    for left in [7, 7, 10, 10] {
        ask(&one, asked(id, OnceAct::Undo { units: 3, undoes: false })).await.unwrap();
        assert_eq!(remaining(&one, 1, &limit).await, left);
    }
}

/// What Redis does for a request without an id is what it did before there were ids.
#[tokio::test]
async fn a_request_without_an_id_costs_no_command_more() {
    let server = RedisServer::start();
    let (authority, limit) = (connect(&text(&server)).await, bucket(100));
    let mut client = server.client();
    let counted = |client: &mut RedisClient| {
        ["evalsha", "time", "mget", "set", "del", "get"].map(|command| calls(client, command))
    };
    client.run("CONFIG RESETSTAT");
    for _ in 0..5 {
        ask(&authority, take(1, &limit)).await.unwrap();
    }
    assert_eq!(counted(&mut client), [5, 5, 5, 5, 0, 0]);
    assert_eq!(client.run("KEYS *:id:*"), Reply::Array(Vec::new()));
    let id = OnceId { number: 1, fingerprint: 1 };
    client.run("CONFIG RESETSTAT");
    ask(&authority, question(1, &limit, Act::Once(id, OnceAct::Take(Cost::ONE)))).await.unwrap();
    assert_eq!(
        counted(&mut client),
        [1, 1, 2, 2, 0, 0],
        "with one, it is looked up and written by the same script"
    );
}

#[tokio::test]
async fn a_grant_for_an_id_that_comes_too_late_is_undone_and_forgotten() {
    let server = RedisServer::start();
    let (authority, limit) = (connect(&text(&server)).await, bucket(10));
    let id = OnceId { number: 5, fingerprint: 6 };
    let once = || question(1, &limit, Act::Once(id, OnceAct::Take(Cost::new(3))));
    server.freeze();
    let failure = authority.ask(once(), None, Duration::from_millis(5)).await;
    assert_eq!(failure, Err(Failure::TimedOut));
    server.thaw();
    until("it is undone", async || {
        let exists = server.client().run("KEYS *:id:*");
        (exists == Reply::Array(Vec::new()) && remaining(&authority, 1, &limit).await == 10).then_some(())
    })
    .await;
    assert!(!ask(&authority, once()).await.unwrap().is_repeated);
}

#[tokio::test]
async fn leases_blocks_and_takes_back_what_is_left_once() {
    let server = RedisServer::start();
    let (authority, limit) = (connect(&text(&server)).await, bucket(10));
    let life = Span::from_ticks(10_000_000_000);
    let lease = |units, number| question(1, &limit, Act::Lease { units, nodes: 2, number, life });
    let first = ask(&authority, lease(8, 1)).await.unwrap();
    assert_eq!((first.leased, first.decision.remaining), (5, 5), "one of two nodes has half");
    let second = ask(&authority, lease(8, 2)).await.unwrap();
    assert_eq!((second.leased, second.decision.remaining), (2, 3));
    let deadline = limit.lease_deadline(0, first.at, life);
    let rest = LeaseRest { units: 4, counted_at: first.at, deadline, number: 1 };
    for is_taken in [true, false] {
        let answer = ask(&authority, question(1, &limit, Act::Return(rest))).await.unwrap();
        assert_eq!(answer.decision.is_allowed(), is_taken);
        assert_eq!(remaining(&authority, 1, &limit).await, 7);
    }
    let all = question(1, &limit, Act::Take(Cost::new(7)));
    assert!(ask(&authority, all).await.unwrap().decision.is_allowed());
    let none = ask(&authority, lease(8, 3)).await.unwrap();
    assert_eq!(none.leased, 0);
    assert!(matches!(none.decision.outcome, Outcome::NotNow { .. }), "{none:?}");
}

#[tokio::test]
async fn a_denial_is_remembered_under_the_numbers_that_denied() {
    let server = RedisServer::start();
    let authority = connect(&text(&server)).await;
    // Callers who bring their numbers along share a counter.
    let (small, large) = (bucket(1), bucket(5));
    assert!(ask(&authority, take(1, &small)).await.unwrap().decision.is_allowed());
    assert!(!ask(&authority, take(1, &small)).await.unwrap().decision.is_allowed());
    assert!(ask(&authority, take(1, &large)).await.unwrap().decision.is_allowed());
    assert!(!ask(&authority, take(1, &small)).await.unwrap().decision.is_allowed());
}

#[tokio::test]
async fn holds_are_released_once() {
    let server = RedisServer::start();
    let limit = common::shared(&Concurrency::new(2, Span::from_ticks(60_000_000_000)).unwrap().into());
    common::add_user(&server, &common::documented_rights()[0]);
    let authority = connect(&common::as_user(&text(&server))).await;
    let held = ask(&authority, take(1, &limit)).await.unwrap().holder.expect("a name to release it by");
    assert!(ask(&authority, take(1, &limit)).await.unwrap().decision.is_allowed());
    assert_eq!(ask(&authority, take(1, &limit)).await.unwrap().decision.outcome, Outcome::Busy);
    let release = || ask(&authority, question(1, &limit, Act::Release(held)));
    assert!(release().await.unwrap().decision.is_allowed());
    assert!(!release().await.unwrap().decision.is_allowed());
    assert!(ask(&authority, take(1, &limit)).await.unwrap().decision.is_allowed());
}

/// So many tasks ask for one key, each so often; how many were admitted.
async fn storm(
    authority: &Authority,
    limit: &Arc<tollgate_core::SharedLimit>,
    tasks: usize,
    asks: usize,
) -> usize {
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let (authority, limit) = (authority.clone(), Arc::clone(limit));
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..asks {
                    let answer = ask(&authority, take(7, &limit)).await.expect("an answer");
                    admitted += usize::from(answer.decision.is_allowed());
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap();
    }
    admitted
}

#[test]
fn two_threads_share_one_limit_exactly() {
    let server = RedisServer::start();
    let fleet = fleet(&text(&server));
    let limit = bucket(100);
    let thread = || {
        let (fleet, limit) = (Arc::clone(&fleet), Arc::clone(&limit));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { storm(&started(&fleet).await, &limit, 4, 125).await })
        })
    };
    let threads = [thread(), thread()];
    let admitted: usize = threads.map(|thread| thread.join().unwrap()).iter().sum();
    assert_eq!(admitted, 100);
}

#[tokio::test]
async fn a_hot_key_costs_few_commands() {
    let server = RedisServer::start();
    let (authority, limit) = (connect(&text(&server)).await, bucket(1_000_000));
    let mut client = server.client();
    let before = calls(&mut client, "evalsha");
    assert_eq!(storm(&authority, &limit, 256, 40).await, 256 * 40);
    let commands = calls(&mut client, "evalsha") - before;
    assert!(commands > 0 && commands <= 256 * 40 / 20, "{commands} commands for {} asks", 256 * 40);
    assert_eq!(remaining(&authority, 7, &limit).await, 1_000_000 - 256 * 40);
}

#[tokio::test]
async fn many_keys_share_a_round_trip() {
    let server = RedisServer::start();
    let (authority, limit) = (connect(&text(&server)).await, bucket(10));
    let questions = (0..60).map(|number| (take(number, &limit), None));
    let answers = authority.ask_all(questions, common::PATIENCE).await;
    assert!(answers.iter().all(|answer| answer.is_ok_and(|grant| grant.decision.remaining == 9)));
    let stats = authority.fleet().stats();
    assert_eq!((stats[0].asks, stats[0].flights, stats[0].calls), (60, 1, 1));
}

/// Each of them needs a flight of its own.
#[tokio::test]
async fn many_numbers_for_one_key_are_not_held_against_the_others() {
    let server = RedisServer::start();
    let authority = connect(&text(&server)).await;
    let limits: Vec<_> = (1..=256).map(|more| bucket(1_000 + more)).collect();
    for round in 0..5 {
        let questions = limits.iter().map(|limit| (take(1, limit), None));
        let answers = authority.ask_all(questions, Duration::from_millis(2)).await;
        assert!(answers.contains(&Err(Failure::TimedOut)), "there was time for all");
        assert!(ask(&authority, take(2 + round, &limits[0])).await.is_ok());
    }
    assert_eq!(authority.fleet().stats()[0].openings, 0);
}

#[tokio::test]
async fn a_denied_key_is_not_asked_for_again() {
    let server = RedisServer::start();
    let (authority, limit) = (connect(&text(&server)).await, bucket(1));
    assert!(ask(&authority, take(1, &limit)).await.unwrap().decision.is_allowed());
    assert!(!ask(&authority, take(1, &limit)).await.unwrap().decision.is_allowed());
    let before = authority.fleet().stats()[0].asks;
    let again = ask(&authority, take(1, &limit)).await.unwrap().decision;
    assert!(again.retry_after().is_some(), "{again:?}");
    assert_eq!(authority.fleet().stats()[0].asks, before);
}

#[tokio::test]
async fn scripts_that_were_forgotten_are_loaded_again() {
    let server = RedisServer::start();
    let (authority, limit) = (connect(&text(&server)).await, bucket(1_000));
    let mut client = server.client();
    for round in 1..=20 {
        client.run("SCRIPT FLUSH");
        let questions = (0..40).map(|number| (take(number, &limit), None));
        let answers = authority.ask_all(questions, common::PATIENCE).await;
        assert!(
            answers.iter().all(|answer| answer.is_ok_and(|grant| grant.decision.remaining == 1_000 - round))
        );
    }
    assert!(calls(&mut client, "eval") >= 1);
}

#[tokio::test]
async fn a_cut_connection_charges_once_and_comes_back() {
    let server = RedisServer::start();
    let (authority, limit) = (connect(&text(&server)).await, bucket(1_000));
    let mut client = server.client();
    // Frozen, so that what was sent is certainly on its way when the connection is cut.
    client.run("CLIENT PAUSE 100000 WRITE");
    let asked = tokio::spawn({
        let (authority, limit) = (authority.clone(), Arc::clone(&limit));
        async move { ask(&authority, take(1, &limit)).await }
    });
    until("the question is on its way", async || (authority.fleet().stats()[0].flights == 1).then_some(()))
        .await;
    client.run("CLIENT KILL TYPE normal SKIPME yes");
    assert_eq!(asked.await.unwrap(), Err(Failure::Lost));
    client.run("CLIENT UNPAUSE");
    assert!(authority.ready(common::PATIENCE).await);
    let left = remaining(&authority, 1, &limit).await;
    assert!(left >= 999, "charged more than once: {left}");
}

#[tokio::test]
async fn a_frozen_server_costs_the_deadline_and_late_grants_are_given_back() {
    let server = RedisServer::start();
    let (authority, limit) = (connect(&text(&server)).await, bucket(1_000));
    assert_eq!(remaining(&authority, 1, &limit).await, 1_000);
    server.freeze();
    let questions = (0..10).map(|number| (question(number, &limit, Act::Take(Cost::new(5))), None));
    let answers = authority.ask_all(questions, Duration::from_millis(20)).await;
    assert_eq!(answers, vec![Err(Failure::TimedOut); 10]);
    server.thaw();
    until("late grants are given back", async || {
        (authority.fleet().stats()[0].late_grants == 10).then_some(())
    })
    .await;
    for number in 0..10 {
        assert_eq!(remaining(&authority, number, &limit).await, 1_000);
    }
}

#[tokio::test]
async fn who_goes_away_before_the_answer_keeps_nothing() {
    let server = RedisServer::start();
    let (authority, limit) = (connect(&text(&server)).await, bucket(1_000));
    server.freeze();
    let asked = tokio::spawn({
        let (authority, limit) = (authority.clone(), Arc::clone(&limit));
        async move { ask(&authority, take(1, &limit)).await }
    });
    until("the question is on its way", async || (authority.fleet().stats()[0].flights == 1).then_some(()))
        .await;
    asked.abort();
    let _ = asked.await;
    server.thaw();
    until("the grant is given back", async || (authority.fleet().stats()[0].late_grants == 1).then_some(()))
        .await;
    assert_eq!(remaining(&authority, 1, &limit).await, 1_000);
}

#[tokio::test]
async fn who_goes_away_between_two_answers_keeps_nothing() {
    let servers = [RedisServer::start(), RedisServer::start()];
    let nodes = servers.each_ref().map(|server| server.address().to_string());
    let (authority, limit) = (connect(&format!("redis+ring://{}", nodes.join(","))).await, bucket(1_000));
    servers[1].freeze();
    // Some of these are kept by the one, some by the other.
    let asked = tokio::spawn({
        let (authority, limit) = (authority.clone(), Arc::clone(&limit));
        async move {
            let questions = (0..20).map(|number| (take(number, &limit), None));
            authority.ask_all(questions, common::PATIENCE).await
        }
    });
    until("the first has answered", async || {
        let stats = authority.fleet().stats();
        stats.iter().any(|shard| shard.round_trips.iter().sum::<u64>() > 0).then_some(())
    })
    .await;
    tokio::task::yield_now().await;
    asked.abort();
    let _ = asked.await;
    servers[1].thaw();
    for number in 0..20 {
        until("all is given back", async || {
            (remaining(&authority, number, &limit).await == 1_000).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn what_is_released_too_late_to_wait_for_is_released_all_the_same() {
    let server = RedisServer::start();
    let holds = common::shared(&Concurrency::new(2, Span::from_ticks(600_000_000_000)).unwrap().into());
    let (authority, limit) = (connect(&text(&server)).await, bucket(1_000));
    let held = ask(&authority, take(1, &holds)).await.unwrap().holder.expect("a name to release it by");
    server.freeze();
    // As much in the air as may be, so that what comes next has to wait.
    let before = authority.fleet().stats()[0].flights;
    let mut flying = Vec::new();
    for number in 1..=4 {
        let (authority, limit) = (authority.clone(), Arc::clone(&limit));
        let fleet = Arc::clone(authority.fleet());
        flying.push(tokio::spawn(async move { ask(&authority, take(1 + number, &limit)).await }));
        until("it flies", async || (fleet.stats()[0].flights == before + number).then_some(())).await;
    }
    let release = question(1, &holds, Act::Release(held));
    assert_eq!(authority.ask(release, None, Duration::from_millis(20)).await, Err(Failure::TimedOut));
    assert_eq!(authority.fleet().stats()[0].flights, before + 4, "more may be in the air");
    server.thaw();
    for flying in flying {
        assert!(flying.await.unwrap().is_ok());
    }
    assert_eq!(remaining(&authority, 1, &holds).await, 2);
}

#[tokio::test]
async fn a_server_that_dies_is_not_asked_and_comes_back() {
    let mut server = RedisServer::start();
    let (authority, limit) = (connect(&text(&server)).await, bucket(1_000));
    server.kill();
    until("the breaker opens", async || {
        (ask(&authority, take(1, &limit)).await == Err(Failure::NotAsked)).then_some(())
    })
    .await;
    server.restart();
    until("it answers again", async || ask(&authority, take(1, &limit)).await.ok()).await;
    until("the breaker closes", async || {
        let _ = ask(&authority, take(1, &limit)).await;
        (authority.fleet().stats()[0].breakers_open == 0).then_some(())
    })
    .await;
    let stats = &authority.fleet().stats()[0];
    assert!(stats.openings >= 1 && stats.breaks >= 1, "{stats:?}");
}

#[tokio::test]
async fn a_probe_whose_asker_has_gone_does_not_keep_others_from_asking() {
    let server = RedisServer::start();
    let (authority, limit) = (connect(&text(&server)).await, bucket(1_000));
    server.freeze();
    let impatient = || authority.ask(take(1, &limit), None, Duration::from_millis(5));
    until("the breaker opens", async || (impatient().await == Err(Failure::NotAsked)).then_some(())).await;
    let ask_and_go = async || {
        let asked = tokio::spawn({
            let (authority, limit) = (authority.clone(), Arc::clone(&limit));
            async move { ask(&authority, take(1, &limit)).await }
        });
        tokio::task::yield_now().await;
        let is_let_through = !asked.is_finished();
        asked.abort();
        let _ = asked.await;
        is_let_through
    };
    until("it is probed", async || ask_and_go().await.then_some(())).await;
    for _ in 0..20 {
        assert!(ask_and_go().await, "others wait for somebody who has gone");
    }
    server.thaw();
    until("it answers again", async || ask(&authority, take(1, &limit)).await.ok()).await;
}

#[tokio::test]
async fn nobody_waits_for_a_server_that_was_never_there() {
    let authority = Authority::start(&fleet("redis://127.0.0.1:1"));
    let limit = bucket(10);
    until("it is known to be away", async || {
        (ask(&authority, take(1, &limit)).await == Err(Failure::Unreachable)).then_some(())
    })
    .await;
}
