//! What bodies on one connection may hold together, and that they give it back.
use bytes::Bytes;
use http_body_util::{BodyExt, Full};

use super::*;

fn alone() -> Budget {
    Budget::new(Arc::new(Room::unbounded()))
}

const HALF: usize = BODIES_BYTES_MAX / 2;

/// A body of so many bytes, read as far as its first piece.
async fn begun(budget: &Budget, bytes: usize) -> (Counted<Full<Bytes>>, bool) {
    let mut body = budget.count(Full::new(Bytes::from(vec![0; bytes])));
    let is_read = body.frame().await.is_some_and(|frame| frame.is_ok());
    (body, is_read)
}

#[tokio::test]
async fn bodies_of_a_connection_share_its_budget() {
    let budget = alone();
    let (first, is_read) = begun(&budget, HALF).await;
    assert!(is_read);
    let (_second, is_read) = begun(&budget, HALF).await;
    assert!(is_read, "just as much as there may be");
    assert!(!begun(&budget, 1).await.1, "and not a byte more");
    drop(first);
    assert!(begun(&budget, HALF).await.1, "what is over counts no more");
    assert!(begun(&alone(), BODIES_BYTES_MAX).await.1, "another connection has its own");
}

#[tokio::test]
async fn what_was_refused_is_given_back() {
    let budget = alone();
    assert!(!begun(&budget, BODIES_BYTES_MAX + 1).await.1);
    assert!(begun(&budget, BODIES_BYTES_MAX).await.1);
}

#[tokio::test]
async fn connections_share_the_budget_of_their_listener() {
    const LENT_MAX: usize = 1 << 20;
    let room = Arc::new(Room::new(4, LENT_MAX));
    let connection = || Budget::new(Arc::clone(&room));
    let (first, second) = (connection(), connection());
    let (body, is_read) = begun(&first, FIRST_BYTES_MAX + LENT_MAX).await;
    assert!(is_read);
    assert!(begun(&second, FIRST_BYTES_MAX).await.1, "a short one is always read");
    assert!(!begun(&second, FIRST_BYTES_MAX + 1).await.1, "a long one is not");
    drop(body);
    assert!(begun(&second, FIRST_BYTES_MAX + LENT_MAX).await.1, "what is over counts no more");
}
