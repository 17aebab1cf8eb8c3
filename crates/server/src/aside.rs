//! Work that takes long, or waits for who does such work: on threads that decide nothing.
//!
//! A request of the admin API is answered by a thread that decides. Reading rules, or waiting for the lock of whoever puts them in force, would keep all
//! other connections of that thread waiting, with a million tenants for seconds.

use thiserror::Error;

/// It was not done to its end: it panicked, or the server stops.
#[derive(Debug, Error)]
#[error("what was to be done aside has ended early: {0}")]
pub(crate) struct EndedEarly(String);

/// Does it on a thread for such things. Once it has begun, it is done to its end, also if nobody waits for it any more.
pub(crate) async fn aside<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, EndedEarly> {
    tokio::task::spawn_blocking(work).await.map_err(|error| EndedEarly(error.to_string()))
}
