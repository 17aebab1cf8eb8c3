//! What holds for every algorithm, whatever its numbers and whatever happened before.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use proptest::prelude::*;
use tollgate_core::{Ask, Cost, Decision, Intent, Limit, Outcome, Refund, State, Time, WORD_MAX};
use tollgate_testkit::{Spec, Trace};

mod common;
use common::{answers, at, lived, lived_until, plus, take_one_by_one};

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// A cost of some share of what one request can have.
fn cost(spec: &Spec, share: u64) -> Cost {
    Cost::new(u64::try_from((u128::from(spec.cost_max()) * u128::from(share)).div_ceil(64)).unwrap())
}

/// Denied at every instant before the promised one, and admitted at it.
fn check_promise(limit: &Limit, state: &State, ask: Ask) -> Result<(), TestCaseError> {
    let mut state = state.clone();
    let Some(retry_after) = limit.decide(&mut state, ask).retry_after() else { return Ok(()) };
    let ticks = retry_after.ticks();
    prop_assert!(ticks > 0, "denied, and told to try again at once");
    for early in [1, 2, 3, ticks / 2, ticks - 1, ticks] {
        let later = Ask::peek(ask.cost, plus(ask.now, ticks - early.clamp(1, ticks)));
        prop_assert!(!limit.decide(&mut state, later).is_allowed(), "admitted {early} ticks early");
    }
    let promised = Ask::take(ask.cost, plus(ask.now, ticks));
    if promised.now < Time::MAX {
        prop_assert!(limit.decide(&mut state, promised).is_allowed(), "denied at the promised moment");
    }
    Ok(())
}

