//! Levels, and the words that hold them.

use super::*;

fn check(limit: u64, used: u64, level: u8) {
    assert_eq!(Level::of((used, limit)), Level(level), "{used} of {limit}");
}

#[test]
fn a_level_says_which_part_of_its_limit_a_key_has_used() {
    for (limit, used, level) in
        [(1_000, 0, 0), (1, 0, 0), (1_000, 31, 0), (1_000, 32, 1), (1_000, 63, 2), (16, 1, 2)]
    {
        check(limit, used, level);
    }
    check(u64::MAX, 1, 0);
}

#[test]
fn a_key_that_has_used_an_eighth_of_its_limit_is_spared() {
    for (limit, used) in [(1, 1), (5, 1), (8, 1), (1_000, 125), (1_000, 1_000), (5, 9)] {
        check(limit, used, 3);
    }
    check(u64::MAX, u64::MAX / 8 + 1, 3);
    for (limit, used) in [(1_000, 124), (9, 1)] {
        check(limit, used, 2);
    }
}

#[test]
fn a_word_holds_a_state_and_its_level() {
    for state in [0, 1, tollgate_core::WORD_MAX] {
        for level in 0..4 {
            let word = Word::new(state, Level(level));
            assert_eq!((word.state(), word.level()), (state, Level(level)));
        }
    }
}
