//! `/metrics`: one rendering for all clients that wait for it.
//!
//! With thousands of rules a rendering takes milliseconds and megabytes, and no token is needed to ask for
//! it. So it is made on the blocking pool, takes a tenth of one processor unless a
//! rendering is longer than 0.1 s, and its bytes are shared.
//! What a client gets was counted after it has asked.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::aside::{EndedEarly, aside};
use crate::gate::Gate;
use crate::metrics::classic;

/// After a rendering, the next one waits so many times as long as it took,
const PAUSE_FACTOR: u32 = 9;
/// but no longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Why there are no metrics.
#[derive(Debug, Error)]
pub(super) enum ScrapeError {
    #[error(transparent)]
    Encoding(#[from] fmt::Error),
    #[error(transparent)]
    EndedEarly(#[from] EndedEarly),
}

/// All numbers as text, in both formats that Prometheus reads.
#[derive(Clone, Debug)]
pub(super) struct Rendered {
    pub(super) openmetrics: Bytes,
    pub(super) classic: Bytes,
}

/// The renderings of one server.
#[derive(Debug, Default)]
pub(super) struct Scrapes {
    asked: Arc<AtomicU64>,
    latest: Arc<Mutex<Latest>>,
}

/// The latest rendering.
#[derive(Debug, Default)]
struct Latest {
    /// It began after so many had asked.
    asked: u64,
    rendered: Option<Rendered>,
    /// When another one may begin.
    next: Option<Instant>,
}

impl Scrapes {
    pub(super) async fn scrape(&self, gate: &Arc<Gate>) -> Result<Rendered, ScrapeError> {
        // What a client has seen before it asks is in the rendering that begins after it has asked.
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut latest = Arc::clone(&self.latest).lock_owned().await;
        if let Some(rendered) = latest.rendered.as_ref().filter(|_| latest.asked >= number) {
            return Ok(rendered.clone());
        }
        if let Some(next) = latest.next {
            sleep_until(next).await;
        }
        let (asked, gate) = (Arc::clone(&self.asked), Arc::clone(gate));
        // It keeps the lock until it is done, even if its client is gone by then.
        let rendering = aside(move || {
            let began = Instant::now();
            latest.asked = asked.load(Ordering::Acquire);
            latest.rendered = None;
            let rendered = render(&gate);
            latest.rendered = rendered.as_ref().ok().cloned();
            let pause = began.elapsed().saturating_mul(PAUSE_FACTOR).min(PAUSE_MAX);
            latest.next = Some(Instant::now() + pause);
            rendered
        });
        Ok(rendering.await??)
    }
}

fn render(gate: &Gate) -> Result<Rendered, fmt::Error> {
    let text = gate.metrics_text()?;
    Ok(Rendered { classic: classic(&text).into(), openmetrics: text.into() })
}
