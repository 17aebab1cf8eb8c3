//! The bounds that are published for each algorithm: they hold for any traffic, and are reached where they are tight.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use proptest::prelude::*;
use tollgate_core::{Ask, Cost, Limit, OldestCounts};
use tollgate_testkit::Spec;

mod common;
use common::{at, take};

/// Units let through at a moment.
#[derive(Clone, Copy, Debug)]
struct Passed {
    at: u64,
    units: u64,
}

/// What a limit lets through of requests at given moments.
fn passed(limit: &Limit, requests: &[(u64, u64)]) -> Vec<Passed> {
    let mut state = limit.fresh();
    let admitted = requests.iter().filter(|&&(now, units)| take(limit, &mut state, units, now));
    admitted.map(|&(at, units)| Passed { at, units }).collect()
}

/// Fails if any interval lets through more than `most` of its length, which is zero for a single moment.
fn check_intervals(passed: &[Passed], longest: u64, most: impl Fn(u64) -> u64) {
    for (first, from) in passed.iter().enumerate() {
        let mut units = 0;
        for to in passed[first..].iter().take_while(|to| to.at - from.at <= longest) {
            units += to.units;
            let (length, most) = (to.at - from.at, most(to.at - from.at));
            assert!(units <= most, "{units} units in {length} ticks from {}, where {most} may pass", from.at);
        }
    }
}

/// The most units in any `length` ticks, one for a single moment.
fn most_in(passed: &[Passed], length: u64) -> u64 {
    let units_from = |from: u64| -> u64 {
        passed.iter().filter(|to| (from..from + length).contains(&to.at)).map(|to| to.units).sum()
    };
    passed.iter().map(|from| units_from(from.at)).max().unwrap_or(0)
}

/// Somebody who asks for one more unit as often as there are ticks, as many as `at_once` times each.
fn greedy(ticks: std::ops::Range<u64>, at_once: usize) -> Vec<(u64, u64)> {
    ticks.flat_map(|now| std::iter::repeat_n((now, 1), at_once)).collect()
}

/// Requests at random moments, mostly near each other.
fn traffic() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![5 => Just(0_u64), 4 => 1_u64..4, 2 => 0_u64..40, 1 => 0_u64..200];
    proptest::collection::vec((gap, 1_u64..6), 1..150).prop_map(|steps| {
        let mut now = 0;
        let mut later = |gap| {
            now += gap;
            now
        };
        steps.into_iter().map(|(gap, units)| (later(gap), units)).collect()
    })
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn a_bucket_lets_through_its_burst_and_its_rate(
        traffic in traffic(), units in 1_u64..8, period_ticks in 8_u64..60, burst in 1_u64..12,
    ) {
        let interval = period_ticks.div_ceil(units);
        for spec in [Spec::TokenBucket { units, period_ticks, burst }, Spec::LeakyBucket { units, period_ticks, size: burst }] {
            check_intervals(&passed(&spec.limit(), &traffic), u64::MAX, |length| burst + length / interval);
        }
    }

    #[test]
    fn a_fixed_window_lets_through_twice_its_units(traffic in traffic(), units in 1_u64..12, period_ticks in 1_u64..60) {
        let limit = Spec::FixedWindow { units, period_ticks }.limit();
        check_intervals(&passed(&limit, &traffic), period_ticks - 1, |_| 2 * units);
    }

    #[test]
    fn a_sliding_window_lets_through_more_the_longer_it_takes(
        traffic in traffic(), units in 1_u64..12, period_ticks in 1_u64..60,
    ) {
        let limit = Spec::SlidingWindow { units, period_ticks }.limit();
        check_intervals(&passed(&limit, &traffic), period_ticks, |length| units + units * length / period_ticks);
    }

    #[test]
    fn conservative_sub_windows_let_through_their_units_in_any_period(
        traffic in traffic(), units in 1_u64..12, period_ticks in 10_u64..60, count in 1_u32..10,
    ) {
        let limit = Spec::SubWindows { units, period_ticks, count, oldest: OldestCounts::Whole }.limit();
        let measured = period_ticks.div_ceil(u64::from(count)) * u64::from(count);
        check_intervals(&passed(&limit, &traffic), measured - 1, |_| units);
    }

    #[test]
    fn interpolated_sub_windows_are_wrong_by_one_sub_window_at_most(
        traffic in traffic(), units in 1_u64..12, period_ticks in 10_u64..60, count in 1_u32..10,
    ) {
        let limit = Spec::SubWindows { units, period_ticks, count, oldest: OldestCounts::ByOverlap }.limit();
        let sub_period = period_ticks.div_ceil(u64::from(count));
        let passed = passed(&limit, &traffic);
        let in_one = |index| passed.iter().filter(|p| p.at / sub_period == index).map(|p| p.units).sum::<u64>();
        let wrong_by = passed.iter().map(|p| in_one(p.at / sub_period)).max().unwrap_or(0);
        check_intervals(&passed, sub_period * u64::from(count) - 1, |_| units + wrong_by);
    }

    #[test]
    fn a_log_lets_through_its_units_in_any_period(traffic in traffic(), units in 1_u64..12, period_ticks in 1_u64..60) {
        let limit = Spec::SlidingLog { units, period_ticks }.limit();
        check_intervals(&passed(&limit, &traffic), period_ticks - 1, |_| units);
    }

    #[test]
    fn no_more_than_the_units_are_held_at_once(traffic in traffic(), units in 1_u64..12, hold_ticks_max in 1_u64..60) {
        let limit = Spec::Concurrency { units, hold_ticks_max }.limit();
        check_intervals(&passed(&limit, &traffic), hold_ticks_max - 1, |_| units);
    }

    #[test]
    fn what_leaves_a_queue_is_evenly_spaced(
        traffic in traffic(), units in 5_u64..8, period_ticks in 8_u64..60, max_wait_ticks in 0_u64..100,
    ) {
        let limit = Spec::LeakyQueue { units, period_ticks, max_wait_ticks }.limit();
        let interval = period_ticks.div_ceil(units);
        let mut state = limit.fresh();
        let mut free_from = 0;
        for (now, units) in traffic {
            let decision = limit.decide(&mut state, Ask::take(Cost::new(units), at(now)));
            if decision.is_allowed() {
                let start = now + decision.wait().ticks();
                prop_assert!(start >= free_from, "started {} ticks too early", free_from - start);
                prop_assert!(decision.wait().ticks() <= max_wait_ticks);
                free_from = start + units * interval;
            }
        }
    }
}

