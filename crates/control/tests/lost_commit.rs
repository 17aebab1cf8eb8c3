//! A connection that is lost at the worst moment: when PostgreSQL was asked to commit, and before it has said that it did.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use common::{NOW_MS, check_verifies, make, put};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate_control::{ChangeError, Database, DatabaseSettings, Kind};
use tollgate_testkit::real::postgres::PostgresServer;

/// What happens to the next question whether to commit; and then to nothing else.
const PASS: u8 = 0;
/// It never arrives.
const LOSE_QUESTION: u8 = 1;
/// It arrives, and the answer does not.
const LOSE_ANSWER: u8 = 2;
/// The same, and nobody gets through any more.
const LOSE_ALL: u8 = 3;
const NOBODY: u8 = 4;

/// Stands between a node and PostgreSQL. Returns where it listens.
async fn detour(server: SocketAddr, mode: Arc<AtomicU8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((node, _)) = listener.accept().await {
            if mode.load(Ordering::SeqCst) != NOBODY {
                tokio::spawn(carry(node, server, Arc::clone(&mode)));
            }
        }
    });
    address
}

async fn carry(mut node: TcpStream, server: SocketAddr, mode: Arc<AtomicU8>) {
    let mut server = TcpStream::connect(server).await.unwrap();
    let (mut asked, mut answered) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        tokio::select! {
            read = node.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                let question = &asked[..length];
                if question.windows(7).any(|part| part == b"COMMIT\0") {
                    let what = mode.load(Ordering::SeqCst);
                    match what {
                        PASS => {}
                        LOSE_QUESTION => return mode.store(PASS, Ordering::SeqCst),
                        _ => {
                            server.write_all(question).await.unwrap();
                            // When it has said so, it has done so.
                            let _ = server.read(&mut answered).await;
                            return mode.store(if what == LOSE_ALL { NOBODY } else { PASS }, Ordering::SeqCst);
                        }
                    }
                }
                server.write_all(question).await.unwrap();
            }
            read = server.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                if node.write_all(&answered[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_became_of_it_is_found_out_and_it_is_made_once() {
    let server = PostgresServer::start();
    let mode = Arc::new(AtomicU8::new(PASS));
    let place = detour(server.address(), Arc::clone(&mode)).await;
    let url = server.url().replace(&server.address().to_string(), &place.to_string()) + "?sslmode=disable";
    let database = Database::open(DatabaseSettings::new(url.parse().unwrap())).await.unwrap();
    make(&database, put(Kind::Quota, "a", "0")).await;
    for (version, what) in [(2, LOSE_QUESTION), (3, LOSE_ANSWER), (4, LOSE_QUESTION), (5, LOSE_ANSWER)] {
        mode.store(what, Ordering::SeqCst);
        let changed = database.change(put(Kind::Quota, "a", &version.to_string()), NOW_MS).await;
        assert_eq!(changed.map(|changed| changed.version), Ok(version));
        assert_eq!(mode.load(Ordering::SeqCst), PASS, "nothing was lost");
    }
    check_verifies(&database, 5).await;

    // Where nobody can be asked, it is said that it is not known; here, it was made.
    mode.store(LOSE_ALL, Ordering::SeqCst);
    let changed = database.change(put(Kind::Quota, "a", "6"), NOW_MS).await;
    assert!(matches!(&changed, Err(ChangeError::Unknown(_))), "{changed:?}");
    assert!(changed.unwrap_err().to_string().contains("not known"));
    mode.store(PASS, Ordering::SeqCst);
    let mut version = database.version().await;
    while version.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        version = database.version().await;
    }
    assert_eq!(version, Ok(6));
    check_verifies(&database, 6).await;
}
