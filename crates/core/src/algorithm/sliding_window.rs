//! Sliding window counter: two fixed windows, the previous one fading out.
//!
//! What was counted in the previous window weighs as much as the sliding window still overlaps it:
//! `P*(W-e) + (C+c)*W <= N*W`, in integers. Cheap, smooth for real traffic, and honest about its worst case:
//! at most `N*(1 + L/W)` in any interval `L <= W`, which an attacker at the boundary nearly reaches.
//!
//! ```text
//!        previous P            current C
//!   |--------------------|----------+---------|
//!                  <- sliding W ->  e
//! ```

use crate::algorithm::Algorithm;
use crate::ask::{Ask, Refund};
use crate::decision::{Decision, Outcome};
use crate::rate::Rate;
use crate::time::{Span, Time};
use crate::window::{Window, Windows};
use crate::word::{Packed, WordLayout};

/// About N units in any period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    units: u64,
    period: Span,
    jittered: bool,
    layout: WordLayout,
}

/// What the current window and the one before it have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    start: Time,
    previous: u64,
    current: u64,
}

/// The counts as they stand at one moment.
#[derive(Clone, Copy)]
struct Sight {
    window: Window,
    previous: u64,
    current: u64,
    /// Time left of the window; what the sliding window still overlaps of the previous one.
    left_ticks: u64,
}

impl SlidingWindow {
    /// `rate`, estimated from two counters.
    pub fn new(rate: Rate) -> SlidingWindow {
        let layout = WordLayout::for_windows(&Windows::of(&rate));
        SlidingWindow { units: rate.units(), period: rate.period(), jittered: false, layout }
    }

    /// Lets every key's windows begin at an offset of its own, so that not all keys reset at once.
    #[must_use]
    pub fn jittered(self) -> SlidingWindow {
        SlidingWindow { jittered: true, ..self }
    }

    fn count_max(&self) -> u64 {
        self.units.saturating_mul(2)
    }

    /// A caller whose clock lags behind the one who opened the window is taken to ask at its start; one that lags by
    /// more than a window (a clock was set back) sees those counts in the very next window.
    #[inline]
    fn sight(&self, state: &Counts, now: Time) -> Sight {
        let mut window = Window::aligned(now, self.period);
        let previous = state.previous.min(self.count_max());
        let current = state.current.min(self.count_max());
        let (previous, current) = if state.start == window.start {
            (previous, current)
        } else if state.start > window.start {
            window = Window { start: window.end, end: window.end.plus(self.period) };
            (previous, current)
        } else if state.start.plus(self.period) == window.start {
            (current, 0)
        } else {
            (0, 0)
        };
        Sight { window, previous, current, left_ticks: window.end.since(now.max(window.start)).0 }
    }

    /// The weight of the previous window in whole units, rounded up.
    #[inline]
    fn faded(&self, sight: &Sight) -> u64 {
        weigh_up(sight.previous, sight.left_ticks, self.period.0)
    }

    fn retry_after(&self, sight: &Sight, units: u64, now: Time) -> Span {
        let asked_late = sight.window.start.since(now).0;
        let room = self.units - units; // The caller has made sure that the cost fits at all.
        let fades_in =
            |count: u64, room: u64| self.period.0 - mul_div(room, self.period.0, count).min(self.period.0);
        let retry_ticks = if sight.current <= room {
            // The window can take it as soon as enough of the previous one has faded.
            let elapsed = self.period.0 - sight.left_ticks;
            fades_in(sight.previous, room - sight.current).saturating_sub(elapsed)
        } else {
            // Only the next window can, when enough of this one has faded there.
            sight.left_ticks + fades_in(sight.current, room)
        };
        Span(asked_late + retry_ticks)
    }
}

impl Algorithm for SlidingWindow {
    type State = Counts;

    #[inline]
    fn decide(&self, state: &mut Counts, ask: Ask) -> Decision {
        let mut sight = self.sight(state, ask.now);
        let units = ask.cost.units();
        let faded = self.faded(&sight);
        let used = faded.saturating_add(sight.current);
        let allowed = used <= self.units && units <= self.units - used;
        let booked = if allowed && ask.takes() {
            units
        } else if !allowed && ask.books() {
            units.min(self.count_max().saturating_sub(used))
        } else {
            0
        };
        if booked > 0 {
            sight.current += booked;
            *state = Counts { start: sight.window.start, previous: sight.previous, current: sight.current };
        }
        let outcome = if allowed {
            Outcome::ALLOWED
        } else if units > self.units {
            Outcome::Never
        } else {
            Outcome::NotNow { retry_after: self.retry_after(&sight, units, ask.now) }
        };
        Decision {
            outcome,
            limit: self.units,
            remaining: self.units.saturating_sub(faded.saturating_add(sight.current)),
            reset_after: Some(sight.window.end.since(ask.now)),
        }
    }

    fn give_back(&self, state: &mut Counts, refund: Refund) {
        let counted_in = Window::aligned(refund.counted_at, self.period);
        if counted_in.start == state.start {
            state.current = state.current.min(self.count_max()).saturating_sub(refund.units);
        } else if counted_in.end == state.start {
            state.previous = state.previous.min(self.count_max()).saturating_sub(refund.units);
        }
    }

    fn used(&self, state: &Counts, now: Time) -> u64 {
        let sight = self.sight(state, now);
        self.faded(&sight).saturating_add(sight.current)
    }

    fn expires_at(&self, state: &Counts) -> Time {
        if state.current > 0 {
            state.start.plus(self.period).plus(self.period)
        } else if state.previous > 0 {
            state.start.plus(self.period)
        } else {
            Time::default()
        }
    }

    fn jitter(&self) -> Option<Span> {
        self.jittered.then_some(self.period)
    }

    fn shape(&self) -> u64 {
        (self.period.0 * 2) | u64::from(self.jittered)
    }
}

impl Packed for SlidingWindow {
    fn packs(&self) -> bool {
        self.count_max() < 1 << (self.layout.payload_bits() / 2)
    }

    #[inline]
    fn pack(&self, state: &Counts) -> u64 {
        let count_bits = self.layout.payload_bits() / 2;
        let relevant_until = state.start.plus(self.period).plus(self.period);
        let previous = state.previous.min(self.count_max());
        let current = state.current.min(self.count_max());
        self.layout.join(relevant_until, current << count_bits | previous)
    }

    #[inline]
    fn unpack(&self, word: u64) -> Counts {
        let count_bits = self.layout.payload_bits() / 2;
        match self.layout.split(word) {
            None => Counts::default(),
            Some((inside, payload)) => Counts {
                // The word is relevant until the window after the current one ends.
                start: Time(Window::aligned(inside, self.period).start.0.saturating_sub(self.period.0)),
                current: payload >> count_bits,
                previous: payload & ((1 << count_bits) - 1),
            },
        }
    }
}

/// `ceil(count * part / whole)`, at most `count` where `part <= whole`.
#[inline]
pub(crate) fn weigh_up(count: u64, part: u64, whole: u64) -> u64 {
    match count.checked_mul(part) {
        Some(product) => product.div_ceil(whole),
        None => narrow((u128::from(count) * u128::from(part)).div_ceil(u128::from(whole))),
    }
}

/// `floor(a * b / divisor)`, or the largest number there is; dividing by zero gives that too.
#[inline]
pub(crate) fn mul_div(a: u64, b: u64, divisor: u64) -> u64 {
    if divisor == 0 {
        return u64::MAX;
    }
    narrow(u128::from(a) * u128::from(b) / u128::from(divisor))
}

fn narrow(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
