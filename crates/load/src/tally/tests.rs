//! Counts add up, and nothing that was late is left out.

use super::{Answer, Tally};

fn tally() -> Tally {
    Tally::new().unwrap()
}

#[test]
fn what_was_never_sent_counts_as_long_as_it_waited() {
    let mut tally = tally();
    tally.answer(Answer::Allowed, 1_000);
    tally.give_up_unsent(9, 1_000_000_000);
    assert_eq!((tally.decided(), tally.unsent), (1, 9));
    assert!(tally.latency_ns.value_at_quantile(0.5) > 990_000_000);
}

#[test]
fn what_was_never_answered_counts_as_long_as_it_waited() {
    let mut tally = tally();
    tally.answer(Answer::Allowed, 1_000);
    tally.give_up_unanswered(9, 1_000_000_000);
    assert_eq!((tally.decided(), tally.unanswered), (1, 9));
    assert!(tally.latency_ns.value_at_quantile(0.5) > 990_000_000);
}

#[test]
fn errors_count_as_long_as_they_took_and_the_first_is_kept() {
    let mut tally = tally();
    tally.answer(Answer::Refused("first".to_owned()), 2_000_000);
    tally.fail(2, 1_000_000_000, || "second".to_owned());
    assert_eq!((tally.errors, tally.ended(), tally.latency_ns.len()), (3, 3, 3));
    assert!(tally.latency_ns.min() > 1_900_000 && tally.latency_ns.value_at_quantile(0.5) > 990_000_000);
    assert_eq!(tally.first_error.as_deref(), Some("first"));
}

#[test]
fn what_takes_longer_than_can_be_told_is_told_as_the_longest() {
    let mut tally = tally();
    tally.answer(Answer::Allowed, u64::MAX);
    assert!(tally.latency_ns.max() >= 600_000_000_000);
}
