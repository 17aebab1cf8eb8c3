//! A client without a network: what it sends comes in pieces, each of which has to be waited for, and what it is sent is kept.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How long the pieces of a stream are: each byte one length, in turn. Zero is all that is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    bytes: [u8; 4],
    at: usize,
}

impl Lengths {
    pub(crate) fn new(bytes: [u8; 4]) -> Lengths {
        Lengths { bytes, at: 0 }
    }

    /// Everything at once.
    pub(crate) fn whole() -> Lengths {
        Lengths::new([0; 4])
    }

    pub(crate) fn next(&mut self) -> usize {
        let length = self.bytes[self.at % self.bytes.len()];
        self.at += 1;
        if length == 0 { usize::MAX } else { usize::from(length) }
    }
}

pub(crate) struct Pieces<'a> {
    unsent: &'a [u8],
    /// What is left of the piece that has arrived.
    arrived: usize,
    lengths: Lengths,
    /// Whether somebody waits for the next piece.
    is_awaited: bool,
    written: Vec<u8>,
}

impl<'a> Pieces<'a> {
    pub(crate) fn new(stream: &'a [u8], lengths: Lengths) -> Pieces<'a> {
        Pieces { unsent: stream, arrived: 0, lengths, is_awaited: false, written: Vec::new() }
    }

    pub(crate) fn written(&self) -> &[u8] {
        &self.written
    }
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.arrived == 0 {
            self.is_awaited = !self.is_awaited;
            if self.is_awaited {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.arrived = self.lengths.next().min(self.unsent.len());
        }
        let length = self.arrived.min(buffer.remaining());
        let (read, unsent) = self.unsent.split_at(length);
        buffer.put_slice(read);
        self.unsent = unsent;
        self.arrived -= length;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pieces<'_> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.written.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
