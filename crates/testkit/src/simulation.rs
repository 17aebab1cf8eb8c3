//! A fleet in a box: nodes with the lease machines of the product, an authority, a network that loses, delays and repeats, and one clock that is made up.
//!
//! A *schedule* is drawn from a seed: the limit, the nodes, the load, and everything that goes wrong. It runs event by event, and after each
//! of them the invariants are judged: nothing is admitted beyond the published bound, no unit is spent twice or both spent and given back, a
//! booking is counted once, nothing comes back to a count that was reset since, and no more units are out of reach than is stated. The same
//! seed gives the same run, so a failure is told as a seed.

mod authority;
mod draw;
mod events;
mod extras;
mod invariants;
mod judge;
mod lent;
mod network;
mod node;
mod outcome;
mod requests;
mod world;

pub use draw::Schedule;
pub use outcome::{Outcome, Violation};
pub use world::run;
