//! How much of its limit a key has used, in four levels, so that a full table forgets the least used first.
//!
//! The table knows no algorithms: a state says until when its key counts, not how much of its limit that is. So whoever stores
//! a state says its level, and both are one word:
//!
//! ```text
//!   63     62 61                                         0     level    0        1        2        3 (SPARED)
//!  +---------+--------------------------------------------+    used     < 1/32   < 1/16   < 1/8    1/8 of the limit, or more
//!  | level   | state                                      |
//!  +---------+--------------------------------------------+
//! ```
//!
//! A key of the highest level is never evicted, so an eviction forgives less than an eighth of a limit. A key whose limit is
//! eight or less is spared from its first unit on.

use std::hint::cold_path;

const STATE_BITS: u32 = u64::BITS - 2;
const STATE_MASK: u64 = (1 << STATE_BITS) - 1;
const _: () = assert!(tollgate_core::WORD_MAX <= STATE_MASK);

/// The share of its limit that a key has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level(u8);

impl Level {
    /// Hardly anything is used.
    #[cfg(test)]
    pub(crate) const LOWEST: Level = Level(0);
    /// At least an eighth of the limit is used: the key is never evicted.
    pub(crate) const SPARED: Level = Level(3);

    /// The level of a key that has used so many of so many.
    #[inline]
    pub(crate) fn of((used, limit): (u64, u64)) -> Level {
        // `used > below >> 3` is `used >= limit / 8`, also where that is less than one. No limit is zero.
        let below = limit.wrapping_sub(1);
        // Branches, not a sum: the next decision on a hot key waits for this word, but not for a branch that was predicted.
        if used <= below >> 5 {
            return Level(0);
        }
        cold_path(); // Keeps the compiler from turning the branch into arithmetic.
        if used > below >> 3 { Level::SPARED } else { Level(1 + u8::from(used > below >> 4)) }
    }
}

/// A state and its level. No word of a state that is in use is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    /// Of a key that was never seen.
    pub(super) const UNUSED: Word = Word(0);

    #[inline]
    pub(crate) fn new(state: u64, level: Level) -> Word {
        debug_assert!(state <= STATE_MASK, "{state}");
        Word(state | u64::from(level.0) << STATE_BITS)
    }

    #[inline]
    pub(super) fn from_bits(bits: u64) -> Word {
        Word(bits)
    }

    #[inline]
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn state(self) -> u64 {
        self.0 & STATE_MASK
    }

    #[allow(clippy::cast_possible_truncation)] // Two bits.
    pub(super) fn level(self) -> Level {
        Level((self.0 >> STATE_BITS) as u8)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
