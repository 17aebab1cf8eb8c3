//! The limits of a flood and of those that it must not touch: every algorithm, every window length.

use std::error::Error;

use tollgate_core::{
    Concurrency, FixedWindow, LeakyBucket, LeakyQueue, Limit, OldestCounts, Rate, SlidingLog, SlidingWindow,
    Span, SubWindows, TokenBucket,
};

const SECOND_NS: u64 = 1_000_000_000;

/// The windows, and their lengths in nanoseconds.
pub(super) const WINDOWS: [(&str, u64); 4] = [
    ("second", SECOND_NS),
    ("minute", 60 * SECOND_NS),
    ("hour", 3_600 * SECOND_NS),
    ("day", 86_400 * SECOND_NS),
];

/// The algorithms, in the order of [`limits`].
pub(super) const ALGORITHMS: [&str; 8] = [
    "token_bucket",
    "leaky_bucket",
    "leaky_queue",
    "fixed_window",
    "sliding_window",
    "sub_windows",
    "sliding_log",
    "concurrency",
];

/// So many units a window, by every algorithm.
pub(super) fn limits(units: u64, window: usize) -> Result<Vec<Limit>, Box<dyn Error>> {
    let span = Span::from_ticks(WINDOWS[window].1);
    let rate = Rate::new(units, span)?;
    // The last request in the queue waits for all before it.
    let wait = Span::from_ticks(span.ticks() / units * (units - 1));
    Ok(vec![
        TokenBucket::new(rate, units)?.into(),
        LeakyBucket::new(rate, units)?.into(),
        LeakyQueue::new(rate, wait)?.into(),
        FixedWindow::new(rate).into(),
        SlidingWindow::new(rate).into(),
        SubWindows::new(rate, 10, OldestCounts::Whole)?.into(),
        SlidingLog::new(rate)?.into(),
        Concurrency::new(units, span)?.into(),
    ])
}

/// Limits of one that callers bring along: CL.THROTTLE, and what descriptors can carry.
pub(super) fn callers_limits(window: usize) -> Result<Vec<Limit>, Box<dyn Error>> {
    let rate = Rate::new(1, Span::from_ticks(WINDOWS[window].1))?;
    Ok(vec![
        TokenBucket::new(rate, 1)?.reading_foreign_states().into(),
        SlidingWindow::new(rate).into(),
        FixedWindow::new(rate).into(),
    ])
}
