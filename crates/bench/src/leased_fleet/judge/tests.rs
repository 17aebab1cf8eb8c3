//! The judge condemns what is beyond a bound, and nothing else.
use super::{CLOCKS_APART_US, Row, row};
use crate::leased_fleet::limits::{Algorithm, Consistency, INTERVAL_US, PERIOD_US, Policy, UNITS};
use crate::leased_fleet::load::{Asked, Demand, Outcome};

/// A moment at which a window begins.
const BEGIN_US: u64 = 1_000_000 * PERIOD_US;
/// Well inside a window, by any clock.
const INSIDE_US: u64 = BEGIN_US + PERIOD_US / 2;

/// So many requests that a lease admitted between two moments.
fn leased(policy: Policy, count: u64, sent_us: u64, answered_us: u64) -> Vec<Asked> {
    let asked = Asked { policy, demand: Demand::Near, sent_us, answered_us, outcome: Outcome::Leased };
    vec![asked; count as usize]
}

fn policy(algorithm: Algorithm, consistency: Consistency) -> Policy {
    Policy { algorithm, consistency }
}

/// How many units are beyond the bound: all of them are admitted, in groups of so many at a moment.
fn beyond(policy: Policy, groups: &[(u64, u64)]) -> u64 {
    let asked: Vec<Asked> =
        groups.iter().flat_map(|&(count, at_us)| leased(policy, count, at_us, at_us)).collect();
    row(policy, &asked).unwrap().beyond
}

#[test]
fn a_bucket_may_be_half_as_large_again_unless_it_is_strict() {
    let bucket = |consistency| policy(Algorithm::TokenBucket, consistency);
    for (consistency, most) in
        [(Consistency::Exact, UNITS), (Consistency::Leased, UNITS * 3 / 2), (Consistency::Strict, UNITS)]
    {
        assert_eq!(beyond(bucket(consistency), &[(most, INSIDE_US)]), 0);
        assert_eq!(beyond(bucket(consistency), &[(most, INSIDE_US), (1, INSIDE_US + INTERVAL_US - 1)]), 1);
        assert_eq!(beyond(bucket(consistency), &[(most, INSIDE_US), (1, INSIDE_US + INTERVAL_US)]), 0);
    }
}

#[test]
fn a_log_may_be_half_as_large_again_unless_it_is_strict() {
    let log = |consistency| policy(Algorithm::SlidingLog, consistency);
    for (consistency, most) in [(Consistency::Leased, UNITS * 3 / 2), (Consistency::Strict, UNITS)] {
        assert_eq!(beyond(log(consistency), &[(most, INSIDE_US), (most, INSIDE_US + PERIOD_US)]), 0);
        assert_eq!(beyond(log(consistency), &[(most, INSIDE_US), (3, INSIDE_US + PERIOD_US - 1)]), 3);
    }
}

#[test]
fn windows_admit_what_their_oracle_does_and_nothing_more() {
    for consistency in [Consistency::Exact, Consistency::Leased, Consistency::Strict] {
        let fixed = policy(Algorithm::FixedWindow, consistency);
        assert_eq!(beyond(fixed, &[(UNITS, INSIDE_US), (UNITS, INSIDE_US + PERIOD_US)]), 0);
        assert_eq!(beyond(fixed, &[(UNITS + 2, INSIDE_US)]), 2);
        let sliding = policy(Algorithm::SlidingWindow, consistency);
        // In the middle of the next window, half of the last one counts.
        assert_eq!(beyond(sliding, &[(UNITS, INSIDE_US), (UNITS / 2, INSIDE_US + PERIOD_US)]), 0);
        assert_eq!(beyond(sliding, &[(UNITS, INSIDE_US), (UNITS / 2 + 5, INSIDE_US + PERIOD_US)]), 5);
    }
}

#[test]
fn whose_window_is_not_certain_is_passed_over() {
    let fixed = policy(Algorithm::FixedWindow, Consistency::Leased);
    let mut asked = leased(fixed, UNITS, INSIDE_US, INSIDE_US);
    let end_us = BEGIN_US + PERIOD_US;
    asked.extend(leased(fixed, 5, end_us - CLOCKS_APART_US - 9, end_us + 1));
    assert_eq!(row(fixed, &asked).unwrap().beyond, 0);
    asked.extend(leased(fixed, 5, end_us - CLOCKS_APART_US - 9, end_us - CLOCKS_APART_US - 1));
    assert_eq!(row(fixed, &asked).unwrap().beyond, 5);
}

#[test]
fn the_oracle_is_asked_for_all_and_fail_modes_are_counted() {
    let bucket = policy(Algorithm::TokenBucket, Consistency::Leased);
    let mut asked = leased(bucket, 7, INSIDE_US, INSIDE_US);
    for (index, outcome) in [Outcome::FailMode, Outcome::Unanswered].into_iter().enumerate() {
        asked[index].outcome = outcome;
    }
    asked[2].outcome = Outcome::Decided { is_admitted: false, at_us: INSIDE_US };
    let expected = Row {
        asked: 7,
        by_lease: 4,
        by_fail_mode: 1,
        unanswered: 1,
        admitted: 4,
        oracle: 7,
        worst: 4,
        beyond: 0,
    };
    assert_eq!(row(bucket, &asked).unwrap(), expected);
}

#[test]
fn clocks_that_differ_are_told() {
    let bucket = policy(Algorithm::TokenBucket, Consistency::Exact);
    let mut asked = leased(bucket, 1, INSIDE_US, INSIDE_US + 10);
    for (at_us, is_right) in [
        (INSIDE_US - CLOCKS_APART_US, true),
        (INSIDE_US - CLOCKS_APART_US - 1, false),
        (INSIDE_US + 10 + CLOCKS_APART_US, true),
        (INSIDE_US + 11 + CLOCKS_APART_US, false),
    ] {
        asked[0].outcome = Outcome::Decided { is_admitted: true, at_us };
        assert_eq!(row(bucket, &asked).is_ok(), is_right, "{at_us}");
    }
}
