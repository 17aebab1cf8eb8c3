//! A fixed window on a calendar counts what falls on the same date, whatever the length of the day.
//!
//! Dates are read off the wall clock. That is right for zones whose clocks never go back over midnight; the others
//! have tests of their own.

use jiff::Timestamp;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use tollgate_core::{CalendarUnit, Tick};

use super::history::History;
use super::{Model, search};

#[derive(Debug)]
pub(crate) struct CalendarWindow {
    units: u128,
    unit: CalendarUnit,
    zone: TimeZone,
    anchor_day: i8,
    second: u128,
    /// By the number of the first day of its window.
    history: History,
}

impl CalendarWindow {
    /// `units` per calendar unit, on a timeline of such ticks.
    pub(crate) fn new(units: u64, unit: CalendarUnit, zone: &str, tick: Tick) -> CalendarWindow {
        let zone = TimeZone::get(zone).expect("the specs name zones that exist");
        let second = u128::from(1_000_000_000 / tick.length_ns());
        let (units, history) = (u128::from(units), History::default());
        CalendarWindow { units, unit, zone, anchor_day: 1, second, history }
    }

    /// The same, with months that begin on this day, or on their last.
    pub(crate) fn anchored(self, day: u8) -> CalendarWindow {
        CalendarWindow { anchor_day: i8::try_from(day).expect("a day of a month"), ..self }
    }

    /// The number of the first day of the window around `at`.
    fn first_day(&self, at: u128) -> u128 {
        let second = i64::try_from(at / self.second).expect("a second of this millennium");
        let date = self.zone.to_datetime(Timestamp::from_second(second).expect("the same")).date();
        let first = match self.unit {
            CalendarUnit::Day => date,
            CalendarUnit::Week => {
                let is_monday = |date: &Date| date.weekday() == Weekday::Monday;
                date.series(jiff::Span::new().days(-1)).find(is_monday).expect("one of the last seven days")
            }
            CalendarUnit::Month => {
                let begins = |date: &Date| date.day() == self.anchor_day.min(date.days_in_month());
                date.series(jiff::Span::new().days(-1)).find(begins).expect("one of the last 31 days")
            }
        };
        let since = first.duration_since(Date::constant(1969, 1, 1)).as_hours() / 24;
        u128::try_from(since).expect("after 1969")
    }
}

impl Model for CalendarWindow {
    fn limit(&self) -> u128 {
        self.units
    }

    fn used(&self, at: u128) -> u128 {
        let today = self.first_day(at);
        self.history.units(|day| day == today)
    }

    fn take(&mut self, units: u128, at: u128) {
        self.history.add(units, self.first_day(at));
    }

    fn give_back(&mut self, units: u128, counted_at: u128, _at: u128) {
        let counted_on = self.first_day(counted_at);
        self.history.forget(units, |day| day == counted_on);
    }

    fn reset_after(&self, at: u128) -> Option<u128> {
        let today = self.first_day(at);
        Some(search::first(|later| self.first_day(at + later) > today))
    }
}