#[test]
fn the_bound_of_a_bucket_is_reached_at_every_length() {
    let limit = Spec::TokenBucket { units: 10, period_ticks: 70, burst: 10 }.limit();
    let passed = passed(&limit, &greedy(0..200, 12));
    for length in 0..199 {
        assert_eq!(most_in(&passed, length + 1), 10 + length / 7, "in {length} ticks");
    }
}

#[test]
fn twice_the_units_pass_around_the_edge_of_a_fixed_window() {
    let limit = Spec::FixedWindow { units: 100, period_ticks: 1_000 }.limit();
    assert_eq!(most_in(&passed(&limit, &[(999, 100), (1_000, 100), (1_001, 1)]), 2), 200);
}

/// All units at the end of a window, then whatever fades.
#[test]
fn an_attacker_at_the_edge_gets_199_of_100_from_a_sliding_window() {
    let limit = Spec::SlidingWindow { units: 100, period_ticks: 10_000 }.limit();
    let passed = passed(&limit, &[vec![(9_999, 100)], greedy(10_000..20_000, 2)].concat());
    assert_eq!(most_in(&passed, 10_000), 199);
    check_intervals(&passed, 10_000, |length| 100 + 100 * length / 10_000);
}

/// The same against interpolated sub-windows: all units in the last tick of one.
#[test]
fn an_attacker_at_the_edge_gets_nearly_twice_from_interpolated_sub_windows() {
    let spec =
        Spec::SubWindows { units: 100, period_ticks: 10_000, count: 10, oldest: OldestCounts::ByOverlap };
    let passed = passed(&spec.limit(), &[vec![(999, 100)], greedy(1_000..11_000, 2)].concat());
    assert_eq!(most_in(&passed, 10_000), 199);
}

#[test]
fn the_same_attacker_gets_the_units_and_no_more_from_conservative_sub_windows_and_a_log() {
    let sub_windows =
        Spec::SubWindows { units: 100, period_ticks: 10_000, count: 10, oldest: OldestCounts::Whole };
    for spec in [sub_windows, Spec::SlidingLog { units: 100, period_ticks: 10_000 }] {
        let passed = passed(&spec.limit(), &[vec![(9_999, 100)], greedy(10_000..30_000, 2)].concat());
        assert_eq!(most_in(&passed, 10_000), 100, "{spec:?}");
    }
}

/// Whoever takes all at once gets N in each b+1 sub-windows; whoever takes steadily gets no less.
#[test]
fn conservative_sub_windows_sustain_their_share_of_the_rate() {
    for count in [1_u32, 2, 5, 10] {
        let sub_period = 12;
        let b = u64::from(count);
        let limit =
            Spec::SubWindows { units: 60, period_ticks: b * sub_period, count, oldest: OldestCounts::Whole }
                .limit();
        let ticks = 40 * (b + 1) * sub_period;
        let at_once: u64 = passed(&limit, &greedy(0..ticks, 61)).iter().map(|passed| passed.units).sum();
        assert_eq!(at_once, 40 * 60, "{count} sub-windows, all at once");
        let steady: u64 = passed(&limit, &greedy(5..ticks + 5, 1)).iter().map(|passed| passed.units).sum();
        let sustained = 60 * b * ticks / ((b + 1) * b * sub_period);
        let demanded = ticks;
        assert!(steady + 60 >= sustained.min(demanded), "{count} sub-windows: {steady} of {sustained}");
    }
}

#[test]
fn a_log_gives_back_each_unit_after_exactly_a_period() {
    let limit = Spec::SlidingLog { units: 3, period_ticks: 10 }.limit();
    let passed = passed(&limit, &greedy(0..40, 4));
    assert_eq!(
        passed.iter().map(|passed| passed.at).collect::<Vec<_>>(),
        [0, 0, 0, 10, 10, 10, 20, 20, 20, 30, 30, 30]
    );
}

#[test]
fn a_queue_starts_one_request_every_interval_and_fills_to_its_places() {
    let limit = Spec::LeakyQueue { units: 10, period_ticks: 70, max_wait_ticks: 21 }.limit();
    let mut state = limit.fresh();
    let mut ask = |now| limit.decide(&mut state, Ask::take(Cost::ONE, at(now)));
    let waits: Vec<_> = (0..4).map(|_| ask(0).wait().ticks()).collect();
    assert_eq!(waits, [0, 7, 14, 21]);
    assert_eq!(ask(0).retry_after().map(tollgate_core::Span::ticks), Some(7));
    assert_eq!(ask(7).wait().ticks(), 21);
}
