//! Fixed window: a counter that starts anew with every window.
//!
//! The cheapest to explain and the easiest to game: up to 2N units pass around a boundary. It is what quotas per
//! calendar day or month mean, and what envoyproxy/ratelimit does.
//!
//! Debt ends with the window that counted it.

use std::cmp::Ordering;

use crate::algorithm::Algorithm;
use crate::ask::{Ask, Intent, Refund};
use crate::decision::{Decision, Outcome};
use crate::error::LimitError;
use crate::rate::Rate;
use crate::script::{Script, Scripted, WINDOW_UNITS_MAX, script, span_fits};
use crate::share::Share;
use crate::time::{Span, Tick, Time};
use crate::window::{Window, Windows};
use crate::word::{Packed, WordLayout};

/// N units per window.
#[derive(Clone, Debug, PartialEq)]
pub struct FixedWindow {
    units: u64,
    windows: Windows,
    jittered: bool,
    layout: WordLayout,
}

/// What one window has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Count {
    start: Time,
    count: u64,
}

impl FixedWindow {
    /// `rate` units in each of its periods, aligned to the epoch.
    pub fn new(rate: Rate) -> FixedWindow {
        let windows = Windows::of(&rate);
        let layout = WordLayout::for_windows(&windows);
        FixedWindow { units: rate.units(), windows, jittered: false, layout }
    }

    /// `units` in each of any windows, those of a calendar say.
    pub fn in_windows(units: u64, windows: Windows) -> Result<FixedWindow, LimitError> {
        if units == 0 {
            return Err(LimitError::NoUnits);
        }
        let layout = WordLayout::for_windows(&windows);
        Ok(FixedWindow { units, windows, jittered: false, layout })
    }

    /// Lets every key's windows begin at an offset of its own, so that not all keys reset at once. The days of a
    /// calendar stay where they are.
    #[must_use]
    pub fn jittered(self) -> FixedWindow {
        FixedWindow { jittered: true, ..self }
    }

    pub(crate) fn units(&self) -> u64 {
        self.units
    }

    pub(crate) fn windows(&self) -> &Windows {
        &self.windows
    }

    pub(crate) fn is_jittered(&self) -> bool {
        self.jittered
    }

    fn count_max(&self) -> u64 {
        self.units.saturating_mul(2)
    }

    /// The window to count in and what it has counted. A caller whose clock lags behind the one who opened the window
    /// counts in that window too. What comes from beyond the next window (a clock was set back) counts in the next.
    #[inline]
    fn current(&self, state: &Count, now: Time) -> (Window, u64) {
        let window = self.windows.at(now);
        let count = state.count.min(self.count_max());
        match state.start.cmp(&window.start) {
            Ordering::Less => (window, 0),
            Ordering::Equal => (window, count),
            Ordering::Greater => (self.windows.at(window.end), count),
        }
    }

    /// The day of a moment: see [`crate::SharedLimit::day`].
    pub(crate) fn day(&self, now: Time, tick: Tick) -> u64 {
        self.windows.day(now, tick)
    }

    /// The window that counts what is taken at a moment.
    pub(crate) fn window_at(&self, moment: Time) -> Window {
        self.windows.at(moment)
    }

    /// The units of a window, and the length of the longest window.
    pub(crate) fn units_per_window_max(&self) -> (u64, Span) {
        (self.units, self.windows.length_max())
    }

    /// The limit of a node that has this share of the units.
    pub(crate) fn share(&self, share: Share) -> FixedWindow {
        FixedWindow { units: share.of(self.units), ..self.clone() }
    }
}

impl Algorithm for FixedWindow {
    type State = Count;

    #[inline]
    fn decide(&self, state: &mut Count, ask: Ask) -> Decision {
        let (window, mut count) = self.current(state, ask.now);
        let units = ask.cost.units();
        let left = self.units.saturating_sub(count);
        let allowed = units <= left && count <= self.units;
        if allowed && ask.takes() {
            count += units;
            *state = Count { start: window.start, count };
        } else if !allowed && ask.books() {
            count = count.saturating_add(units).min(count.max(self.count_max()));
            *state = Count { start: window.start, count };
        } else if ask.intent == Intent::Take && state.start > window.start {
            *state = Count { start: window.start, count };
        }
        let reset_after = window.end.since(ask.now);
        let outcome = if allowed {
            Outcome::ALLOWED
        } else if units > self.units {
            Outcome::Never
        } else {
            Outcome::NotNow { retry_after: reset_after }
        };
        Decision {
            outcome,
            limit: self.units,
            remaining: self.units.saturating_sub(count),
            reset_after: Some(reset_after),
        }
    }

