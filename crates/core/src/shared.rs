//! A limit as a whole fleet shares it: the same algorithm, run by Redis, at a tick that its numbers can hold.
//!
//! The twin of an algorithm is a Lua script beside its Rust file. Lua computes with doubles, which hold whole numbers up to 2^53: enough
//! for microseconds since 1970, not for nanoseconds. So a shared limit is the limit of the rule at a coarser tick. At that tick,
//! the script and `core` give the same answers.

use crate::error::LimitError;
use crate::limit::Limit;
use crate::time::Tick;

/// A limit at the tick of a shared count.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedLimit {
    limit: Limit,
    tick: Tick,
}

/// The twin of an algorithm that runs inside Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// The algorithm, one of [`Limit::ALGORITHMS`].
    pub name: &'static str,
    /// What Redis runs. It never changes while a process lives, whatever the limits are.
    pub text: &'static str,
}

impl SharedLimit {
    /// The limit of a rule, which counts nanoseconds, at the finest tick that a script can count in.
    pub fn new(limit: &Limit) -> Result<SharedLimit, LimitError> {
        Ok(SharedLimit { limit: limit.clone(), tick: Tick::MICROSECOND })
    }

    /// The limit as the script knows it: what decides the same way, at the same tick.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// shape
    pub fn shape(&self) -> u64 {
        self.limit.shape()
    }

    /// The tick of the shared count.
    pub fn tick(&self) -> Tick {
        self.tick
    }
}
