//! What stands between a node and PostgreSQL, and loses a connection at the worst moment: when it was asked to commit, and before it has said that it did.

#![allow(clippy::unwrap_used)] // A test stops at the first surprise.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate_testkit::real::postgres::PostgresServer;

/// What happens to the next question whether to commit; and then to nothing else.
pub(crate) const PASS: u8 = 0;
/// It never arrives.
pub(crate) const LOSE_QUESTION: u8 = 1;
/// It arrives, and the answer does not.
pub(crate) const LOSE_ANSWER: u8 = 2;
/// The same, and nobody gets through any more.
pub(crate) const LOSE_ALL: u8 = 3;
pub(crate) const NOBODY: u8 = 4;

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
    let Ok(mut server) = TcpStream::connect(server).await else { return };
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

/// The address of a server by way of a detour.
pub(crate) async fn url_by_detour(server: &PostgresServer, mode: &Arc<AtomicU8>) -> String {
    let place = detour(server.address(), Arc::clone(mode)).await;
    server.url().replace(&server.address().to_string(), &place.to_string()) + "?sslmode=disable"
}
