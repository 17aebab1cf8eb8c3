//! A client without a network: what it sends comes in pieces, and what it is sent is kept.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How long the pieces of a stream are: each byte one length, in turn. Zero is all that is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    bytes: [u8; 4],
    at: usize,
}

impl Lengths {
    pub(super) fn new(bytes: [u8; 4]) -> Lengths {
        Lengths { bytes, at: 0 }
    }

    /// Everything at once.
    pub(super) fn whole() -> Lengths {
        Lengths::new([0; 4])
    }

    pub(super) fn next(&mut self) -> usize {
        let length = self.bytes[self.at % self.bytes.len()];
        self.at += 1;
        if length == 0 { usize::MAX } else { usize::from(length) }
    }
}

pub(super) struct Pieces<'a> {
    unsent: &'a [u8],
    lengths: Lengths,
    written: Vec<u8>,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(stream: &'a [u8], lengths: Lengths) -> Pieces<'a> {
        Pieces { unsent: stream, lengths, written: Vec::new() }
    }

    pub(super) fn written(&self) -> &[u8] {
        &self.written
    }
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.lengths.next().min(self.unsent.len()).min(buffer.remaining());
        let (piece, unsent) = self.unsent.split_at(length);
        buffer.put_slice(piece);
        self.unsent = unsent;
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
