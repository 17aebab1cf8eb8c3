//! A rule changes: what a key has used stays used, and nobody waits longer than the new rule allows.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use proptest::prelude::*;
use tollgate_core::{
    Algorithm, Ask, Calendar, CalendarUnit, Cost, FixedWindow, Limit, OldestCounts, Refund, SlidingLog,
    SlidingWindow, Span, SubWindows, Tick, Time, TokenBucket, Windows,
};
use tollgate_testkit::{Spec, Trace};

mod common;
use common::{at, lived_until, plus, promise, rate, take};

/// How long a key may have to wait under a limit, with a whole limit of debt, and so at the very most.
fn wait_max(spec: &Spec) -> u64 {
    match *spec {
        Spec::TokenBucket { burst, .. } => 2 * spec.beat() * burst,
        Spec::LeakyBucket { size, .. } => 2 * spec.beat() * size,
        Spec::LeakyQueue { units, max_wait_ticks, .. } => max_wait_ticks + 2 * units * spec.beat(),
        _ => spec.memory(),
    }
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn used_units_are_carried_over_up_to_all_there_are(
        was in Spec::any(), is in Spec::any(), trace in Trace::strategy(15),
    ) {
        let (old, new) = (was.limit(), is.limit());
        if old.shape() == new.shape() {
            return Ok(());
        }
        let (state, now) = lived_until(&old, &was, &trace, at(Time::MAX.ticks() / 2));
        let adapted = new.adapt(&old, &state, now);
        let capacity = new.decide(&mut new.fresh(), Ask::peek(Cost::ZERO, now)).limit;
        prop_assert_eq!(new.used(&adapted, now), old.used(&state, now).min(capacity));
    }

    #[test]
    fn a_limit_that_shrinks_keeps_its_own_promises(
        (was, is) in two_of_a_kind(), trace in Trace::strategy(15), share in 0_u64..=4,
    ) {
        let (old, new) = (was.limit(), is.limit());
        let (state, now) = lived_until(&old, &was, &trace, at(Time::MAX.ticks() / 4));
        let mut adapted = new.adapt(&old, &state, now);
        let cost = Cost::new(is.cost_max() / 4 * share);
        let Some(retry_after) = new.decide(&mut adapted, Ask::take(cost, now)).retry_after() else { return Ok(()) };
        prop_assert!(retry_after.ticks() <= wait_max(&is), "{} > {}", retry_after.ticks(), wait_max(&is));
        let promised = plus(now, retry_after.ticks());
        let early = Ask::take(cost, at(promised.ticks() - 1));
        prop_assert!(!new.decide(&mut adapted, early).is_allowed(), "admitted early");
        if promised < Time::MAX {
            prop_assert!(new.decide(&mut adapted, Ask::take(cost, promised)).is_allowed(), "denied as promised");
        }
    }

    #[test]
    fn what_a_larger_limit_left_fits_the_word_of_a_smaller_one(
        (was, is) in two_of_a_kind(), trace in Trace::strategy(15),
    ) {
        let (old, new) = (was.limit(), is.limit());
        let (state, now) = lived_until(&old, &was, &trace, at(Time::MAX.ticks() / 4));
        let adapted = new.adapt(&old, &state, now);
        if let Some(word) = new.pack(&adapted) {
            prop_assert_eq!(new.used(&new.unpack(word), now), new.used(&adapted, now));
            let ask = Ask::take(Cost::ONE, now);
            prop_assert_eq!(new.decide_word(word, ask).0, new.decide(&mut adapted.clone(), ask));
        }
    }
}

/// Two limits of one algorithm that can share a state, where that is common.
fn two_of_a_kind() -> BoxedStrategy<(Spec, Spec)> {
    let kinds = Spec::kinds().into_iter().map(|kind| {
        (kind.clone(), kind)
            .prop_map(|(was, mut is)| {
                // Windows share a state where their periods are the same.
                match (&was, &mut is) {
                    (
                        Spec::FixedWindow { period_ticks: from, .. },
                        Spec::FixedWindow { period_ticks, .. },
                    )
                    | (
                        Spec::SlidingWindow { period_ticks: from, .. },
                        Spec::SlidingWindow { period_ticks, .. },
                    ) => {
                        *period_ticks = *from;
                    }
                    (
                        Spec::SubWindows { period_ticks: from, count: n, .. },
                        Spec::SubWindows { period_ticks, count, .. },
                    ) => {
                        (*period_ticks, *count) = (*from, *n);
                    }
                    _ => {}
                }
                (was, is)
            })
            .boxed()
    });
    proptest::strategy::Union::new(kinds).boxed()
}

/// Ten units a day, used up; the rule becomes a hundred a minute: a minute or two of waiting, not a day.
#[test]
fn a_bucket_that_shrinks_forgives_what_it_could_never_have_written() {
    let day = Limit::from(TokenBucket::new(rate(10, 86_400), 10).unwrap());
    let minute = Limit::from(TokenBucket::new(rate(60, 60), 100).unwrap());
    let mut state = day.fresh();
    assert!(take(&day, &mut state, 10, 0));
    let mut state = minute.adapt(&day, &state, at(0));
    assert_eq!(promise(&minute, &mut state, 1, 0), Some(101));
    assert!(!take(&minute, &mut state, 1, 100));
    assert!(take(&minute, &mut state, 1, 101));
}

