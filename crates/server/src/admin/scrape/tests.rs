//! How often metrics are rendered.

use super::*;
use crate::gate::GateSettings;

fn gate() -> Arc<Gate> {
    Arc::new(Gate::new(GateSettings::default()).unwrap())
}

#[tokio::test]
async fn clients_that_ask_at_the_same_time_share_one_rendering() {
    let (scrapes, gate) = (Scrapes::default(), gate());
    // The first begins before the others have asked.
    let scrape = || scrapes.scrape(&gate);
    let (first, second, third) = tokio::join!(scrape(), scrape(), scrape());
    let [_, second, third] = [first, second, third].map(|rendered| rendered.unwrap().classic);
    assert_eq!(second.as_ptr(), third.as_ptr());
}

#[tokio::test]
async fn a_client_gets_what_was_counted_before_it_asked() {
    let (scrapes, gate) = (Scrapes::default(), gate());
    let before = scrapes.scrape(&gate).await.unwrap();
    gate.metrics().observe_bad_request(crate::metrics::Protocol::Http);
    let after = scrapes.scrape(&gate).await.unwrap();
    assert_ne!(before.openmetrics, after.openmetrics);
}

#[tokio::test]
async fn a_rendering_that_took_long_is_not_repeated_at_once() {
    let (scrapes, gate) = (Scrapes::default(), gate());
    scrapes.scrape(&gate).await.unwrap();
    let next = Instant::now() + Duration::from_millis(100);
    scrapes.latest.lock().await.next = Some(next);
    scrapes.scrape(&gate).await.unwrap();
    assert!(Instant::now() >= next);
}
