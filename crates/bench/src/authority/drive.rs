//! The load: so many requests under way at once, on one thread, and how long each takes.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::OUTSTANDING;
use crate::keys::KeyStream;
use crate::timer::Stopwatch;

/// Latencies are told apart to so many digits.
const DIGITS: u8 = 3;
/// Whatever takes longer counts as this.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Admitted,
    Denied,
    /// Redis did not answer in time, so something else decided.
    Failed,
}

/// Somebody who decides by what Redis says.
pub(super) trait Decides: Send + Sync + 'static {
    /// One decision.
    fn decide(&self, key: &str) -> impl Future<Output = Result<Answer, String>> + Send;
}

/// What came of a load.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) admitted: u64,
    pub(super) denied: u64,
    pub(super) failed: u64,
    pub(super) seconds: f64,
    pub(super) latencies_ns: Histogram<u64>,
}

impl Tally {
    fn new() -> Result<Tally, Box<dyn Error>> {
        let latencies_ns = Histogram::new_with_max(LATENCY_NS_MAX, DIGITS)?;
        Ok(Tally { admitted: 0, denied: 0, failed: 0, seconds: 0.0, latencies_ns })
    }

    pub(super) fn decisions(&self) -> u64 {
        self.admitted + self.denied + self.failed
    }

    pub(super) fn rate(&self) -> f64 {
        self.decisions() as f64 / self.seconds
    }

    fn add(&mut self, answer: Answer, took_ns: u64) {
        match answer {
            Answer::Admitted => self.admitted += 1,
            Answer::Denied => self.denied += 1,
            Answer::Failed => self.failed += 1,
        }
        self.latencies_ns.saturating_record(took_ns);
    }
}

/// How quickly requests follow each other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// As soon as the one before is answered.
    AtOnce,
    /// So many a second, however quickly they are answered.
    PerSecond(f64),
}

/// Who is ahead of its time waits for so long.
const NAP: Duration = Duration::from_millis(1);

/// When a load ends.
#[derive(Clone, Copy)]
enum End {
    After(Duration),
    /// With the last of its keys.
    Once,
}

/// Asks for so long, each key of the stream in turn, again and again.
pub(super) async fn drive<D: Decides>(
    decider: &Arc<D>,
    keys: &Arc<KeyStream>,
    duration: Duration,
) -> Result<Tally, Box<dyn Error>> {
    drive_at(decider, keys, duration, Pace::AtOnce).await
}

/// The same, at a pace.
pub(super) async fn drive_at<D: Decides>(
    decider: &Arc<D>,
    keys: &Arc<KeyStream>,
    duration: Duration,
    pace: Pace,
) -> Result<Tally, Box<dyn Error>> {
    load(decider, keys, End::After(duration), pace).await
}

/// Asks for each key of the stream once.
pub(super) async fn once<D: Decides>(decider: &Arc<D>, keys: &Arc<KeyStream>) -> Result<(), Box<dyn Error>> {
    load(decider, keys, End::Once, Pace::AtOnce).await.map(drop)
}

async fn load<D: Decides>(
    decider: &Arc<D>,
    keys: &Arc<KeyStream>,
    end: End,
    pace: Pace,
) -> Result<Tally, Box<dyn Error>> {
    let tally = Arc::new(Mutex::new(Tally::new()?));
    let next = Arc::new(AtomicUsize::new(0));
    let whole = Stopwatch::start();
    let asker = || {
        let (decider, keys) = (Arc::clone(decider), Arc::clone(keys));
        let (tally, next) = (Arc::clone(&tally), Arc::clone(&next));
        tokio::spawn(async move {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed); // orders nothing else
                let is_over = match end {
                    End::After(duration) => u128::from(whole.elapsed_ns()) >= duration.as_nanos(),
                    End::Once => at >= keys.whole().len(),
                };
                if is_over {
                    return Ok(());
                }
                if let Pace::PerSecond(rate) = pace {
                    while at as f64 / rate > whole.elapsed_secs() {
                        sleep(NAP).await;
                    }
                }
                let asked = Stopwatch::start();
                let answer = decider.decide(keys.text(at)).await?;
                let took_ns = asked.elapsed_ns();
                tally.lock().unwrap_or_else(PoisonError::into_inner).add(answer, took_ns);
                // A request that is answered at once must not keep the others from theirs: in a server, each would come from a socket.
                yield_now().await;
            }
        })
    };
    let askers: Vec<_> = (0..OUTSTANDING).map(|_| asker()).collect();
    for asker in askers {
        asker.await?.map_err(|error: String| error)?;
    }
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
    tally.seconds = whole.elapsed_secs();
    Ok(tally)
}
