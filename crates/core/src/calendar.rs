//! Windows that follow a calendar: days, weeks and months of a time zone, with their uneven lengths.
//!
//! A day of 23 hours is one window, and so is February. Where the boundaries lie is asked of the time zone
//! database that is compiled in; the window found last is remembered, because nearly every question falls
//! into it.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::error::LimitError;
use crate::time::{Span, Tick, Time};
use crate::window::Window;

/// What a calendar window spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// From midnight to midnight.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first to the first, or from another day to the same: see [`Calendar::anchored`].
    Month,
}

/// The days, weeks or months of a time zone. The timeline's epoch must be the Unix epoch.
#[derive(Debug)]
pub struct Calendar {
    unit: CalendarUnit,
    zone: TimeZone,
    zone_name: String,
    /// The day of the month on which months begin.
    anchor_day: i8,
    tick: Tick,
    shape: u64,
    /// The window found last: its first second in the high 36 bits, its length in seconds in the low 28. Both in
    /// one word, so that a relaxed load never sees half of it. Zero is no window.
    remembered: AtomicU64,
}

/// No month has more days.
const MONTH_DAYS_MAX: i8 = 31;
const LENGTH_BITS: u32 = 28;
/// The last second the time zone database can place, less room for the month around it: the year 9999.
const SECOND_MAX: u64 = 253_402_207_200 - 40 * 86_400;

impl Calendar {
    /// The `unit`s of the zone with this IANA name, on a timeline of Unix time in `tick`s.
    pub fn new(unit: CalendarUnit, zone_name: &str, tick: Tick) -> Result<Calendar, LimitError> {
        let zone =
            TimeZone::get(zone_name).map_err(|_| LimitError::UnknownZone { name: zone_name.to_owned() })?;
        Ok(Calendar::of(unit, zone, zone_name, tick))
    }

    /// The same, with months that begin on another day than the first: that on which a contract began, say. Where a month has no such day, on its
    /// last. What is no day of any month is the nearest that is; days and weeks stay as they are.
    #[must_use]
    pub fn anchored(self, day: u8) -> Calendar {
        if self.unit != CalendarUnit::Month {
            return self;
        }
        let anchor_day = i8::try_from(day).unwrap_or(i8::MAX).clamp(1, MONTH_DAYS_MAX);
        let shape = shape(self.unit, &self.zone_name, self.tick, anchor_day);
        Calendar { anchor_day, shape, remembered: AtomicU64::new(0), ..self }
    }

    /// The `unit`s of UTC.
    pub fn utc(unit: CalendarUnit, tick: Tick) -> Calendar {
        Calendar::of(unit, TimeZone::UTC, "UTC", tick)
    }

    fn of(unit: CalendarUnit, zone: TimeZone, zone_name: &str, tick: Tick) -> Calendar {
        let shape = shape(unit, zone_name, tick, 1);
        let (zone_name, remembered) = (zone_name.to_owned(), AtomicU64::new(0));
        Calendar { unit, zone, zone_name, anchor_day: 1, tick, shape, remembered }
    }

    /// The window that `now` falls into. Beyond the year 9999, the last one there is.
    pub fn at(&self, now: Time) -> Window {
        let per_second = self.tick.per_second();
        let second = (now.0 / per_second).min(SECOND_MAX);
        // Relaxed: the word is whole in itself and publishes nothing else.
        let (mut start, mut length) = unpack(self.remembered.load(Ordering::Relaxed));
        if second < start || second - start >= length {
            (start, length) = self.find(second);
            if start >> (64 - LENGTH_BITS) == 0 {
                self.remembered.store(start << LENGTH_BITS | length, Ordering::Relaxed);
            }
        }
        Window { start: Time(start * per_second), end: Time((start + length) * per_second) }
    }

    /// The same calendar on a timeline of other ticks.
    pub(crate) fn in_ticks(&self, tick: Tick) -> Calendar {
        let calendar = Calendar::of(self.unit, self.zone.clone(), &self.zone_name, tick);
        calendar.anchored(self.anchor_day.unsigned_abs())
    }

    /// What it is made of: the unit, the day on which months begin, and the name of the zone.
    pub(crate) fn parts(&self) -> (CalendarUnit, i8, &str) {
        (self.unit, self.anchor_day, &self.zone_name)
    }

