//! Traces picked by hand: one for every corner that was, or nearly was, wrong.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use tollgate_core::{Ask, Cost, Intent, Limit, OldestCounts, Outcome, Refund, State, Time};
use tollgate_testkit::Spec;

mod common;
use common::at;

/// A limit, its key, and what it answers.
struct Story {
    limit: Limit,
    state: State,
}

impl Story {
    fn of(spec: &Spec) -> Story {
        let limit = spec.limit();
        Story { state: limit.fresh(), limit }
    }

    /// Asks, and checks what is answered: how long the wait is, and what remains.
    #[track_caller]
    fn check(
        &mut self,
        now: u64,
        intent: Intent,
        units: u64,
        outcome: Outcome,
        remaining: u64,
    ) -> &mut Story {
        let ask = Ask { cost: Cost::new(units), now: at(now), intent };
        let word = self.limit.pack(&self.state);
        let decision = self.limit.decide(&mut self.state, ask);
        assert_eq!((decision.outcome, decision.remaining), (outcome, remaining));
        if let Some(word) = word {
            let (on_word, changed) = self.limit.decide_word(word, ask);
            assert_eq!(on_word, decision, "on words");
            assert_eq!(self.limit.unpack(changed.unwrap_or(word)), self.state, "on words");
        }
        self
    }

    #[track_caller]
    fn takes(&mut self, now: u64, units: u64, outcome: Outcome, remaining: u64) -> &mut Story {
        self.check(now, Intent::Take, units, outcome, remaining)
    }

    #[track_caller]
    fn books(&mut self, now: u64, units: u64, outcome: Outcome, remaining: u64) -> &mut Story {
        self.check(now, Intent::Book, units, outcome, remaining)
    }

    fn gives_back(&mut self, now: u64, units: u64, counted_at: u64) -> &mut Story {
        let refund = Refund { counted_at: at(counted_at), ..Refund::at_once(units, at(now)) };
        self.limit.give_back(&mut self.state, refund);
        self
    }
}

const ALLOWED: Outcome = Outcome::ALLOWED;

fn in_ticks(retry_after: u64) -> Outcome {
    Outcome::NotNow { retry_after: tollgate_core::Span::from_ticks(retry_after) }
}

fn after(wait: u64) -> Outcome {
    Outcome::Allowed { wait: tollgate_core::Span::from_ticks(wait) }
}

#[test]
fn a_bucket_in_debt_pays_back_first() {
    let mut story = Story::of(&Spec::TokenBucket { units: 1, period_ticks: 10, burst: 3 });
    story.takes(0, 3, ALLOWED, 0).books(0, 2, in_ticks(40), 0).takes(0, 0, in_ticks(20), 0);
    story.books(0, u64::MAX, Outcome::Never, 0).takes(0, 0, in_ticks(30), 0);
    story.takes(30, 0, ALLOWED, 0).takes(39, 1, in_ticks(1), 0).takes(40, 1, ALLOWED, 0);
}

#[test]
fn a_bucket_rounds_its_interval_up() {
    let mut story = Story::of(&Spec::TokenBucket { units: 3, period_ticks: 10, burst: 2 });
    story.takes(0, 2, ALLOWED, 0).takes(3, 1, in_ticks(1), 0).takes(4, 1, ALLOWED, 0);
}

#[test]
fn the_largest_bucket_at_the_end_of_time() {
    let end = Time::MAX.ticks();
    let mut story = Story::of(&Spec::TokenBucket { units: 1, period_ticks: 1, burst: 1 << 62 });
    story.takes(end, 1 << 62, ALLOWED, 0).books(end, u64::MAX, Outcome::Never, 0);
    story.takes(end, 0, in_ticks(1 << 62), 0).gives_back(end, u64::MAX, end);
    story.takes(end, 1 << 62, ALLOWED, 0);
}

#[test]
fn a_fixed_window_forgets_debt_with_its_window() {
    let mut story = Story::of(&Spec::FixedWindow { units: 3, period_ticks: 10 });
    story.books(9, 5, Outcome::Never, 0).takes(9, 0, in_ticks(1), 0).takes(10, 3, ALLOWED, 0);
}

#[test]
fn a_refund_goes_to_the_window_that_counted() {
    let mut story = Story::of(&Spec::FixedWindow { units: 3, period_ticks: 16 });
    story.takes(15, 3, ALLOWED, 0).takes(16, 2, ALLOWED, 1).gives_back(17, 3, 15).takes(17, 1, ALLOWED, 0);
    let mut story = Story::of(&Spec::SlidingWindow { units: 8, period_ticks: 64 });
    story.takes(63, 8, ALLOWED, 0).takes(96, 2, ALLOWED, 2).gives_back(96, 4, 63).takes(96, 4, ALLOWED, 0);
    story.gives_back(96, 9, 96).takes(96, 6, ALLOWED, 0);
}

#[test]
fn a_sliding_window_waits_for_the_window_after_the_next() {
    let mut story = Story::of(&Spec::SlidingWindow { units: 4, period_ticks: 10 });
    story.takes(5, 4, ALLOWED, 0).takes(5, 4, in_ticks(15), 0).takes(5, 1, in_ticks(8), 0);
    story
        .takes(12, 1, in_ticks(1), 0)
        .takes(13, 1, ALLOWED, 0)
        .takes(19, 4, in_ticks(11), 2)
        .takes(30, 4, ALLOWED, 0);
}

#[test]
fn the_largest_numbers_of_a_sliding_window() {
    let (units, end) = (u64::MAX, Time::MAX.ticks());
    let mut story = Story::of(&Spec::SlidingWindow { units, period_ticks: 1 << 62 });
    let left = (1 << 62) - end;
    story.takes(0, units, ALLOWED, 0).takes(end, 1, in_ticks(left + 1), 0).takes(
        end,
        units,
        in_ticks(left + (1 << 62)),
        0,
    );
}

