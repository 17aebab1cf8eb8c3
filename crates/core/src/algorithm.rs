//! One file per algorithm, all behind one trait.
//!
//! To add one: write its file here and its twin in Lua beside it, name it in the registry of `limit.rs`, and give it an oracle in `testkit`.
//! The conformance suite iterates over the registry.

pub mod blocked;
pub mod concurrency;
pub mod fixed_window;
pub mod leaky_bucket;
pub mod leaky_queue;
pub mod sliding_log;
pub mod sliding_window;
pub mod sub_windows;
pub mod token_bucket;

use std::fmt::Debug;

use crate::ask::{Ask, Refund};
use crate::decision::Decision;
use crate::time::{Span, Time};

/// A rate limiting algorithm with its validated numbers.
pub trait Algorithm {
    /// What is remembered of one key. The default is a key that was never seen.
    type State: Clone + Debug + Default + PartialEq;

    /// Answers a question, and takes or books what it asks for. A denied [`crate::Intent::Take`] and every
    /// [`crate::Intent::Peek`] leave the state as it was. The one exception: a state that this limit cannot have written
    /// (a larger limit has, or a clock that was set back since) is trimmed to one it can, and a denied `Take` keeps that, or
    /// the moment it promises would never come.
    fn decide(&self, state: &mut Self::State, ask: Ask) -> Decision;

    /// Gives units back. A key never becomes richer than unused.
    fn give_back(&self, state: &mut Self::State, refund: Refund);

    /// How many units count as used at `now`, rounded up; more than the limit where debt was booked.
    fn used(&self, state: &Self::State, now: Time) -> u64;

    /// From when on the state answers like one that was never seen, so that forgetting it is free.
    fn expires_at(&self, state: &Self::State) -> Time;

    /// Memory that a state holds beyond its own size.
    fn heap_bytes(_state: &Self::State) -> usize {
        0
    }

    /// The period over which the windows of different keys are spread, where they are.
    fn jitter(&self) -> Option<Span> {
        None
    }

    /// The time on the clock of one key: where a limit is jittered, its keys' windows begin at different offsets, which
    /// is to say that their clocks are ahead by different spans. Every other call takes the key's own time.
    #[inline]
    fn key_time(&self, key_hash: u64, now: Time) -> Time {
        match self.jitter() {
            None => now,
            Some(period) => Time::from_ticks(now.0 + key_hash % period.0),
        }
    }

    /// Tells states apart that cannot be read with each other's numbers: two limits of one algorithm with the
    /// same shape can share a state, so a rule that changes within its shape just goes on.
    fn shape(&self) -> u64;
}
