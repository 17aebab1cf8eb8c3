//! Bytes of a connection that were read and are not a request yet.
//!
//! A client can send a header as long as it may be, byte by byte, on every connection that it has. The HTTP
//! library keeps those bytes, so they are charged to the memory account as they are read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::memory::AccountFull;
use crate::room::{Held, Room};
use crate::stream::write_through;

/// What the HTTP library keeps at most of a request's header, and so the most that is charged.
const BYTES_MAX: usize = super::HEADER_BYTES_MAX as usize;
/// So much of it belongs to the first buffers of the connection.
const FIRST_BYTES_MAX: usize = 8 << 10;
/// What an idle client of HTTP/2 sends between two looks at its connection: two answers to pings.
const PINGS_BYTES_MAX: usize = 2 * 17;

/// What was read of the next request.
#[derive(Debug)]
pub(super) struct Unparsed {
    held: Held,
    /// What was held at the last look.
    seen: AtomicUsize,
    /// Requests whose headers are whole. What is read meanwhile are their bodies, which are charged as such.
    under_way: AtomicUsize,
}

/// A request whose header is whole, until it is answered.
pub(super) struct Parsed(Arc<Unparsed>);

impl Unparsed {
    pub(super) fn new(room: Arc<Room>) -> Arc<Unparsed> {
        let held = Held::new(room, FIRST_BYTES_MAX);
        Arc::new(Unparsed { held, seen: AtomicUsize::new(0), under_way: AtomicUsize::new(0) })
    }

    /// Looks at the connection once in a while. What came since the last look is forgotten if it is no
    /// more than an idle client sends, or the answers to pings would add up to a header for as long as
    /// the connection is idle. Called by the task of the connection, which reads, too.
    pub(super) fn look(&self) {
        let held = self.held.bytes();
        let before = self.seen.load(Ordering::Relaxed).min(held);
        let kept = if held - before <= PINGS_BYTES_MAX { before } else { held };
        self.seen.store(kept, Ordering::Relaxed);
        let _ = self.held.set(kept); // Less is never refused.
    }

    /// The header of a request is whole.
    pub(super) fn parsed(self: &Arc<Unparsed>) -> Parsed {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let _ = self.held.set(0); // Less is never refused.
        Parsed(Arc::clone(self))
    }

    fn read(&self, bytes: usize) -> Result<(), AccountFull> {
        if self.under_way.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        self.held.set(self.held.bytes().saturating_add(bytes).min(BYTES_MAX))
    }
}

impl Drop for Parsed {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that charges what is read from it.
pub(super) struct ReadAhead<S> {
    io: S,
    unparsed: Arc<Unparsed>,
}

impl<S> ReadAhead<S> {
    pub(super) fn new(io: S, unparsed: Arc<Unparsed>) -> ReadAhead<S> {
        ReadAhead { io, unparsed }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadAhead<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, buffer))?;
        let charged = self.unparsed.read(buffer.filled().len() - before);
        Poll::Ready(charged.map_err(|full| io::Error::new(io::ErrorKind::OutOfMemory, full)))
    }
}

write_through!(ReadAhead);
