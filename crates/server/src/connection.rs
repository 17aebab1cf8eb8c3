//! One HTTP connection, of either version, from its first byte to its graceful end.

mod bodies;
mod impatient;
mod read_ahead;
mod strict;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, HOST};
use http::uri::Authority;
use http::{HeaderValue, Request};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use self::bodies::{Budget, Counted, Responses, count_response};
pub(crate) use self::impatient::Impatient;
use self::read_ahead::{ReadAhead, Unparsed};
use self::strict::Strict;
use crate::body::BodyError;
use crate::drain::Drain;
use crate::memory::AccountFull;
use crate::protocol::http::Problem;
use crate::room::Room;
use crate::stream::{Stream, close};

/// How long a client may take to send a request's header, counted from when the server waits for one: so a connection of HTTP/1.1
/// that has nothing to ask is closed after that.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a connection is looked at, whether it is of any use.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// After so many looks, a client that has taken no whole response since, and has one to take, is disconnected.
const STALLED_LOOKS_MAX: u32 = 3;
/// How long a client may take none of its answers.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests under way on one connection of HTTP/2.
const STREAMS_MAX: u32 = 128;
/// All header fields of a request together; in HTTP/1.1 with its first line.
const HEADER_BYTES_MAX: u32 = 64 << 10;
/// How much of an answer is copied for a stream that has no window for it.
const SEND_BYTES_MAX: usize = 64 << 10;
/// A connection of HTTP/2 that says nothing for so long is asked whether it is still there, and closed if it does not answer.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// The body of a request.
pub(crate) type Sent = Counted<Incoming>;

/// Which HTTP a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

/// Serves one connection until it closes. When the server stops, requests under way are still answered.
pub(crate) async fn serve<I, S, A>(mut stream: Stream<I>, service: S, mut drain: Drain)
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Fn(Request<Sent>) -> A,
    A: Future<Output = Result<Response, Infallible>> + Send + 'static,
{
    let is_http2 = tokio::select! {
        biased; // Who has spoken is served, even if the server stops at this very moment.
        // Without a time-out, a client that says nothing would keep its connection for ever.
        spoken = tokio::time::timeout(HEADER_TIMEOUT, stream.speaks_http2()) => match spoken {
            Ok(Ok(is_http2)) => Some(is_http2),
            Ok(Err(_)) | Err(_) => None,
        },
        () = drain.begun() => None,
    };
    let Some(is_http2) = is_http2 else {
        tracing::debug!("a client connected and said nothing");
        let _ = close(&mut stream, WRITE_TIMEOUT).await; // The client may be gone already.
        return;
    };
    serve_as(if is_http2 { Version::Http2 } else { Version::Http1 }, stream, service, drain).await;
}

/// Serves the rest of a connection on which HTTP/1.1 was spoken already. Nobody changes to HTTP/2 in the midst of it.
pub(crate) async fn go_on<I, S, A>(stream: Stream<I>, service: S, drain: Drain)
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Fn(Request<Sent>) -> A,
    A: Future<Output = Result<Response, Infallible>> + Send + 'static,
{
    serve_as(Version::Http1, stream, service, drain).await;
}

