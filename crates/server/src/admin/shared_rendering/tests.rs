//! How often a document is rendered.

use std::sync::atomic::AtomicU32;

use bytes::Bytes;

use super::*;

/// A document that says how often it was rendered.
#[derive(Default)]
struct Document {
    renderings: SharedRendering<Bytes>,
    count: Arc<AtomicU32>,
}

impl Document {
    async fn get(&self) -> Bytes {
        let count = Arc::clone(&self.count);
        let render = move || Bytes::from(count.fetch_add(1, Ordering::SeqCst).to_string());
        self.renderings.get(render).await.unwrap()
    }
}

#[tokio::test]
async fn clients_that_ask_at_the_same_time_share_one_rendering() {
    let document = Document::default();
    // The first begins before the others have asked.
    let (_, second, third) = tokio::join!(document.get(), document.get(), document.get());
    assert_eq!(second.as_ptr(), third.as_ptr());
    assert!(document.count.load(Ordering::SeqCst) <= 2);
}

#[tokio::test]
async fn a_client_gets_what_was_true_after_it_asked() {
    let document = Document::default();
    let (before, after) = (document.get().await, document.get().await);
    assert_ne!(before, after);
}

#[tokio::test]
async fn a_rendering_that_took_long_is_not_repeated_at_once() {
    let document = Document::default();
    document.get().await;
    let next = Instant::now() + Duration::from_millis(100);
    document.renderings.latest.lock().await.next = Some(next);
    document.get().await;
    assert!(Instant::now() >= next);
}
