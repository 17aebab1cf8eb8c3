//! What one gRPC connection holds of the server's memory: streams, header fields, messages, answers and buffers.
//!
//! A little of it belongs to the first buffers of the connection: so a health check and a question work even when the account has no
//! room for requests. What goes beyond that is charged to the account, and refused when it has no room: calls that are not of
//! `ShouldRateLimit` first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tonic::Status;

use crate::memory::{AccountFull, Class};
use crate::room::{Held, Room};

/// What belongs to the first buffers of a connection: one short question that h2 answers, one short other call such as a health check,
/// and the buffers of a client that reads its answers.
pub(super) const CALL_FIRST_BYTES: usize = 20 << 10;
pub(super) const BUFFERS_FIRST_BYTES: usize = 32 << 10;
/// What a call takes that h2 answers, besides its fields and messages: h2's stream, the task, and tonic's buffers. Measured, see
/// `docs/hostile-input.md`.
pub(super) const STREAM_BYTES: usize = 16 << 10;
/// What a connection of HTTP/2 takes before anything is asked, besides what every connection takes: h2, the pipe to it, and two tasks.
/// Measured, see `docs/hostile-input.md`.
const HTTP2_BYTES: usize = 24 << 10;
/// What a connection may have sent of messages that are not whole yet: one that is as long as may be, and then some.
const UNFINISHED_BYTES_MAX: usize = 16 << 20;

/// The account of one connection.
#[derive(Clone, Debug)]
pub(super) struct Account {
    questions: Arc<Held>,
    others: Arc<Held>,
    buffers: Arc<Held>,
    unfinished_bytes: Arc<AtomicUsize>,
}

impl Account {
    /// Charges what a connection takes that speaks HTTP/2, or says that there is no room for it.
    pub(super) fn open(room: &Arc<Room>) -> Result<Account, AccountFull> {
        let held = |class, bytes| Arc::new(Held::of_class(Arc::clone(room), class, bytes));
        let account = Account {
            questions: held(Class::Request, CALL_FIRST_BYTES),
            others: held(Class::Call, CALL_FIRST_BYTES),
            buffers: held(Class::Request, HTTP2_BYTES + BUFFERS_FIRST_BYTES),
            unfinished_bytes: Arc::default(),
        };
        account.buffers.grow(HTTP2_BYTES)?;
        Ok(account)
    }

    /// A share of so many bytes for a question or another call, or an error if there is no room for it.
    pub(super) fn take(&self, is_question: bool, bytes: usize) -> Result<Share, AccountFull> {
        let mut share = self.nothing(is_question);
        share.grow(bytes)?;
        Ok(share)
    }

    /// A share of so many bytes for the answer to a question that was decided. It is never refused: the limits are charged, and a
    /// client that got an error instead would take that for leave. The call holds [`STREAM_BYTES`] within the cap, and its answer is
    /// hardly more.
    pub(super) fn owe(&self, bytes: usize) -> Share {
        let mut share = self.nothing(true);
        share.bytes = bytes;
        share.held.hold(bytes);
        share
    }

    fn nothing(&self, is_question: bool) -> Share {
        let held = if is_question { &self.questions } else { &self.others };
        Share { held: Arc::clone(held), bytes: 0 }
    }

    /// The share of the connection's buffers, which are empty yet.
    pub(super) fn buffers(&self) -> Share {
        Share { held: Arc::clone(&self.buffers), bytes: 0 }
    }

    /// What has come of a message. It grows later. That of another call than a question is charged as it comes, with the call: see
    /// `front::Passed`.
    pub(super) fn message(&self, is_question: bool) -> Message {
        let share = is_question.then(|| self.nothing(true));
        Message { share, bytes: 0, unfinished_bytes: Arc::clone(&self.unfinished_bytes) }
    }
}

/// A part of what a connection holds. It ends with this value.
#[derive(Debug)]
pub(super) struct Share {
    held: Arc<Held>,
    bytes: usize,
}

impl Share {
    /// Takes more. It counts even where it is refused, until this value is dropped.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), AccountFull> {
        self.bytes += bytes;
        self.held.grow(bytes).map(drop)
    }

    /// Holds just so much from now on. An error if that is more than before and there is no room for it; it counts all the same.
    pub(super) fn set(&mut self, bytes: usize) -> Result<(), AccountFull> {
        if bytes > self.bytes {
            return self.grow(bytes - self.bytes);
        }
        if bytes < self.bytes {
            self.held.shrink(self.bytes - bytes);
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.held.shrink(self.bytes);
    }
}

/// A message that is not whole yet.
#[derive(Debug)]
pub(super) struct Message {
    share: Option<Share>,
    bytes: usize,
    unfinished_bytes: Arc<AtomicUsize>,
}

impl Message {
    /// Takes more, or says why it must not.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        // Relaxed: the number protects no memory. It counts even where it is refused.
        let before = self.unfinished_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        let held = self.share.as_mut().map_or(Ok(()), |share| share.grow(bytes));
        if before + bytes > UNFINISHED_BYTES_MAX {
            let text = format!("unfinished messages of more than {UNFINISHED_BYTES_MAX} bytes");
            return Err(Status::resource_exhausted(text));
        }
        held.map_err(|error| Status::resource_exhausted(error.to_string()))
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.unfinished_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
