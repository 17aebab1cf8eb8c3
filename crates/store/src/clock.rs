//! The one place where time is read.
//!
//! A timeline that never goes back: wall time when the clock was made, plus the time since, counted by the system's
//! clock that also runs while the machine is suspended. Wall time that is corrected forward can be followed by
//! [`Clock::follow_wall_time`], so that calendar windows stay right; one that is set back is waited for.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};
use tollgate_core::Time;

/// When everything happens under a fuzzer.
const FUZZING_NS: u64 = 1_800_000_000_000_000_000;

/// The timeline on which a process decides, in nanoseconds since 1970.
#[derive(Debug)]
pub struct Clock {
    /// Wall time less elapsed time, as it was when they were last compared.
    anchor_ns: AtomicU64,
}

impl Clock {
    /// A clock that shows wall time now.
    pub fn new() -> Clock {
        Clock { anchor_ns: AtomicU64::new(wall_ns().saturating_sub(elapsed_ns())) }
    }

    /// This moment.
    #[inline]
    pub fn now(&self) -> Time {
        // Relaxed: the anchor only grows, and orders nothing.
        Time::from_ticks(elapsed_ns() + self.anchor_ns.load(Ordering::Relaxed))
    }

    /// Moves forward to wall time, if that is ahead; never back.
    pub fn follow_wall_time(&self) {
        self.anchor_ns.fetch_max(wall_ns().saturating_sub(elapsed_ns()), Ordering::Relaxed);
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// Time since the machine started, suspended or not.
#[inline]
fn elapsed_ns() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    read_ns(clock)
}

fn wall_ns() -> u64 {
    read_ns(ClockId::Realtime)
}

#[inline]
fn read_ns(clock: ClockId) -> u64 {
    if cfg!(fuzzing) {
        return FUZZING_NS; // What a fuzzer has found must happen again.
    }
    let time = clock_gettime(clock);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + nanoseconds.unwrap_or(0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn shows_wall_time_and_never_goes_back() {
        let clock = Clock::new();
        let before = wall_ns();
        let mut last = clock.now();
        assert!(last.ticks() + 1_000_000_000 > before, "{last:?} is long before wall time {before}");
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn follows_wall_time_forward_only() {
        let clock = Clock::new();
        let hour_ns = 3_600_000_000_000;
        clock.anchor_ns.fetch_sub(hour_ns, Ordering::Relaxed);
        let behind = clock.now();
        clock.follow_wall_time();
        assert!(clock.now().ticks() >= behind.ticks() + hour_ns);

        clock.anchor_ns.fetch_add(hour_ns, Ordering::Relaxed);
        let ahead = clock.now();
        clock.follow_wall_time();
        assert!(clock.now() >= ahead);
    }
}
