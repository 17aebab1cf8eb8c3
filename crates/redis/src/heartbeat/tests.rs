//! Which counts are believed.

use super::*;

/// What is believed after each of these counts, where three nodes were believed.
fn check(counted: &[Option<u32>], believed: &[u32]) {
    let (mut counts, mut nodes) = (Counts::default(), 3);
    let after = |counted: &Option<u32>| {
        nodes = counts.believed(nodes, *counted);
        nodes
    };
    assert_eq!(counted.iter().map(after).collect::<Vec<_>>(), believed, "{counted:?}");
}

#[test]
fn a_smaller_count_is_believed_when_it_stays() {
    check(&[Some(2); 6], &[3, 3, 3, 3, 2, 2]);
    // As many as were there at any time.
    check(&[1, 2, 1, 1, 1, 1, 1, 1, 1, 1].map(Some), &[3, 3, 3, 3, 2, 2, 2, 2, 2, 1]);
}

#[test]
fn a_larger_count_is_believed_at_once() {
    check(&[Some(4), Some(9)], &[4, 9]);
    check(&[1, 1, 1, 1, 3, 1, 1, 1, 1].map(Some), &[3; 9]);
}

#[test]
fn what_was_counted_before_the_authority_was_away_does_not_count() {
    check(&[None; 9], &[3; 9]);
    check(&[Some(1), Some(1), None, Some(1), Some(1), Some(1), Some(1), Some(1)], &[3, 3, 3, 3, 3, 3, 3, 1]);
}
