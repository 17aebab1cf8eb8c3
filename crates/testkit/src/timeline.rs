//! On which timeline a suite is played: how long a tick is, and which numbers there are.
//!
//! The ledger counts nanoseconds in 64 bits, and a script coarser ticks in 53. The same limits and the same histories are tried on both, each at
//! the ends of its own numbers.

use tollgate_core::{Tick, Time};

/// A timeline, and the largest numbers on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The length of a tick.
    pub tick: Tick,
    /// The last moment.
    pub end: Time,
    /// The longest span is two to the power of this.
    pub(crate) span_bits: u32,
    /// The most units of a window.
    pub(crate) units_max: u64,
}

impl Timeline {
    /// That of the ledger.
    pub const LEDGER: Timeline =
        Timeline { tick: Tick::NANOSECOND, end: Time::MAX, span_bits: 62, units_max: u64::MAX };

    /// That of scripts inside Redis, at this tick.
    pub fn shared(tick: Tick) -> Timeline {
        // Scripts count to 2^53. Processes read the moments of Redis as nanoseconds, which end sooner.
        let end_us = Time::MAX.ticks() / 1_000;
        let end = end_us / tick.length_us() - 1;
        Timeline {
            tick,
            end: Time::from_ticks(end),
            span_bits: (end_us / 2 / tick.length_us()).ilog2(),
            units_max: 1 << 45,
        }
    }

    /// The ticks of a second.
    pub(crate) fn second(&self) -> u64 {
        1_000_000_000 / self.tick.length_ns()
    }
}
