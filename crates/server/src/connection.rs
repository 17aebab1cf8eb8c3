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

/// Serves one connection until it closes. When the server stops, requests under way are still answered.
pub(crate) async fn serve(stream: TcpStream, router: Router, versions: Versions, mut drain: Drain) {
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
