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
//! Where the counters do not fit into s bits, the limit does not pack and its state is stored whole.

use crate::algorithm::Algorithm;
use crate::time::Time;
use crate::window::Windows;

/// An algorithm whose state fits a word, at least for some of its numbers.
pub trait Packed: Algorithm {
    /// Whether every state of this limit fits.
    fn packs(&self) -> bool;

    /// The state as a word.
    fn pack(&self, state: &Self::State) -> u64;

    /// The state of a word; zero is the key that was never seen.
    fn unpack(&self, word: u64) -> Self::State;
}

/// How the bits of a window's word are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WordLayout {
    payload_bits: u32,
}

impl WordLayout {
    pub(crate) fn for_windows(windows: &Windows) -> WordLayout {
        WordLayout { payload_bits: windows.length_min().0.ilog2() }
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
        (relevant_until.0.div_ceil(1 << self.payload_bits) << self.payload_bits) | payload
    }

    /// A moment within the last window in which the word is relevant, and the payload.
    #[inline]
    pub(crate) fn split(self, word: u64) -> Option<(Time, u64)> {
        let end = word >> self.payload_bits;
        let inside = Time(end.checked_sub(1)? << self.payload_bits);
        Some((inside, word & self.payload_max()))
    }
}
