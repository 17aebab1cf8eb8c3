//! One gRPC connection, from its first byte to its graceful end.
//!
//! A proxy sends the questions of many clients over one connection, so there often are several to be read at once. Those form a batch:
//! they are decided in one go, and their answers leave together. What is no plain question goes through a pipe to h2, which has a
//! task of its own.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::mem::{MaybeUninit, take};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::time::{Sleep, sleep, timeout};
use tollgate_http2::frame::code;

use super::Services;
use super::account::{Account, BUFFERS_FIRST_BYTES, Share};
use super::back::{self, Pulse};
use super::batch::Batch;
use super::front::{Front, Taken, Violation};
use crate::access::Attempts;
use crate::connection::Impatient;
use crate::drain::Drain;
use crate::gate::Gate;
use crate::stream::Stream;

/// How long a client may take to say that it speaks HTTP/2.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take none of its answers, or hardly any that wait for its window.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call may wait for its message before h2 waits for it, which then gives it as long as any.
const HELD_TIMEOUT: Duration = Duration::from_secs(1);
/// What is read at a time: about a hundred questions.
const READ_BYTES: usize = 16 << 10;
/// When so much is to be said, nothing more is read.
const UNSENT_BYTES_MAX: usize = 64 << 10;
/// How much is under way to h2, and from it.
const PIPE_BYTES: usize = 16 << 10;
/// Buffers are counted in steps of this size, so that short requests change nothing.
const BUFFER_STEP_BYTES: usize = 16 << 10;
/// What a client has to take of answers that wait for its window, within [`WRITE_TIMEOUT`].
const MOVED_BYTES_MIN: u64 = 16 << 10;

thread_local! {
    /// The memory in which a thread decides batches, for all of its connections: a batch is answered before anything else is polled.
    static BATCH: Cell<Batch> = Cell::default();
}

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
    let (room, is_felt) = (Arc::clone(stream.room()), Arc::new(AtomicBool::new(false)));
    let Ok(account) = Account::open(&room) else {
        return tracing::debug!("no memory is left for a connection of HTTP/2");
    };
    let (pipe, far_end) = tokio::io::duplex(PIPE_BYTES);
    let pulse = Pulse::new(room, Arc::clone(&is_felt));
    let attempts = Arc::new(Attempts::new(stream.peer().address.ip()));
    let answering = (Arc::clone(&services), Arc::clone(&attempts), account.clone());
    tokio::spawn(back::serve(far_end, answering, pulse, drain));
    // Boxed, so that whoever has not said anything yet does not take the room of those who have.
    let served = Box::pin(async {
        let mut connection =
            Connection::new(stream, pipe, Arc::clone(&services.gate), (attempts, account), is_felt);
        poll_fn(|context| connection.poll(context)).await
    });
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection broke");
    }
}

struct Connection {
    stream: Impatient<Stream>,
    pipe: DuplexStream,
    gate: Arc<Gate>,
    /// Whether the client has asked anything since h2 last looked.
    is_felt: Arc<AtomicBool>,
    front: Front,
    /// What all buffers hold, in the account, and in steps.
    buffers: Share,
    buffer_steps: usize,
    /// What was read and not taken: at most a frame, and what was read after it.
    kept: Vec<u8>,
    /// Whether there are whole frames in what is kept.
    has_more: bool,
    /// How much of what is to be said was sent.
    sent: usize,
    /// How much of what is for h2 was passed on.
    passed: usize,
    /// Runs while calls wait for their messages.
    patience: Option<Pin<Box<Sleep>>>,
    /// Runs while answers wait for the client's window, since enough of them could last be sent.
    stall: Option<(u64, Pin<Box<Sleep>>)>,
    /// The client says nothing more, or must not.
    has_client_ended: bool,
    has_h2_ended: bool,
}

impl Connection {
    fn new(
        stream: Stream,
        pipe: DuplexStream,
        gate: Arc<Gate>,
        (attempts, account): (Arc<Attempts>, Account),
        is_felt: Arc<AtomicBool>,
    ) -> Connection {
        Connection {
            stream: Impatient::new(stream, WRITE_TIMEOUT),
            pipe,
            buffers: account.buffers(),
            buffer_steps: 0,
            front: Front::new(Arc::clone(&gate), attempts, account),
            gate,
            is_felt,
            kept: Vec::new(),
            has_more: false,
            sent: 0,
            passed: 0,
            patience: None,
            stall: None,
            has_client_ended: false,
            has_h2_ended: false,
        }
    }

