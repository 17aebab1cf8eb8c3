//! Where windows begin and end: every so many ticks from the epoch, or with the days of a calendar.

use crate::calendar::Calendar;
use crate::rate::Rate;
use crate::time::{Span, Time};

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
    Every(Span),
    /// Days, weeks or months of a time zone.
    Calendar(Calendar),
}

impl Windows {
    /// The windows of a rate.
    pub fn of(rate: &Rate) -> Windows {
        Windows::Every(rate.period())
    }

    /// The window that `now` falls into.
    #[inline]
    pub fn at(&self, now: Time) -> Window {
        match self {
            Windows::Every(period) => Window::aligned(now, *period),
            Windows::Calendar(calendar) => calendar.at(now),
        }
    }

    /// The end of the window that starts at `start`.
    #[inline]
    pub(crate) fn end_of(&self, start: Time) -> Time {
        match self {
            Windows::Every(period) => start.plus(*period),
            Windows::Calendar(calendar) => calendar.at(start).end,
        }
    }

    /// A length that every window has at least.
    pub(crate) fn length_min(&self) -> Span {
        match self {
            Windows::Every(period) => *period,
            Windows::Calendar(calendar) => calendar.length_min(),
        }
    }

    /// Tells divisions of time apart.
    pub(crate) fn shape(&self) -> u64 {
        match self {
            Windows::Every(period) => period.0,
            Windows::Calendar(calendar) => calendar.shape(),
        }
    }
}

impl Window {
    /// The window of `period` ticks, aligned to the epoch, that `now` falls into.
    #[inline]
    pub(crate) fn aligned(now: Time, period: Span) -> Window {
        let start = Time(now.0 - now.0 % period.0);
        Window { start, end: start.plus(period) }
    }
}
