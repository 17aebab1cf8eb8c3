//! What a request asks of the ledger: so much of one key under one limit.

use tollgate_core::{Cost, Intent, Limit};

use super::Key;

/// One limit, one key, one cost.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// Whose counter.
    pub key: Key,
    /// Under which limit.
    pub limit: &'a Limit,
    /// How many units.
    pub cost: Cost,
    /// What the question may change.
    pub intent: Intent,
    /// Counts and reports, but stops nothing: see [`super::Ledger::decide_all`].
    pub shadow: bool,
}

impl<'a> Charge<'a> {
    /// Takes the units if the limit admits them.
    pub const fn take(key: Key, limit: &'a Limit, cost: Cost) -> Charge<'a> {
        Charge { key, limit, cost, intent: Intent::Take, shadow: false }
    }

    /// Only asks.
    pub const fn peek(key: Key, limit: &'a Limit, cost: Cost) -> Charge<'a> {
        Charge { intent: Intent::Peek, ..Charge::take(key, limit, cost) }
    }

    /// Writes down what is already spent.
    pub const fn book(key: Key, limit: &'a Limit, cost: Cost) -> Charge<'a> {
        Charge { intent: Intent::Book, ..Charge::take(key, limit, cost) }
    }
}
