//! A node's share of a limit, for when nodes cannot ask each other.
//!
//! Each of K nodes then enforces a K-th of the limit by itself, rounded down, so that all of them together admit no more than the limit
//! does. A share has at least one unit, or a small limit would deny everything; where there are more nodes than units (or than places
//! in a burst), the nodes together may therefore admit one each.

use std::num::NonZeroU32;

use crate::limit::Limit;
use crate::time::Span;

/// A part of a whole, at most all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    numerator: u32,
    denominator: u32,
}

impl Share {
    /// What one of so many equal nodes has.
    pub const fn of_one_in(nodes: NonZeroU32) -> Share {
        Share { numerator: 1, denominator: nodes.get() }
    }

    /// So many hundredths, 1 to 100.
    pub const fn percent(percent: u32) -> Option<Share> {
        match percent {
            1..=100 => Some(Share { numerator: percent, denominator: 100 }),
            _ => None,
        }
    }

    /// The share of so many units, rounded down, but one at least.
    pub(crate) fn of(self, units: u64) -> u64 {
        let part = u128::from(units) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(part).unwrap_or(u64::MAX).max(1)
    }

    /// How long a unit takes to come back if the share of the rate is all there is: rounded up, which never admits more.
    pub(crate) fn interval_ticks(self, interval_ticks: u64) -> u64 {
        let ticks = u128::from(interval_ticks) * u128::from(self.denominator);
        let ticks = u64::try_from(ticks.div_ceil(u128::from(self.numerator))).unwrap_or(u64::MAX);
        ticks.min(Span::MAX.0)
    }
}

impl Limit {
    /// The limit that a node with this share enforces. Its states can be read with the numbers of the whole, and the other way round.
    #[must_use]
    pub fn share(&self, share: Share) -> Limit {
        match self {
            Limit::TokenBucket(limit) => limit.share(share).into(),
            Limit::LeakyBucket(limit) => limit.share(share).into(),
            Limit::LeakyQueue(limit) => limit.share(share).into(),
            Limit::FixedWindow(limit) => limit.share(share).into(),
            Limit::SlidingWindow(limit) => limit.share(share).into(),
            Limit::SubWindows(limit) => limit.share(share).into(),
            Limit::SlidingLog(limit) => limit.share(share).into(),
            Limit::Concurrency(limit) => limit.share(share).into(),
            Limit::Blocked(limit) => (*limit).into(),
        }
    }
}
