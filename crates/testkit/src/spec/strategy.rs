//! Numbers worth testing: small ones, so that few steps reach every state; ordinary ones; and the largest there are.

use proptest::prelude::*;
use proptest::sample::select;
use tollgate_core::{CalendarUnit, OldestCounts};

use super::Spec;

const SPAN_MAX: u64 = 1 << 62;
const SECOND: u64 = 1_000_000_000;

pub(super) fn any() -> BoxedStrategy<Spec> {
    proptest::strategy::Union::new(kinds()).boxed()
}

pub(super) fn kinds() -> Vec<BoxedStrategy<Spec>> {
    vec![
        bucket()
            .prop_map(|(units, period_ticks, burst)| Spec::TokenBucket { units, period_ticks, burst })
            .boxed(),
        bucket()
            .prop_map(|(units, period_ticks, size)| Spec::LeakyBucket { units, period_ticks, size })
            .boxed(),
        queue()
            .prop_map(|(units, period_ticks, max_wait_ticks)| Spec::LeakyQueue {
                units,
                period_ticks,
                max_wait_ticks,
            })
            .boxed(),
        window().prop_map(|(units, period_ticks)| Spec::FixedWindow { units, period_ticks }).boxed(),
        calendar(),
        window().prop_map(|(units, period_ticks)| Spec::SlidingWindow { units, period_ticks }).boxed(),
        sub_windows(OldestCounts::Whole),
        sub_windows(OldestCounts::ByOverlap),
        held().prop_map(|(units, period_ticks)| Spec::SlidingLog { units, period_ticks }).boxed(),
        held().prop_map(|(units, hold_ticks_max)| Spec::Concurrency { units, hold_ticks_max }).boxed(),
        Just(Spec::Blocked).boxed(),
    ]
}

/// Units, period, burst.
fn bucket() -> impl Strategy<Value = (u64, u64, u64)> {
    // T is 2^k and B is 2^(62-k): a capacity of exactly 2^62.
    let full = (0_u32..=62).prop_map(|k| (1, 1 << k, 1 << (62 - k)));
    let fastest = select(vec![(SPAN_MAX, SPAN_MAX, SPAN_MAX), (1, 1, SPAN_MAX), (1, 1, 1), (1, SPAN_MAX, 1)]);
    prop_oneof![
        4 => (1_u64..=60).prop_flat_map(|period_ticks| (1..=period_ticks, Just(period_ticks), 1_u64..=10)),
        3 => (select(vec![1_u64, 7, 100, 1_000]), select(vec![SECOND, 60 * SECOND, 86_400 * SECOND]), 1_u64..=2_000),
        1 => full,
        1 => fastest,
    ]
}

/// Units, period, the longest wait.
fn queue() -> impl Strategy<Value = (u64, u64, u64)> {
    let largest =
        select(vec![(1, 1 << 60, 1 << 61), (1 << 60, 1 << 60, 1 << 61), (1, 1, SPAN_MAX - 2), (1, 1, 0)]);
    prop_oneof![
        4 => (1_u64..=60).prop_flat_map(|period_ticks| (1..=period_ticks, Just(period_ticks), 0_u64..=100)),
        3 => (select(vec![1_u64, 7, 100]), select(vec![SECOND, 60 * SECOND]), select(vec![0, 1, SECOND, 300 * SECOND])),
        1 => largest,
    ]
}

/// Units, period.
fn window() -> impl Strategy<Value = (u64, u64)> {
    let units_max =
        select(vec![1, u64::MAX, u64::MAX - 1, u64::MAX / 2, u64::MAX / 2 + 1, SPAN_MAX, 1 << 31]);
    let period_max = select(vec![1, 2, 3, SPAN_MAX, SPAN_MAX - 1, SPAN_MAX / 2 + 1]);
    prop_oneof![
        4 => (1_u64..=12, 1_u64..=40),
        2 => (1_u64..=60, (5_u32..=20).prop_map(|k| 1 << k)),
        3 => (select(vec![1_u64, 10, 100, 100_000]), select(vec![SECOND, 60 * SECOND, 86_400 * SECOND])),
        1 => (1_u64..=12, period_max.clone()),
        1 => (units_max.clone(), select(vec![SECOND, 60 * SECOND])),
        1 => (units_max, period_max),
    ]
}

fn sub_windows(oldest: OldestCounts) -> BoxedStrategy<Spec> {
    (window(), prop_oneof![1_u32..=5, 6_u32..=64])
        .prop_map(move |((units, period_ticks), count)| {
            let count = count.min(u32::try_from(period_ticks).unwrap_or(u32::MAX));
            Spec::SubWindows { units, period_ticks, count, oldest }
        })
        .boxed()
}

/// Units that are remembered one by one, and for how long.
fn held() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![
        4 => (1_u64..=12, 1_u64..=40),
        2 => (select(vec![1_u64, 10, 100]), select(vec![SECOND, 60 * SECOND])),
        1 => (select(vec![1_u64, 1 << 16]), select(vec![1, SPAN_MAX, SPAN_MAX - 1])),
    ]
}

fn calendar() -> BoxedStrategy<Spec> {
    let unit = select(vec![CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month]);
    let zones =
        vec!["UTC", "Europe/Berlin", "America/Sao_Paulo", "America/Havana", "Asia/Kolkata", "Pacific/Apia"];
    (prop_oneof![1_u64..=5, Just(u64::MAX), Just(1 << 43)], unit, select(zones))
        .prop_map(|(units, unit, zone)| Spec::CalendarWindow { units, unit, zone })
        .boxed()
}