    /// The day of a moment, as days since 1970-01-01 by the clocks of the zone.
    pub(crate) fn day(&self, now: Time) -> u64 {
        let date = self.date((now.0 / self.tick.per_second()).min(SECOND_MAX));
        let days = date.since(Date::constant(1970, 1, 1)).map_or(0, |since| since.get_days());
        u64::try_from(days).unwrap_or(0)
    }

    /// No day of any zone is shorter than this.
    pub(crate) fn length_min(&self) -> Span {
        let hours = match self.unit {
            CalendarUnit::Day => 12,
            CalendarUnit::Week => 6 * 24,
            CalendarUnit::Month => 27 * 24,
        };
        Span(hours * 3_600 * self.tick.per_second())
    }

    /// No month of any zone is longer than this.
    pub(crate) fn length_max(&self) -> Span {
        Span(32 * 24 * 3_600 * self.tick.per_second())
    }

    /// Tells calendars apart from each other and from plain periods, which are at most 2^62, also when both are
    /// shifted by a bit.
    pub(crate) fn shape(&self) -> u64 {
        self.shape
    }

    /// First second and length of the window around `second`.
    fn find(&self, second: u64) -> (u64, u64) {
        let mut first = self.first_date(second);
        let mut start = self.midnight(first);
        loop {
            let next = self.next_date(first);
            let end = self.midnight(next);
            // A zone whose clock goes back over midnight names yesterday's date after today has begun.
            if second < end || end <= start {
                return (start, end.saturating_sub(start).max(1));
            }
            (first, start) = (next, end);
        }
    }

    fn date(&self, second: u64) -> Date {
        let timestamp =
            i64::try_from(second).ok().and_then(|s| Timestamp::from_second(s).ok()).unwrap_or(Timestamp::MAX);
        self.zone.to_datetime(timestamp).date()
    }

    fn first_date(&self, second: u64) -> Date {
        let date = self.date(second);
        match self.unit {
            CalendarUnit::Day => date,
            CalendarUnit::Week => date.saturating_sub(date.weekday().since(Weekday::Monday).days()),
            CalendarUnit::Month => match self.month_start(date) {
                start if start <= date => start,
                _ => self.month_start(date.first_of_month().saturating_sub(1.month())),
            },
        }
    }

    fn next_date(&self, first: Date) -> Date {
        match self.unit {
            CalendarUnit::Day => first.saturating_add(1.day()),
            CalendarUnit::Week => first.saturating_add(1.week()),
            // From the month itself, since a short one may have moved its beginning.
            CalendarUnit::Month => self.month_start(first.first_of_month().saturating_add(1.month())),
        }
    }

    /// The day on which the window begins that begins in the month of a date.
    fn month_start(&self, date: Date) -> Date {
        let day = self.anchor_day.min(date.days_in_month());
        date.first_of_month().saturating_add((day - 1).days())
    }

    /// The second at which a date begins; before 1970 there is nothing.
    fn midnight(&self, date: Date) -> u64 {
        let start = date.to_zoned(self.zone.clone()).map_or(Timestamp::MAX, |zoned| zoned.timestamp());
        u64::try_from(start.as_second()).unwrap_or(0)
    }
}

/// FNV-1a over what makes a calendar; marked as no plain period can be, also where it is doubled.
fn shape(unit: CalendarUnit, zone_name: &str, tick: Tick, anchor_day: i8) -> u64 {
    let seed = 0xcbf2_9ce4_8422_2325 ^ unit as u64 ^ tick.per_second() << 8;
    // Months that begin on the first have the shape that they always had.
    let seed = seed ^ (u64::from(anchor_day.unsigned_abs()) - 1) << 2;
    let hash =
        zone_name.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    hash | 3 << 62 | 1
}

fn unpack(remembered: u64) -> (u64, u64) {
    (remembered >> LENGTH_BITS, remembered & ((1 << LENGTH_BITS) - 1))
}

impl Clone for Calendar {
    fn clone(&self) -> Calendar {
        Calendar {
            unit: self.unit,
            zone: self.zone.clone(),
            zone_name: self.zone_name.clone(),
            anchor_day: self.anchor_day,
            tick: self.tick,
            shape: self.shape,
            remembered: AtomicU64::new(self.remembered.load(Ordering::Relaxed)),
        }
    }
}

impl PartialEq for Calendar {
    fn eq(&self, other: &Calendar) -> bool {
        let parts = |calendar: &Calendar| (calendar.unit, calendar.anchor_day, calendar.tick);
        parts(self) == parts(other) && self.zone_name == other.zone_name
    }
}
