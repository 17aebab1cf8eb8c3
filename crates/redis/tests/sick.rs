//! Servers that answer, but not as they should.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{PATIENCE, ask, bucket, connect, remaining, take, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tollgate_core::{Calendar, CalendarUnit, FixedWindow, Tick, Windows};
use tollgate_redis::Authority;
use tollgate_store::authority::{Failure, Grant};
use tollgate_testkit::real::redis::{RedisLaunch, RedisServer, Reply};

async fn check_recovers(authority: &Authority, number: u64) -> Grant {
    until("it answers again", async || ask(authority, take(number, &bucket(1_000))).await.ok()).await
}

#[tokio::test]
async fn a_node_that_was_demoted_refuses() {
    let server = RedisServer::start();
    let authority = connect(&format!("redis://{}", server.address())).await;
    assert!(ask(&authority, take(1, &bucket(10))).await.is_ok());
    server.client().run("REPLICAOF 127.0.0.1 1");
    until("it refuses", async || {
        let answer = ask(&authority, take(1, &bucket(10))).await;
        assert!(answer.is_err(), "a replica has counted");
        (answer == Err(Failure::NotNow)).then_some(())
    })
    .await;
    server.client().run("REPLICAOF NO ONE");
    check_recovers(&authority, 1).await;
}

#[tokio::test]
async fn a_full_memory_refuses_what_would_be_written() {
    let server = RedisServer::start();
    let authority = connect(&format!("redis://{}", server.address())).await;
    let mut client = server.client();
    client.run("CONFIG SET maxmemory-policy noeviction");
    client.run("CONFIG SET maxmemory 1");
    assert_eq!(ask(&authority, take(1, &bucket(10))).await, Err(Failure::Refused));
    client.run("CONFIG SET maxmemory 0");
    check_recovers(&authority, 1).await;
}

#[tokio::test]
async fn a_foreign_script_that_blocks_costs_the_deadline() {
    // Long enough for the breaker to open before Redis says that it is busy.
    let server = RedisLaunch::redis().setting("busy-reply-threshold 1000").start();
    let authority = connect(&format!("redis://{}", server.address())).await;
    let mut blocker = server.client();
    blocker.send(&[b"EVAL", b"while true do end", b"0"]).unwrap();
    let (mut failures, mut taken) = (Vec::new(), 0);
    until("it says that it is busy, and the breaker opens", async || {
        match authority.ask(take(1, &bucket(1_000)), None, Duration::from_millis(5)).await {
            Ok(_) => taken += 1, // Before the script began.
            Err(failure) => failures.push(failure),
        }
        (failures.contains(&Failure::NotNow) && failures.contains(&Failure::NotAsked)).then_some(())
    })
    .await;
    assert_eq!(failures[0], Failure::TimedOut);
    server.client().run("SCRIPT KILL");
    assert!(matches!(blocker.receive(), Ok(Reply::Error(_))));
    check_recovers(&authority, 1).await;
    until("late grants are given back", async || {
        (remaining(&authority, 1, &bucket(1_000)).await == 1_000 - taken - 1).then_some(())
    })
    .await;
}

/// A way to a server on which everything takes so many milliseconds, each way.
async fn slow_way(server: SocketAddr, delay_ms: &Arc<AtomicU64>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap();
    let delay_ms = Arc::clone(delay_ms);
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let Ok(far) = TcpStream::connect(server).await else { return };
            let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
            tokio::spawn(carry(near_read, far_write, Arc::clone(&delay_ms)));
            tokio::spawn(carry(far_read, near_write, Arc::clone(&delay_ms)));
        }
    });
    place
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay_ms: Arc<AtomicU64>) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some((due, bytes)) = receiver.recv().await {
            tokio::time::sleep_until(due).await;
            let bytes: Vec<u8> = bytes;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    let mut bytes = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let delay = Duration::from_millis(delay_ms.load(Ordering::Relaxed));
        let _ = sender.send((tokio::time::Instant::now() + delay, bytes[..length].to_vec()));
    }
}

#[tokio::test]
async fn grants_that_are_always_late_open_the_breaker() {
    let (server, delay_ms) = (RedisServer::start(), Arc::default());
    let authority = connect(&format!("redis://{}", slow_way(server.address(), &delay_ms).await)).await;
    for number in 0..200 {
        assert!(ask(&authority, take(number, &bucket(10))).await.is_ok());
    }
    delay_ms.store(4, Ordering::Relaxed);
    let mut answers = Vec::new();
    for number in 0..100 {
        let answer = authority.ask(take(number, &bucket(10)), None, Duration::from_millis(2)).await;
        answers.push(answer.map(|_| ()));
    }
    assert!(answers.contains(&Err(Failure::NotAsked)), "{answers:?}");
    assert!(authority.fleet().stats()[0].late_grants > 0);
}

/// Somebody who greets everybody with these bytes, and then listens.
fn babbler(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.write_all(bytes);
            let _ = stream.read(&mut [0; 1024]);
        }
    });
    place
}

#[tokio::test]
async fn garbage_is_not_believed() {
    let cases: [&'static [u8]; 4] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"$99999999999\r\n",
        b"*3\r\n*3\r\n*3\r\nx",
        // As if all scripts were loaded, and somebody else's answers.
        b"$1\r\nx\r\n$1\r\nx\r\n$1\r\nx\r\n$1\r\nx\r\n$1\r\nx\r\n$1\r\nx\r\n$1\r\nx\r\n*2\r\n:1\r\n:1\r\n",
    ];
    for bytes in cases {
        let authority = Authority::start(&common::fleet(&format!("redis://{}", babbler(bytes))));
        for _ in 0..20 {
            let answer = authority.ask(take(1, &bucket(10)), None, Duration::from_millis(50)).await;
            assert!(answer.is_err(), "believed {:?}", String::from_utf8_lossy(bytes));
        }
    }
}

#[tokio::test]
async fn windows_of_a_calendar_are_told_around_the_time_of_redis() {
    let server = RedisServer::start();
    let authority = connect(&format!("redis://{}", server.address())).await;
    let calendar = Calendar::new(CalendarUnit::Day, "Europe/Berlin", Tick::NANOSECOND).unwrap();
    let limit = FixedWindow::in_windows(10, Windows::Calendar(calendar)).unwrap();
    let limit = common::shared(&limit.into());
    // Years from the time of this process.
    let made_up_us = 1_700_000_000_000_000;
    authority.fleet().make_up_time(Some(made_up_us));
    let questions = (0..20).map(|number| (take(number % 5, &limit), None));
    let answers = authority.ask_all(questions, PATIENCE).await;
    for (number, answer) in answers.into_iter().enumerate() {
        let grant = answer.unwrap_or_else(|failure| panic!("{number}: {failure}"));
        assert_eq!(grant.at.ticks(), made_up_us / limit.tick().length_us());
        assert_eq!(grant.decision.remaining, 9 - number as u64 / 5);
    }
}
