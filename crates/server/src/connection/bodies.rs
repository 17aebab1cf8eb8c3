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
use bytes::{Buf, Bytes};
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
/// A connection that holds more than this when the account refuses something is to be closed.
const REFUSED_BYTES_MAX: usize = 64 << 10;
/// What a header field takes besides its name and value.
const FIELD_BYTES: usize = 64;
/// What a request takes besides its header fields and the future that answers it, and what a response takes
/// besides its header fields and its body: a task, and a stream of HTTP/2.
const STREAM_BYTES: usize = 2 << 10;

/// More is under way than a connection may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the requests under way on this connection are larger than {BODIES_BYTES_MAX} bytes together")]
pub(super) struct TooMuchUnderWay;

/// What the requests of one connection hold. Requests carry it as an extension, so that handlers can charge
/// what they hold.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Held>);

/// What one request holds until it has a response: its header fields, the future that answers it, and what
/// was read of its body.
#[derive(Debug)]
pub(super) struct RequestShare {
    of: Arc<Held>,
    // Relaxed: the number guards no other memory.
    bytes: AtomicUsize,
}

/// The body of a request. What was read of it counts until the request has a response.
pub(crate) struct Counted<B> {
    body: B,
    share: Arc<RequestShare>,
}

impl Budget {
    pub(super) fn new(room: Arc<Room>) -> Budget {
        Budget(Arc::new(Held::new(room, FIRST_BYTES_MAX)))
    }

    /// What one more request holds.
    pub(super) fn request(&self) -> Arc<RequestShare> {
        Arc::new(RequestShare { of: Arc::clone(&self.0), bytes: AtomicUsize::new(0) })
    }

    /// Nothing yet of what the connection may hold, for a handler that holds more than its response.
    pub(crate) fn share(&self) -> Share {
        Share::new(&self.0)
    }

    /// Whether the connection holds so much that it is to be closed when the account refuses something.
    pub(super) fn is_large(&self) -> bool {
        self.0.bytes() > REFUSED_BYTES_MAX
    }
}

impl RequestShare {
    /// Charges the header fields of a request, and a future of so many bytes that answers it.
    pub(super) fn charge<B>(&self, request: &Request<B>, future_bytes: usize) -> Result<(), AccountFull> {
        let uri = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
        self.grow(STREAM_BYTES + future_bytes + uri + fields_bytes(request.headers())).map(drop)
    }

    /// Adds to it, and returns what the whole connection holds. What is refused stays charged.
    fn grow(&self, bytes: usize) -> Result<usize, AccountFull> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.of.grow(bytes)
    }
}

impl Drop for RequestShare {
    fn drop(&mut self) {
        self.of.shrink(*self.bytes.get_mut());
    }
}

fn fields_bytes(fields: &HeaderMap) -> usize {
    fields.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES).sum()
}

impl<B> Counted<B> {
    pub(super) fn new(body: B, share: Arc<RequestShare>) -> Counted<B> {
        Counted { body, share }
    }

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

/// The body of a response, which counts until the client has taken it.
///
/// The HTTP library drops a body when it has read all of it, and keeps the bytes until the client has a
/// window for them. So each of its chunks keeps the share too.
pub(super) struct Answer {
    body: ResponseBody,
    /// So much of what is still to come was charged when the response was made.
    charged_bytes: usize,
    untaken: Arc<Untaken>,
}

/// A response that the client has not taken yet.
#[derive(Debug)]
struct Untaken {
    share: Share,
    responses: Arc<Responses>,
}

/// A part of a response.
#[derive(Debug)]
pub(super) struct Chunk {
    bytes: Bytes,
    /// What was charged for this part alone, of a response whose length is not known.
    share: Option<Share>,
    untaken: Arc<Untaken>,
}

/// Makes a response count. Says whether the account has room for it; if not, it counts all the same.
pub(super) fn count_response(
    response: Response<ResponseBody>,
    budget: &Budget,
    responses: &Arc<Responses>,
) -> (Response<Answer>, Result<(), AccountFull>) {
    let body_bytes = usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX);
    let mut share = budget.share();
    let bytes = STREAM_BYTES + fields_bytes(response.headers());
    let charged = share.grow(bytes.saturating_add(body_bytes)).map(drop);
    responses.waiting.fetch_add(1, Ordering::Relaxed);
    let untaken = Arc::new(Untaken { share, responses: Arc::clone(responses) });
    (response.map(|body| Answer { body, charged_bytes: body_bytes, untaken }), charged)
}

impl Drop for Untaken {
    fn drop(&mut self) {
        self.responses.taken.fetch_add(1, Ordering::Relaxed);
        self.responses.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // Such a response may take long, and the client takes it as long as it takes its parts.
        if self.share.is_some() {
            self.untaken.responses.taken.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Answer {
    /// A part of the response. An error if its length was not known before and the account has no room.
    fn chunk(&mut self, bytes: Bytes) -> Result<Chunk, AccountFull> {
        let more_bytes = bytes.len().saturating_sub(self.charged_bytes);
        self.charged_bytes = self.charged_bytes.saturating_sub(bytes.len());
        let share = (more_bytes > 0).then(|| self.untaken.share.another(more_bytes)).transpose()?;
        Ok(Chunk { bytes, share, untaken: Arc::clone(&self.untaken) })
    }
}

impl Body for Answer {
    type Data = Chunk;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, BoxError>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        let frame = match frame.into_data() {
            Ok(bytes) => self.chunk(bytes).map(Frame::data).map_err(BoxError::from),
            Err(frame) => frame.into_trailers().map(Frame::trailers).map_err(|_| "an unknown frame".into()),
        };
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

#[cfg(test)]
mod tests;
