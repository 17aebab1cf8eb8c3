//! Sliding window of b sub-windows: more counters for a sharper edge.
//!
//! The period is cut into b sub-windows, of which b+1 touch the sliding window: the current one, b-1 whole ones,
//! and the oldest, which it overlaps only in part. How that one counts is a choice:
//!
//! - whole ([`OldestCounts::Whole`]): never more than N in any period, at the price of a sustained rate that may
//!   sink to `N*b/(b+1)`;
//! - by its overlap ([`OldestCounts::ByOverlap`]): nearer to the rate, and over N by at most what one
//!   sub-window can be wrong.

use std::iter;

use crate::algorithm::Algorithm;
use crate::ask::{Ask, Intent, Refund};
use crate::decision::{Decision, Outcome};
use crate::error::LimitError;
use crate::rate::Rate;
use crate::script::{Script, Scripted, WINDOW_UNITS_MAX, product_fits, script, span_fits, span_in_ticks};
use crate::share::Share;
use crate::time::{Span, Tick, Time};
use crate::window::{Period, Window};

/// How the oldest sub-window counts, of which the sliding window covers only a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OldestCounts {
    /// As a whole: conservative.
    Whole,
    /// By its overlap: interpolated.
    ByOverlap,
}

/// About N units in any period, from b+1 counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubWindows {
    units: u64,
    count: usize,
    sub_period: Period,
    oldest_counts: OldestCounts,
    jittered: bool,
}

/// What the last sub-windows have counted, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubCounts {
    newest_start: Time,
    counts: Vec<u64>,
}

/// The counts as they stand at one moment, without moving them.
struct Sight<'a> {
    window: Window,
    left: Span,
    /// How many sub-windows have begun since the newest count.
    shift: usize,
    counts: &'a [u64],
}

impl Sight<'_> {
    /// What was counted `age` sub-windows ago.
    fn count(&self, age: usize) -> u64 {
        age.checked_sub(self.shift).and_then(|i| self.counts.get(i)).copied().unwrap_or(0)
    }

    /// What was counted in the sub-windows younger than `age`.
    fn sum_younger(&self, age: usize) -> u64 {
        (0..age).fold(0, |sum, age| sum.saturating_add(self.count(age)))
    }
}

impl SubWindows {
    /// The most sub-windows a period may be cut into.
    pub const COUNT_MAX: u32 = 64;

    /// `rate`, measured in `count` sub-windows. A period that does not divide evenly is rounded up.
    pub fn new(rate: Rate, count: u32, oldest_counts: OldestCounts) -> Result<SubWindows, LimitError> {
        if count == 0 || count > SubWindows::COUNT_MAX || u64::from(count) > rate.period().0 {
            return Err(LimitError::SubWindows { count, max: SubWindows::COUNT_MAX });
        }
        let sub_period = Period::new(Span(rate.period().0.div_ceil(u64::from(count))));
        Ok(SubWindows {
            units: rate.units(),
            count: count as usize,
            sub_period,
            oldest_counts,
            jittered: false,
        })
    }

    /// Lets every key's windows begin at an offset of its own, so that not all keys reset at once.
    #[must_use]
    pub fn jittered(self) -> SubWindows {
        SubWindows { jittered: true, ..self }
    }

    /// The period as it is measured: a whole number of sub-windows.
    fn period(&self) -> Span {
        Span(self.sub_period.span().0 * self.count as u64)
    }

    fn sight<'a>(&self, state: &'a SubCounts, now: Time) -> Sight<'a> {
        let mut window = self.sub_period.at(now);
        let mut shift = 0;
        if state.newest_start > window.start {
            // The caller's clock lags: it asks at the start of what it cannot see yet. What comes from beyond a period (a
            // clock was set back) counts in the very next sub-window.
            let lags = state.newest_start.since(window.start) <= self.period();
            let start = if lags { state.newest_start } else { window.end };
            window = Window { start, end: start.plus(self.sub_period.span()) };
        } else {
            let begun = self.sub_period.count_in(window.start.since(state.newest_start));
            shift = usize::try_from(begun).unwrap_or(usize::MAX);
        }
        let left = window.end.since(now.max(window.start));
        Sight { window, left, shift, counts: &state.counts }
    }

    fn used_at(&self, sight: &Sight) -> u64 {
        let oldest = sight.count(self.count);
        let oldest = match self.oldest_counts {
            OldestCounts::Whole => oldest,
            OldestCounts::ByOverlap => self.sub_period.share_up(oldest, sight.left),
        };
        sight.sum_younger(self.count).saturating_add(oldest)
    }

    /// Looks at one coming sub-window after the other for the first moment with enough room.
    fn retry_after(&self, sight: &Sight, units: u64, now: Time) -> Span {
        let room = self.units - units; // The caller has made sure that the cost fits at all.
        let period = self.sub_period.span().0;
        let elapsed = period - sight.left.0;
        let asked_late = sight.window.start.since(now).0;
        for passed in 0..=self.count + 1 {
            let oldest_age = (self.count + 1).checked_sub(passed + 1);
            let younger = oldest_age.map_or(0, |age| sight.sum_younger(age));
            let oldest = oldest_age.map_or(0, |age| sight.count(age));
            let begins_in = passed as u64 * period;
            let fits_from = match self.oldest_counts {
                _ if younger > room => continue,
                OldestCounts::Whole if oldest > room - younger => continue,
                OldestCounts::Whole => 0,
                OldestCounts::ByOverlap => self.sub_period.fades_after(oldest, room - younger).0,
            };
            return Span(asked_late + (begins_in + fits_from).saturating_sub(elapsed));
        }
        Span(asked_late + (self.count as u64 + 1) * period - elapsed)
    }

    /// Counts `units` in the sub-window that `sight` is in.
    fn add(&self, state: &mut SubCounts, window: Window, shift: usize, units: u64) {
        let kept = self.count + 1;
        if shift >= kept {
            state.counts.clear();
        } else {
            state.counts.splice(0..0, iter::repeat_n(0, shift));
        }
        state.counts.truncate(kept);
        match state.counts.first_mut() {
            Some(newest) => *newest = newest.saturating_add(units),
            None => state.counts.push(units),
        }
        state.newest_start = window.start;
    }

    /// The sub-window that counts what is taken at a moment.
    pub(crate) fn sub_window_at(&self, moment: Time) -> Window {
        self.sub_period.at(moment)
    }

    /// The units of a period, and the period.
    pub(crate) fn units_per_period(&self) -> (u64, Span) {
        (self.units, self.period())
    }

    /// The limit of a node that has this share of the units.
    pub(crate) fn share(&self, share: Share) -> SubWindows {
        SubWindows { units: share.of(self.units), ..*self }
    }
}

