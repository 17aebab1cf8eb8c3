//! Clocks that lag: threads that read the time and were held up, machines whose clocks disagree.
//!
//! Whoever asks with a clock that lags is never admitted where a caller with the right time would not have been, and
//! the promise made to it is kept. "The right time" is the latest at which anything was admitted.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{
    Ask, Concurrency, Cost, FixedWindow, Intent, Limit, OldestCounts, Outcome, Rate, SlidingLog,
    SlidingWindow, Span, SubWindows, Tick, TokenBucket,
};
use tollgate_testkit::Spec;

mod common;
use common::{at, promise, take};

/// How far a clock may lag before a limit takes it for one that was set back.
fn lag_max(spec: &Spec) -> u64 {
    match *spec {
        Spec::TokenBucket { .. } | Spec::LeakyBucket { .. } | Spec::FixedWindow { .. } => spec.memory(),
        Spec::SlidingWindow { period_ticks, .. } | Spec::SlidingLog { period_ticks, .. } => period_ticks,
        Spec::SubWindows { count, .. } => spec.beat() * u64::from(count),
        _ => 1_000,
    }
}

/// Requests as (time since the one before, lag of the clock in 64ths of the most there may be, units).
type Requests = Vec<(u64, u64, u64)>;

fn requests() -> impl Strategy<Value = Requests> {
    let gap = prop_oneof![5 => Just(0_u64), 4 => 1_u64..4, 2 => 0_u64..40];
    let lag = prop_oneof![2 => Just(0_u64), 3 => 0_u64..=64];
    proptest::collection::vec((gap, lag, 1_u64..5), 1..120)
}

/// Plays requests and returns what was admitted, at the latest time at which anything was.
fn admitted(spec: &Spec, requests: &Requests) -> Vec<(u64, u64)> {
    let limit = spec.limit();
    let mut state = limit.fresh();
    let (mut right_now, mut latest) = (5_000, 0);
    let mut admitted = Vec::new();
    for &(gap, lag, units) in requests {
        right_now += gap;
        // A lag counts from the latest admission, which is all that a state can know of the right time.
        let now = if lag == 0 { right_now } else { latest.max(5_000) - lag_max(spec) * lag / 64 };
        if take(&limit, &mut state, units, now) {
            latest = latest.max(now);
            admitted.push((latest, units));
        } else if let Some(retry_after) = promise(&limit, &mut state, units, now) {
            let mut state = state.clone();
            assert!(
                !take(&limit, &mut state, units, now + retry_after - 1),
                "{spec:?}: admitted before {retry_after}"
            );
            assert!(take(&limit, &mut state, units, now + retry_after), "{spec:?}: denied at {retry_after}");
        }
    }
    admitted
}