#[test]
fn sub_windows_cut_a_period_that_does_not_divide() {
    // 10 ticks in 3: four ticks each, twelve in all.
    let mut story =
        Story::of(&Spec::SubWindows { units: 2, period_ticks: 10, count: 3, oldest: OldestCounts::Whole });
    story
        .takes(3, 2, ALLOWED, 0)
        .takes(3, 1, in_ticks(13), 0)
        .takes(15, 1, in_ticks(1), 0)
        .takes(16, 2, ALLOWED, 0);
}

#[test]
fn interpolated_sub_windows_let_go_little_by_little() {
    let spec = Spec::SubWindows { units: 4, period_ticks: 20, count: 2, oldest: OldestCounts::ByOverlap };
    let mut story = Story::of(&spec);
    story.takes(9, 4, ALLOWED, 0).takes(9, 1, in_ticks(14), 0).takes(9, 4, in_ticks(21), 0);
    story
        .takes(22, 1, in_ticks(1), 0)
        .takes(23, 1, ALLOWED, 0)
        .takes(29, 3, in_ticks(1), 2)
        .takes(30, 3, ALLOWED, 0);
}

#[test]
fn a_log_in_debt_lets_go_in_order() {
    let mut story = Story::of(&Spec::SlidingLog { units: 2, period_ticks: 10 });
    story.takes(0, 1, ALLOWED, 1).books(3, 2, in_ticks(10), 0).takes(9, 0, in_ticks(1), 0);
    story.takes(10, 0, ALLOWED, 0).gives_back(10, 1, 3).takes(10, 1, ALLOWED, 0).takes(13, 1, ALLOWED, 0);
}

#[test]
fn a_queue_may_owe_more_than_it_makes_wait() {
    let mut story = Story::of(&Spec::LeakyQueue { units: 2, period_ticks: 10, max_wait_ticks: 10 });
    story.takes(0, 2, ALLOWED, 1).takes(0, 2, after(10), 0).takes(0, 1, in_ticks(10), 0);
    story.books(0, 3, Outcome::Never, 0).takes(0, 1, in_ticks(20), 0).takes(20, 1, after(10), 0);
}

#[test]
fn there_is_no_debt_in_being_many() {
    let mut story = Story::of(&Spec::Concurrency { units: 2, hold_ticks_max: 10 });
    story.takes(0, 1, ALLOWED, 1).books(0, 2, Outcome::Busy, 1).takes(0, 1, ALLOWED, 0);
    story.takes(9, 0, ALLOWED, 0).takes(9, 3, Outcome::Never, 0).takes(10, 2, ALLOWED, 0);
}

#[test]
fn nothing_passes_a_blocked_limit() {
    let mut story = Story::of(&Spec::Blocked);
    story.takes(0, 1, Outcome::Never, 0).takes(0, 0, Outcome::Never, 0).books(0, 1, Outcome::Never, 0);
}

/// A state of another algorithm counts as that of a key never seen.
#[test]
fn a_foreign_state_is_a_fresh_one() {
    let (window, log) =
        (Spec::FixedWindow { units: 2, period_ticks: 10 }, Spec::SlidingLog { units: 1, period_ticks: 10 });
    let mut story = Story::of(&window);
    story.takes(0, 2, ALLOWED, 0);
    story.limit = log.limit();
    assert_eq!(story.limit.used(&story.state, at(0)), 0);
    assert_eq!(story.limit.expires_at(&story.state), at(0));
    assert_eq!(story.limit.pack(&story.state), None);
    story.gives_back(0, 1, 0).takes(0, 1, ALLOWED, 0).takes(0, 1, in_ticks(10), 0);
}

/// A state that a larger limit left behind, and that had to be shifted into the bits of a smaller one.
#[test]
fn what_a_larger_limit_left_is_trimmed_before_it_is_packed() {
    let period_ticks = 1 << 20;
    let fixed = |units| Spec::FixedWindow { units, period_ticks }.limit();
    let sliding = |units| Spec::SlidingWindow { units, period_ticks }.limit();
    for (large, small) in [(fixed(1 << 40), fixed(3)), (sliding(1 << 40), sliding(3))] {
        assert!(!large.packs() && small.packs());
        let mut state = large.fresh();
        assert!(common::take(&large, &mut state, 1 << 40, period_ticks));
        let word = small.pack(&state).unwrap();
        assert_eq!(small.used(&small.unpack(word), at(period_ticks)), 6);
    }
}

/// A window too short for its counters: read as a word, it would have mixed them with its time.
#[test]
fn a_window_that_does_not_pack_keeps_no_words() {
    let limit = Spec::FixedWindow { units: 5, period_ticks: 2 }.limit();
    assert!(!limit.packs());
    let (decision, changed) = limit.decide_word(12_345, Ask::take(Cost::new(5), at(7)));
    assert_eq!((decision.outcome, changed), (ALLOWED, None));
}

/// A caller several sub-windows behind used to move all counts back to where it was.
#[test]
fn sub_windows_count_who_lags_where_the_state_is() {
    let spec = Spec::SubWindows { units: 3, period_ticks: 100, count: 10, oldest: OldestCounts::Whole };
    let mut story = Story::of(&spec);
    story.takes(1_000, 2, ALLOWED, 1).takes(950, 1, ALLOWED, 0).takes(950, 1, in_ticks(160), 0);
    story.takes(1_109, 1, in_ticks(1), 0).takes(1_110, 3, ALLOWED, 0);
}
