//! The bodies that are under way on one connection share a budget, and connections share that of their listener.
//!
//! A body has a bound, but HTTP/2 sends many at once: without a bound for all of them, one client could have the server hold the
//! bound times the number of streams.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use thiserror::Error;
use tower::BoxError;

use crate::room::{Held, Room};

/// What all bodies of a connection together may hold.
pub(super) const BODIES_BYTES_MAX: usize = 16 << 20;
/// So much of it is not counted with the listener.
const FREE_BYTES: usize = 64 << 10;

/// More is under way than a connection may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the requests under way on this connection are larger than {BODIES_BYTES_MAX} bytes together")]
pub(super) struct TooMuchUnderWay;

/// What the bodies of one connection hold.
#[derive(Clone, Debug)]
pub(super) struct Budget(Arc<Held>);

/// A body that counts, until it is gone, for what was read of it.
pub(crate) struct Counted<B> {
    body: B,
    budget: Budget,
    taken_bytes: usize,
}

impl Budget {
    pub(super) fn new(room: Arc<Room>) -> Budget {
        Budget(Arc::new(Held::new(room, FREE_BYTES)))
    }

    pub(super) fn count<B>(&self, body: B) -> Counted<B> {
        Counted { body, budget: self.clone(), taken_bytes: 0 }
    }
}

impl<B> Counted<B> {
    fn take(&mut self, bytes: usize) -> Result<(), BoxError> {
        self.taken_bytes += bytes;
        let held_bytes = self.budget.0.grow(bytes)?;
        if held_bytes > BODIES_BYTES_MAX { Err(TooMuchUnderWay.into()) } else { Ok(()) }
    }
}

impl<B> Drop for Counted<B> {
    fn drop(&mut self) {
        self.budget.0.shrink(self.taken_bytes);
    }
}

impl<B> Body for Counted<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        let taken = self.take(frame.data_ref().map_or(0, Bytes::len));
        Poll::Ready(Some(taken.map(|()| frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
