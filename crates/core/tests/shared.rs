//! Limits at the tick of a shared count: what they become, what they are asked with, and what an answer means.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use proptest::prelude::*;
use tollgate_core::{
    Answer, Ask, Blocked, Calendar, CalendarUnit, CallKey, CallWriter, Concurrency, Cost, Decision,
    FixedWindow, Holder, Intent, LeakyQueue, Limit, LimitError, OldestCounts, Outcome, Refund, SharedLimit,
    SlidingLog, SlidingWindow, Span, SubWindows, Tick, TokenBucket, Verb, Windows,
};
use tollgate_testkit::{Spec, Trace};

mod common;
use common::{answers, at, lived, rate};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// What a limit of nanoseconds becomes, if anything.
fn check(limit: impl Into<Limit>, expected: Option<(impl Into<Limit>, Tick)>) {
    let limit = limit.into();
    match (SharedLimit::new(&limit), expected) {
        (Ok(shared), Some((expected, tick))) => {
            assert_eq!((shared.limit(), shared.tick()), (&expected.into(), tick), "{limit:?}");
        }
        (Err(error), None) => assert_eq!(error, LimitError::NotShared),
        (shared, _) => panic!("{limit:?} becomes {shared:?}"),
    }
}

const NOT_SHARED: Option<(Limit, Tick)> = None;

#[test]
fn buckets_count_microseconds_rounded_up() {
    let bucket = |units, period, burst| TokenBucket::new(rate(units, period), burst).unwrap();
    check(bucket(100, 60 * SECOND, 20), Some((bucket(1, 600_000, 20), Tick::MICROSECOND)));
    check(bucket(3, SECOND, 3), Some((bucket(1, 333_334, 3), Tick::MICROSECOND)));
    check(bucket(1_000_000, SECOND, 1), Some((bucket(1, 1, 1), Tick::MICROSECOND)));
    // Three microseconds and a third.
    check(bucket(300_000, SECOND, 1), Some((bucket(1, 4, 1), Tick::MICROSECOND)));
    let foreign = bucket(1, SECOND, 1).reading_foreign_states();
    let expected = bucket(1, 1_000_000, 1).reading_foreign_states();
    check(foreign, Some((expected, Tick::MICROSECOND)));
    // Faster than a unit per microsecond, and longer than 71 years.
    check(bucket(1_100_000, SECOND, 1), NOT_SHARED);
    check(bucket(1, DAY, 27_000), NOT_SHARED);
    let limit = Limit::from(bucket(1, SECOND, 1));
    assert_eq!(SharedLimit::in_ticks(limit, Tick::NANOSECOND), Err(LimitError::NotShared), "too fine");
}

#[test]
fn nobody_waits_longer_than_the_rule_says() {
    let queue = |units, period, wait| LeakyQueue::new(rate(units, period), Span::from_ticks(wait)).unwrap();
    check(queue(10, SECOND, 1_999_999), Some((queue(10, 1_000_000, 1_999), Tick::MICROSECOND)));
    check(queue(3, SECOND, SECOND), Some((queue(3, 1_000_002, 1_000_000), Tick::MICROSECOND)));
}

#[test]
fn windows_count_as_finely_as_their_products_allow() {
    let window = |units, period| SlidingWindow::new(rate(units, period));
    check(window(100, SECOND), Some((window(100, 1_000_000), Tick::MICROSECOND)));
    check(window(1_000, DAY).jittered(), Some((window(1_000, DAY / 1_000).jittered(), Tick::MICROSECOND)));
    check(window(1_000_000, DAY), Some((window(1_000_000, 86_400_000), Tick::MILLISECOND)));
    check(window(1_000_000_000, DAY), Some((window(1_000_000_000, 86_400), Tick::SECOND)));
    check(window(1_000_000_000_000, DAY), NOT_SHARED);
    let fixed = |units, period| FixedWindow::new(rate(units, period));
    check(fixed(1_000_000_000_000, DAY), Some((fixed(1_000_000_000_000, DAY / 1_000), Tick::MICROSECOND)));
    check(fixed(1, 1_500), Some((fixed(1, 2), Tick::MICROSECOND)));
    check(fixed(u64::MAX, SECOND), NOT_SHARED);
    let day = |tick| {
        FixedWindow::in_windows(
            9,
            Windows::Calendar(Calendar::new(CalendarUnit::Day, "Asia/Tokyo", tick).unwrap()),
        )
        .unwrap()
    };
    check(day(Tick::NANOSECOND), Some((day(Tick::MICROSECOND), Tick::MICROSECOND)));
    let sub = |units, period, oldest| SubWindows::new(rate(units, period), 7, oldest).unwrap();
    let whole = OldestCounts::Whole;
    check(sub(5, SECOND, whole), Some((sub(5, 7 * 142_858, whole), Tick::MICROSECOND)));
    let overlap = sub(1_000_000, DAY, OldestCounts::ByOverlap);
    assert_eq!(SharedLimit::new(&overlap.into()).unwrap().tick(), Tick::MILLISECOND);
}

