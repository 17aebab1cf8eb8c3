//! The one place where time is read.
//!
//! A timeline that follows wall time, and does not jump with it: wall time when the clock was made, plus the time since, counted by the system's
//! clock that also runs while the machine is suspended. [`Clock::follow_wall_time`] moves it where wall time is corrected, or has jumped and the jump
//! is confirmed: see [`guard`]. What must never go back (time-outs, breakers, intervals between log lines) goes by [`Clock::steady`].

pub mod guard;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tollgate_core::Time;

use self::guard::{ClockEvent, ClockGuard, Reading, Reference};

/// When everything happens under a fuzzer.
const FUZZING_NS: u64 = 1_800_000_000_000_000_000;

/// The timeline on which a process decides, in nanoseconds since 1970.
#[derive(Debug)]
#[allow(clippy::struct_field_names)] // Units belong to names.
pub struct Clock {
    /// The timeline less elapsed time.
    anchor_ns: AtomicU64,
    /// Wall time less elapsed time when the clock was made.
    steady_anchor_ns: u64,
    /// How far another clock was ahead of `steady`, and when it was asked. Zero if none was. A reader that sees one without the other takes
    /// a wrong reading at worst, and the next a right one.
    reference_ahead_ns: AtomicI64,
    reference_asked_ns: AtomicU64,
}

impl Clock {
    /// A clock that shows wall time now.
    pub fn new() -> Clock {
        let steady_anchor_ns = wall_ns().saturating_sub(elapsed_ns());
        Clock {
            anchor_ns: AtomicU64::new(steady_anchor_ns),
            steady_anchor_ns,
            reference_ahead_ns: AtomicI64::new(0),
            reference_asked_ns: AtomicU64::new(0),
        }
    }

    /// This moment.
    #[inline]
    pub fn now(&self) -> Time {
        // Relaxed: the anchor orders nothing.
        Time::from_ticks(elapsed_ns() + self.anchor_ns.load(Ordering::Relaxed))
    }

    /// This moment on a timeline that never goes back and never jumps. It began as wall time, and may differ from that by now.
    #[inline]
    pub fn steady(&self) -> Time {
        Time::from_ticks(elapsed_ns() + self.steady_anchor_ns)
    }

    /// A moment of the steady timeline, on the other one.
    pub fn from_steady(&self, steady: Time) -> Time {
        // Relaxed: as in `now`.
        let ahead_ns = self.anchor_ns.load(Ordering::Relaxed).wrapping_sub(self.steady_anchor_ns);
        Time::from_ticks(steady.ticks().saturating_add_signed(ahead_ns.cast_signed()))
    }

    /// A guard for [`Clock::follow_wall_time`].
    pub fn guard(&self) -> ClockGuard {
        ClockGuard::new(0)
    }

    /// Notes what the clock of the database or of Redis showed at a moment of the steady timeline.
    pub fn note_reference(&self, shown: Time, asked_at: Time) {
        let ahead_ns = shown.ticks().wrapping_sub(asked_at.ticks()).cast_signed();
        self.reference_ahead_ns.store(ahead_ns, Ordering::Relaxed);
        self.reference_asked_ns.store(asked_at.ticks(), Ordering::Relaxed);
    }

    /// Looks at wall time, and follows it as far as the guard says. To be called every second or so, with the same guard. Before a confirmed
    /// jump is followed, `before` is called.
    pub fn follow_wall_time(&self, guard: &mut ClockGuard, before: impl FnOnce()) -> Option<ClockEvent> {
        let asked_at = self.reference_asked_ns.load(Ordering::Relaxed);
        let reference = (asked_at > 0).then(|| Reference {
            ahead_ns: self.reference_ahead_ns.load(Ordering::Relaxed),
            asked_at: Time::from_ticks(asked_at),
        });
        let elapsed_ns = elapsed_ns();
        let steady = Time::from_ticks(elapsed_ns + self.steady_anchor_ns);
        let reading = Reading { steady, wall: Time::from_ticks(wall_ns()), reference };
        let event = guard.observe(&reading);
        if matches!(event, Some(ClockEvent::Followed { .. })) {
            before();
        }
        let anchor_ns = self.steady_anchor_ns.saturating_add_signed(guard.ahead_ns());
        self.anchor_ns.store(anchor_ns, Ordering::Relaxed);
        event
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

/// Wall time, by the system's library: tests put another one in its place, which shows another time.
#[allow(clippy::disallowed_methods)] // Here is the place.
fn wall_ns() -> u64 {
    if cfg!(fuzzing) {
        return FUZZING_NS;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
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
    fn a_timeline_that_is_a_little_off_follows_wall_time_in_both_directions() {
        let clock = Clock::new();
        let mut guard = clock.guard();
        for off_ns in [500_000_000_i64, -500_000_000] {
            clock.anchor_ns.store(clock.steady_anchor_ns.saturating_add_signed(off_ns), Ordering::Relaxed);
            assert_eq!(clock.follow_wall_time(&mut guard, || panic!("no jump")), None);
            assert!(clock.now().ticks().abs_diff(wall_ns()) < 100_000_000);
        }
    }
}
