//! Leases: units of a shared limit that this node may spend without asking.
//!
//! An authority grants a block of units of one key; until its deadline, they are spent here, in memory. A [`Purse`] is what a node has of one
//! key; [`Purses`] are those of all keys. Neither does I/O or knows what time it is: requests, grants and time go in, decisions and
//! *errands* (what is to be asked of the authority, and what is to be given back) come out.
//!
//! What holds at every moment, whatever is lost, late, or comes twice:
//! - a node has at most [`Terms::units_max`] units of a key, in its purse and on the way to it together;
//! - a unit is spent once, or given back once, never both;
//! - nothing is spent or given back after its deadline, which the node counts from the moment at which it asked: the authority, which counts from the
//!   moment at which it granted, is never earlier.

mod census;
mod purse;
mod purses;
#[cfg(test)]
mod tests;

pub use census::{Census, Counted, PRESENT_FOR};
pub use purse::{Granted, Purse, Spent, Terms};
pub use purses::{Errand, LeaseStats, Leased, Purses, PursesSettings, UnconfirmedStats, Wanted};
