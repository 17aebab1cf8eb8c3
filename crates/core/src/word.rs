//! States of one machine word, for tables that change them with one compare-and-swap.
//!
//! Every word obeys one rule: **a word that is not above `now` answers like a key that was never seen.** So a
//! table can forget idle keys without knowing the algorithm, and of two words the smaller one is the one whose
//! loss forgives less. A bucket's word is its TAT, which is that moment exactly. A window's word carries the
//! moment rounded up in its high bits, and its counters below:
//!
//! ```text
//!   63                              s s-1                    0
//!  +---------------------------------+------------------------+
//!  | ceil(end of relevance / 2^s)    | counters               |    2^s <= length of the shortest window
//!  +---------------------------------+------------------------+
//! ```
//!
//! Ends of windows lie at least 2^s apart, so no two windows share their high bits, and nothing is lost.
//! Where the counters do not fit into s bits, the limit does not pack and its state is stored whole. The same holds for limits
//! of many years: every word stays below [`WORD_MAX`].

use crate::algorithm::Algorithm;
use crate::ask::Ask;
use crate::decision::Decision;
use crate::time::Time;
use crate::window::Windows;

/// An algorithm whose state fits a word, at least for some of its numbers.
pub trait Packed: Algorithm {
    /// What can be told from the time alone: computed once for a question, however often its word is swapped.
    type Moment: Copy;

    /// Whether every state of this limit fits.
    fn packs(&self) -> bool;

    /// The state as a word.
    fn pack(&self, state: &Self::State) -> u64;

    /// The state of a word; zero is the key that was never seen.
    fn unpack(&self, word: u64) -> Self::State;

    /// Which part of the limit a state that is in force has used: so many of so many, of ticks or of units. An upper bound where
    /// that is cheaper.
    fn used_part(&self, word: u64, now: Time) -> (u64, u64);

    /// What there is to know about `now`.
    fn moment(&self, now: Time) -> Self::Moment;

    /// The state of a word as far as it matters at a moment: where that is cheaper, what has expired may be taken for
    /// never seen.
    #[inline]
    fn unpack_at(&self, word: u64, _moment: Self::Moment) -> Self::State {
        self.unpack(word)
    }

    /// As [`Algorithm::decide`] on the state that `word` stands for: what is to be stored, where anything changed.
    ///
    /// Apart from [`Packed::decide_word`], so that the loop around a compare-and-swap computes no answers: inlined, all
    /// that does not bear on the word falls away.
    #[inline(always)]
    #[allow(clippy::inline_always)] // Measured: a call in this place costs as much as the swap itself.
    fn next_word(&self, word: u64, ask: Ask, moment: Self::Moment) -> Option<u64> {
        let before = self.unpack_at(word, moment);
        let mut state = before.clone();
        self.decide(&mut state, ask);
        (state != before).then(|| self.pack(&state))
    }

    /// As [`Algorithm::decide`] on the state that `word` stands for: the answer.
    #[inline]
    fn decide_word(&self, word: u64, ask: Ask, moment: Self::Moment) -> Decision {
        self.decide(&mut self.unpack_at(word, moment), ask)
    }

    /// As [`Packed::decide_word`], for the answer's place: a seldom path that returns its answer would have the usual one
    /// put together somewhere else, and copied.
    #[inline]
    fn decide_word_into(&self, decision: &mut Decision, word: u64, ask: Ask, moment: Self::Moment) {
        *decision = self.decide_word(word, ask, moment);
    }
}

/// Somebody who works with the algorithm behind a limit, whichever it is. A store that visits a limit asks once
/// which algorithm it has, and the compiler makes one straight path for each.
pub trait PackedVisitor {
    /// What the visit is for.
    type Answer;

    /// Called with the algorithm and the limit's [`crate::Limit::shape`].
    fn visit<A: Packed>(self, algorithm: &A, shape: u64) -> Self::Answer;
}

/// The largest number that stands for a state. Stores keep something of their own in the two bits above.
pub const WORD_MAX: u64 = (1 << 62) - 1;

/// How far beyond the moment of a decision the number may lie that stands for a state: 36 years of nanoseconds.
pub(crate) const BEYOND_MAX: u64 = 1 << 60;

const _: () = assert!(Time::MAX.0 + BEYOND_MAX <= WORD_MAX);

/// How the bits of a window's word are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WordLayout {
    payload_bits: u32,
}

impl WordLayout {
    pub(crate) fn for_windows(windows: &Windows) -> WordLayout {
        // A window and the next one, both rounded up: see `join`. No count fits no bits.
        let packs = windows.length_max().0 <= BEYOND_MAX / 4;
        WordLayout { payload_bits: if packs { windows.length_min().0.ilog2() } else { 0 } }
    }

    pub(crate) fn payload_bits(self) -> u32 {
        self.payload_bits
    }

    pub(crate) fn payload_max(self) -> u64 {
        (1 << self.payload_bits) - 1
    }

    #[inline]
    pub(crate) fn join(self, relevant_until: Time, payload: u64) -> u64 {
        debug_assert!(payload <= self.payload_max());
        (self.head_for(relevant_until) << self.payload_bits) | payload
    }

    /// The high bits of words that are relevant until `end`.
    #[inline]
    pub(crate) fn head_for(self, end: Time) -> u64 {
        end.0.div_ceil(1 << self.payload_bits)
    }

    /// The high bits of a word. The larger, the longer it is relevant.
    #[inline]
    pub(crate) fn head(self, word: u64) -> u64 {
        word >> self.payload_bits
    }

    #[inline]
    pub(crate) fn payload(self, word: u64) -> u64 {
        word & self.payload_max()
    }

    /// A moment within the last window in which the word is relevant, and the payload.
    #[inline]
    pub(crate) fn split(self, word: u64) -> Option<(Time, u64)> {
        let inside = Time(self.head(word).checked_sub(1)? << self.payload_bits);
        Some((inside, self.payload(word)))
    }
}
