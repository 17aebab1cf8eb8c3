//! What stands between us and Redis: slowness, and cuts at the worst moment.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{address, ask, bucket, connect, fleet_with, remaining, started, take, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate_redis::Settings;
use tollgate_store::authority::Failure;
use tollgate_testkit::real::Detour;
use tollgate_testkit::real::redis::RedisServer;

/// Passes everything on, replies after a while or not at all.
struct Relay {
    address: SocketAddr,
    delay_ms: AtomicU64,
    /// Whether the next reply is lost, and its connection with it.
    cuts: AtomicBool,
}

impl Relay {
    async fn start(upstream: SocketAddr) -> Arc<Relay> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let relay = Arc::new(Relay { address, delay_ms: AtomicU64::new(0), cuts: AtomicBool::new(false) });
        let kept = Arc::clone(&relay);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(upstream).await.unwrap();
                tokio::spawn(Arc::clone(&kept).pass_on(near, far));
            }
        });
        relay
    }

    async fn pass_on(self: Arc<Relay>, near: TcpStream, far: TcpStream) {
        let ((mut near_in, mut near_out), (mut far_in, mut far_out)) = (near.into_split(), far.into_split());
        let there = async { tokio::io::copy(&mut near_in, &mut far_out).await.map(drop) };
        let mut back = async || -> std::io::Result<()> {
            let mut bytes = vec![0; 64 << 10];
            loop {
                let count = far_in.read(&mut bytes).await?;
                if count == 0 || self.cuts.swap(false, Ordering::Relaxed) {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(self.delay_ms.load(Ordering::Relaxed))).await;
                near_out.write_all(&bytes[..count]).await?;
            }
        };
        tokio::select! {
            _ = there => {}
            _ = back() => {}
        }
    }

    fn text(&self) -> String {
        format!("redis://{}", self.address)
    }
}

#[tokio::test]
async fn slow_answers_open_the_breaker_and_take_nothing() {
    let server = RedisServer::start();
    let relay = Relay::start(server.address()).await;
    let (authority, limit) = (connect(&relay.text()).await, bucket(1_000));
    assert_eq!(remaining(&authority, 1, &limit).await, 1_000);
    relay.delay_ms.store(12, Ordering::Relaxed);
    let mut timed_out = 0;
    until("the breaker opens", async || {
        let answer = authority.ask(take(1, &limit), None, Duration::from_millis(5)).await;
        timed_out += u32::from(answer == Err(Failure::TimedOut));
        (answer == Err(Failure::NotAsked)).then_some(())
    })
    .await;
    // By the run of failures, which what comes late does not interrupt.
    assert!((5..20).contains(&timed_out), "{timed_out} had to wait");
    relay.delay_ms.store(0, Ordering::Relaxed);
    until("everything is given back", async || {
        let peeked = common::try_remaining(&authority, 1, &limit).await;
        (peeked == Ok(1_000)).then_some(())
    })
    .await;
    until("the breaker closes", async || {
        let _ = common::try_remaining(&authority, 1, &limit).await;
        (authority.fleet().stats()[0].breakers_open == 0).then_some(())
    })
    .await;
    assert!(authority.fleet().stats()[0].late_grants > 0);
}

#[tokio::test]
async fn what_is_given_back_does_not_make_up_for_slowness() {
    let server = RedisServer::start();
    let relay = Relay::start(server.address()).await;
    let (authority, limit) = (connect(&relay.text()).await, bucket(1_000));
    // Every time other keys, so that each is granted, late.
    let ask_many = async |round: u64, keys: u64, patience: Duration| {
        let questions = (0..keys).map(|number| (take(round * 1_000 + number, &limit), None));
        authority.ask_all(questions, patience).await
    };
    // Enough that went well to outweigh some rounds of failures.
    assert!(ask_many(0, 1_000, common::PATIENCE).await.iter().all(Result::is_ok));
    relay.delay_ms.store(12, Ordering::Relaxed);
    let mut rounds = 0;
    until("the breaker opens", async || {
        rounds += 1;
        let answers = ask_many(rounds, 50, Duration::from_millis(5)).await;
        answers.contains(&Err(Failure::NotAsked)).then_some(())
    })
    .await;
    assert!(rounds < 20, "only after {rounds} rounds");
    assert!(authority.fleet().stats()[0].late_grants > 0);
}

