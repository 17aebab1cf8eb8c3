//! Shares of a limit: all of them together admit no more than the limit may, and each admits what it should.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use std::num::NonZeroU32;

use proptest::prelude::*;
use tollgate_core::{Limit, OldestCounts, Share};
use tollgate_testkit::{Spec, Trace};

mod common;
use common::{answers, lived, take};

/// Units let through at a moment, by one of several nodes.
#[derive(Clone, Copy, Debug)]
struct Passed {
    at: u64,
    units: u64,
    node: usize,
}

fn one_in(nodes: u32) -> Share {
    Share::of_one_in(NonZeroU32::new(nodes).unwrap())
}

fn percent(percent: u32) -> Share {
    Share::percent(percent).unwrap()
}

/// What the nodes of a fleet have: all there is, and of four units at least one each.
fn fleet() -> impl Strategy<Value = Vec<Share>> {
    let alike = (1_u32..=4).prop_map(|nodes| vec![one_in(nodes); nodes as usize]);
    let uneven = proptest::sample::select(vec![
        vec![percent(50), percent(25), percent(25)],
        vec![percent(67), percent(33)],
        vec![percent(40), percent(30), percent(30)],
        vec![percent(100)],
    ]);
    prop_oneof![alike, uneven]
}

/// Requests at random moments, each for some units of some node. Many ask for one unit, so that much of what is there is had.
fn traffic() -> impl Strategy<Value = Vec<(u64, u64, usize)>> {
    let gap = prop_oneof![5 => Just(0_u64), 4 => 1_u64..4, 2 => 0_u64..40, 1 => 0_u64..200];
    let units = prop_oneof![3 => Just(1_u64), 1 => 1_u64..6];
    proptest::collection::vec((gap, units, 0_usize..4), 1..200).prop_map(|steps| {
        let mut now = 0;
        let mut later = |gap| {
            now += gap;
            now
        };
        steps.into_iter().map(|(gap, units, node)| (later(gap), units, node)).collect()
    })
}