#[test]
fn what_is_remembered_one_by_one_keeps_its_numbers() {
    let log = |units, period| SlidingLog::new(rate(units, period)).unwrap();
    check(log(65_536, DAY), Some((log(65_536, DAY / 1_000), Tick::MICROSECOND)));
    let hold = |units, ticks| Concurrency::new(units, Span::from_ticks(ticks)).unwrap();
    check(hold(7, 1), Some((hold(7, 1), Tick::MICROSECOND)));
    check(hold(7, 30 * SECOND), Some((hold(7, 30_000_000), Tick::MICROSECOND)));
    check(Blocked, Some((Blocked, Tick::MICROSECOND)));
}

fn key(limit: &SharedLimit, hash: u64) -> CallKey<'_> {
    CallKey { limit, hash, around: at(90_000_000_000) }
}

/// What stands before the asks of a key that has one.
fn numbers(limit: impl Into<Limit>, hash: u64) -> Vec<i64> {
    let mut numbers = Vec::new();
    let shared = SharedLimit::new(&limit.into()).unwrap();
    CallWriter::default().key(key(&shared, hash), 1, |number| numbers.push(number));
    assert_eq!(numbers.remove(0), 1);
    numbers
}

#[test]
fn numbers_are_put_in_the_order_that_scripts_read() {
    assert_eq!(numbers(TokenBucket::new(rate(1, SECOND), 4).unwrap(), 7), [1, 0, 1_000_000, 4, 8_000_000]);
    assert_eq!(numbers(SlidingWindow::new(rate(5, SECOND)), 7), [1, 0, 5, 1_000_000]);
    assert_eq!(numbers(SlidingWindow::new(rate(5, SECOND)).jittered(), 1_000_007), [1, 7, 5, 1_000_000]);
    let day =
        FixedWindow::in_windows(5, Windows::Calendar(Calendar::utc(CalendarUnit::Day, Tick::NANOSECOND)));
    let days = [0, 1, 2, 3, 4].map(|day| day * 86_400_000_000);
    assert_eq!(numbers(day.unwrap().jittered(), 7), [&[1, 0, 5, 0], &days[..]].concat());
}

#[test]
fn numbers_are_left_out_where_they_are_those_of_the_key_before() {
    let share = |limit: SlidingWindow| SharedLimit::new(&limit.into()).unwrap();
    let (one, other) =
        (share(SlidingWindow::new(rate(5, SECOND))), share(SlidingWindow::new(rate(5, SECOND)).jittered()));
    let mut writer = CallWriter::default();
    let mut check = |limit: &SharedLimit, hash: u64, asks: usize, expected: &[i64]| {
        let mut numbers = Vec::new();
        writer.key(key(limit, hash), asks, |number| numbers.push(number));
        assert_eq!(numbers, expected, "{limit:?}");
    };
    check(&one, 7, 2, &[2, 1, 0, 5, 1_000_000]);
    check(&one, 8, 3, &[-3]);
    check(&one.clone(), 8, 1, &[-1]);
    check(&other, 8, 1, &[1, 1, 8, 5, 1_000_000]);
    check(&other, 8, 1, &[-1]);
    check(&other, 9, 1, &[1, 1, 9, 5, 1_000_000]);
    check(&one, 9, 1, &[1, 1, 0, 5, 1_000_000]);
    writer.begin();
    let mut numbers = Vec::new();
    writer.key(key(&one, 9), 1, |number| numbers.push(number));
    assert_eq!(numbers.len(), 5, "another call does not know of this one");
}

