//! Where windows begin and end: every so many ticks from the epoch, or with the days of a calendar.

use crate::calendar::Calendar;
use crate::divisor::Divisor;
use crate::rate::Rate;
use crate::script::span_in_ticks;
use crate::time::{Span, Tick, Time};

const DAY_SECONDS: u64 = 86_400;

/// One window: `start` belongs to it, `end` to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// The first moment of the window.
    pub start: Time,
    /// The first moment of the next one.
    pub end: Time,
}

/// A division of time into windows without gaps.
#[derive(Clone, Debug, PartialEq)]
pub enum Windows {
    /// Windows of equal length, aligned to the epoch.
    Every(Period),
    /// Days, weeks or months of a time zone.
    Calendar(Calendar),
}

impl Windows {
    /// The windows of a rate.
    pub fn of(rate: &Rate) -> Windows {
        Windows::Every(Period::new(rate.period()))
    }

    /// The window that `now` falls into.
    #[inline]
    pub fn at(&self, now: Time) -> Window {
        match self {
            Windows::Every(period) => period.at(now),
            Windows::Calendar(calendar) => calendar.at(now),
        }
    }

    /// The end of the window that starts at `start`.
    #[inline]
    pub(crate) fn end_of(&self, start: Time) -> Time {
        match self {
            Windows::Every(period) => start.plus(period.span()),
            Windows::Calendar(calendar) => calendar.at(start).end,
        }
    }

    /// The day of a moment, as days since 1970-01-01: of the calendar's zone, else of UTC.
    pub(crate) fn day(&self, now: Time, tick: Tick) -> u64 {
        match self {
            Windows::Every(_) => now.0 / tick.per_second() / DAY_SECONDS,
            Windows::Calendar(calendar) => calendar.day(now),
        }
    }

    /// A length that every window has at least.
    pub(crate) fn length_min(&self) -> Span {
        match self {
            Windows::Every(period) => period.span(),
            Windows::Calendar(calendar) => calendar.length_min(),
        }
    }

    /// A length that no window exceeds.
    pub(crate) fn length_max(&self) -> Span {
        match self {
            Windows::Every(period) => period.span(),
            Windows::Calendar(calendar) => calendar.length_max(),
        }
    }

    /// The same windows, which are on a timeline of nanoseconds, on one of other ticks. A period is rounded up.
    pub(crate) fn in_ticks(&self, tick: Tick) -> Windows {
        match self {
            Windows::Every(period) => Windows::Every(Period::new(span_in_ticks(period.span(), tick))),
            Windows::Calendar(calendar) => Windows::Calendar(calendar.in_ticks(tick)),
        }
    }

    /// Tells divisions of time apart.
    pub(crate) fn shape(&self) -> u64 {
        match self {
            Windows::Every(period) => period.span().0,
            Windows::Calendar(calendar) => calendar.shape(),
        }
    }
}

/// A length of windows, at least one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Period {
    ticks: Divisor,
}

impl Period {
    /// Windows of this length, which a [`Rate`] has validated.
    pub(crate) fn new(span: Span) -> Period {
        Period { ticks: Divisor::new(span.0) }
    }

    /// The length.
    #[inline]
    pub fn span(self) -> Span {
        Span(self.ticks.number())
    }

    /// The window, aligned to the epoch, that `now` falls into.
    #[inline]
    pub(crate) fn at(self, now: Time) -> Window {
        let start = Time(self.ticks.round_down(now.0));
        Window { start, end: start.plus(self.span()) }
    }

    /// How many whole periods a span has.
    pub(crate) fn count_in(self, span: Span) -> u64 {
        self.ticks.divide(span.0)
    }

    /// `ceil(units * part / period)`: the share of units that a part of the period has.
    #[inline]
    pub(crate) fn share_up(self, units: u64, part: Span) -> u64 {
        if let Some(product) = units.checked_mul(part.0) {
            return self.ticks.divide_up(product);
        }
        let product = u128::from(units) * u128::from(part.0);
        u64::try_from(product.div_ceil(u128::from(self.ticks.number()))).unwrap_or(u64::MAX)
    }

    /// How far a period must have passed until so little of `units` is left that it fits `room`: `period - floor(room *
    /// period / units)`.
    pub(crate) fn fades_after(self, units: u64, room: u64) -> Span {
        let period = self.ticks.number();
        if units == 0 {
            return Span::ZERO;
        }
        let part = u128::from(room) * u128::from(period) / u128::from(units);
        Span(period - u64::try_from(part).unwrap_or(u64::MAX).min(period))
    }
}
