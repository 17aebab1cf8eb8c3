//! What can be built, to the last number, and what those are told who ask for more.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use tollgate_core::{
    Ask, Calendar, CalendarUnit, Cost, FixedWindow, LimitError, OldestCounts, Span, Tick, Windows,
};
use tollgate_testkit::Spec;

mod common;

const SPAN_MAX: u64 = 1 << 62;
const TOO_LONG: LimitError = LimitError::TooLong { ticks_max: SPAN_MAX };

/// `inside` can be built, and `outside`, next to it, cannot.
fn check(inside: &[Spec], outside: &[Spec], error: &LimitError, said: &str) {
    for spec in inside {
        assert!(spec.try_limit().is_ok(), "{spec:?}: {:?}", spec.try_limit());
    }
    for spec in outside {
        assert_eq!(spec.try_limit().as_ref(), Err(error), "{spec:?}");
    }
    assert_eq!(error.to_string(), said);
}

fn token_bucket(units: u64, period_ticks: u64, burst: u64) -> Spec {
    Spec::TokenBucket { units, period_ticks, burst }
}

fn leaky_bucket(units: u64, period_ticks: u64, size: u64) -> Spec {
    Spec::LeakyBucket { units, period_ticks, size }
}

fn queue(units: u64, period_ticks: u64, max_wait_ticks: u64) -> Spec {
    Spec::LeakyQueue { units, period_ticks, max_wait_ticks }
}

fn sub_windows(period_ticks: u64, count: u32) -> Spec {
    Spec::SubWindows { units: 1, period_ticks, count, oldest: OldestCounts::Whole }
}

/// Every kind of limit with the given units and period.
fn all(units: u64, period_ticks: u64) -> Vec<Spec> {
    vec![
        token_bucket(units, period_ticks, 1),
        leaky_bucket(units, period_ticks, 1),
        Spec::FixedWindow { units, period_ticks },
        Spec::SlidingWindow { units, period_ticks },
        Spec::SubWindows { units, period_ticks, count: 1, oldest: OldestCounts::ByOverlap },
        Spec::SlidingLog { units, period_ticks },
        Spec::Concurrency { units, hold_ticks_max: period_ticks },
    ]
}

#[test]
fn a_limit_has_units() {
    let said = "a limit needs at least 1 unit per period; to let nothing pass, use a blocked limit";
    check(&all(1, 1), &all(0, 1), &LimitError::NoUnits, said);
    check(&[queue(1, 1, 0)], &[queue(0, 1, 0)], &LimitError::NoUnits, said);
    let calendar = |units| Spec::CalendarWindow {
        units,
        unit: CalendarUnit::Day,
        zone: "UTC",
        anchor_day: 1,
        tick: Tick::NANOSECOND,
    };
    check(&[calendar(1), calendar(u64::MAX)], &[calendar(0)], &LimitError::NoUnits, said);
}

#[test]
fn a_bucket_has_room() {
    let outside = [token_bucket(1, 1, 0), leaky_bucket(1, 1, 0)];
    check(&[token_bucket(1, 1, 1)], &outside, &LimitError::NoBurst, "a burst must be at least 1");
}

#[test]
fn a_period_has_a_length() {
    check(&all(1, 1), &all(1, 0), &LimitError::NoPeriod, "a period must last at least one tick");
}

#[test]
fn a_period_is_not_too_long() {
    let said = "a period, burst or wait may last at most 4611686018427387904 ticks";
    check(&all(1, SPAN_MAX), &all(1, SPAN_MAX + 1), &TOO_LONG, said);
    check(&[], &all(1, u64::MAX), &TOO_LONG, said);
}

#[test]
fn a_burst_is_not_too_long() {
    let inside =
        [token_bucket(1, 2, SPAN_MAX / 2), token_bucket(1, 1, SPAN_MAX), leaky_bucket(1, SPAN_MAX, 1)];
    let outside = [
        token_bucket(1, 2, SPAN_MAX / 2 + 1),
        token_bucket(1, 1, SPAN_MAX + 1),
        leaky_bucket(1, SPAN_MAX, 2),
        token_bucket(1, 1, u64::MAX),
        token_bucket(1, 1 << 32, 1 << 32),
        // T is rounded up before it is multiplied.
        token_bucket(2, 3, SPAN_MAX / 2 + 1),
    ];
    check(&inside, &outside, &TOO_LONG, &TOO_LONG.to_string());
}

#[test]
fn a_wait_is_not_too_long() {
    let inside = [queue(1, 1, SPAN_MAX - 2), queue(1 << 61, 1 << 61, 0), queue(3, 7, SPAN_MAX - 18)];
    let outside = [
        queue(1, 1, SPAN_MAX - 1),
        queue(1, 1, u64::MAX),
        queue(1 << 61, 1 << 61, 1),
        queue(3, 7, SPAN_MAX - 17),
    ];
    check(&inside, &outside, &TOO_LONG, &TOO_LONG.to_string());
}

