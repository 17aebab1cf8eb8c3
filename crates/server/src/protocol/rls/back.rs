//! What is no plain question, by h2: other methods, long messages, and the manners of HTTP/2.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Ping, PingPong, RecvStream};
use http::Request;
use http::header::CONTENT_TYPE;
use tokio::io::DuplexStream;
use tokio::time::{Sleep, sleep, timeout};
use tonic::Status;

use super::account::Account;
use super::front::{HEADER_BYTES_MAX, WINDOW_BYTES};
use super::{HEALTH, Services, others, reply};
use crate::access::{self, Admitted, Attempts};
use crate::drain::Drain;
use crate::metrics::Protocol;
use crate::room::Room;

/// How long a client may take to send all of what it must say first.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Calls under way on one connection. Envoy sends all requests of a worker thread over one.
const STREAMS_MAX: u32 = 1024;
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

/// How long a client that has shown too many wrong tokens has to take its answers.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves what is passed on of one connection, until that closes. When the server stops, calls under way are still answered.
pub(super) async fn serve(
    pipe: DuplexStream,
    (services, attempts, account): (Arc<Services>, Arc<Attempts>, Account),
    pulse: Pulse,
    drain: Drain,
) {
    let handshake = server::Builder::new()
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_pending_accept_reset_streams(RESETS_UNSEEN_MAX)
        .max_local_error_reset_streams(Some(RESETS_BY_ERROR_MAX))
        .handshake(pipe);
    let ended = match timeout(HANDSHAKE_TIMEOUT, handshake).await {
        Ok(Ok(http2)) => Connection { http2, services, attempts, account }.run(pulse, drain).await,
        Ok(Err(error)) => Err(error),
        Err(_) => return tracing::debug!("a client does not say what it must say first"),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

struct Connection {
    http2: server::Connection<DuplexStream, Bytes>,
    services: Arc<Services>,
    attempts: Arc<Attempts>,
    account: Account,
}

impl Connection {
    async fn run(mut self, mut pulse: Pulse, mut drain: Drain) -> Result<(), h2::Error> {
        pulse.pings = self.http2.ping_pong();
        let mut begun = pin!(drain.begun());
        let (mut overdue, mut is_stopping) = (pin!(sleep(Duration::MAX)), false);
        loop {
            tokio::select! {
                biased; // What was asked is answered, even if the server stops.
                accepted = self.http2.accept() => {
                    let Some(call) = accepted else { return Ok(()) };
                    let (request, caller) = call?;
                    self.take(request, caller);
                    if self.attempts.is_over() && !is_stopping {
                        is_stopping = true;
                        overdue.set(sleep(REFUSED_TIMEOUT));
                        self.http2.graceful_shutdown();
                    }
                    pulse.is_felt.store(true, Ordering::Relaxed); // orders nothing else
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

    /// Takes up a call.
    fn take(&self, mut request: Request<RecvStream>, mut caller: SendResponse<Bytes>) {
        let (headers, path) = (request.headers(), request.uri().path());
        let content_type = headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
        if !content_type.is_some_and(|told| told.starts_with(b"application/grpc")) {
            return reply::refuse_content_type(&mut caller);
        }
        let admitted = if path.starts_with(HEALTH) {
            Ok(Admitted::default())
        } else {
            self.services.gate.admit(Protocol::Rls, access::shown(headers), Some(&self.attempts))
        };
        let Ok(Admitted { scope, .. }) = admitted else {
            return reply::refuse(&mut caller, Status::unauthenticated("no valid credentials"));
        };
        if let Some(scope) = scope {
            request.extensions_mut().insert(scope);
        }
        let (services, account) = (Arc::clone(&self.services), self.account.clone());
        tokio::spawn(others::answer(services, request, caller, account));
    }
}

/// Whether a client is still there.
pub(super) struct Pulse {
    pings: Option<PingPong>,
    room: Arc<Room>,
    next_look: Pin<Box<Sleep>>,
    /// Whether the client has been asked and has not answered yet.
    is_asked: bool,
    /// Whether something has come since the last look.
    is_felt: Arc<AtomicBool>,
}

impl Pulse {
    /// A pulse of a client that shares a room with others. Whoever hears it ask sets the flag.
    pub(super) fn new(room: Arc<Room>, is_felt: Arc<AtomicBool>) -> Pulse {
        Pulse { pings: None, room, next_look: Box::pin(sleep(PING_INTERVAL)), is_asked: false, is_felt }
    }

    /// Comes back when the client has gone, or says nothing while others want its place.
    async fn lost(&mut self) {
        loop {
            self.next_look.as_mut().await;
            let has_answered = self.has_answered();
            let is_felt = self.is_felt.swap(false, Ordering::Relaxed);
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
