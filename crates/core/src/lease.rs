//! Units that are granted ahead of need: how many at once, and until when they may be spent.
//!
//! Whoever counts for many (an authority) grants a block of units; whoever has it spends it without asking. The units count from the moment
//! of the grant. So where limits count in windows, a block ends with the window that counted it: whatever is spent of it by then, the limit
//! itself would have admitted at that moment too. A bucket and a log know no windows: there a block moves units to a later moment, and
//! as many as are out at once may be spent on top of what the limit allows. A reserve takes them off beforehand.

use crate::ask::{Ask, Cost};
use crate::decision::Decision;
use crate::limit::{Limit, State};
use crate::time::Time;

impl Limit {
    /// Whether units can be granted ahead of need. Those of a queue come with a wait each, and those that are held have a name each.
    pub fn is_leasable(&self) -> bool {
        match self {
            Limit::TokenBucket(_)
            | Limit::LeakyBucket(_)
            | Limit::FixedWindow(_)
            | Limit::SlidingWindow(_)
            | Limit::SubWindows(_)
            | Limit::SlidingLog(_) => true,
            Limit::LeakyQueue(_) | Limit::Concurrency(_) | Limit::Blocked(_) => false,
        }
    }

    /// When the window ends that counts what is taken at a moment, in the key's own time. None where there are no windows.
    pub fn counts_until(&self, taken_at: Time) -> Option<Time> {
        match self {
            Limit::FixedWindow(limit) => Some(limit.window_at(taken_at).end),
            Limit::SlidingWindow(limit) => Some(limit.window_at(taken_at).end),
            Limit::SubWindows(limit) => Some(limit.sub_window_at(taken_at).end),
            _ => None,
        }
    }

    /// Takes as many of the wanted units as there are for one of so many nodes. One unit is asked for at least: where there is none, the answer is a
    /// denial that tells when there will be.
    pub fn lease(&self, state: &mut State, wanted: u64, nodes: u64, now: Time) -> (Decision, u64) {
        let room = self.decide(state, Ask::peek(Cost::ZERO, now)).remaining;
        let units = lease_units(wanted, room, nodes);
        let decision = self.decide(state, Ask::take(Cost::new(units), now));
        (decision, if decision.is_allowed() { units } else { 0 })
    }

    /// The limit with so many units less at once, so that as many may be out in blocks without anything being admitted beyond this limit. None
    /// if nothing is left, or where there can be no blocks.
    pub fn with_reserve(&self, units: u64) -> Option<Limit> {
        match self {
            Limit::TokenBucket(limit) => Some(limit.with_reserve(units)?.into()),
            Limit::LeakyBucket(limit) => Some(limit.with_reserve(units)?.into()),
            Limit::SlidingLog(limit) => Some(limit.with_reserve(units)?.into()),
            Limit::FixedWindow(_) | Limit::SlidingWindow(_) | Limit::SubWindows(_) => Some(self.clone()),
            Limit::LeakyQueue(_) | Limit::Concurrency(_) | Limit::Blocked(_) => None,
        }
    }
}

/// How large a block is for one of so many nodes where so much room is left: near the limit, the last units are granted one by one.
pub(crate) fn lease_units(wanted: u64, room: u64, nodes: u64) -> u64 {
    wanted.min(room / nodes.max(1)).max(1)
}
