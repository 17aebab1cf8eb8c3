//! Keys on clocks of their own, so that not all windows end at once.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use std::collections::BTreeSet;

use tollgate_core::{
    Calendar, CalendarUnit, FixedWindow, Limit, OldestCounts, SlidingWindow, SubWindows, Tick, Time,
    TokenBucket, Windows,
};

mod common;
use common::{at, rate, take};

/// The ticks by which the clocks of keys are ahead.
fn offsets(limit: &Limit) -> BTreeSet<u64> {
    (0..1_000).map(|hash| limit.key_time(hash, at(5_000)).ticks() - 5_000).collect()
}

fn check(limit: impl Into<Limit>, expected: std::ops::Range<u64>) {
    let limit = limit.into();
    assert_eq!(offsets(&limit), expected.collect(), "{limit:?}");
}

#[test]
fn jittered_windows_are_spread_over_one_period() {
    check(FixedWindow::new(rate(1, 100)).jittered(), 0..100);
    check(SlidingWindow::new(rate(1, 100)).jittered(), 0..100);
    check(SubWindows::new(rate(1, 100), 10, OldestCounts::Whole).unwrap().jittered(), 0..100);
}

#[test]
fn others_stay_where_they_are() {
    check(FixedWindow::new(rate(1, 100)), 0..1);
    check(SlidingWindow::new(rate(1, 100)), 0..1);
    check(SubWindows::new(rate(1, 100), 10, OldestCounts::Whole).unwrap(), 0..1);
    check(TokenBucket::new(rate(1, 100), 1).unwrap(), 0..1);
    let days = Windows::Calendar(Calendar::utc(CalendarUnit::Day, Tick::NANOSECOND));
    check(FixedWindow::in_windows(1, days).unwrap().jittered(), 0..1);
}

#[test]
fn the_end_of_time_is_the_end_for_all_keys() {
    let limit = Limit::from(FixedWindow::new(rate(1, 1 << 62)).jittered());
    assert_eq!(limit.key_time(u64::MAX, Time::MAX), Time::MAX);
}

/// Two keys of one limit, each exhausted; their windows end at different times.
#[test]
fn each_key_has_its_window() {
    let limit = Limit::from(FixedWindow::new(rate(1, 100)).jittered());
    let admitted = |hash: u64, now: u64| {
        let mut state = limit.fresh();
        assert!(take(&limit, &mut state, 1, limit.key_time(hash, at(200)).ticks()));
        take(&limit, &mut state, 1, limit.key_time(hash, at(now)).ticks())
    };
    assert_eq!([admitted(30, 269), admitted(30, 270)], [false, true]);
    assert_eq!([admitted(80, 219), admitted(80, 220)], [false, true]);
}