#[tokio::test]
async fn a_reply_that_is_lost_is_charged_once() {
    let server = RedisServer::start();
    let relay = Relay::start(server.address()).await;
    // Nothing else is said, so that it is this reply that is lost.
    let settings = Settings { nodes: Some(1), ..Settings::new(address(&relay.text())) };
    let (authority, limit) = (started(&fleet_with(settings)).await, bucket(1_000));
    assert_eq!(remaining(&authority, 1, &limit).await, 1_000);
    relay.cuts.store(true, Ordering::Relaxed);
    assert_eq!(ask(&authority, take(1, &limit)).await, Err(Failure::Lost));
    assert!(authority.ready(common::PATIENCE).await, "no new connection");
    assert_eq!(remaining(&authority, 1, &limit).await, 999);
}

#[tokio::test]
async fn a_way_that_carries_nothing_any_more_is_left_for_another() {
    let server = RedisServer::start();
    let way = Detour::to(server.address());
    let (authority, limit) = (connect(&format!("redis://{}", way.address())).await, bucket(1_000));
    assert!(ask(&authority, take(1, &limit)).await.is_ok());
    way.silence();
    let impatient = || authority.ask(take(1, &limit), None, Duration::from_millis(20));
    assert_eq!(impatient().await, Err(Failure::TimedOut));
    // Much sooner than the half minute after which silence alone is a reason.
    let answered = until("it answers again", async || impatient().await.ok());
    assert!(tokio::time::timeout(Duration::from_secs(15), answered).await.is_ok(), "no other way was tried");
    assert_eq!(authority.fleet().stats()[0].breaks, 1);
}

#[tokio::test]
async fn a_server_that_stands_still_is_waited_for_though_another_way_is_tried() {
    let server = RedisServer::start();
    let way = Detour::to(server.address());
    let (authority, limit) = (connect(&format!("redis://{}", way.address())).await, bucket(1_000));
    assert!(ask(&authority, take(1, &limit)).await.is_ok());
    let (made, mut client) = (way.made(), server.client());
    let mut info = |name: &str| {
        let info = client.run("INFO").text();
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap().parse::<u64>().unwrap()
    };
    let (received, connected) = (info("total_connections_received"), info("connected_clients"));
    server.freeze();
    let answer = authority.ask(take(1, &limit), None, Duration::from_millis(20)).await;
    assert_eq!(answer, Err(Failure::TimedOut));
    until("another way is tried", async || (way.made() > made).then_some(())).await;
    server.thaw();
    until("what was granted late is given back", async || {
        (common::try_remaining(&authority, 1, &limit).await == Ok(999)).then_some(())
    })
    .await;
    until("one of the two ways is left", async || {
        let has_come = info("total_connections_received") > received;
        (has_come && info("connected_clients") == connected).then_some(())
    })
    .await;
    let stats = &authority.fleet().stats()[0];
    assert_eq!((stats.late_grants, stats.breaks), (1, 0));
}

#[tokio::test]
async fn a_way_that_is_only_slow_is_not_left() {
    let server = RedisServer::start();
    let way = Detour::to(server.address());
    // Time enough for another connection to be made, however slow.
    let settings = Settings {
        connect_timeout: Duration::from_secs(10),
        ..Settings::new(address(&format!("redis://{}", way.address())))
    };
    let (authority, limit) = (started(&fleet_with(settings)).await, bucket(1_000));
    assert!(ask(&authority, take(1, &limit)).await.is_ok());
    let made = way.made();
    // Slower than what makes it doubtful, and new connections are as slow.
    way.delay(Duration::from_millis(1_300));
    let asked: Vec<_> = (0..4)
        .map(|number| {
            let (authority, limit) = (authority.clone(), Arc::clone(&limit));
            tokio::spawn(async move {
                for _ in 0..3 {
                    assert!(ask(&authority, take(2 + number, &limit)).await.is_ok());
                }
            })
        })
        .collect();
    for asked in asked {
        asked.await.unwrap();
    }
    assert!(way.made() > made, "no other way was tried");
    assert_eq!(authority.fleet().stats()[0].breaks, 0);
}
