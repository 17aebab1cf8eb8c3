//! The background thread of a server: tends the ledger every millisecond while something else runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate_core::Time;
use tollgate_store::Ledger;

/// How often a server tends its ledger.
pub(crate) const TEND_INTERVAL: Duration = Duration::from_millis(1);

/// A made-up time that one thread advances and others read.
#[derive(Default)]
pub(crate) struct VirtualTime {
    ticks: AtomicU64,
}

impl VirtualTime {
    /// What it shows.
    pub(crate) fn now(&self) -> Time {
        // Relaxed here and below: whoever reads a moment late tends a moment late.
        Time::from_ticks(self.ticks.load(Ordering::Relaxed))
    }

    /// Shows `now` from here on.
    pub(crate) fn set(&self, now: Time) {
        self.ticks.store(now.ticks(), Ordering::Relaxed);
    }
}

/// Runs `work` while a thread calls `tend` over and over.
pub(crate) fn while_tending<R>(tend: impl Fn() + Sync, work: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Relaxed: nothing but the flag itself is read after it.
            while !done.load(Ordering::Relaxed) {
                tend();
                thread::sleep(TEND_INTERVAL);
            }
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

/// Runs `work` while a thread tends the ledger at the time that `time` shows.
pub(crate) fn while_tending_ledger<R>(ledger: &Ledger, time: &VirtualTime, work: impl FnOnce() -> R) -> R {
    while_tending(|| ledger.tend(time.now()), work)
}
