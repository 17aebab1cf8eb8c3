//! What happens all the time and is worth a line in the log now and then.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::core::{Span, Time};

/// How long nothing is said after something was.
const INTERVAL: Span = Span::from_ticks(60_000_000_000);

/// Says something once a minute at most, whichever thread it happens on.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    /// From when on it may be said again, in ticks.
    next: AtomicU64,
}

impl Seldom {
    /// Whether it is to be told now. Who hears so tells it.
    pub(crate) fn is_to_be_told(&self, now: Time) -> bool {
        // Relaxed: the number stands for itself, and of several threads one swaps it.
        let next = self.next.load(Ordering::Relaxed);
        let after = now.plus(INTERVAL).ticks();
        // A clock that was set back does not keep it silent.
        (now.ticks() >= next || after < next)
            && self.next.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
