//! The only place in the benchmarks that reads a clock of the machine.
//!
//! Tollgate reads time at the edge and passes it down, and the workspace's lints hold everybody to that. A
//! benchmark has to time what it runs, and one peer wants the wall clock as an argument: both are done here.

use std::time::{Instant, SystemTime};

/// Time that has passed since it was started.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    /// Starts counting.
    #[inline]
    #[allow(clippy::disallowed_methods, reason = "a benchmark times what it runs")]
    pub(crate) fn start() -> Stopwatch {
        Stopwatch { started: Instant::now() }
    }

    /// Nanoseconds since the start.
    #[inline]
    pub(crate) fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Seconds since the start.
    pub(crate) fn elapsed_secs(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

/// The wall clock, for the peer that takes it as an argument of every decision.
#[inline]
#[allow(clippy::disallowed_methods, reason = "the peer's own interface asks for it")]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}
