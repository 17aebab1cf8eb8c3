//! The suite notices what is wrong, and tells it in few words.

use tollgate_core::{Ask, Decision, Limit, Outcome, Refund, Time};

use super::run_suite;
use crate::spec::Spec;
use crate::subject::{States, Subject};

/// Answers rightly, but for what `spoil` does to it.
struct Spoilt<F> {
    states: States,
    spoil: F,
}

impl<F: FnMut(&mut Decision)> Subject for Spoilt<F> {
    fn decide(&mut self, key: &[u8], limit: &Limit, ask: Ask) -> Decision {
        let mut decision = self.states.decide(key, limit, ask);
        (self.spoil)(&mut decision);
        decision
    }

    fn give_back(&mut self, key: &[u8], limit: &Limit, refund: Refund) {
        self.states.give_back(key, limit, refund);
    }

    fn used(&mut self, key: &[u8], limit: &Limit, now: Time) -> Option<u64> {
        self.states.used(key, limit, now)
    }
}

fn check_is_noticed(spoil: impl FnMut(&mut Decision) + Copy, told: &str) {
    let make = |spec: &Spec| {
        matches!(spec, Spec::TokenBucket { .. }).then(|| Spoilt { states: States::default(), spoil })
    };
    let divergence = run_suite(make, 50).expect_err("a spoilt answer was not noticed");
    let report = divergence.to_string();
    assert!(report.starts_with("TokenBucket {"), "{report}");
    assert!(report.contains(told) && report.contains("diverged at step #"), "{report}");
    assert!(report.lines().count() <= 18, "a report is short:\n{report}");
}

#[test]
fn every_field_of_an_answer_is_compared() {
    check_is_noticed(|decision| decision.limit += 1, "expected Decision");
    check_is_noticed(|decision| decision.remaining ^= 1, "remain");
    check_is_noticed(|decision| decision.reset_after = None, "got      Decision");
    check_is_noticed(
        |decision| {
            if let Outcome::NotNow { .. } = decision.outcome {
                decision.outcome = Outcome::Busy;
            }
        },
        "denied for",
    );
}

#[test]
fn a_divergence_is_told_with_the_fewest_steps() {
    let make = |_: &Spec| {
        let spoil = |decision: &mut Decision| decision.limit = 77;
        Some(Spoilt { states: States::default(), spoil })
    };
    assert_eq!(run_suite(make, 1).expect_err("spoilt").step(), 0);
}

#[test]
fn who_knows_no_algorithm_plays_nothing() {
    assert_eq!(run_suite(|_| None::<States>, 3).ok(), Some(0));
}
