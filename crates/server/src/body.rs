//! Whole bodies of requests, bounded in length and in time.

use std::error::Error;
use std::time::Duration;

use axum::BoxError;
use axum::body::{Bytes, HttpBody};
use http::header::CONTENT_LENGTH;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use thiserror::Error as ThisError;

use crate::memory::AccountFull;

/// How long a client may take to send a body: one that never does must not keep its connection.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no body.
#[derive(Debug, ThisError)]
pub(crate) enum BodyError {
    /// More than anybody needs.
    #[error("the body is larger than {max} bytes: ask about less at once")]
    TooLarge {
        /// What is taken.
        max: usize,
    },
    /// Nobody waits for ever.
    #[error("the body did not arrive within {seconds} seconds")]
    TooSlow {
        /// How long was waited.
        seconds: u64,
    },
    /// The sender went away, or broke the protocol.
    #[error("the body could not be read: {0}")]
    Unreadable(axum::Error),
    /// There is no memory left for it.
    #[error("{0}")]
    Busy(AccountFull),
}

/// A body that a client sends.
pub(crate) trait Sent: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin {}
impl<B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin> Sent for B {}

/// Reads a whole body, of so many bytes at most.
pub(crate) async fn read<B: Sent>(request: http::Request<B>, max: usize) -> Result<Bytes, BodyError> {
    let (head, body) = request.into_parts();
    // Said before anything is read, so that the sender need not bother.
    let length =
        head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > max as u64) {
        return Err(BodyError::TooLarge { max });
    }
    match tokio::time::timeout(BODY_TIMEOUT, gather(Limited::new(body, max))).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge { max }),
        Ok(Err(error)) => Err(unreadable(error)),
        Err(_) => Err(BodyError::TooSlow { seconds: BODY_TIMEOUT.as_secs() }),
    }
}

/// Why a body could not be read. The router puts errors into others.
fn unreadable(error: BoxError) -> BodyError {
    let outermost: &(dyn Error + 'static) = &*error;
    let mut causes = std::iter::successors(Some(outermost), |&cause| cause.source());
    match causes.find_map(|cause| cause.downcast_ref::<AccountFull>()) {
        Some(&account_full) => BodyError::Busy(account_full),
        None => BodyError::Unreadable(axum::Error::new(error)),
    }
}

/// Puts the pieces of a body together as they come. A list of pieces would take many times their length if each is a single byte.
async fn gather<B: Sent>(mut body: Limited<B>) -> Result<Bytes, BoxError> {
    let (mut first, mut all) = (Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame?.into_data() else { continue };
        if first.is_empty() && all.is_empty() {
            first = piece; // Most bodies come in one piece, which need not be copied.
        } else {
            let to_come = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
            append(&mut all, &std::mem::take(&mut first), None);
            append(&mut all, &piece, to_come);
        }
    }
    Ok(if all.is_empty() { first } else { Bytes::from(all) })
}

/// Adds a piece. Memory at most doubles, and goes no further than what is to come, if that is known.
fn append(all: &mut Vec<u8>, piece: &[u8], to_come: Option<usize>) {
    let length = all.len() + piece.len();
    if length > all.capacity() {
        let end = to_come.map_or(usize::MAX, |bytes| length.saturating_add(bytes));
        all.reserve_exact((2 * all.capacity()).clamp(length, end) - all.len());
    }
    all.extend_from_slice(piece);
}