/// Numbers that come with each call read what is there, whoever wrote it.
#[test]
fn foreign_states_are_read_as_they_are() {
    let day = Limit::from(TokenBucket::new(rate(10, 86_400), 10).unwrap());
    let minute = Limit::from(TokenBucket::new(rate(60, 60), 100).unwrap().reading_foreign_states());
    let mut state = day.fresh();
    assert!(take(&day, &mut state, 10, 0));
    assert_eq!(promise(&minute, &mut state, 1, 0), Some(86_400 + 1 - 100));
    limit_books(&minute, &mut state, 5);
    assert_eq!(promise(&minute, &mut state, 1, 0), Some(86_400 + 1 - 100), "such debt is never deepened");
}

fn limit_books(limit: &Limit, state: &mut tollgate_core::State, units: u64) {
    assert!(!limit.decide(state, Ask::book(Cost::new(units), at(0))).is_allowed());
}

/// A queue takes over more units than it would admit in one request.
#[test]
fn a_queue_takes_over_what_many_requests_used() {
    let bucket = Spec::TokenBucket { units: 10, period_ticks: 100, burst: 10 }.limit();
    let queue = Spec::LeakyQueue { units: 1, period_ticks: 10, max_wait_ticks: 100 }.limit();
    let mut state = bucket.fresh();
    assert!(take(&bucket, &mut state, 7, 0));
    let adapted = queue.adapt(&bucket, &state, at(0));
    assert_eq!(queue.used(&adapted, at(0)), 7);
}

/// No calendar shares its shape with a plain period, whatever their hashes are.
#[test]
fn a_calendar_is_never_taken_for_a_period() {
    for zone in ["UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Pacific/Apia", "Asia/Kolkata"] {
        for unit in [CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month] {
            let windows = Windows::Calendar(Calendar::new(unit, zone, Tick::NANOSECOND).unwrap());
            let calendar = FixedWindow::in_windows(1, windows).unwrap();
            let namesake = Span::from_ticks(calendar.shape() / 2);
            if let Ok(rate) = tollgate_core::Rate::new(1, namesake) {
                let plain = FixedWindow::new(rate);
                assert_ne!(calendar.shape(), plain.shape(), "{unit:?} of {zone}");
                assert_ne!(calendar.shape(), plain.jittered().shape(), "{unit:?} of {zone}");
            }
        }
    }
}

/// Keys of jittered limits live on clocks of their own; limits that put them on different clocks share no state.
#[test]
fn limits_share_a_state_only_on_the_same_clock() {
    let sub_windows = |period_ticks, count| {
        Limit::from(SubWindows::new(rate(10, period_ticks), count, OldestCounts::Whole).unwrap().jittered())
    };
    let limits = [
        sub_windows(100, 10),
        sub_windows(200, 20),
        Limit::from(SlidingWindow::new(rate(10, 100)).jittered()),
        Limit::from(SlidingWindow::new(rate(10, 100))),
        Limit::from(FixedWindow::new(rate(10, 100)).jittered()),
        Limit::from(FixedWindow::new(rate(10, 100))),
        Limit::from(SlidingWindow::new(rate(99, 100)).jittered()),
    ];
    for one in &limits {
        for other in &limits {
            let same_clock = (0..500).all(|hash| one.key_time(hash, at(7)) == other.key_time(hash, at(7)));
            assert!(same_clock || one.shape() != other.shape(), "{one:?} and {other:?}");
        }
    }
}

/// A rule that changes within its shape goes on: nothing is lost, and a refund finds its window.
#[test]
fn a_window_with_other_units_goes_on() {
    let (large, small) =
        (Limit::from(FixedWindow::new(rate(100, 50))), Limit::from(FixedWindow::new(rate(10, 50))));
    let mut state = large.fresh();
    assert!(take(&large, &mut state, 100, 7));
    let mut state = small.adapt(&large, &state, at(8));
    assert_eq!(small.used(&state, at(8)), 20, "trimmed to the limit and as much debt");
    small.give_back(&mut state, Refund { counted_at: at(7), ..Refund::at_once(91, at(9)) });
    assert_eq!(small.used(&state, at(9)), 9, "it comes off all that was counted");
    assert!(take(&small, &mut state, 1, 9));
    assert_eq!(promise(&small, &mut state, 1, 9), Some(41));
}

/// Who gives back may still know an older, smaller limit, such as a node with what is left of a lease: nothing that was counted under the new one is lost.
#[test]
fn giving_back_under_an_older_limit_forgets_nothing() {
    let pairs: [fn(u64) -> Limit; 5] = [
        |units| TokenBucket::new(rate(1, 1_000), units).unwrap().into(),
        |units| FixedWindow::new(rate(units, 60_000)).into(),
        |units| SlidingWindow::new(rate(units, 60_000)).into(),
        |units| SubWindows::new(rate(units, 60_000), 6, OldestCounts::ByOverlap).unwrap().into(),
        |units| SlidingLog::new(rate(units, 60_000)).unwrap().into(),
    ];
    for make in pairs {
        let (old, new) = (make(5), make(100));
        let (mut state, now) = (old.fresh(), 60_000);
        assert!(take(&old, &mut state, 4, now));
        let mut state = new.adapt(&old, &state, at(now));
        assert!(take(&new, &mut state, 90, now));
        let refund = Refund::at_once(3, at(now));
        if let Some(word) = old.pack(&state) {
            assert_eq!(new.used(&old.unpack(word), at(now)), 94, "{new:?} in a word of the old one");
        }
        old.give_back(&mut state, refund);
        assert_eq!(new.used(&state, at(now)), 91, "{new:?}");
    }
}
