//! One gRPC connection, from its first byte to its graceful end.
//!
//! A proxy sends the questions of many clients over one connection, so there often are several to be read at once. Those form a batch:
//! they are decided in one go, and their answers leave together. All of that happens in the connection's own task; only what has
//! to be waited for, and what tonic answers, is put into tasks of its own.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::{self, SendResponse};
use h2::{Ping, PingPong, RecvStream};
use http::header::CONTENT_TYPE;
use http::{HeaderName, Method, Request};
use tokio::time::{Sleep, sleep, timeout};
use tonic::Status;

use super::arrival::{self, Arrived, Unfinished};
use super::batch::{Batch, Unusual};
use super::flat::Flat;
use super::{HEALTH, SHOULD_RATE_LIMIT, Services, others, reply};
use crate::drain::Drain;
use crate::metrics::Protocol;
use crate::room::Room;
use crate::stream::Stream;

/// How long a client may take to say that it speaks HTTP/2.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// Calls under way on one connection. Envoy sends all requests of a worker thread over one.
const STREAMS_MAX: u32 = 1024;
/// All header fields of a request together.
const HEADER_BYTES_MAX: u32 = 64 << 10;
/// What a client may send before it is read, in one stream and in all of them together.
const WINDOW_BYTES: u32 = 1 << 20;
/// Streams that a client has opened and reset before anybody has looked at them. A proxy that has lost its patience does that to
/// some; whoever does it to more wants to keep the server busy, and is disconnected.
const RESETS_UNSEEN_MAX: usize = 128;
/// Streams that the server has reset because of what the client sent in them. After more of those, the client is disconnected.
const RESETS_BY_ERROR_MAX: usize = 1024;
/// A connection on which no call has begun for so long is asked whether it is still there, and closed if it does not answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// So long may calls that are under way still take when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// Serves one connection until it closes. When the server stops, calls under way are still answered.
pub(crate) async fn serve(mut stream: Stream, services: Arc<Services>, mut drain: Drain) {
    let spoken = tokio::select! {
        biased; // Who has spoken is served, even if the server stops at this very moment.
        spoken = timeout(PREFACE_TIMEOUT, stream.speaks_http2()) => spoken,
        () = drain.begun() => return,
    };
    if !matches!(spoken, Ok(Ok(true))) {
        return tracing::debug!("a client connected and did not speak HTTP/2");
    }
    let room = Arc::clone(stream.room());
    let handshake = server::Builder::new()
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_pending_accept_reset_streams(RESETS_UNSEEN_MAX)
        .max_local_error_reset_streams(Some(RESETS_BY_ERROR_MAX))
        .handshake(Flat(stream));
    let ended = match timeout(PREFACE_TIMEOUT, handshake).await {
        Ok(Ok(http2)) => Connection::new(http2, services).run(room, drain).await,
        Ok(Err(error)) => Err(error),
        Err(_) => return tracing::debug!("a client does not take what it is told first"),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

struct Connection {
    http2: server::Connection<Flat, Bytes>,
    services: Arc<Services>,
    batch: Batch,
    unfinished: Arc<Unfinished>,
}

impl Connection {
    fn new(http2: server::Connection<Flat, Bytes>, services: Arc<Services>) -> Connection {
        Connection { http2, services, batch: Batch::default(), unfinished: Arc::default() }
    }

    async fn run(mut self, room: Arc<Room>, mut drain: Drain) -> Result<(), h2::Error> {
        let mut pulse = Pulse::new(self.http2.ping_pong(), room);
        let mut begun = pin!(drain.begun());
        let (mut overdue, mut is_stopping) = (pin!(sleep(Duration::MAX)), false);
        loop {
            tokio::select! {
                biased; // What was asked is answered, even if the server stops.
                is_open = poll_fn(|context| self.poll_batch(context)) => {
                    self.answer();
                    if !is_open? {
                        return Ok(());
                    }
                    pulse.is_felt = true;
                }
                () = &mut begun, if !is_stopping => {
                    is_stopping = true;
                    overdue.set(sleep(STOP_TIMEOUT));
                    self.http2.graceful_shutdown();
                }
                () = pulse.lost() => {
                    tracing::debug!("a client is not there any more, or says nothing where others want its place");
                    return Ok(());
                }
                () = &mut overdue, if is_stopping => return Ok(()),
            }
        }
    }

    /// Waits for questions, and takes all that are there. False at the end of the connection.
    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, h2::Error>> {
        while !self.batch.is_full() {
            match self.http2.poll_accept(context) {
                Poll::Ready(Some(Ok((request, caller)))) => self.take(request, caller, context),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(None) => return Poll::Ready(Ok(false)),
                Poll::Pending if self.batch.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(true))
    }

    fn answer(&mut self) {
        let Connection { batch, services, .. } = self;
        batch.answer(&services.gate, |(body, caller): Unusual| {
            tokio::spawn(others::answer_whole(services.router.clone(), body, caller));
        });
    }

    /// Takes up a call.
    fn take(
        &mut self,
        request: Request<RecvStream>,
        mut caller: SendResponse<Bytes>,
        context: &mut Context<'_>,
    ) {
        let (headers, path) = (request.headers(), request.uri().path());
        let content_type = headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
        if !content_type.is_some_and(|told| told.starts_with(b"application/grpc")) {
            return reply::refuse_content_type(&mut caller);
        }
        if !path.starts_with(HEALTH) && !self.services.gate.admits(Protocol::Rls, headers) {
            return reply::refuse(&mut caller, Status::unauthenticated("no valid credentials"));
        }
        let is_plain = headers.get(GRPC_ENCODING).is_none_or(|told| told == "identity");
        if path != SHOULD_RATE_LIMIT || request.method() != Method::POST || !is_plain {
            tokio::spawn(others::answer(self.services.router.clone(), request, caller));
            return;
        }
        let mut body = request.into_body();
        match arrival::take(&mut body, context) {
            Arrived::Whole(body) => self.batch.push(body, caller),
            Arrived::Part(part) => self.wait(body, part, caller),
            Arrived::Broken => {}
        }
    }

    /// Waits for the rest of a question, and answers it.
    fn wait(&self, mut body: RecvStream, part: BytesMut, mut caller: SendResponse<Bytes>) {
        let (services, unfinished) = (Arc::clone(&self.services), Arc::clone(&self.unfinished));
        tokio::spawn(async move {
            match arrival::wait(&mut body, part, &unfinished).await {
                Ok(Some(whole)) => {
                    let (mut batch, mut unusual) = (Batch::default(), None);
                    batch.push(whole, caller);
                    batch.answer(&services.gate, |call| unusual = Some(call));
                    if let Some((body, caller)) = unusual {
                        others::answer_whole(services.router.clone(), body, caller).await;
                    }
                }
                Ok(None) => {}
                Err(status) => reply::refuse(&mut caller, status),
            }
        });
    }
}

/// Whether a client is still there.
struct Pulse {
    pings: Option<PingPong>,
    room: Arc<Room>,
    next_look: Pin<Box<Sleep>>,
    /// Whether the client has been asked and has not answered yet.
    is_asked: bool,
    /// Whether something has come since the last look.
    is_felt: bool,
}

impl Pulse {
    fn new(pings: Option<PingPong>, room: Arc<Room>) -> Pulse {
        Pulse { pings, room, next_look: Box::pin(sleep(PING_INTERVAL)), is_asked: false, is_felt: false }
    }

    /// Comes back when the client has gone, or says nothing while others want its place.
    async fn lost(&mut self) {
        loop {
            self.next_look.as_mut().await;
            let has_answered = self.has_answered();
            let is_felt = std::mem::take(&mut self.is_felt);
            if !is_felt && self.room.is_crowded() {
                return;
            }
            if is_felt || has_answered {
                self.is_asked = false;
                self.next_look.set(sleep(PING_INTERVAL));
            } else if self.is_asked {
                return;
            } else {
                self.is_asked = true;
                // An error means that the connection has ended, which others notice.
                let _ = self.pings.as_mut().map(|pings| pings.send_ping(Ping::opaque()));
                self.next_look.set(sleep(PING_TIMEOUT));
            }
        }
    }

    fn has_answered(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.is_asked && self.pings.as_mut().is_some_and(|pings| pings.poll_pong(&mut context).is_ready())
    }
}
