//! One HTTP connection, of either version, from its first byte to its graceful end.

use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;

use crate::drain::Drain;

/// How long a client may take to send a request's header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests under way on one connection. Envoy sends all requests of a worker thread over one.
const STREAMS_MAX: u32 = 1024;
/// All header fields of a request together.
const HEADER_BYTES_MAX: u32 = 64 << 10;
/// A connection that says nothing for so long is asked whether it is still there, and closed if it does not answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Which versions of HTTP a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    /// What the client's first bytes say.
    Any,
    /// HTTP/2 alone, as gRPC wants it.
    Two,
}

/// What every HTTP/2 connection begins with.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How often a client that sends its first bytes one by one is looked at.
const PREFACE_LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Serves one connection until it closes. When the server stops, requests under way are still answered.
pub(crate) async fn serve(stream: TcpStream, router: Router, versions: Versions, mut drain: Drain) {
    tokio::select! {
        biased; // Who has spoken is served, even if the server stops at this very moment.
        spoken = tokio::time::timeout(HEADER_TIMEOUT, spoken(&stream)) => match spoken {
            Ok(true) => {}
            _ => return tracing::debug!("a client connected and said nothing"),
        },
        () = drain.begun() => return,
    }
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    if versions == Versions::Two {
        builder = builder.http2_only();
    }
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = drain.begun() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

/// Waits until a client has begun to speak: until it is clear which version of HTTP it is. Without this, a client that says nothing would
/// keep its connection for ever. False if it has gone.
async fn spoken(stream: &TcpStream) -> bool {
    let mut first = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut first).await {
            Ok(0) | Err(_) => return false,
            Ok(count) if count < PREFACE.len() && PREFACE.starts_with(&first[..count]) => {
                tokio::time::sleep(PREFACE_LOOK_INTERVAL).await;
            }
            Ok(_) => return true,
        }
    }
}
