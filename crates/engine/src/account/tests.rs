//! Names of accounts: whole where they are short, and never the same where they differ.

use super::{NAME_BYTES_MAX, cut};

#[test]
fn short_names_stay_as_they_are() {
    assert_eq!(&*cut("acme".to_owned()), "acme");
    let longest = "x".repeat(NAME_BYTES_MAX);
    assert_eq!(*cut(longest.clone()), *longest);
}

#[test]
fn long_names_are_cut_and_still_differ() {
    let one = cut("é".repeat(NAME_BYTES_MAX) + "1");
    let other = cut("é".repeat(NAME_BYTES_MAX) + "2");
    assert!(one.len() <= NAME_BYTES_MAX && other.len() <= NAME_BYTES_MAX);
    assert_ne!(one, other);
}

#[test]
fn what_no_database_takes_is_replaced() {
    assert_eq!(&*cut("a\0b".to_owned()), "a\u{fffd}b");
}