/// What remains is admitted, and no more.
fn check_remaining(spec: &Spec, state: &State, now: Time) -> Result<(), TestCaseError> {
    let limit = spec.limit();
    let remaining = limit.decide(&mut state.clone(), Ask::peek(Cost::ZERO, now)).remaining;
    let mut taking = state.clone();
    if let Spec::LeakyQueue { .. } = spec {
        // Places in a queue: one request each.
        if remaining <= 1_000 {
            prop_assert_eq!(take_one_by_one(&limit, &mut taking, now), remaining);
        }
        return Ok(());
    }
    let beyond = Cost::new(remaining.saturating_add(1));
    if remaining < u64::MAX {
        prop_assert!(!limit.decide(&mut taking, Ask::take(beyond, now)).is_allowed());
    }
    let denied_at_zero = !limit.decide(&mut taking, Ask::peek(Cost::ZERO, now)).is_allowed();
    let all = limit.decide(&mut taking, Ask::take(Cost::new(remaining), now));
    prop_assert_eq!(all.is_allowed(), !denied_at_zero, "{:?}", all);
    prop_assert_eq!(all.remaining, 0);
    Ok(())
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_promise_is_kept_to_the_tick(
        spec in Spec::any(), trace in Trace::strategy(20), share in 0_u64..=64,
        intent in prop::sample::select(vec![Intent::Take, Intent::Book]),
    ) {
        let limit = spec.limit();
        let (state, now) = lived(&limit, &spec, &trace);
        check_promise(&limit, &state, Ask { cost: cost(&spec, share), now, intent })?;
    }

    #[test]
    fn what_remains_is_admitted_and_no_more(spec in Spec::any(), trace in Trace::strategy(20)) {
        let (state, now) = lived(&spec.limit(), &spec, &trace);
        check_remaining(&spec, &state, now)?;
    }

    #[test]
    fn a_denial_and_a_peek_change_nothing(
        spec in Spec::any(), trace in Trace::strategy(20), units in prop_oneof![0_u64..9, Just(u64::MAX)],
    ) {
        let limit = spec.limit();
        let (before, now) = lived(&limit, &spec, &trace);
        let mut state = before.clone();
        let peeked = limit.decide(&mut state, Ask::peek(Cost::new(units), now));
        prop_assert_eq!(&state, &before);
        let taken = limit.decide(&mut state, Ask::take(Cost::new(units), now));
        prop_assert_eq!(peeked.is_allowed(), taken.is_allowed());
        if !taken.is_allowed() {
            prop_assert_eq!(&state, &before);
            prop_assert_eq!(peeked, taken, "a peek is told what a denied take is told");
        }
    }

    #[test]
    fn a_refund_never_makes_richer_than_unused(
        spec in Spec::any(), trace in Trace::strategy(20), units in prop_oneof![0_u64..9, Just(u64::MAX)], ago in 0_u64..50,
    ) {
        let limit = spec.limit();
        let (mut state, now) = lived(&limit, &spec, &trace);
        let counted_at = at(now.ticks().saturating_sub(ago));
        let used = limit.used(&state, now);
        limit.give_back(&mut state, Refund { counted_at, ..Refund::at_once(units, now) });
        prop_assert!(limit.used(&state, now) <= used);
        let peek = Ask::peek(Cost::ZERO, now);
        let remaining = limit.decide(&mut state, peek).remaining;
        prop_assert!(remaining <= limit.decide(&mut limit.fresh(), peek).remaining);
        let unused = answers(&limit, &limit.fresh(), &spec, now);
        for (refunded, unused) in answers(&limit, &state, &spec, now).into_iter().zip(unused) {
            prop_assert!(!refunded.is_allowed() || unused.is_allowed());
        }
    }

    /// Somebody takes units and learns of it too late, so that is undone a while after. Whatever others got meanwhile and afterwards, they would
    /// have got without him too.
    #[test]
    fn what_is_undone_lets_nobody_else_have_more(
        spec in Spec::any(),
        trace in Trace::strategy(1),
        takes in prop::collection::vec((0_u64..80, 1_u64..40, prop::option::weighted(0.4, 0_usize..6)), 1..40),
    ) {
        let limit = spec.limit();
        if matches!(limit, Limit::Concurrency(_)) {
            return Ok(()); // What is held has a name, by which it is released.
        }
        let (mut state, mut without, mut now) = (limit.fresh(), limit.fresh(), trace.start);
        let mut owed: Vec<(usize, u64, Time)> = Vec::new();
        for (number, (gap, share, undone_after)) in takes.into_iter().enumerate() {
            now = plus(now, u64::try_from(u128::from(spec.beat()) * u128::from(gap) / 64).unwrap());
            if now >= Time::MAX {
                return Ok(());
            }
            owed.retain(|&(due, units, counted_at)| {
                if due <= number {
                    limit.give_back(&mut state, Refund::undo(units, counted_at, now));
                }
                due > number
            });
            let ask = Ask::take(cost(&spec, share), now);
            if limit.decide(&mut state, ask).is_allowed() {
                if let Some(steps) = undone_after {
                    owed.push((number + 1 + steps, ask.cost.units(), now));
                } else {
                    let alone = limit.decide(&mut without, ask);
                    prop_assert!(alone.is_allowed(), "take {} at {:?} passes because of others: {:?}", number, now, alone);
                }
            }
        }
    }

    #[test]
    fn what_is_taken_and_given_back_at_once_was_never_taken(
        spec in Spec::any(), trace in Trace::strategy(20), share in 1_u64..=64,
    ) {
        let limit = spec.limit();
        let (before, now) = lived(&limit, &spec, &trace);
        let mut state = before.clone();
        let cost = cost(&spec, share);
        if limit.decide(&mut state, Ask::take(cost, now)).is_allowed() {
            limit.give_back(&mut state, Refund::at_once(cost.units(), now));
        }
        for later in [0, 1, spec.beat(), spec.memory()] {
            let later = plus(now, later);
            prop_assert_eq!(answers(&limit, &state, &spec, later), answers(&limit, &before, &spec, later));
        }
    }

    #[test]
    fn an_expired_state_answers_like_a_fresh_one(
        spec in Spec::any(), trace in Trace::strategy(20), after in prop_oneof![Just(0), Just(1), 0_u64..1 << 50],
    ) {
        let limit = spec.limit();
        let (state, now) = lived(&limit, &spec, &trace);
        let expired = limit.expires_at(&state).ticks().max(now.ticks()).saturating_add(after);
        if expired <= Time::MAX.ticks() {
            let fresh = answers(&limit, &limit.fresh(), &spec, at(expired));
            prop_assert_eq!(answers(&limit, &state, &spec, at(expired)), fresh);
            prop_assert_eq!(limit.used(&state, at(expired)), 0);
        }
    }

    /// Not longer than it has to: a tick before, something is still used.
    #[test]
    fn a_state_expires_no_later_than_it_has_to(spec in Spec::any(), trace in Trace::strategy(20)) {
        let limit = spec.limit();
        let (state, now) = lived(&limit, &spec, &trace);
        let before = limit.expires_at(&state).ticks().saturating_sub(1);
        if (now.ticks()..=Time::MAX.ticks()).contains(&before) && limit.used(&state, now) > 0 {
            prop_assert!(limit.used(&state, at(before)) > 0);
        }
    }

    #[test]
    fn a_word_is_the_state_until_it_has_passed(
        spec in Spec::any(), trace in Trace::strategy(20), after in 0_u64..100,
    ) {
        let limit = spec.limit();
        let (state, now) = lived(&limit, &spec, &trace);
        let Some(word) = limit.pack(&state) else {
            prop_assert!(!limit.packs());
            return Ok(());
        };
        prop_assert_eq!(&limit.unpack(word), &state);
        prop_assert_eq!(limit.unpack(0), limit.fresh());
        prop_assert!(word <= WORD_MAX, "{} of {}", word, limit.used(&state, now));
        prop_assert!(limit.used(&state, now) == 0 || word > now.ticks(), "a word in use is above now");
        let passed = word.max(now.ticks()).saturating_add(after);
        if passed <= Time::MAX.ticks() {
            let fresh = answers(&limit, &limit.fresh(), &spec, at(passed));
            prop_assert_eq!(answers(&limit, &limit.unpack(word), &spec, at(passed)), fresh);
        }
    }

    #[test]
    fn a_word_is_decided_like_its_state(spec in Spec::any(), trace in Trace::strategy(20)) {
        let limit = spec.limit();
        let (state, now) = lived(&limit, &spec, &trace);
        if let Some(word) = limit.pack(&state) {
            let ask = Ask::take(cost(&spec, 8), now);
            let (decision, changed) = limit.decide_word(word, ask);
            let mut whole = state.clone();
            prop_assert_eq!(decision, limit.decide(&mut whole, ask));
            prop_assert_eq!(limit.unpack(changed.unwrap_or(word)), whole);
            prop_assert_eq!(changed.is_none(), !decision.is_allowed() || ask.cost == Cost::ZERO);
        }
    }

    /// A limit that does not pack reads every word as a key never seen, and stores none.
    #[test]
    fn a_limit_that_does_not_pack_keeps_no_words(spec in Spec::any(), word: u64, now in 0..Time::MAX.ticks()) {
        let limit = spec.limit();
        if !limit.packs() {
            let ask = Ask::take(Cost::ONE, at(now));
            prop_assert_eq!(limit.decide_word(word, ask), (limit.decide(&mut limit.fresh(), ask), None));
            prop_assert_eq!(limit.give_back_word(word, Refund::at_once(1, at(now))), word);
            prop_assert_eq!(limit.unpack(word), limit.fresh());
        }
    }

    #[test]
    fn the_answer_to_an_allowed_question_says_so_in_every_way(
        spec in Spec::any(), trace in Trace::strategy(20), share in 0_u64..=64,
    ) {
        let limit = spec.limit();
        let (mut state, now) = lived_until(&limit, &spec, &trace, at(Time::MAX.ticks() / 2));
        let decision: Decision = limit.decide(&mut state, Ask::take(cost(&spec, share), now));
        prop_assert!(decision.remaining <= decision.limit);
        prop_assert_eq!(decision.is_allowed(), matches!(decision.outcome, Outcome::Allowed { .. }));
        prop_assert!(!decision.is_allowed() || decision.retry_after().is_none());
        prop_assert!(decision.is_allowed() || decision.wait().ticks() == 0);
    }
}