    /// Does all that can be done, until the connection has ended.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let is_sent = self.poll_send(context)?.is_ready();
            let has_said_all = !self.front.holds_any() && self.front.outward().waits().is_none();
            let has_ended = self.has_client_ended || self.has_h2_ended && has_said_all;
            if has_ended && is_sent {
                return Pin::new(&mut self.stream).poll_shutdown(context);
            }
            if has_ended {
                return Poll::Pending;
            }
            let is_relayed = self.poll_relay(context)?.is_ready();
            let is_passed = self.poll_pass(context).is_ready();
            let is_read = self.poll_read(context)?.is_ready();
            let has_waited = self.poll_patience(context).is_ready() || self.poll_stall(context).is_ready();
            let is_shed = self.count_buffers();
            if !(is_relayed || is_passed || is_read || has_waited || is_shed) {
                return Poll::Pending;
            }
        }
    }

    /// Sends what is to be said. Ready when there is nothing more.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outward = self.front.outward();
        while let unsent @ [_, ..] = outward.bytes().get(self.sent..).unwrap_or_default() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, unsent))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
        }
        if self.sent > 0 {
            outward.clear();
            self.sent = 0;
        }
        // Over TLS, what was written may not have left yet.
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Takes what h2 says. Ready if it said anything.
    fn poll_relay(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.has_h2_ended || self.is_held_up() || self.front.outward().is_full() {
            return Poll::Pending;
        }
        let mut place = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut said = ReadBuf::uninit(&mut place);
        ready!(Pin::new(&mut self.pipe).poll_read(context, &mut said))?;
        self.has_h2_ended = said.filled().is_empty();
        self.front.relay(said.filled());
        Poll::Ready(Ok(()))
    }

    /// Passes on what is for h2. Ready if anything was taken.
    fn poll_pass(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let inward = self.front.inward();
        let unpassed @ [_, ..] = inward.get(self.passed..).unwrap_or_default() else { return Poll::Pending };
        match ready!(Pin::new(&mut self.pipe).poll_write(context, unpassed)) {
            Ok(passed) => self.passed += passed,
            // It has ended, which is noticed when all that it said was heard. Nobody will ever want what is left.
            Err(_) => self.passed = inward.len(),
        }
        if self.passed == inward.len() {
            inward.clear();
            inward.shrink_to(PIPE_BYTES);
            self.passed = 0;
        }
        Poll::Ready(())
    }

    /// Reads what the client says, and answers what it asks. Ready if it said anything.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // h2 has the first word.
        if !self.front.outward().has_begun() || self.is_held_up() || self.front.is_full() {
            return Poll::Pending;
        }
        let mut place = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut read = ReadBuf::uninit(&mut place);
        if !self.has_more {
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                self.has_client_ended = true;
                return Poll::Ready(Ok(()));
            }
        }
        if self.kept.is_empty() {
            let taken = self.serve(read.filled());
            self.kept.extend_from_slice(read.filled().get(taken..).unwrap_or_default());
        } else {
            let mut kept = take(&mut self.kept);
            kept.extend_from_slice(read.filled());
            let taken = self.serve(&kept);
            kept.drain(..taken.min(kept.len()));
            self.kept = kept;
        }
        Poll::Ready(Ok(()))
    }

    /// Takes what was read as far as it can be taken, and answers the questions in it. How many bytes that are.
    fn serve(&mut self, read: &[u8]) -> usize {
        // Taken out and put back, so that a panic leaves no questions behind for another connection.
        let mut batch = BATCH.take();
        let taken = self.front.take(read, &mut batch);
        let count = batch.len();
        if count > 0 {
            batch.answer(&self.gate, read, self.front.outward());
            self.front.has_answered(count);
            self.is_felt.store(true, Ordering::Relaxed); // orders nothing else
        }
        BATCH.set(batch);
        match taken {
            Ok(Taken { bytes, has_more }) => {
                self.has_more = has_more;
                bytes
            }
            Err(violation) => {
                tracing::debug!(code = violation.0, "a client breaks the rules of HTTP/2");
                self.front.end(violation);
                self.has_client_ended = true;
                read.len()
            }
        }
    }

    /// Ready when calls have waited long enough for their messages, which are then h2's to wait for.
    fn poll_patience(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.front.holds_any() {
            self.patience = None;
            return Poll::Pending;
        }
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(HELD_TIMEOUT)));
        ready!(patience.as_mut().poll(context));
        self.patience = None;
        self.front.release();
        Poll::Ready(())
    }

    /// Ready when answers have waited long enough for the client's window, and the connection is given up.
    fn poll_stall(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(moved_bytes) = self.front.outward().waits() else {
            self.stall = None;
            return Poll::Pending;
        };
        let fresh = || (moved_bytes, Box::pin(sleep(WRITE_TIMEOUT)));
        let stall = self.stall.get_or_insert_with(fresh);
        if moved_bytes - stall.0 >= MOVED_BYTES_MIN {
            *stall = fresh();
        }
        ready!(stall.1.as_mut().poll(context));
        tracing::debug!("a client has no window for its answers");
        self.front.end(Violation(code::ENHANCE_YOUR_CALM));
        self.has_client_ended = true;
        Poll::Ready(())
    }

    /// Counts what the buffers hold. True where the account is full and the client does not finish its calls or take its answers: then the
    /// connection is given up.
    fn count_buffers(&mut self) -> bool {
        let bytes = self.front.buffer_bytes() + self.kept.capacity();
        let steps = bytes.div_ceil(BUFFER_STEP_BYTES);
        if steps == self.buffer_steps || self.has_client_ended {
            return false;
        }
        self.buffer_steps = steps;
        let is_counted = self.buffers.set(steps * BUFFER_STEP_BYTES).is_ok();
        if is_counted || self.front.stuck_bytes() <= BUFFERS_FIRST_BYTES {
            return false;
        }
        tracing::debug!("no memory is left for a client that does not go on");
        self.front.end(Violation(code::ENHANCE_YOUR_CALM));
        self.has_client_ended = true;
        true
    }

    /// Whether the client is to take its answers first.
    fn is_held_up(&mut self) -> bool {
        self.front.outward().bytes().len() >= UNSENT_BYTES_MAX
    }
}