impl Algorithm for SubWindows {
    type State = SubCounts;

    fn decide(&self, state: &mut SubCounts, ask: Ask) -> Decision {
        let sight = self.sight(state, ask.now);
        let (window, shift) = (sight.window, sight.shift);
        let units = ask.cost.units();
        let used = self.used_at(&sight);
        let allowed = used <= self.units && units <= self.units - used;
        let booked = if allowed && ask.takes() {
            units
        } else if !allowed && ask.books() {
            units.min(self.units.saturating_mul(2).saturating_sub(used))
        } else {
            0
        };
        if booked > 0 {
            self.add(state, window, shift, booked);
        } else if ask.intent == Intent::Take && state.newest_start > window.start {
            state.newest_start = window.start;
        }
        let outcome = if allowed {
            Outcome::ALLOWED
        } else if units > self.units {
            Outcome::Never
        } else {
            Outcome::NotNow { retry_after: self.retry_after(&self.sight(state, ask.now), units, ask.now) }
        };
        let whole = Period::new(self.period()).at(ask.now);
        Decision {
            outcome,
            limit: self.units,
            remaining: self.units.saturating_sub(used.saturating_add(booked)),
            reset_after: Some(whole.end.since(ask.now)),
        }
    }

    fn give_back(&self, state: &mut SubCounts, refund: Refund) {
        // A state from ahead: the caller's clock lags, and what it took was counted there.
        let lags = state.newest_start > self.sub_period.at(refund.now).start;
        let counted_at = if lags { state.newest_start } else { refund.counted_at };
        let counted_in = self.sub_period.at(counted_at).start;
        if counted_in <= state.newest_start {
            let age = self.sub_period.count_in(state.newest_start.since(counted_in));
            if let Some(count) = usize::try_from(age).ok().and_then(|age| state.counts.get_mut(age)) {
                *count = count.saturating_sub(refund.units);
            }
        }
    }

    fn used(&self, state: &SubCounts, now: Time) -> u64 {
        self.used_at(&self.sight(state, now))
    }

    fn expires_at(&self, state: &SubCounts) -> Time {
        match state.counts.iter().position(|&count| count > 0) {
            None => Time::default(),
            Some(age) => {
                let sub_windows_left = (self.count + 1).saturating_sub(age) as u64;
                state.newest_start.plus(Span(self.sub_period.span().0 * sub_windows_left))
            }
        }
    }

    fn heap_bytes(state: &SubCounts) -> usize {
        state.counts.capacity() * size_of::<u64>()
    }

    fn jitter(&self) -> Option<Span> {
        self.jittered.then(|| self.period())
    }

    fn shape(&self) -> u64 {
        // Sub-windows of one length hold the same counts, however many are looked at; unless the number of them
        // also says how far the clocks of the keys are apart.
        let clocks = self.jitter().map_or(0, |period| period.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (self.sub_period.span().0 * 2) ^ clocks
    }
}

static SCRIPT: Script = script!("SubWindows", "sub_windows.lua");

impl Scripted for SubWindows {
    const SCRIPT: Option<&'static Script> = Some(&SCRIPT);

    fn in_ticks(&self, tick: Tick) -> Result<SubWindows, LimitError> {
        let sub_period = span_in_ticks(self.sub_period.span(), tick);
        let period = Span(sub_period.0.saturating_mul(self.count as u64));
        let count = u32::try_from(self.count).unwrap_or(u32::MAX);
        let limit = SubWindows::new(Rate::new(self.units, period)?, count, self.oldest_counts)?;
        Ok(if self.jittered { limit.jittered() } else { limit })
    }

    fn fits_script(&self, tick: Tick) -> bool {
        let sub_period = self.sub_period.span();
        // A period ahead, another until it is forgotten, and a jitter.
        let spans = sub_period.0.checked_mul(3 * (self.count as u64 + 1));
        self.units <= WINDOW_UNITS_MAX
            && (self.oldest_counts == OldestCounts::Whole || product_fits(self.units, sub_period))
            && spans.is_some_and(|spans| span_fits(Span(spans), tick))
    }

    /// Of a larger limit, which may have counted more.
    fn cost_max(&self) -> u64 {
        2 * WINDOW_UNITS_MAX
    }

    fn put_numbers(&self, _around: Time, put: &mut dyn FnMut(u64)) {
        put(self.units);
        put(self.count as u64);
        put(self.sub_period.span().0);
        put(u64::from(self.oldest_counts == OldestCounts::Whole));
    }
}