#[test]
fn a_unit_takes_at_least_a_tick_to_come_back() {
    let error = LimitError::TooFast { units: 8, period_ticks: 7 };
    let said = "8 units in 7 ticks are more than one per tick; use a window, or a finer tick";
    let outside = [token_bucket(8, 7, 1), leaky_bucket(8, 7, 1), queue(8, 7, 0)];
    check(&[token_bucket(7, 7, 1), leaky_bucket(7, 7, 1), queue(7, 7, 0)], &outside, &error, said);
    check(
        &[Spec::FixedWindow { units: 8, period_ticks: 7 }, Spec::SlidingWindow { units: 8, period_ticks: 7 }],
        &[],
        &error,
        said,
    );
}

#[test]
fn a_log_is_not_too_large() {
    let error = LimitError::LogTooLarge { units: 65_537, units_max: 65_536 };
    let said = "a sliding log holds at most 65536 units, not 65537; use sub-windows";
    let log = |units| Spec::SlidingLog { units, period_ticks: 1 };
    check(&[log(65_536)], &[log(65_537)], &error, said);
}

#[test]
fn sub_windows_are_neither_too_few_nor_too_many() {
    let error = |count| LimitError::SubWindows { count, max: 64 };
    let said = "a window may have 1 to 64 sub-windows (and no more than it has ticks), not 65";
    check(&[sub_windows(100, 64)], &[sub_windows(100, 65)], &error(65), said);
    check(&[sub_windows(100, 1)], &[sub_windows(100, 0)], &error(0), &said.replace("65", "0"));
    check(&[sub_windows(3, 3)], &[sub_windows(3, 4)], &error(4), &said.replace("65", "4"));
}

#[test]
fn not_too_many_hold_on() {
    let error = LimitError::TooManyHolders { units: 65_537, units_max: 65_536 };
    let concurrency = |units| Spec::Concurrency { units, hold_ticks_max: 1 };
    let said = "at most 65536 units may be held at once, not 65537";
    check(&[concurrency(65_536)], &[concurrency(65_537)], &error, said);
}

#[test]
fn a_zone_is_known() {
    let said = "unknown time zone \"Middle/Earth\"; use a name such as \"Europe/Berlin\" or \"UTC\"";
    let error = Calendar::new(CalendarUnit::Day, "Middle/Earth", Tick::NANOSECOND).map(|_| ()).unwrap_err();
    assert_eq!(error, LimitError::UnknownZone { name: "Middle/Earth".to_owned() });
    assert_eq!(error.to_string(), said);
    assert!(Calendar::new(CalendarUnit::Day, "", Tick::NANOSECOND).is_err());
}

#[test]
fn a_duration_becomes_ticks_rounded_up_and_comes_back_exactly() {
    use std::time::Duration;
    let check = |tick: Tick, duration: Duration, ticks: u64| {
        assert_eq!(tick.span(duration), Ok(Span::from_ticks(ticks)), "{duration:?} in {tick:?}");
    };
    check(Tick::NANOSECOND, Duration::from_nanos(1), 1);
    check(Tick::MICROSECOND, Duration::from_nanos(1), 1);
    check(Tick::MICROSECOND, Duration::from_micros(7), 7);
    check(Tick::MICROSECOND, Duration::from_nanos(7_001), 8);
    check(Tick::MILLISECOND, Duration::from_secs(2), 2_000);
    check(Tick::NANOSECOND, Duration::from_nanos(SPAN_MAX), SPAN_MAX);
    assert_eq!(Tick::NANOSECOND.span(Duration::from_nanos(SPAN_MAX + 1)), Err(TOO_LONG));
    assert_eq!(Tick::NANOSECOND.span(Duration::MAX), Err(TOO_LONG));
    assert_eq!(Tick::MICROSECOND.duration(Span::from_ticks(1_500_000)), Duration::from_millis(1_500));
    assert_eq!(Tick::MILLISECOND.duration(Span::from_ticks(u64::MAX)), Duration::from_millis(u64::MAX));
}

#[test]
fn the_windows_of_a_rate_can_be_given_by_hand() {
    let by_hand = FixedWindow::in_windows(5, Windows::of(&common::rate(5, 9))).unwrap();
    assert_eq!(by_hand, FixedWindow::new(common::rate(5, 9)));
}

/// Whole states grow with what they remember, and no further: N entries, N in debt, and the slack of a vector.
#[test]
fn a_state_grows_up_to_twice_its_units() {
    let units = 1 << 9;
    let entry_bytes = 24;
    for spec in [
        Spec::SlidingLog { units, period_ticks: 1 << 40 },
        Spec::Concurrency { units, hold_ticks_max: 1 << 40 },
    ] {
        let limit = spec.limit();
        let mut state = limit.fresh();
        assert_eq!(state.heap_bytes(), 0, "{spec:?}");
        for now in 0..4 * units {
            limit.decide(&mut state, Ask::book(Cost::ONE, common::at(now)));
        }
        let bytes = state.heap_bytes() as u64;
        assert!((16 * units..=2 * 2 * units * entry_bytes).contains(&bytes), "{spec:?}: {bytes} bytes");
    }
    let sub_windows = sub_windows(64, 64).limit();
    let mut state = sub_windows.fresh();
    for now in 0..1_000 {
        sub_windows.decide(&mut state, Ask::book(Cost::ONE, common::at(now)));
    }
    assert!(state.heap_bytes() <= 2 * 2 * 65 * 8, "{} bytes", state.heap_bytes());
}