/// What a fleet lets through, each node by itself.
fn passed(spec: &Spec, fleet: &[Share], traffic: &[(u64, u64, usize)]) -> Vec<Passed> {
    let limits: Vec<Limit> = fleet.iter().map(|&share| spec.limit().share(share)).collect();
    let mut states: Vec<_> = limits.iter().map(Limit::fresh).collect();
    let mut passed = Vec::new();
    for &(at, units, node) in traffic {
        let node = node % limits.len();
        if take(&limits[node], &mut states[node], units, at) {
            passed.push(Passed { at, units, node });
        }
    }
    passed
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

/// The most units that each node let through in one window of so many ticks, all nodes together.
fn most_in_a_window(passed: &[Passed], ticks: u64) -> u64 {
    let in_one = |node: usize, window: u64| -> u64 {
        passed.iter().filter(|p| p.node == node && p.at / ticks == window).map(|p| p.units).sum()
    };
    let most = |node: usize| passed.iter().map(|p| in_one(node, p.at / ticks)).max().unwrap_or(0);
    (0..4).map(most).sum()
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn buckets_together_let_through_the_burst_and_the_rate(
        traffic in traffic(), fleet in fleet(), units in 1_u64..8, period_ticks in 8_u64..60, burst in 4_u64..16,
    ) {
        let interval = period_ticks.div_ceil(units);
        for spec in [Spec::TokenBucket { units, period_ticks, burst }, Spec::LeakyBucket { units, period_ticks, size: burst }] {
            check_intervals(&passed(&spec, &fleet, &traffic), u64::MAX, |length| burst + length / interval);
        }
    }

    #[test]
    fn queues_together_let_in_what_fits_the_wait_and_one_request(
        traffic in traffic(), fleet in fleet(), units in 4_u64..8, period_ticks in 8_u64..60, max_wait_ticks in 0_u64..100,
    ) {
        let spec = Spec::LeakyQueue { units, period_ticks, max_wait_ticks };
        let interval = period_ticks.div_ceil(units);
        check_intervals(&passed(&spec, &fleet, &traffic), u64::MAX, |length| units + (length + max_wait_ticks) / interval);
    }

    #[test]
    fn windows_together_let_through_the_units(
        traffic in traffic(), fleet in fleet(), units in 4_u64..16, period_ticks in 1_u64..60,
    ) {
        let passed_fixed = passed(&Spec::FixedWindow { units, period_ticks }, &fleet, &traffic);
        for window in passed_fixed.chunk_by(|one, next| one.at / period_ticks == next.at / period_ticks) {
            prop_assert!(window.iter().map(|p| p.units).sum::<u64>() <= units, "{:?}", window);
        }
        let passed_sliding = passed(&Spec::SlidingWindow { units, period_ticks }, &fleet, &traffic);
        check_intervals(&passed_sliding, period_ticks, |length| units + units * length / period_ticks);
        let passed_log = passed(&Spec::SlidingLog { units, period_ticks }, &fleet, &traffic);
        check_intervals(&passed_log, period_ticks - 1, |_| units);
        let passed_held = passed(&Spec::Concurrency { units, hold_ticks_max: period_ticks }, &fleet, &traffic);
        check_intervals(&passed_held, period_ticks - 1, |_| units);
    }

    #[test]
    fn sub_windows_together_let_through_the_units(
        traffic in traffic(), fleet in fleet(), units in 4_u64..16, period_ticks in 10_u64..60, count in 1_u32..10,
    ) {
        let sub_period = period_ticks.div_ceil(u64::from(count));
        let longest = sub_period * u64::from(count) - 1;
        let sub_windows = |oldest| Spec::SubWindows { units, period_ticks, count, oldest };
        check_intervals(&passed(&sub_windows(OldestCounts::Whole), &fleet, &traffic), longest, |_| units);
        let interpolated = passed(&sub_windows(OldestCounts::ByOverlap), &fleet, &traffic);
        let wrong_by = most_in_a_window(&interpolated, sub_period);
        check_intervals(&interpolated, longest, |_| units + wrong_by);
    }

    /// Whatever the numbers, nothing overflows, and states go from the whole to its share and back.
    #[test]
    fn the_largest_limits_have_shares(
        spec in Spec::any(), trace in Trace::strategy(30),
        share in prop_oneof![(1..=u32::MAX).prop_map(one_in), (1_u32..4).prop_map(one_in), (1_u32..=100).prop_map(percent)],
    ) {
        let whole = spec.limit();
        let part = whole.share(share);
        prop_assert_eq!(part.shape(), whole.shape());
        prop_assert_eq!(part.algorithm(), whole.algorithm());
        prop_assert_eq!(take(&part, &mut part.fresh(), 1, 0), spec != Spec::Blocked, "one unit at least");
        for (one, other) in [(&whole, &part), (&part, &whole)] {
            let (state, now) = lived(one, &spec, &trace);
            answers(other, &state, &spec, now);
            lived(other, &spec, &trace);
        }
    }
}

/// `admitted` units of an unused key at once, and so many more in each of the next periods.
fn check_share(spec: &Spec, share: Share, admitted: u64, per_period: u64) {
    const PERIOD: u64 = 1_000;
    let limit = spec.limit().share(share);
    let mut state = limit.fresh();
    let mut taken = |now| (0..1_000).filter(|_| take(&limit, &mut state, 1, now)).count() as u64;
    assert_eq!(taken(0), admitted, "{spec:?} {share:?}");
    for period in 1..5 {
        let ticks = (period - 1) * PERIOD + 1..=period * PERIOD;
        assert_eq!(ticks.map(&mut taken).sum::<u64>(), per_period, "{spec:?} {share:?}");
    }
}

#[test]
fn a_share_admits_its_part_and_not_less() {
    let period_ticks = 1_000;
    let bucket = |units, burst| Spec::TokenBucket { units, period_ticks, burst };
    check_share(&bucket(100, 20), one_in(1), 20, 100);
    check_share(&bucket(100, 20), one_in(4), 5, 25);
    check_share(&bucket(100, 20), percent(25), 5, 25);
    check_share(&bucket(100, 7), one_in(4), 1, 25);
    check_share(&bucket(2, 2), one_in(2), 1, 1);
    check_share(&Spec::LeakyBucket { units: 100, period_ticks, size: 20 }, one_in(4), 5, 25);
    check_share(&Spec::LeakyQueue { units: 100, period_ticks, max_wait_ticks: 200 }, one_in(4), 6, 25);
    for (units, share, part) in
        [(100, one_in(4), 25), (99, one_in(4), 24), (100, percent(33), 33), (3, one_in(4), 1)]
    {
        check_share(&Spec::FixedWindow { units, period_ticks }, share, part, part);
        check_share(&Spec::SlidingLog { units, period_ticks }, share, part, part);
        check_share(&Spec::Concurrency { units, hold_ticks_max: period_ticks }, share, part, part);
        for oldest in [OldestCounts::Whole, OldestCounts::ByOverlap] {
            let spec = Spec::SubWindows { units, period_ticks, count: 10, oldest };
            let limit = spec.limit().share(share);
            assert_eq!(common::take_one_by_one(&limit, &mut limit.fresh(), common::at(0)), part, "{spec:?}");
        }
        let limit = Spec::SlidingWindow { units, period_ticks }.limit().share(share);
        assert_eq!(common::take_one_by_one(&limit, &mut limit.fresh(), common::at(0)), part);
    }
    let blocked = Spec::Blocked.limit();
    assert_eq!(blocked.share(one_in(2)), blocked);
}

#[test]
fn the_whole_is_a_share_too() {
    for kind in Spec::kinds() {
        let mut runner = proptest::test_runner::TestRunner::new(cases(100));
        let is_whole = |spec: Spec| {
            prop_assert_eq!(spec.limit().share(one_in(1)), spec.limit());
            prop_assert_eq!(spec.limit().share(percent(100)), spec.limit());
            Ok(())
        };
        runner.run(&kind, is_whole).unwrap();
    }
}

#[test]
fn a_share_is_something_and_at_most_all() {
    assert_eq!([0, 101, u32::MAX].map(Share::percent), [None; 3]);
    assert!(Share::percent(1).is_some() && Share::percent(100).is_some());
}