#[test]
fn a_take_is_written_as_its_units() {
    let limit = SharedLimit::new(&SlidingWindow::new(rate(5, SECOND)).into()).unwrap();
    let check = |ask: (Verb, u64, u64), expected: &[i64]| {
        let mut numbers = Vec::new();
        CallWriter::ask(&limit, ask, |number| numbers.push(number));
        assert_eq!(numbers, expected, "{ask:?}");
    };
    check((Verb::Take, 3, 0), &[3]);
    check((Verb::Take, 0, 0), &[0]);
    check((Verb::Peek, 3, 0), &[-1, 3, 0]);
    check((Verb::Book, 3, 0), &[-2, 3, 0]);
    check((Verb::GiveBack, 3, 17), &[-3, 3, 17]);
    check((Verb::Release, 0, u64::MAX), &[-4, 0, (1 << 53) - 1]);
    check((Verb::Reset, 0, 0), &[-5, 0, 0]);
}

#[test]
fn an_answer_is_told_in_nanoseconds() {
    let queue = LeakyQueue::new(rate(1, SECOND), Span::from_ticks(9 * SECOND)).unwrap();
    let shared = SharedLimit::new(&queue.into()).unwrap();
    let reset_after = Some(Span::from_ticks(4_000));
    let check = |numbers, outcome| {
        let decision = Decision { outcome, limit: 10, remaining: 3, reset_after };
        assert_eq!(shared.answer(numbers), Some(Answer::Decided { decision, holder: None }), "{numbers:?}");
    };
    check([0, 2, 3, 4], Outcome::Allowed { wait: Span::from_ticks(2_000) });
    check([1, 2, 3, 4], Outcome::NotNow { retry_after: Span::from_ticks(2_000) });
    check([2, 0, 3, 4], Outcome::Busy);
    check([3, 0, 3, 4], Outcome::Never);
    assert_eq!(shared.answer([4, 0, 0, -1]), Some(Answer::UnknownWindow));
}

#[test]
fn a_hold_has_a_name_and_no_wait() {
    let shared = SharedLimit::new(&Concurrency::new(5, Span::from_ticks(SECOND)).unwrap().into()).unwrap();
    let decision = Decision { outcome: Outcome::ALLOWED, limit: 5, remaining: 3, reset_after: None };
    for (span, holder) in [(77, Some(Holder::from_number(77))), (0, None)] {
        assert_eq!(shared.answer([0, span, 3, -1]), Some(Answer::Decided { decision, holder }));
    }
}

#[test]
fn what_makes_no_sense_is_no_answer() {
    let shared = SharedLimit::new(&SlidingWindow::new(rate(5, SECOND)).into()).unwrap();
    assert!(shared.answer([0, 0, 5, 0]).is_some());
    for nonsense in [
        [-1, 0, 0, 0],
        [5, 0, 0, 0],
        [0, -1, 0, 0],
        [1, i64::MIN, 0, 0],
        [0, 0, -1, 0],
        [0, 0, 6, 0],
        [0, 0, i64::MAX, 0],
        [0, 0, 0, -2],
        [0, 0, 0, i64::MIN],
    ] {
        assert_eq!(shared.answer(nonsense), None, "{nonsense:?}");
    }
    assert!(shared.answer([1, i64::MAX, 0, i64::MAX]).is_some(), "long, but a span");
    assert_eq!(shared.replied_at(1, 2), Some(at(1_000_002)));
    for (seconds, micros) in [(-1, 0), (0, -1), (i64::MAX, 0)] {
        assert_eq!(shared.replied_at(seconds, micros), None);
    }
}

proptest! {
    /// A cost that is cut before it is sent gets the same answer and leaves the same state.
    #[test]
    fn a_clamped_cost_is_answered_alike(
        spec in Spec::any(), trace in Trace::strategy(15), units in prop_oneof![any::<u64>(), Just(u64::MAX), 0_u64..99],
    ) {
        let limit = spec.limit();
        let Ok(shared) = SharedLimit::in_ticks(limit.clone(), Tick::MICROSECOND) else { return Ok(()) };
        let (state, now) = lived(&limit, &spec, &trace);
        let clamped = shared.clamp(units);
        for intent in [Intent::Peek, Intent::Take, Intent::Book] {
            let [whole, cut] = [units, clamped].map(|units| {
                let mut state = state.clone();
                let decision = limit.decide(&mut state, Ask { cost: Cost::new(units), now, intent });
                (decision, answers(&limit, &state, &spec, now))
            });
            prop_assert_eq!(whole, cut, "{:?} of {} and {}", intent, units, clamped);
        }
        let [whole, cut] = [units, clamped].map(|units| {
            let mut state = state.clone();
            limit.give_back(&mut state, Refund::at_once(units, now));
            answers(&limit, &state, &spec, now)
        });
        prop_assert_eq!(whole, cut, "{} and {} given back", units, clamped);
    }
}
