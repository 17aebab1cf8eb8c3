//! The heaviest keys of this node, found with little memory and next to no time.
//!
//! To count every key would take as much memory as the ledger, and a decision takes less time than a hash map does. So decisions are *sampled*: each thread
//! counts down to the next one that is looked at ([`Sampler`]), and the gaps are random, because traffic that repeats itself would otherwise always show the
//! same of its keys. Each sample weighs as much as the decisions that it stands for. The samples go into a [`Sketch`] of a fixed number of
//! slots, which knows the heaviest keys, how far each count may be off, and forgets with time. A [`Switch`] says which of them are hot.
//!
//! Nothing here decides about requests, so what is counted need not be exact, and is counted in floats.

mod heap;
mod sampler;
mod sketch;
mod switch;
#[cfg(test)]
mod tests;

pub use sampler::{Pace, Sampler};
pub use sketch::{Heavy, Leasing, ShardId, Sighting, Sketch, SketchSettings};
pub use switch::{Heat, Switch, SwitchSettings};
