//! What bodies on one connection may hold together, and that they give it back.
use bytes::Bytes;
use http_body_util::{BodyExt, Full};

use super::{BODIES_BYTES_MAX, Budget, Counted};

const HALF: usize = BODIES_BYTES_MAX / 2;

/// A body of so many bytes, read as far as its first piece.
async fn begun(budget: &Budget, bytes: usize) -> (Counted<Full<Bytes>>, bool) {
    let mut body = budget.count(Full::new(Bytes::from(vec![0; bytes])));
    let is_read = body.frame().await.is_some_and(|frame| frame.is_ok());
    (body, is_read)
}

#[tokio::test]
async fn bodies_of_a_connection_share_its_budget() {
    let budget = Budget::default();
    let (first, is_read) = begun(&budget, HALF).await;
    assert!(is_read);
    let (_second, is_read) = begun(&budget, HALF).await;
    assert!(is_read, "just as much as there may be");
    assert!(!begun(&budget, 1).await.1, "and not a byte more");
    drop(first);
    assert!(begun(&budget, HALF).await.1, "what is over counts no more");
    assert!(begun(&Budget::default(), BODIES_BYTES_MAX).await.1, "another connection has its own");
}

#[tokio::test]
async fn what_was_refused_is_given_back() {
    let budget = Budget::default();
    assert!(!begun(&budget, BODIES_BYTES_MAX + 1).await.1);
    assert!(begun(&budget, BODIES_BYTES_MAX).await.1);
}
