//! One HTTP connection, of either version, from its first byte to its graceful end.

mod bodies;
mod impatient;
mod malformed;
mod read_ahead;
mod strict;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use h2::Reason;
use http::header::{CONNECTION, HOST};
use http::uri::Authority;
use http::{HeaderValue, Request};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;

pub(crate) use self::bodies::Budget;
use self::bodies::{Counted, Responses, count_response};
pub(crate) use self::impatient::Impatient;
use self::malformed::is_malformed;
use self::read_ahead::{ReadAhead, Unparsed};
use self::strict::Strict;
use crate::body::BodyError;
use crate::drain::Drain;
use crate::memory::{AccountFull, Class};
use crate::protocol::http::Problem;
use crate::room::{Held, Room};
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
/// How long a connection that is closed for being idle may take to end.
const IDLE_END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection that holds too much may take to end.
const LARGE_END_TIMEOUT: Duration = Duration::from_secs(1);
/// What a connection of HTTP/2 takes besides what every connection does: tables of header fields, streams, and buffers for frames.
const HTTP2_BYTES: usize = 40 << 10;
/// What a client may send of one body, and of all bodies of a connection, before the server has read any of it. h2 keeps it, and
/// no account is charged until it is read.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 128 << 10;
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
    let version = tokio::select! {
        biased; // Who has spoken is served, even if the server stops at this very moment.
        // Without a time-out, a client that says nothing would keep its connection for ever.
        spoken = tokio::time::timeout(HEADER_TIMEOUT, version_of(&mut stream)) => match spoken {
            Ok(Ok(version)) => Some(version),
            Ok(Err(_)) | Err(_) => None,
        },
        () = drain.grace_over() => None,
    };
    let Some(version) = version else {
        tracing::debug!("a client connected and did not begin to speak HTTP");
        let _ = close(&mut stream, WRITE_TIMEOUT).await; // The client may be gone already.
        return;
    };
    serve_as(version, stream, service, drain).await;
}

