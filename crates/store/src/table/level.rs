//! How much of its limit a key has used, in eight levels, so that a full table forgets the least used first.
//!
//! The table knows no algorithms: a word says until when its key counts, not how much of its limit that is. So each decision
//! tells the table the key's level, and the slot keeps it in the three lowest bits of its tag. Each level is twice the one
//! below, because what matters is the factor between two keys and not the difference:
//!
//! ```text
//!   level   0      1      2      3      4      5      6      7 (NEAR)
//!   used    < 1/64   1/64   1/32   1/16   1/8    1/4    1/2    7/8 of the limit, or more
//! ```
//!
//! Levels 1 to 6 are told from the number of binary digits, which is cheap and may be off by one. The highest level is exact.
//! A key of the highest level is never evicted.

use tollgate_core::Decision;

/// How many bits of a tag hold the level.
pub(super) const LEVEL_BITS: u32 = 3;
/// All bits of a tag that hold the level.
pub(super) const LEVEL_MASK: u64 = (1 << LEVEL_BITS) - 1;

/// The share of its limit that a key has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level(u8);

impl Level {
    /// Hardly anything is used.
    pub(crate) const LOWEST: Level = Level(0);
    /// At least seven eighths of the limit are used: the key is at its limit or near it.
    pub(crate) const NEAR: Level = Level(7);
    /// A key whose level sinks keeps its old one until the new one is this much lower. Keys around a border between two levels
    /// then do not write their tag with each decision.
    const SINKS_BY: u8 = 2;

    /// The level of a key that got this answer.
    #[inline]
    pub(crate) fn of(decision: &Decision) -> Level {
        let Decision { limit, remaining, .. } = *decision;
        if remaining <= limit >> 3 {
            return Level::NEAR;
        }
        let used = limit.saturating_sub(remaining);
        let halvings = (used | 1).leading_zeros().saturating_sub(limit.leading_zeros());
        #[allow(clippy::cast_possible_truncation)] // At most six.
        Level(6 - halvings.min(6) as u8)
    }

    /// The level in the low bits of a tag.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // Three bits.
    pub(super) fn in_tag(bits: u64) -> Level {
        Level((bits & LEVEL_MASK) as u8)
    }

    #[inline]
    pub(super) fn bits(self) -> u64 {
        u64::from(self.0)
    }

    /// Whether a slot that is marked with this level is to be marked with the other one.
    #[inline]
    pub(super) fn gives_way_to(self, other: Level) -> bool {
        other > self || other.0 + Level::SINKS_BY <= self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use tollgate_core::Outcome;

    use super::*;

    fn check(limit: u64, used: u64, level: u8) {
        let remaining = limit.saturating_sub(used);
        let decision = Decision { outcome: Outcome::ALLOWED, limit, remaining, reset_after: None };
        assert_eq!(Level::of(&decision), Level(level), "{used} of {limit}");
    }

    #[test]
    fn a_level_says_which_part_of_its_limit_a_key_has_used() {
        check(1_000, 0, 0);
        check(1_000, 1, 0);
        check(100, 1, 0);
        check(5, 1, 4);
        check(5, 2, 5);
        check(2, 1, 5);
        check(5, 4, 6);
        check(1_000, 600, 6);
        check(u64::MAX, 1, 0);
        check(u64::MAX, u64::MAX / 2 + 1, 6);
    }

    #[test]
    fn a_key_with_an_eighth_left_or_less_is_near_its_limit() {
        for (limit, used) in [(1, 1), (5, 5), (8, 7), (1_000, 875), (1_000, 1_000), (5, 9), (0, 0)] {
            check(limit, used, 7);
        }
        for (limit, used) in [(1_000, 874), (7, 6)] {
            check(limit, used, 6);
        }
        check(8, 6, 5);
    }

    #[test]
    fn a_mark_rises_at_once_and_sinks_by_two() {
        assert!(Level(3).gives_way_to(Level(4)));
        assert!(!Level(4).gives_way_to(Level(4)));
        assert!(!Level(4).gives_way_to(Level(3)));
        assert!(Level(4).gives_way_to(Level(2)));
        assert!(Level::NEAR.gives_way_to(Level::LOWEST));
    }
}
