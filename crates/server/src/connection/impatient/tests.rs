//! A pipe with little room stands for the network, and a made-up clock for time.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::{Instant, advance};

use super::Impatient;

const TIMEOUT: Duration = Duration::from_secs(10);
const ROOM_BYTES: usize = 16;

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_breaks_it() {
    let (ours, _theirs) = duplex(ROOM_BYTES);
    let mut ours = Impatient::new(ours, TIMEOUT);
    ours.write_all(&[0; ROOM_BYTES]).await.unwrap();
    let start = Instant::now();
    let error = ours.write_all(&[0]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(start.elapsed().as_secs(), TIMEOUT.as_secs());
}

#[tokio::test(start_paused = true)]
async fn flushing_does_not_buy_time() {
    let (ours, _theirs) = duplex(ROOM_BYTES);
    let mut ours = Impatient::new(ours, TIMEOUT);
    ours.write_all(&[0; ROOM_BYTES]).await.unwrap();
    let attempts = async move {
        loop {
            let _ = tokio::time::timeout(Duration::from_secs(1), ours.write(&[0])).await.map(Result::unwrap);
            ours.flush().await.unwrap();
        }
    };
    let ended = tokio::time::timeout(2 * TIMEOUT, tokio::spawn(attempts));
    assert!(ended.await.is_ok_and(|ended| ended.is_err()), "it broke");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_a_little_now_and_then_does_not() {
    let (ours, mut theirs) = duplex(ROOM_BYTES);
    let mut ours = Impatient::new(ours, TIMEOUT);
    let writing = tokio::spawn(async move { ours.write_all(&[0; 4 * ROOM_BYTES]).await });
    let mut taken = [0; 4 * ROOM_BYTES];
    for part in taken.chunks_mut(ROOM_BYTES / 2) {
        tokio::task::yield_now().await;
        advance(TIMEOUT / 10 * 9).await;
        theirs.read_exact(part).await.unwrap();
    }
    writing.await.unwrap().unwrap();
}
