//! What the requests of one connection hold: their header fields, the bodies that are being read, and the
//! responses that the client has not taken yet.
//!
//! Each of them has a bound, but HTTP/2 sends many at once. Without a bound for all of them, one client could
//! make the server hold the bound times the number of streams.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::Body as ResponseBody;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use hyper::body::{Body, Frame, SizeHint};
use thiserror::Error;
use tower::BoxError;

use crate::memory::AccountFull;
use crate::room::{Held, Room, Share};

/// What all bodies of a connection together may hold.
pub(super) const BODIES_BYTES_MAX: usize = 16 << 20;
/// So much of it belongs to the first buffers of the connection.
const FIRST_BYTES_MAX: usize = 16 << 10;
/// What a header field takes besides its name and value.
const FIELD_BYTES: usize = 64;
/// What a request takes besides its header fields: a task, and a stream of HTTP/2.
const REQUEST_BYTES: usize = 2 << 10;

/// More is under way than a connection may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the requests under way on this connection are larger than {BODIES_BYTES_MAX} bytes together")]
pub(super) struct TooMuchUnderWay;

/// What the requests of one connection hold.
#[derive(Clone, Debug)]
pub(super) struct Budget(Arc<Held>);

/// The body of a request, which counts for what was read of it until it is dropped.
pub(crate) struct Counted<B> {
    body: B,
    share: Share,
}

impl Budget {
    pub(super) fn new(room: Arc<Room>) -> Budget {
        Budget(Arc::new(Held::new(room, FIRST_BYTES_MAX)))
    }

    pub(super) fn count<B>(&self, body: B) -> Counted<B> {
        Counted { body, share: Share::new(&self.0) }
    }

    /// Charges the header fields of a request, for as long as the share is kept.
    pub(super) fn charge_head<B>(&self, request: &Request<B>) -> Result<Share, AccountFull> {
        let mut share = Share::new(&self.0);
        let uri = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
        share.grow(REQUEST_BYTES + uri + fields_bytes(request.headers()))?;
        Ok(share)
    }
}

fn fields_bytes(fields: &HeaderMap) -> usize {
    fields.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES).sum()
}

impl<B> Counted<B> {
    fn take(&mut self, bytes: usize) -> Result<(), BoxError> {
        let held_bytes = self.share.grow(bytes)?;
        if held_bytes > BODIES_BYTES_MAX { Err(TooMuchUnderWay.into()) } else { Ok(()) }
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

/// How many responses of a connection the client has not taken yet, and how many it has.
#[derive(Debug, Default)]
pub(super) struct Responses {
    waiting: AtomicUsize,
    taken: AtomicUsize,
}

// Relaxed: the numbers order nothing else.
impl Responses {
    /// How many the client has taken, if it has still to take others.
    pub(super) fn taken_while_waiting(&self) -> Option<usize> {
        (self.waiting.load(Ordering::Relaxed) > 0).then(|| self.taken.load(Ordering::Relaxed))
    }
}

/// The body of a response, which counts until the client has taken it, together with its request.
struct Answer {
    body: ResponseBody,
    _share: Share,
    responses: Arc<Responses>,
}

/// Makes a response count, with what its request holds.
pub(super) fn count_response(
    response: Response<ResponseBody>,
    mut share: Share,
    responses: &Arc<Responses>,
) -> Response<ResponseBody> {
    let bytes = usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX);
    // It is made already: refusing it now would save nothing.
    let _ = share.grow(fields_bytes(response.headers()).saturating_add(bytes));
    responses.waiting.fetch_add(1, Ordering::Relaxed);
    let responses = Arc::clone(responses);
    response.map(|body| ResponseBody::new(Answer { body, _share: share, responses }))
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.responses.taken.fetch_add(1, Ordering::Relaxed);
        self.responses.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
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
