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
    let mut body = Counted::new(Full::new(Bytes::from(vec![0; bytes])), budget.request());
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

/// A body that does not say how long it is.
struct Unknown(Vec<Bytes>);

impl Body for Unknown {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(self.0.pop().map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A response as the HTTP library reads it: its chunks, and no body any more.
async fn chunks(response: Response<Answer>) -> Vec<Chunk> {
    let mut body = response.into_body();
    let mut chunks = Vec::new();
    while let Some(frame) = body.frame().await {
        chunks.push(frame.unwrap().into_data().unwrap());
    }
    chunks
}

#[tokio::test]
async fn a_response_counts_until_its_last_chunk_is_dropped() {
    let (budget, responses) = (alone(), Arc::default());
    let (response, charged) = count_response(Response::new("response".into()), &budget, &responses);
    assert!(charged.is_ok());
    let chunks = chunks(response).await;
    assert_eq!(responses.taken_while_waiting(), Some(0));
    assert!(budget.0.bytes() >= STREAM_BYTES + "response".len());
    drop(chunks);
    assert_eq!(responses.taken_while_waiting(), None);
    assert_eq!(budget.0.bytes(), 0);
}

#[tokio::test]
async fn chunks_of_a_response_of_unknown_length_are_charged_one_by_one() {
    const CHUNK_BYTES: usize = 1 << 20;
    let (budget, responses) = (alone(), Arc::default());
    let body = ResponseBody::new(Unknown(vec![Bytes::from(vec![0; CHUNK_BYTES]); 2]));
    let (response, _) = count_response(Response::new(body), &budget, &responses);
    assert!(budget.0.bytes() < CHUNK_BYTES);
    let mut chunks = chunks(response).await;
    assert!(budget.0.bytes() >= 2 * CHUNK_BYTES);
    chunks.pop();
    assert!(budget.0.bytes() < 2 * CHUNK_BYTES);
    assert_eq!(responses.taken_while_waiting(), Some(1), "a client that takes chunks is not stalled");
    drop(chunks);
    assert_eq!(budget.0.bytes(), 0);
}
