//! A limit of fixed windows as a line of text.
//!
//! A process that cannot reach its database writes down what it owes, and another process, which may not have the rule any more, books it.
//! So the text says all that a limit of fixed windows is made of.

use crate::algorithm::fixed_window::FixedWindow;
use crate::calendar::{Calendar, CalendarUnit};
use crate::limit::Limit;
use crate::shared::SharedLimit;
use crate::time::{Span, Tick};
use crate::window::{Period, Windows};

const TICKS: [(Tick, &str); 3] = [(Tick::MICROSECOND, "us"), (Tick::MILLISECOND, "ms"), (Tick::SECOND, "s")];
const UNITS: [(CalendarUnit, &str); 3] =
    [(CalendarUnit::Day, "day"), (CalendarUnit::Week, "week"), (CalendarUnit::Month, "month")];
const EVERY: &str = "every";
const JITTERED: &str = "jittered";
const ALIGNED: &str = "aligned";

impl SharedLimit {
    /// Writes a limit of fixed windows, such as `1000 us month 15 Europe/Berlin` or `100 us every 3600000000 aligned`. None for any
    /// other limit. The text has no line break and no tab.
    pub fn to_window_text(&self) -> Option<String> {
        let Limit::FixedWindow(limit) = self.limit() else { return None };
        let (_, tick) = TICKS.iter().find(|(tick, _)| *tick == self.tick())?;
        let units = limit.units();
        Some(match limit.windows() {
            Windows::Every(period) => {
                let jitter = if limit.is_jittered() { JITTERED } else { ALIGNED };
                format!("{units} {tick} {EVERY} {} {jitter}", period.span().ticks())
            }
            Windows::Calendar(calendar) => {
                let (unit, anchor_day, zone) = calendar.parts();
                let (_, unit) = UNITS.iter().find(|(other, _)| *other == unit)?;
                format!("{units} {tick} {unit} {anchor_day} {zone}")
            }
        })
    }

    /// Reads what [`SharedLimit::to_window_text`] writes. None if the text is anything else.
    pub fn from_window_text(text: &str) -> Option<SharedLimit> {
        let mut words = text.split(' ');
        let units = words.next()?.parse().ok()?;
        let tick_name = words.next()?;
        let (tick, _) = *TICKS.iter().find(|(_, name)| *name == tick_name)?;
        let (kind, number, last) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() {
            return None;
        }
        let limit = if kind == EVERY {
            let ticks = number.parse().ok().filter(|ticks| *ticks > 0)?;
            let windows = Windows::Every(Period::new(Span::from_ticks(ticks)));
            let limit = FixedWindow::in_windows(units, windows).ok()?;
            if last == JITTERED { limit.jittered() } else { limit }
        } else {
            let (unit, _) = *UNITS.iter().find(|(_, name)| *name == kind)?;
            let calendar = Calendar::new(unit, last, tick).ok()?.anchored(number.parse().ok()?);
            FixedWindow::in_windows(units, Windows::Calendar(calendar)).ok()?
        };
        SharedLimit::in_ticks(Limit::FixedWindow(limit), tick).ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::rate::Rate;

    fn check(limit: impl Into<Limit>, expected: &str) {
        let shared = SharedLimit::new(&limit.into()).unwrap();
        assert_eq!(shared.to_window_text().as_deref(), Some(expected));
        let read = SharedLimit::from_window_text(expected).unwrap();
        assert_eq!(read, shared);
        assert_eq!(read.shape(), shared.shape());
    }

    fn calendar(unit: CalendarUnit, zone: &str, anchor_day: u8) -> FixedWindow {
        let calendar = Calendar::new(unit, zone, Tick::NANOSECOND).unwrap().anchored(anchor_day);
        FixedWindow::in_windows(1_000, Windows::Calendar(calendar)).unwrap()
    }

    #[test]
    fn a_limit_of_fixed_windows_is_read_as_it_was_written() {
        let hourly = FixedWindow::new(Rate::new(100, Span::from_ticks(3_600_000_000_000)).unwrap());
        check(hourly.clone(), "100 us every 3600000000 aligned");
        check(hourly.jittered(), "100 us every 3600000000 jittered");
        check(calendar(CalendarUnit::Month, "Europe/Berlin", 15), "1000 us month 15 Europe/Berlin");
        check(calendar(CalendarUnit::Week, "UTC", 1), "1000 us week 1 UTC");
        check(calendar(CalendarUnit::Day, "Asia/Kolkata", 1), "1000 us day 1 Asia/Kolkata");
    }

    #[test]
    fn a_text_that_is_no_limit_is_refused() {
        for text in [
            "",
            "1000",
            "0 us day 1 UTC",
            "1 us every 0 aligned",
            "1 ns day 1 UTC",
            "1 us day 1 Nowhere/At_all",
            "1 us year 1 UTC",
            "1 us day 1 UTC more",
        ] {
            assert_eq!(SharedLimit::from_window_text(text), None, "{text:?}");
        }
    }
}
