//! One connection as protocols see it: bytes in and out, whatever carries them, and who is at the other end.

#[cfg(test)]
pub(crate) mod tests;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tollgate_http2::frame::{Head, flag, kind};

use crate::room::Room;

/// What every HTTP/2 connection begins with.
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
}

/// A connection.
pub(crate) struct Stream<I = Io> {
    io: I,
    peer: Peer,
    room: Arc<Room>,
    /// What was read to find out what the client speaks, and has still to be read by whoever serves it.
    head: BytesMut,
}

/// Closes a connection. TLS has to write that this is the end, for which a client that has stopped reading leaves no room: it is not
/// waited for longer than so.
pub(crate) async fn close<S: AsyncWrite + Unpin>(stream: &mut S, time_max: Duration) -> io::Result<()> {
    tokio::time::timeout(time_max, stream.shutdown()).await?
}

/// Implements [`AsyncWrite`] for a connection that changes nothing of what is written: its field `io` gets all of it.
macro_rules! write_through {
    ($connection:ident) => {
        impl<I: AsyncWrite + Unpin> AsyncWrite for $connection<I> {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut self.get_mut().io).poll_write(context, bytes)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                slices: &[std::io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut self.get_mut().io).poll_write_vectored(context, slices)
            }

            fn is_write_vectored(&self) -> bool {
                self.io.is_write_vectored()
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(&mut self.get_mut().io).poll_flush(context)
            }

            fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(&mut self.get_mut().io).poll_shutdown(context)
            }
        }
    };
}
pub(crate) use write_through;

/// What carries the bytes of clients.
pub(crate) enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(crate) fn plain(stream: TcpStream, peer: Peer, room: Arc<Room>) -> Stream {
        Stream { io: Io::Plain(stream), peer, room, head: BytesMut::new() }
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>, peer: Peer, room: Arc<Room>) -> Stream {
        Stream { io: Io::Tls(Box::new(stream)), peer, room, head: BytesMut::new() }
    }
}

impl<I> Stream<I> {
    /// A connection without limits.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn new(io: I, peer: Peer) -> Stream<I> {
        Stream { io, peer, room: Arc::new(Room::unbounded()), head: BytesMut::new() }
    }

    /// Those that it shares its listener with.
    pub(crate) fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// Who is at the other end.
    pub(crate) fn peer(&self) -> Peer {
        self.peer
    }

    /// Takes bytes back that were read and are for somebody else.
    pub(crate) fn unread(&mut self, mut bytes: BytesMut) {
        bytes.extend_from_slice(&self.head);
        self.head = bytes;
    }
}

impl<I: AsyncRead + Unpin> Stream<I> {
    /// Waits until it is clear whether the client speaks HTTP/2. What it has said so far is still there to be read. An error if the
    /// client has gone.
    pub(crate) async fn speaks_http2(&mut self) -> io::Result<bool> {
        loop {
            let seen = self.head.len().min(PREFACE.len());
            if self.head[..seen] != PREFACE[..seen] {
                return Ok(false);
            }
            if seen == PREFACE.len() {
                return Ok(true);
            }
            if self.io.read_buf(&mut self.head).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Waits for the first frame after the preface of HTTP/2, and says whether it is SETTINGS. What the client has said so far is
    /// still there to be read. An error if the client has gone.
    pub(crate) async fn begins_with_settings(&mut self) -> io::Result<bool> {
        loop {
            if let Some(head) = self.head.get(PREFACE.len()..).and_then(Head::read) {
                return Ok(head.kind == kind::SETTINGS && !head.has(flag::ACK));
            }
            if self.io.read_buf(&mut self.head).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Stream<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        if !stream.head.is_empty() {
            let length = stream.head.len().min(buffer.remaining());
            buffer.put_slice(&stream.head[..length]);
            stream.head.advance(length);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut stream.io).poll_read(context, buffer)
    }
}

write_through!(Stream);

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Io::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Io::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Io::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Io::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Io::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Io::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Io::Plain(stream) => stream.is_write_vectored(),
            Io::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Io::Plain(stream) => Pin::new(stream).poll_flush(context),
            Io::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Io::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Io::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
