//! `/metrics` and `/config`: one rendering for all clients that wait for it.
//!
//! With thousands of rules a rendering takes milliseconds and megabytes, and needs no token. So a rendering is
//! made on the blocking pool, takes a tenth of one processor unless it is longer than 0.1 s, and its bytes are
//! shared. A client gets what was true after it has asked.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::aside::{EndedEarly, aside};

/// After a rendering, the next one waits so many times as long as it took,
const PAUSE_FACTOR: u32 = 9;
/// but no longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The renderings of one document. Clones of `T` share their bytes.
#[derive(Debug)]
pub(super) struct SharedRendering<T> {
    asked: Arc<AtomicU64>,
    latest: Arc<Mutex<Latest<T>>>,
}

/// The latest rendering.
#[derive(Debug)]
struct Latest<T> {
    /// It began after so many had asked.
    asked: u64,
    rendered: Option<T>,
    /// When another one may begin.
    next: Option<Instant>,
}

impl<T> Default for SharedRendering<T> {
    fn default() -> SharedRendering<T> {
        let latest = Latest { asked: 0, rendered: None, next: None };
        SharedRendering { asked: Arc::default(), latest: Arc::new(Mutex::new(latest)) }
    }
}

impl<T: Clone + Send + 'static> SharedRendering<T> {
    /// The rendering that began after this call, made by this client or by another.
    pub(super) async fn get(&self, render: impl FnOnce() -> T + Send + 'static) -> Result<T, EndedEarly> {
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut latest = Arc::clone(&self.latest).lock_owned().await;
        if let Some(rendered) = latest.rendered.as_ref().filter(|_| latest.asked >= number) {
            return Ok(rendered.clone());
        }
        if let Some(next) = latest.next {
            sleep_until(next).await;
        }
        let asked = Arc::clone(&self.asked);
        // It keeps the lock until it is done, even if its client is gone by then.
        let rendering = aside(move || {
            let began = Instant::now();
            latest.asked = asked.load(Ordering::Acquire);
            latest.rendered = None;
            let rendered = render();
            latest.rendered = Some(rendered.clone());
            let pause = began.elapsed().saturating_mul(PAUSE_FACTOR).min(PAUSE_MAX);
            latest.next = Some(Instant::now() + pause);
            rendered
        });
        rendering.await
    }
}