async fn serve_as<I, S, A>(version: Version, stream: Stream<I>, service: S, mut drain: Drain)
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Fn(Request<Sent>) -> A,
    A: Future<Output = Result<Response, Infallible>> + Send + 'static,
{
    let peer = stream.peer();
    let room = Arc::clone(stream.room());
    let (budget, unparsed) = (Budget::new(Arc::clone(&room)), Unparsed::new(Arc::clone(&room)));
    let visit = Visit::new(room);
    let (asked, responses) = (Arc::clone(&visit.has_asked), Arc::clone(&visit.responses));
    let read_ahead = Arc::clone(&unparsed);
    let service = service_fn(move |mut request: Request<Incoming>| {
        asked.store(true, Ordering::Relaxed); // orders nothing else
        let parsed = unparsed.parsed();
        request.extensions_mut().insert(peer);
        let begun = if has_right_host(&request) {
            let charged = budget.charge_head(&request).map_err(busy);
            charged.map(|share| (service(request.map(|body| budget.count(body))), share))
        } else {
            Err(wrong_host())
        };
        let responses = Arc::clone(&responses);
        async move {
            let _parsed = parsed;
            match begun {
                Ok((answer, share)) => {
                    answer.await.map(|response| count_response(response, share, &responses))
                }
                Err(refusal) => Ok(refusal),
            }
        }
    });
    // The two kinds of connection are alike, but have no trait in common.
    macro_rules! finish {
        ($connection:expr) => {{
            let mut connection = std::pin::pin!($connection);
            tokio::select! {
                ended = connection.as_mut() => ended,
                over = visit.over() => match over {
                    Over::Idle => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                    // It would not take the end either.
                    Over::Stalled => {
                        tracing::debug!(client = %peer.address, "a client does not take its responses");
                        Ok(())
                    }
                },
                () = drain.begun() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        }};
    }
    // Boxed, so that whoever has not said anything yet does not take the room of those who have.
    let ended = if version == Version::Http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEADER_BYTES_MAX)
            .max_send_buf_size(SEND_BYTES_MAX)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        let io = ReadAhead::new(Impatient::new(stream, WRITE_TIMEOUT), read_ahead);
        let io = TokioIo::new(io);
        Box::pin(async { finish!(builder.serve_connection(io, service)) }).await
    } else {
        let mut builder = http1::Builder::new();
        // Whoever says that nothing more will come still waits for an answer.
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(HEADER_BYTES_MAX as usize)
            .half_close(true);
        let io = ReadAhead::new(Impatient::new(Strict::new(stream), WRITE_TIMEOUT), read_ahead);
        let io = TokioIo::new(io);
        Box::pin(async { finish!(builder.serve_connection(io, service)) }).await
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

/// Whether a request names the host that it is for as RFC 9112 (section 3.2) demands: HTTP/1.1 with one field, and no version with two
/// or with one that is no host. Proxies that disagree on the host send requests to the wrong place.
fn has_right_host<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => request.version() != http::Version::HTTP_11,
        (Some(host), None) => is_host(host.as_bytes()),
        (Some(_), Some(_)) => false,
    }
}

/// A host, perhaps with a port. It may be empty, for a request that is for no host.
fn is_host(value: &[u8]) -> bool {
    value.is_empty() || (!value.contains(&b'@') && Authority::try_from(value).is_ok())
}

fn wrong_host() -> Response {
    let text = "a request has one `Host` field with the name of the host that it is for";
    let mut response = Problem::bad_request(text).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The response to a request for which the memory account has no room.
fn busy(full: AccountFull) -> Response {
    Problem::Body(BodyError::Busy(full)).into_response()
}

/// A client that keeps its connection.
struct Visit {
    room: Arc<Room>,
    /// Whether it has asked anything since the last look.
    has_asked: Arc<AtomicBool>,
    responses: Arc<Responses>,
}

/// Why a connection is closed.
enum Over {
    /// It was idle for a while, and few connections or little memory is left.
    Idle,
    /// The client has responses to take and takes none, however slowly it reads.
    Stalled,
}

impl Visit {
    fn new(room: Arc<Room>) -> Visit {
        Visit { room, has_asked: Arc::default(), responses: Arc::default() }
    }

    /// Comes back when the connection is to be closed.
    async fn over(&self) -> Over {
        let (mut stalled_looks, mut taken_before) = (0, None);
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let taken = self.responses.taken_while_waiting();
            stalled_looks = if taken.is_some() && taken == taken_before { stalled_looks + 1 } else { 0 };
            taken_before = taken;
            if stalled_looks >= STALLED_LOOKS_MAX {
                return Over::Stalled;
            }
            if !self.has_asked.swap(false, Ordering::Relaxed) && self.room.is_crowded() {
                return Over::Idle;
            }
        }
    }
}
