//! Closing a connection whose other end takes nothing any more.
#![allow(clippy::unwrap_used)]

use tokio::io::{DuplexStream, duplex};
use tokio::time::Instant;

use super::*;

/// A connection that is never rid of its last words, as one of TLS whose client has stopped reading.
pub(crate) struct NeverClosed(pub(crate) DuplexStream);

impl AsyncRead for NeverClosed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for NeverClosed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn is_not_waited_for_for_ever() {
    const TIME_MAX: Duration = Duration::from_secs(10);
    let (ours, _theirs) = duplex(1);
    let start = Instant::now();
    let mut ours = NeverClosed(ours);
    let closed = tokio::time::timeout(2 * TIME_MAX, close(&mut ours, TIME_MAX)).await.unwrap();
    assert_eq!(closed.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
    assert_eq!(start.elapsed().as_secs(), TIME_MAX.as_secs());
}
