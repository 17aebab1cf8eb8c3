//! Calendar windows against an oracle that walks through time and looks at the wall clock.
//!
//! By definition, a day begins when its date is first seen. Where clocks go back over midnight, yesterday's date is
//! seen once more, and that does not count.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;
use tollgate_core::{
    Ask, Calendar, CalendarUnit, Cost, FixedWindow, Limit, SharedLimit, Tick, Time, Window, Windows,
};

mod common;
use common::at;

/// With the day on which months begin.
type Unit = (CalendarUnit, i8);

const UNITS: [Unit; 6] = [
    (CalendarUnit::Day, 1),
    (CalendarUnit::Week, 1),
    (CalendarUnit::Month, 1),
    (CalendarUnit::Month, 15),
    (CalendarUnit::Month, 29),
    (CalendarUnit::Month, 31),
];

/// The first date of the day, week or month that `date` is in.
fn first_of((unit, anchor_day): Unit, date: Date) -> Date {
    match unit {
        CalendarUnit::Day => date,
        CalendarUnit::Week => date
            .nth_weekday(-1, Weekday::Monday)
            .map_or(date, |monday| if date.weekday() == Weekday::Monday { date } else { monday }),
        CalendarUnit::Month => {
            let begins = |date: &Date| date.day() == anchor_day.min(date.days_in_month());
            date.series(jiff::Span::new().days(-1)).find(begins).unwrap()
        }
    }
}

/// The first seconds of the windows that begin in `seconds`, found by walking.
fn beginnings(unit: Unit, zone: &TimeZone, seconds: std::ops::Range<i64>, step: usize) -> Vec<i64> {
    let first_at = |second| first_of(unit, zone.to_datetime(Timestamp::from_second(second).unwrap()).date());
    let mut seen = first_at(seconds.start);
    let mut found = Vec::new();
    for second in seconds.step_by(step) {
        let first = first_at(second);
        if first > seen {
            seen = first;
            found.push(second);
        }
    }
    found
}

/// Compares all windows that begin and end within some 75 days around a date, at their edges and between.
fn check(zone_name: &str, around: &str) {
    check_steps(zone_name, around, 60);
}

fn check_steps(zone_name: &str, around: &str, step: usize) {
    let zone = TimeZone::get(zone_name).unwrap();
    let around: DateTime = around.parse::<Date>().unwrap().at(0, 0, 0, 0);
    let middle = around.to_zoned(TimeZone::UTC).unwrap().timestamp().as_second();
    for unit in UNITS {
        let starts = beginnings(unit, &zone, middle - 40 * 86_400..middle + 35 * 86_400, step);
        assert!(!starts.is_empty(), "nothing to compare");
        // Nanoseconds end in 2079.
        let is_in_time = |tick: &Tick| {
            middle + 40 * 86_400 < (Time::MAX.ticks() / (1_000_000_000 / tick.length_ns())).cast_signed()
        };
        for tick in [Tick::NANOSECOND, Tick::MICROSECOND, Tick::MILLISECOND].into_iter().filter(is_in_time) {
            let (unit, anchor_day) = unit;
            let fresh = || Calendar::new(unit, zone_name, tick).unwrap().anchored(anchor_day.unsigned_abs());
            for edge in starts.windows(2) {
                check_window(fresh, tick, edge[0], edge[1]);
            }
        }
    }
}

fn check_window(fresh: impl Fn() -> Calendar, tick: Tick, first: i64, next: i64) {
    let per_second = tick.span(std::time::Duration::from_secs(1)).unwrap().ticks();
    let [start, end] = [first, next].map(|second| u64::try_from(second).unwrap() * per_second);
    let window = Window { start: at(start), end: at(end) };
    let minutes = |minutes: u64| minutes * 60 * per_second;
    let soon = [0, 1, 30, 59, 60, 61, 119, 120].map(|after| start + minutes(after));
    let late = [1, 30, 59, 60, 61, 119, 120].map(|before| end - minutes(before));
    // To and fro, so that the window that is remembered is not always the right one.
    let used = fresh();
    for now in [&soon[..], &late, &[end - 1, u64::midpoint(start, end), start + 1]].concat() {
        for calendar in [&used, &fresh()] {
            assert_eq!(calendar.at(at(now)), window, "{calendar:?} at {now}");
            assert_eq!(calendar.at(window.end).start, window.end, "{calendar:?} at the end");
            assert!(calendar.at(at(start - 1)).end <= window.start, "{calendar:?} before the start");
        }
    }
}

#[test]
fn utc() {
    check("UTC", "2026-03-01");
    assert_eq!(
        Calendar::utc(CalendarUnit::Day, Tick::NANOSECOND),
        Calendar::new(CalendarUnit::Day, "UTC", Tick::NANOSECOND).unwrap()
    );
}

#[test]
fn february_with_and_without_a_leap_day() {
    for year in ["2024-03-01", "2025-03-01", "2000-03-01", "2100-03-01"] {
        check("UTC", year);
    }
}

#[test]
fn the_day_of_a_moment_is_that_of_the_zone() {
    let shared = |zone: &str| {
        let calendar = Calendar::new(CalendarUnit::Month, zone, Tick::NANOSECOND).unwrap();
        let limit: Limit = FixedWindow::in_windows(9, Windows::Calendar(calendar)).unwrap().into();
        SharedLimit::new(&limit).unwrap()
    };
    // Half an hour before midnight of UTC, on the first of March 2026.
    let moment = shared("UTC").moment(at(1_772_407_800 * 1_000_000_000));
    assert_eq!(shared("UTC").day(moment), 20_513);
    assert_eq!(shared("Europe/Berlin").day(moment), 20_514);
    assert_eq!(shared("America/New_York").day(moment), 20_513);
    assert_eq!(shared("UTC").day(at(0)), 0);
    assert_eq!(shared("America/New_York").day(at(0)), 0, "before 1970 there is nothing");
}

