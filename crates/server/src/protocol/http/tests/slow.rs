//! A client that begins a body and does not end it.
#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use http::{Request, StatusCode};

use super::{gate, send};

/// A body that never comes.
struct Silence;

impl HttpBody for Silence {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn is_not_waited_for_for_ever() {
    let request = Request::post("/v1/check").body(Body::new(Silence)).unwrap();
    let (head, body) = send(&gate(), request).await;
    assert_eq!(head.status(), StatusCode::REQUEST_TIMEOUT);
    assert!(body.contains("did not arrive within 10 seconds"), "{body}");
}