/// Waits until it is clear which HTTP a client speaks. An error if HTTP/2 begins with another frame than SETTINGS, which h2 would
/// take: the connection ends, and RFC 9113 (section 3.4) does not ask for a GOAWAY.
async fn version_of<I: AsyncRead + Unpin>(stream: &mut Stream<I>) -> io::Result<Version> {
    if !stream.speaks_http2().await? {
        return Ok(Version::Http1);
    }
    let is_right = stream.begins_with_settings().await?;
    if is_right { Ok(Version::Http2) } else { Err(io::ErrorKind::InvalidData.into()) }
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
    let http2 = Held::of_class(Arc::clone(&room), Class::Connection, HTTP2_BYTES);
    if version == Version::Http2 && http2.set(HTTP2_BYTES).is_err() {
        tracing::debug!(client = %peer.address, "no memory is left for a connection of HTTP/2");
        return;
    }
    let (budget, unparsed) = (Budget::new(Arc::clone(&room)), Unparsed::new(Arc::clone(&room)));
    let visit = Visit::new(room, Arc::clone(&unparsed));
    let (asked, responses) = (Arc::clone(&visit.has_asked), Arc::clone(&visit.responses));
    let is_too_large = Arc::clone(&visit.is_too_large);
    let (read_ahead, stopping) = (Arc::clone(&unparsed), Arc::new(drain.clone()));
    let service = service_fn(move |mut request: Request<Incoming>| {
        asked.store(true, Ordering::Relaxed); // orders nothing else
        let parsed = unparsed.parsed();
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(budget.clone());
        let share = budget.request();
        let charged = share.charge(&request, size_of::<A>());
        let has_right_host = has_right_host(&request);
        // HTTP/1.1 has one request at a time, so a refusal is all that such a connection holds.
        let is_large = version == Version::Http2 && budget.is_large();
        let begun = match charged {
            _ if version == Version::Http2 && (!has_right_host || is_malformed(&request)) => {
                Err(Err(h2::Error::from(Reason::PROTOCOL_ERROR)))
            }
            Err(_) if is_large => {
                is_too_large.notify_one();
                Err(Err(h2::Error::from(Reason::ENHANCE_YOUR_CALM)))
            }
            Err(full) => Err(Ok(busy(full))),
            Ok(()) if !has_right_host => Err(Ok(wrong_host())),
            Ok(()) => {
                let request = request.map(|body| Counted::new(body, Arc::clone(&share)));
                // Boxed, so that it takes no room when the client is left to take the response.
                Ok(Box::pin(service(request)))
            }
        };
        let (budget, responses, stopping) = (budget.clone(), Arc::clone(&responses), Arc::clone(&stopping));
        let is_too_large = Arc::clone(&is_too_large);
        async move {
            let _parsed = parsed;
            let response = match begun {
                Ok(answer) => {
                    let Ok(response) = answer.await;
                    response
                }
                // hyper resets the stream with the reason of an error.
                Err(refusal) => refusal?,
            };
            drop(share);
            let is_last = version == Version::Http1 && stopping.has_begun();
            let (mut response, charged) = count_response(response, &budget, &responses);
            // The client sends its next request elsewhere. In HTTP/2, GOAWAY says so.
            if is_last {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            // What was decided is answered, but nothing more.
            if charged.is_err() && version == Version::Http2 && budget.is_large() {
                is_too_large.notify_one();
            }
            Ok::<_, h2::Error>(response)
        }
    });
    // The two kinds of connection are alike, but have no trait in common.
    macro_rules! finish {
        ($connection:expr) => {{
            let mut connection = std::pin::pin!($connection);
            let end_timeout = tokio::select! {
                ended = connection.as_mut() => Err(ended),
                over = visit.over() => match over {
                    Over::Idle => Ok(IDLE_END_TIMEOUT),
                    Over::TooLarge => {
                        tracing::debug!(client = %peer.address, "a client has too much under way");
                        Ok(LARGE_END_TIMEOUT)
                    }
                    // It would not take the end either.
                    Over::Stalled => {
                        tracing::debug!(client = %peer.address, "a client does not take its responses");
                        Err(Ok(()))
                    }
                },
                // The server itself does not wait for ever.
                () = stopped(version, &mut drain) => Ok(Duration::MAX),
            };
            match end_timeout {
                Ok(end_timeout) => {
                    connection.as_mut().graceful_shutdown();
                    tokio::time::timeout(end_timeout, connection).await.unwrap_or(Ok(()))
                }
                Err(ended) => ended,
            }
        }};
    }
    // Boxed, so that whoever has not said anything yet does not take the room of those who have.
    let ended = if version == Version::Http2 {
        let io = ReadAhead::new(Impatient::new(stream, WRITE_TIMEOUT), read_ahead);
        let io = TokioIo::new(io);
        Box::pin(async { finish!(http2_builder().serve_connection(io, service)) }).await
    } else {
        let io = ReadAhead::new(Impatient::new(Strict::new(stream), WRITE_TIMEOUT), read_ahead);
        let io = TokioIo::new(io);
        Box::pin(async { finish!(http1_builder().serve_connection(io, service)) }).await
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

/// Returns when a connection begins to close because the server stops. HTTP/2 tells the client which of its
/// requests are still answered; in HTTP/1.1 every answer from now on says that it is the last.
async fn stopped(version: Version, drain: &mut Drain) {
    match version {
        Version::Http1 => drain.grace_over().await,
        Version::Http2 => drain.begun().await,
    }
}

fn http2_builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .max_send_buf_size(SEND_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    // A client that says that nothing more will come still waits for an answer.
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX as usize)
        .half_close(true);
    builder
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
    unparsed: Arc<Unparsed>,
    /// Whether it has asked anything since the last look.
    has_asked: Arc<AtomicBool>,
    responses: Arc<Responses>,
    /// Told when the account refuses something and the connection itself holds much.
    is_too_large: Arc<Notify>,
}

/// Why a connection is closed.
enum Over {
    /// The memory account is full, and this connection holds much of it.
    TooLarge,
    /// It was idle for a while, and few connections or little memory is left.
    Idle,
    /// The client has responses to take and takes none, however slowly it reads.
    Stalled,
}

impl Visit {
    fn new(room: Arc<Room>, unparsed: Arc<Unparsed>) -> Visit {
        let (has_asked, responses, is_too_large) = Default::default();
        Visit { room, unparsed, has_asked, responses, is_too_large }
    }

    /// Comes back when the connection is to be closed.
    async fn over(&self) -> Over {
        let (mut stalled_looks, mut taken_before) = (0, None);
        loop {
            let told = tokio::time::timeout(LOOK_INTERVAL, self.is_too_large.notified()).await;
            if told.is_ok() {
                return Over::TooLarge;
            }
            self.unparsed.look();
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