#[test]
fn weeks_and_months_across_the_new_year() {
    check("UTC", "2027-01-01");
    check("Asia/Tokyo", "2021-01-01");
}

#[test]
fn days_of_23_and_25_hours() {
    check("Europe/Berlin", "2025-03-30");
    check("Europe/Berlin", "2025-10-26");
    check("America/New_York", "2024-11-03");
    check("Australia/Lord_Howe", "2025-04-06");
}

#[test]
fn days_that_do_not_begin_at_midnight() {
    check("America/Sao_Paulo", "2018-11-04");
    check("Asia/Beirut", "2022-03-27");
    check("Africa/Cairo", "2024-04-26");
}

#[test]
fn days_with_two_midnights() {
    check("America/Havana", "2024-11-03");
    check("Asia/Beirut", "2022-10-30");
    check("America/Sao_Paulo", "2019-02-17");
}

/// At one minute past midnight it was yesterday again.
#[test]
fn clocks_that_go_back_over_midnight() {
    check("America/St_Johns", "2006-10-29");
    check("America/Goose_Bay", "2010-11-07");
}

#[test]
fn a_day_that_never_was() {
    check("Pacific/Apia", "2011-12-30");
    check("Pacific/Kwajalein", "1993-08-21");
    check("Pacific/Kiritimati", "1994-12-31");
}

#[test]
fn offsets_of_odd_minutes_and_seconds() {
    check("Asia/Kolkata", "2026-01-15");
    check("Asia/Kathmandu", "1986-01-01");
    check_steps("Africa/Monrovia", "1972-01-07", 30);
}

/// The timeline begins in the middle of a month: the first window is what is left of it.
#[test]
fn the_first_window_begins_with_time_itself() {
    for (zone, day_ends_at) in [("UTC", 24), ("America/New_York", 5), ("Asia/Tokyo", 15)] {
        let calendar = Calendar::new(CalendarUnit::Day, zone, Tick::MICROSECOND).unwrap();
        let end = at(day_ends_at * 3_600 * 1_000_000);
        assert_eq!(calendar.at(at(0)), Window { start: at(0), end }, "{zone}");
        assert_eq!(calendar.at(end).start, end, "{zone}");
    }
}

/// At the end of the nanoseconds all is well; at the end of the calendar there is one last window.
#[test]
fn the_last_windows_there_are() {
    for (unit, _) in UNITS {
        let window = Calendar::utc(unit, Tick::NANOSECOND).at(Time::MAX);
        assert!(window.start <= Time::MAX && window.end > Time::MAX, "{unit:?}");
        let window = Calendar::utc(unit, Tick::MILLISECOND).at(Time::MAX);
        assert!(window.start < window.end && window.end < Time::MAX, "{unit:?}");
    }
}

/// A quota per day in Berlin, over the night in which an hour is missing.
#[test]
fn a_quota_of_a_short_day_is_back_after_23_hours() {
    let calendar = Calendar::new(CalendarUnit::Day, "Europe/Berlin", Tick::MILLISECOND).unwrap();
    let limit = Limit::from(FixedWindow::in_windows(2, Windows::Calendar(calendar)).unwrap());
    let midnight = 1_743_289_200_000; // 2025-03-30 00:00 in Berlin
    let hour = 3_600_000;
    let mut state = limit.fresh();
    assert!(limit.decide(&mut state, Ask::take(Cost::new(2), at(midnight))).is_allowed());
    let denied = limit.decide(&mut state, Ask::take(Cost::ONE, at(midnight + hour)));
    assert_eq!(denied.retry_after().map(tollgate_core::Span::ticks), Some(22 * hour));
    assert!(!limit.decide(&mut state, Ask::take(Cost::ONE, at(midnight + 23 * hour - 1))).is_allowed());
    assert!(limit.decide(&mut state, Ask::take(Cost::ONE, at(midnight + 23 * hour))).is_allowed());
}

/// Every window of a century packs into a word of its own and comes back.
#[test]
fn every_day_has_a_word_of_its_own() {
    for (unit, zone) in [(CalendarUnit::Day, "Pacific/Apia"), (CalendarUnit::Month, "Europe/Berlin")] {
        let calendar = Calendar::new(unit, zone, Tick::NANOSECOND).unwrap();
        let windows = Windows::Calendar(calendar.clone());
        let limit = Limit::from(FixedWindow::in_windows(1_000_000, windows).unwrap());
        let (mut now, mut last) = (at(0), 0);
        while now < at(4_000_000_000_000_000_000) {
            let mut state = limit.fresh();
            limit.decide(&mut state, Ask::take(Cost::new(7), now));
            let word = limit.pack(&state).unwrap();
            assert!(word > last, "{zone}: the word at {now:?} is not above the one before");
            assert_eq!(limit.unpack(word), state, "{zone} at {now:?}");
            (now, last) = (calendar.at(now).end, word);
        }
    }
}

/// A moment so far ahead that it cannot be remembered is not taken for one that can.
#[test]
fn the_far_future_is_not_mistaken_for_today() {
    let calendar = Calendar::utc(CalendarUnit::Day, Tick::MICROSECOND);
    let today = Time::from_ticks(1_700_000_000_000_000);
    let expected = calendar.at(today);
    calendar.at(Time::from_ticks(today.ticks() + (1 << 36) * 1_000_000));
    assert_eq!(calendar.at(today), expected);
}