fn check(spec: &Spec, requests: &Requests, longest: u64, most: impl Fn(u64) -> u64) {
    let admitted = admitted(spec, requests);
    for (first, from) in admitted.iter().enumerate() {
        let mut units = 0;
        for to in admitted[first..].iter().take_while(|to| to.0 - from.0 <= longest) {
            units += to.1;
            let most = most(to.0 - from.0);
            assert!(units <= most, "{spec:?}: {units} from {} to {}, where {most} may pass", from.0, to.0);
        }
    }
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn buckets_do_not_admit_more(requests in requests(), units in 1_u64..8, period_ticks in 8_u64..60, burst in 1_u64..12) {
        let interval = period_ticks.div_ceil(units);
        let most = |length| burst + length / interval;
        check(&Spec::TokenBucket { units, period_ticks, burst }, &requests, u64::MAX, most);
        check(&Spec::LeakyBucket { units, period_ticks, size: burst }, &requests, u64::MAX, most);
    }

    #[test]
    fn windows_do_not_admit_more(requests in requests(), units in 1_u64..12, period_ticks in 1_u64..60) {
        check(&Spec::SlidingWindow { units, period_ticks }, &requests, period_ticks, |length| units + units * length / period_ticks);
        check(&Spec::SlidingLog { units, period_ticks }, &requests, period_ticks - 1, |_| units);
        let fixed = Spec::FixedWindow { units, period_ticks };
        let admitted = admitted(&fixed, &requests);
        for &(now, _) in &admitted {
            let same_window = admitted.iter().filter(|other| other.0 / period_ticks == now / period_ticks);
            prop_assert!(same_window.map(|other| other.1).sum::<u64>() <= units, "in the window of {now}");
        }
    }

    #[test]
    fn conservative_sub_windows_do_not_admit_more(
        requests in requests(), units in 1_u64..12, period_ticks in 10_u64..60, count in 1_u32..10,
    ) {
        let spec = Spec::SubWindows { units, period_ticks, count, oldest: OldestCounts::Whole };
        check(&spec, &requests, spec.beat() * u64::from(count) - 1, |_| units);
    }

    #[test]
    fn no_more_are_at_it_at_once(requests in requests(), units in 1_u64..12, hold_ticks_max in 1_u64..60) {
        let limit = Spec::Concurrency { units, hold_ticks_max }.limit();
        let mut state = limit.fresh();
        let mut right_now = 5_000;
        for (gap, lag, cost) in requests {
            right_now += gap;
            take(&limit, &mut state, cost, right_now - lag);
            prop_assert!(limit.used(&state, at(right_now)) <= units);
        }
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// However far a clock lags, a word is read like the state that it stands for.
    #[test]
    fn a_word_is_read_like_its_state(spec in Spec::any(), start in 0_u64..1 << 61, requests in requests()) {
        let limit = spec.limit();
        let (mut state, mut word) = (limit.fresh(), 0);
        let mut right_now = start;
        for (gap, lag, units) in requests.into_iter().filter(|_| limit.packs()) {
            right_now = right_now.saturating_add((spec.beat() / 8).max(1).saturating_mul(gap));
            let lag = u128::from(spec.memory()) * u128::from(lag) / 16;
            let now = at(right_now.saturating_sub(u64::try_from(lag).unwrap_or(u64::MAX)));
            let intent = if units == 4 { Intent::Book } else { Intent::Take };
            let ask = Ask { cost: Cost::new(units), now, intent };
            let (decision, changed) = limit.decide_word(word, ask);
            prop_assert_eq!(decision, limit.decide(&mut state, ask), "{:?} at {:?}", ask, now);
            word = changed.unwrap_or(word);
        }
    }
}

/// A caller one window behind counts in the window that the state is in, and waits for its end.
#[test]
fn a_fixed_window_counts_who_lags_where_the_state_is() {
    let limit = Limit::from(FixedWindow::new(common::rate(3, 100)));
    let mut state = limit.fresh();
    assert!(take(&limit, &mut state, 2, 200));
    assert!(take(&limit, &mut state, 1, 199));
    assert_eq!(promise(&limit, &mut state, 1, 199), Some(101));
    assert_eq!(promise(&limit, &mut state, 1, 299), Some(1));
    assert!(take(&limit, &mut state, 3, 300));
}

/// A sliding window takes it to ask at the start of the window that the state is in.
#[test]
fn a_sliding_window_counts_who_lags_at_the_start_of_its_window() {
    let limit = Limit::from(SlidingWindow::new(common::rate(4, 100)));
    let mut state = limit.fresh();
    assert!(take(&limit, &mut state, 2, 150));
    assert!(take(&limit, &mut state, 1, 200));
    assert!(take(&limit, &mut state, 1, 190));
    assert_eq!(limit.used(&state, at(190)), 4);
    assert_eq!(promise(&limit, &mut state, 1, 190), Some(10 + 50));
    assert!(take(&limit, &mut state, 1, 250));
}

#[test]
fn a_log_stays_in_order_when_clocks_do_not() {
    let limit = Limit::from(SlidingLog::new(common::rate(3, 100)).unwrap());
    let mut state = limit.fresh();
    assert!(take(&limit, &mut state, 1, 500));
    assert!(take(&limit, &mut state, 1, 450));
    assert!(take(&limit, &mut state, 1, 520));
    assert_eq!(promise(&limit, &mut state, 1, 510), Some(90));
    assert!(take(&limit, &mut state, 2, 600));
    assert!(!take(&limit, &mut state, 1, 619));
}

#[test]
fn holds_stay_in_the_order_of_their_deadlines_when_clocks_do_not() {
    let limit = Concurrency::new(3, tollgate_core::Span::from_ticks(100)).unwrap();
    let mut holders = tollgate_core::Holders::default();
    assert!(limit.acquire(&mut holders, Cost::ONE, at(500)).1.is_some());
    assert!(limit.acquire(&mut holders, Cost::ONE, at(450)).1.is_some());
    assert!(limit.acquire(&mut holders, Cost::ONE, at(500)).1.is_some());
    assert!(limit.acquire(&mut holders, Cost::ONE, at(549)).1.is_none());
    assert!(limit.acquire(&mut holders, Cost::ONE, at(550)).1.is_some());
    assert!(limit.acquire(&mut holders, Cost::ONE, at(599)).1.is_none(), "only one of them had passed");
}

/// Clocks that were set back by far: nobody is told to wait longer than the limit itself allows.
#[test]
fn nobody_is_told_to_wait_for_a_clock_that_was_set_back() {
    let specs = [
        (Spec::TokenBucket { units: 10, period_ticks: 100, burst: 10 }, 200),
        (Spec::LeakyBucket { units: 10, period_ticks: 100, size: 10 }, 200),
        (Spec::LeakyQueue { units: 10, period_ticks: 100, max_wait_ticks: 50 }, 250),
        (Spec::FixedWindow { units: 10, period_ticks: 100 }, 200),
        (Spec::SlidingWindow { units: 10, period_ticks: 100 }, 300),
        (Spec::SubWindows { units: 10, period_ticks: 100, count: 10, oldest: OldestCounts::Whole }, 120),
        (Spec::SlidingLog { units: 10, period_ticks: 100 }, 100),
    ];
    for (spec, wait_max) in specs {
        let limit = spec.limit();
        let mut state = limit.fresh();
        while take(&limit, &mut state, 10, 1_000_000) {}
        let wait = promise(&limit, &mut state, 10, 505);
        assert!(wait.is_some_and(|ticks| ticks <= wait_max), "{spec:?}: {wait:?}");
    }
}

/// A clock set back leaves states far in the future. Whoever is denied then is told when to come back, comes back, and is
/// admitted: on whole states and on words.
#[test]
fn after_a_clock_was_set_back_promises_are_kept() {
    let (units, period_ticks, far) = (10, 1_000, 1_000_000_000);
    let specs = [
        Spec::TokenBucket { units, period_ticks, burst: 10 },
        Spec::LeakyBucket { units, period_ticks, size: 10 },
        Spec::LeakyQueue { units, period_ticks, max_wait_ticks: 900 },
        Spec::FixedWindow { units, period_ticks },
        Spec::SlidingWindow { units, period_ticks },
        Spec::SubWindows { units, period_ticks, count: 10, oldest: OldestCounts::Whole },
        Spec::SubWindows { units, period_ticks, count: 10, oldest: OldestCounts::ByOverlap },
        Spec::SlidingLog { units, period_ticks },
    ];
    for spec in specs {
        let limit = spec.limit();
        let mut state = limit.fresh();
        while take(&limit, &mut state, 1, far) {}
        let word = limit.pack(&state);

        let denied = limit.decide(&mut state, Ask::take(Cost::ONE, at(5_000)));
        let retry_after = denied.retry_after().expect("denied for now").ticks();
        assert!(retry_after <= 3 * period_ticks, "{spec:?}: told to wait for {retry_after} ticks");
        assert!(take(&limit, &mut state, 1, 5_000 + retry_after), "{spec:?}: denied at the promised moment");

        let Some(word) = word else { continue };
        let (denied, kept) = limit.decide_word(word, Ask::take(Cost::ONE, at(5_000)));
        assert_eq!(denied.retry_after().map(Span::ticks), Some(retry_after), "{spec:?} as a word");
        let then = Ask::take(Cost::ONE, at(5_000 + retry_after));
        let (decision, _) = limit.decide_word(kept.expect("what was trimmed is kept"), then);
        assert!(decision.is_allowed(), "{spec:?} as a word: denied at the promised moment");
    }
}

/// The clock was set back by far. The units were taken before now, so they count for a whole period from now on.
#[test]
fn a_log_counts_units_from_before_a_clock_was_set_back_for_one_period() {
    let limit = Limit::from(SlidingLog::new(common::rate(3, 100)).unwrap());
    let mut state = limit.fresh();
    assert!(take(&limit, &mut state, 2, 9_000));
    assert_eq!(promise(&limit, &mut state.clone(), 2, 5_000), Some(100), "what a peek and a denial promise");
    assert!(take(&limit, &mut state, 1, 5_010));
    assert_eq!(promise(&limit, &mut state, 1, 5_050), Some(60));
    assert!(!take(&limit, &mut state, 1, 5_109));
    assert!(take(&limit, &mut state, 3, 5_110));
}

/// The same of holds: none ends later than the longest hold after the clock was set back, and each can be released.
#[test]
fn holds_from_before_a_clock_was_set_back_end_after_the_longest_hold() {
    let limit = Concurrency::new(2, Span::from_ticks(100)).unwrap();
    let mut holders = tollgate_core::Holders::default();
    let [first, second] = [9_000, 9_001].map(|now| limit.acquire(&mut holders, Cost::ONE, at(now)).1);
    assert!(limit.acquire(&mut holders, Cost::ONE, at(5_000)).1.is_none(), "they are held");
    assert!(limit.release(&mut holders, first.unwrap(), at(5_000)));
    let third = limit.acquire(&mut holders, Cost::ONE, at(5_050)).1;
    assert!(third > second, "no number is given out twice");
    assert!(limit.acquire(&mut holders, Cost::ONE, at(5_099)).1.is_none());
    assert!(limit.acquire(&mut holders, Cost::ONE, at(5_100)).1.is_some(), "the second has ended");
    assert!(!limit.release(&mut holders, second.unwrap(), at(5_100)));
    assert!(limit.acquire(&mut holders, Cost::ONE, at(5_149)).1.is_none());
}

/// A rule whose longest hold becomes shorter does not end the holds that were given out before.
#[test]
fn a_hold_of_a_longer_limit_keeps_its_deadline() {
    let [long, short] = [100_000, 100].map(|ticks| Concurrency::new(1, Span::from_ticks(ticks)).unwrap());
    let mut holders = tollgate_core::Holders::default();
    assert!(long.acquire(&mut holders, Cost::ONE, at(5_000)).1.is_some());
    for now in [5_001, 5_101, 104_999] {
        assert!(short.acquire(&mut holders, Cost::ONE, at(now)).1.is_none());
    }
    assert!(short.acquire(&mut holders, Cost::ONE, at(105_000)).1.is_some());
}

/// One limit in three units of time, for any number of units that divides the period.
fn in_ticks(tick: Tick, units: u64) -> Vec<Limit> {
    let rate = Rate::new(units, tick.span(Duration::from_secs(12)).unwrap()).unwrap();
    vec![
        TokenBucket::new(rate, 2 * units).unwrap().into(),
        tollgate_core::LeakyBucket::new(rate, units).unwrap().into(),
        tollgate_core::LeakyQueue::new(rate, tick.span(Duration::from_secs(5)).unwrap()).unwrap().into(),
        FixedWindow::new(rate).into(),
        SlidingWindow::new(rate).into(),
        SubWindows::new(rate, 6, OldestCounts::Whole).unwrap().into(),
        SubWindows::new(rate, 6, OldestCounts::ByOverlap).unwrap().into(),
        SlidingLog::new(rate).unwrap().into(),
        Concurrency::new(units, tick.span(Duration::from_secs(3)).unwrap()).unwrap().into(),
    ]
}

proptest! {
    #![proptest_config(cases(300))]

    /// The tick is a parameter: what is decided does not depend on it, what is promised is rounded up to it.
    #[test]
    fn a_coarser_tick_decides_the_same(
        units in prop::sample::select(vec![1_u64, 2, 3, 10, 100]),
        requests in proptest::collection::vec((0_u64..3_000, 0_u64..8), 1..60),
    ) {
        for tick in [Tick::MICROSECOND, Tick::MILLISECOND] {
            for (coarse, fine) in in_ticks(tick, units).iter().zip(in_ticks(Tick::NANOSECOND, units)) {
                check_same(coarse, tick, &fine, &requests)?;
            }
        }
    }
}

fn check_same(
    coarse: &Limit,
    tick: Tick,
    fine: &Limit,
    requests: &[(u64, u64)],
) -> Result<(), TestCaseError> {
    let ticks = |tick: Tick, ms| tick.span(Duration::from_millis(ms)).unwrap().ticks();
    let (mut coarse_state, mut fine_state) = (coarse.fresh(), fine.fresh());
    let mut ms = 1_000_000;
    for &(gap, units) in requests {
        ms += gap;
        let got = coarse.decide(&mut coarse_state, Ask::take(Cost::new(units), at(ticks(tick, ms))));
        let expected =
            fine.decide(&mut fine_state, Ask::take(Cost::new(units), at(ticks(Tick::NANOSECOND, ms))));
        let rounded_up = |span| tick.span(Tick::NANOSECOND.duration(span)).unwrap();
        let outcome = match expected.outcome {
            Outcome::Allowed { wait } => Outcome::Allowed { wait: rounded_up(wait) },
            Outcome::NotNow { retry_after } => Outcome::NotNow { retry_after: rounded_up(retry_after) },
            outcome => outcome,
        };
        prop_assert_eq!(got.outcome, outcome, "{:?} at {} ms", coarse, ms);
        prop_assert_eq!((got.limit, got.remaining), (expected.limit, expected.remaining));
        prop_assert_eq!(got.reset_after, expected.reset_after.map(rounded_up));
    }
    Ok(())
}
