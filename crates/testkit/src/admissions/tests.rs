//! What is found in admissions whose worst interval is known.

use super::{Admission, Admissions};

/// Units that were admitted between two moments.
fn admissions(all: &[(u64, u64, u64)]) -> Admissions {
    all.iter().map(|&(from_us, to_us, units)| Admission { from_us, to_us, units }).collect()
}

/// The most within 10, and the least burst at one unit in 5.
fn check(all: &[(u64, u64, u64)], most: u64, burst: u64) {
    let admissions = admissions(all);
    assert_eq!((admissions.most_within(10), admissions.least_burst(5)), (most, burst), "{all:?}");
}

#[test]
fn intervals_count_what_lies_inside() {
    check(&[], 0, 0);
    check(&[(7, 7, 3)], 3, 3);
    check(&[(0, 0, 3), (9, 9, 3)], 6, 5);
    check(&[(0, 0, 3), (10, 10, 3)], 3, 4);
    check(&[(0, 0, 3), (100, 100, 4), (101, 101, 1)], 5, 5);
}

#[test]
fn the_worst_need_not_be_at_the_end() {
    check(&[(0, 0, 1), (20, 20, 5), (21, 21, 5), (60, 60, 1)], 10, 10);
}

#[test]
fn what_may_have_been_outside_does_not_count() {
    // Nobody knows whether the one that took long was decided before the other two, between, or after.
    check(&[(0, 50, 3), (20, 20, 2), (24, 24, 2)], 4, 4);
    // They may all have been decided in one moment, or as far apart as can be.
    check(&[(0, 4, 3), (1, 6, 3)], 6, 5);
}

#[test]
fn order_does_not_matter() {
    check(&[(10, 10, 3), (0, 0, 3), (5, 5, 3)], 6, 7);
    assert_eq!(admissions(&[(10, 10, 3), (0, 0, 3)]).units(), 6);
}
