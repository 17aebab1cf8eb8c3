//! Whoever asks wakes the task that has the connection, whatever it is doing at that moment.
//!
//! A wake-up that was lost would leave a question lying until something else wakes the task: another question, or the look that it takes
//! at its connection every so often. So time stands still here while questions are asked, and few ask at once.
#![allow(clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use common::{PATIENCE, address, bucket, fleet_with, started, take};
use tokio::runtime::{Builder, Runtime};
use tollgate_core::SharedLimit;
use tollgate_redis::{Authority, Settings};
use tollgate_testkit::real::redis::RedisServer;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Asks so often, at moments that nobody could foresee.
async fn ask_now_and_then(authority: Authority, limit: Arc<SharedLimit>, seed: u64, asks: u64) {
    let mut random = seed;
    for _ in 0..asks {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Some share a key, so that they wait for each other too.
        let asked = (0..=(random >> 40) % 3).map(|more| (take((random >> 33) % 16 + more, &limit), None));
        let answers = authority.ask_all(asked, PATIENCE).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        for _ in 0..(random >> 50) % 2_000 {
            std::hint::spin_loop();
        }
        for _ in 0..(random >> 56) % 4 {
            tokio::task::yield_now().await;
        }
    }
}

/// How many ask, where, and how often each.
struct Crowd {
    /// On the thread that has the connection.
    near: u64,
    /// On threads of their own.
    far: u64,
    asks: u64,
}

fn check(crowd: &Crowd) {
    let server = RedisServer::start();
    // Nothing else is said that would wake anybody.
    let settings =
        Settings { nodes: Some(1), ..Settings::new(address(&format!("redis://{}", server.address()))) };
    let (fleet, limit) = (fleet_with(settings), bucket(1 << 20));
    runtime().block_on(async {
        let authority = started(&fleet).await;
        tokio::time::pause();
        // Time does not go on by itself either, for as long as this waits.
        let (is_over, over) = channel();
        let watch = tokio::task::spawn_blocking(move || over.recv_timeout(PATIENCE).is_ok());
        let ask = |seed| ask_now_and_then(authority.clone(), Arc::clone(&limit), seed, crowd.asks);
        let near: Vec<_> = (0..crowd.near).map(|asker| tokio::spawn(ask(asker))).collect();
        let far: Vec<_> = (0..crowd.far)
            .map(|asker| {
                let (asking, (done, is_done)) = (ask(1 << 32 | asker), tokio::sync::oneshot::channel());
                thread::spawn(move || {
                    runtime().block_on(asking);
                    let _ = done.send(());
                });
                is_done
            })
            .collect();
        for asker in near {
            asker.await.unwrap();
        }
        for asker in far {
            asker.await.unwrap();
        }
        let _ = is_over.send(());
        assert!(watch.await.unwrap(), "a question lay until time went on");
    });
}

#[test]
fn by_the_only_one_who_asks() {
    check(&Crowd { near: 1, far: 0, asks: 5_000 });
}

#[test]
fn by_two_who_meet_now_and_then() {
    check(&Crowd { near: 2, far: 0, asks: 5_000 });
}

#[test]
fn by_more_than_may_be_in_the_air() {
    check(&Crowd { near: 40, far: 0, asks: 200 });
}

#[test]
fn from_another_thread() {
    check(&Crowd { near: 0, far: 1, asks: 5_000 });
}

#[test]
fn from_several_threads_at_once() {
    check(&Crowd { near: 1, far: 3, asks: 1_500 });
}