    fn give_back(&self, state: &mut Count, refund: Refund) {
        // A state from ahead: the caller's clock lags, and what it took was counted there.
        let lags = state.start > self.windows.at(refund.now).start;
        if lags || state.start == self.windows.at(refund.counted_at).start {
            state.count = state.count.saturating_sub(refund.units);
        }
    }

    fn used(&self, state: &Count, now: Time) -> u64 {
        self.current(state, now).1
    }

    fn expires_at(&self, state: &Count) -> Time {
        if state.count == 0 { Time::default() } else { self.windows.end_of(state.start) }
    }

    fn jitter(&self) -> Option<Span> {
        match self.windows {
            Windows::Every(period) if self.jittered => Some(period.span()),
            _ => None,
        }
    }

    fn shape(&self) -> u64 {
        self.windows.shape().wrapping_mul(2) | u64::from(self.jitter().is_some())
    }
}

impl Packed for FixedWindow {
    type Moment = Window;

    #[inline]
    fn moment(&self, now: Time) -> Window {
        self.windows.at(now)
    }

    #[inline]
    fn used_part(&self, word: u64, _now: Time) -> (u64, u64) {
        (self.layout.payload(word), self.units)
    }

    fn packs(&self) -> bool {
        self.count_max() <= self.layout.payload_max()
    }

    #[inline]
    fn pack(&self, state: &Count) -> u64 {
        self.layout.join(self.windows.end_of(state.start), state.count.min(self.layout.payload_max()))
    }

    /// Only two windows matter: the one of `now`, and one that a faster clock has opened already.
    #[inline]
    fn unpack_at(&self, word: u64, window: Window) -> Count {
        let count = self.layout.payload(word);
        match self.layout.head(word).cmp(&self.layout.head_for(window.end)) {
            Ordering::Less => Count::default(),
            Ordering::Equal => Count { start: window.start, count },
            Ordering::Greater => self.unpack(word),
        }
    }

    #[inline]
    fn unpack(&self, word: u64) -> Count {
        match self.layout.split(word) {
            None => Count::default(),
            Some((inside, count)) => Count { start: self.windows.at(inside).start, count },
        }
    }
}

impl Count {
    /// So many units, counted in the window that begins at a moment.
    pub fn new(window_start: Time, units: u64) -> Count {
        Count { start: window_start, count: units }
    }

    /// Units counted in the window.
    pub fn units(&self) -> u64 {
        self.count
    }

    /// The first moment of the window.
    pub fn window_start(&self) -> Time {
        self.start
    }
}

static SCRIPT: Script = script!("FixedWindow", "fixed_window.lua");

impl Scripted for FixedWindow {
    const SCRIPT: Option<&'static Script> = Some(&SCRIPT);

    fn in_ticks(&self, tick: Tick) -> Result<FixedWindow, LimitError> {
        let windows = self.windows.in_ticks(tick);
        let limit = FixedWindow::in_windows(self.units, windows)?;
        Ok(if self.jittered { limit.jittered() } else { limit })
    }

    fn fits_script(&self, tick: Tick) -> bool {
        // A window that another has opened already, with a jitter behind it.
        let spans = self.windows.length_max().0.checked_mul(3);
        self.units <= WINDOW_UNITS_MAX && spans.is_some_and(|spans| span_fits(Span(spans), tick))
    }

    fn cost_max(&self) -> u64 {
        self.count_max()
    }

    /// The boundaries of a calendar, from the window before to the one after the next: the clock of Redis may be ahead or behind by a whole
    /// window, and a count may come from one further ahead.
    fn put_numbers(&self, around: Time, put: &mut dyn FnMut(u64)) {
        put(self.units);
        match &self.windows {
            Windows::Every(period) => put(period.span().0),
            Windows::Calendar(calendar) => {
                put(0);
                let window = calendar.at(around);
                let next = calendar.at(window.end);
                put(calendar.at(Time(window.start.0.saturating_sub(1))).start.0);
                put(window.start.0);
                put(window.end.0);
                put(next.end.0);
                put(calendar.at(next.end).end.0);
            }
        }
    }
}
