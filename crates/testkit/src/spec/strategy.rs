//! Numbers worth testing: small ones, so that few steps reach every state; ordinary ones; and the largest there are.

use proptest::prelude::*;
use proptest::sample::select;
use tollgate_core::{CalendarUnit, OldestCounts};

use super::Spec;
use crate::timeline::Timeline;

pub(super) fn any(timeline: Timeline) -> BoxedStrategy<Spec> {
    proptest::strategy::Union::new(kinds(timeline)).boxed()
}

pub(super) fn kinds(timeline: Timeline) -> Vec<BoxedStrategy<Spec>> {
    vec![
        bucket(timeline)
            .prop_map(|(units, period_ticks, burst)| Spec::TokenBucket { units, period_ticks, burst })
            .boxed(),
        bucket(timeline)
            .prop_map(|(units, period_ticks, size)| Spec::LeakyBucket { units, period_ticks, size })
            .boxed(),
        queue(timeline)
            .prop_map(|(units, period_ticks, max_wait_ticks)| Spec::LeakyQueue {
                units,
                period_ticks,
                max_wait_ticks,
            })
            .boxed(),
        window(timeline).prop_map(|(units, period_ticks)| Spec::FixedWindow { units, period_ticks }).boxed(),
        calendar(timeline),
        window(timeline)
            .prop_map(|(units, period_ticks)| Spec::SlidingWindow { units, period_ticks })
            .boxed(),
        sub_windows(timeline, OldestCounts::Whole),
        sub_windows(timeline, OldestCounts::ByOverlap),
        held(timeline).prop_map(|(units, period_ticks)| Spec::SlidingLog { units, period_ticks }).boxed(),
        held(timeline)
            .prop_map(|(units, hold_ticks_max)| Spec::Concurrency { units, hold_ticks_max })
            .boxed(),
        Just(Spec::Blocked).boxed(),
    ]
}

/// Units, period, burst.
fn bucket(timeline: Timeline) -> impl Strategy<Value = (u64, u64, u64)> {
    let (bits, second) = (timeline.span_bits, timeline.second());
    let most = 1 << bits;
    // T is 2^k and B is 2^(62-k): a capacity of exactly 2^62, or what is the most on this timeline.
    let full = (0..=bits).prop_map(move |k| (1, 1 << k, 1 << (bits - k)));
    let fastest = select(vec![(most, most, most), (1, 1, most), (1, 1, 1), (1, most, 1)]);
    prop_oneof![
        4 => (1_u64..=60).prop_flat_map(|period_ticks| (1..=period_ticks, Just(period_ticks), 1_u64..=10)),
        3 => (select(vec![1_u64, 7, 100, 1_000]), select(vec![second, 60 * second, 86_400 * second]), 1_u64..=2_000)
            .prop_map(|(units, period_ticks, burst)| (units.min(period_ticks), period_ticks, burst)),
        1 => full,
        1 => fastest,
    ]
}

/// Units, period, the longest wait.
fn queue(timeline: Timeline) -> impl Strategy<Value = (u64, u64, u64)> {
    let (second, most) = (timeline.second(), 1 << timeline.span_bits);
    let largest =
        select(vec![(1, most / 4, most / 2), (most / 4, most / 4, most / 2), (1, 1, most - 2), (1, 1, 0)]);
    prop_oneof![
        4 => (1_u64..=60).prop_flat_map(|period_ticks| (1..=period_ticks, Just(period_ticks), 0_u64..=100)),
        3 => (select(vec![1_u64, 7, 100]), select(vec![second, 60 * second]), select(vec![0, 1, second, 300 * second]))
            .prop_map(|(units, period_ticks, max_wait_ticks)| (units.min(period_ticks), period_ticks, max_wait_ticks)),
        1 => largest,
    ]
}

/// Units, period.
fn window(timeline: Timeline) -> impl Strategy<Value = (u64, u64)> {
    let (second, most, units) = (timeline.second(), 1 << timeline.span_bits, timeline.units_max);
    let units_max = select(vec![1, units, units - 1, units / 2, units / 2 + 1, units / 4 + 1, 1 << 31]);
    let period_max = select(vec![1, 2, 3, most, most - 1, most / 2 + 1, most / 4]);
    prop_oneof![
        4 => (1_u64..=12, 1_u64..=40),
        2 => (1_u64..=60, (5_u32..=20).prop_map(|k| 1 << k)),
        3 => (select(vec![1_u64, 10, 100, 100_000]), select(vec![second, 60 * second, 86_400 * second])),
        1 => (1_u64..=12, period_max.clone()),
        1 => (units_max.clone(), select(vec![second, 60 * second])),
        1 => (units_max, period_max),
    ]
}

fn sub_windows(timeline: Timeline, oldest: OldestCounts) -> BoxedStrategy<Spec> {
    (window(timeline), prop_oneof![1_u32..=5, 6_u32..=64])
        .prop_map(move |((units, period_ticks), count)| {
            let count = count.min(u32::try_from(period_ticks).unwrap_or(u32::MAX));
            Spec::SubWindows { units, period_ticks, count, oldest }
        })
        .boxed()
}

/// Units that are remembered one by one, and for how long.
fn held(timeline: Timeline) -> impl Strategy<Value = (u64, u64)> {
    let (second, most) = (timeline.second(), 1 << timeline.span_bits);
    prop_oneof![
        4 => (1_u64..=12, 1_u64..=40),
        2 => (select(vec![1_u64, 10, 100]), select(vec![second, 60 * second])),
        1 => (select(vec![1_u64, 1 << 16]), select(vec![1, most, most - 1])),
    ]
}

fn calendar(timeline: Timeline) -> BoxedStrategy<Spec> {
    let unit = select(vec![CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month]);
    let zones =
        vec!["UTC", "Europe/Berlin", "America/Sao_Paulo", "America/Havana", "Asia/Kolkata", "Pacific/Apia"];
    let units = prop_oneof![1_u64..=5, Just(timeline.units_max), Just(1 << 43)];
    (units, unit, select(zones), select(vec![1, 15, 31]))
        .prop_map(move |(units, unit, zone, anchor_day)| Spec::CalendarWindow {
            units,
            unit,
            zone,
            anchor_day,
            tick: timeline.tick,
        })
        .boxed()
}
