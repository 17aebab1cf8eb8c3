//! How a limit counts, apart from its numbers: enough to build it again with others.
//!
//! A tier has its numbers from the same file, and is built when that is read. An override of one tenant, and a boost of one key, come later
//! and from elsewhere: they keep the algorithm of the rule, and everything else that it says.

use std::time::Duration;

use tollgate_core::{
    Blocked, Calendar, Concurrency, FixedWindow, LeakyBucket, LeakyQueue, Limit, LimitError, OldestCounts,
    Rate, SlidingLog, SlidingWindow, SubWindows, Tick, TokenBucket, Windows,
};

use crate::keys::ALGORITHMS;
use crate::rule::{Allowance, Consistency, DefaultAlgorithm, Period, Quota, RuleLimit};
use crate::tenant::OverrideNumbers;

/// The algorithms as files name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    TokenBucket,
    LeakyBucket,
    FixedWindow,
    SlidingWindow,
    SlidingLog,
    Concurrency,
}

impl Named {
    /// In the order of the key table.
    pub(crate) const ALL: [Named; 6] = [
        Named::TokenBucket,
        Named::LeakyBucket,
        Named::FixedWindow,
        Named::SlidingWindow,
        Named::SlidingLog,
        Named::Concurrency,
    ];

    /// As it is written.
    pub(crate) fn name(self) -> &'static str {
        ALGORITHMS[self as usize]
    }

    pub(crate) fn has_burst(self) -> bool {
        matches!(self, Named::TokenBucket | Named::LeakyBucket)
    }

    pub(crate) fn has_windows(self) -> bool {
        matches!(self, Named::FixedWindow | Named::SlidingWindow)
    }

    /// The one that counts by this limit, if it counts at all.
    fn of(limit: &Limit) -> Option<Named> {
        match limit {
            Limit::TokenBucket(_) => Some(Named::TokenBucket),
            Limit::LeakyBucket(_) | Limit::LeakyQueue(_) => Some(Named::LeakyBucket),
            Limit::FixedWindow(_) => Some(Named::FixedWindow),
            Limit::SlidingWindow(_) | Limit::SubWindows(_) => Some(Named::SlidingWindow),
            Limit::SlidingLog(_) => Some(Named::SlidingLog),
            Limit::Concurrency(_) => Some(Named::Concurrency),
            Limit::Blocked(_) => None,
        }
    }
}

/// What a rule says about how it counts, and the numbers that it gives itself. The default names nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counting {
    /// The algorithm, if it is named.
    pub(crate) named: Option<Named>,
    /// What follows where it is not.
    pub(crate) default: DefaultAlgorithm,
    pub(crate) how: How,
    pub(crate) units: Option<u64>,
    pub(crate) period: Option<Period>,
    pub(crate) burst: Option<u64>,
    /// Whether units are leased while a key is hot.
    pub(crate) lease_when_hot: bool,
}

/// The words besides the numbers that make a limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct How {
    pub(crate) zone: Option<Box<str>>,
    pub(crate) anchor_day: Option<u8>,
    pub(crate) sub_windows: Option<u64>,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) jitter: bool,
}

/// The numbers of one limit, complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) units: u64,
    pub(crate) period: Period,
    pub(crate) burst: Option<u64>,
}

impl How {
    /// The limit of these numbers. None at all lets nothing pass.
    pub(crate) fn build(&self, algorithm: Named, amount: Amount) -> Result<Limit, LimitError> {
        let Amount { units, period, burst } = amount;
        let tick = Tick::NANOSECOND;
        if units == 0 {
            return Ok(Blocked.into());
        }
        let Some(length) = period.length() else {
            return self.build_calendar(units, period);
        };
        let span = tick.span(length)?;
        let rate = Rate::new(units, span)?;
        Ok(match algorithm {
            Named::TokenBucket => TokenBucket::new(rate, burst.unwrap_or(units))?.into(),
            Named::LeakyBucket => match self.max_wait {
                Some(wait) => LeakyQueue::new(rate, tick.span(wait)?)?.into(),
                None => LeakyBucket::new(rate, burst.unwrap_or(units))?.into(),
            },
            Named::FixedWindow => self.jittered(FixedWindow::new(rate), FixedWindow::jittered).into(),
            Named::SlidingWindow => match self.sub_windows {
                Some(count) => {
                    let count = u32::try_from(count).unwrap_or(u32::MAX);
                    let windows = SubWindows::new(rate, count, OldestCounts::Whole)?;
                    self.jittered(windows, SubWindows::jittered).into()
                }
                None => self.jittered(SlidingWindow::new(rate), SlidingWindow::jittered).into(),
            },
            Named::SlidingLog => SlidingLog::new(rate)?.into(),
            Named::Concurrency => Concurrency::new(units, span)?.into(),
        })
    }

    fn build_calendar(&self, units: u64, period: Period) -> Result<Limit, LimitError> {
        let Period::Calendar(unit) = period else { return Err(LimitError::NoPeriod) };
        let calendar = match &self.zone {
            Some(zone) => Calendar::new(unit, zone, Tick::NANOSECOND)?,
            None => Calendar::utc(unit, Tick::NANOSECOND),
        };
        let calendar = match self.anchor_day {
            Some(day) => calendar.anchored(day),
            None => calendar,
        };
        Ok(FixedWindow::in_windows(units, Windows::Calendar(calendar))?.into())
    }

    fn jittered<T>(&self, limit: T, jitter: impl FnOnce(T) -> T) -> T {
        if self.jitter { jitter(limit) } else { limit }
    }
}

impl Counting {
    /// The algorithm that is named, or that the other words imply.
    pub(crate) fn algorithm(&self, period: Option<Period>, has_burst: bool) -> Named {
        match self.named {
            Some(named) => named,
            None if period.is_some_and(|period| period.length().is_none()) => Named::FixedWindow,
            None if has_burst => Named::TokenBucket,
            None if self.how.sub_windows.is_some() => Named::SlidingWindow,
            None => match self.default {
                DefaultAlgorithm::SlidingWindow => Named::SlidingWindow,
                DefaultAlgorithm::FixedWindow => Named::FixedWindow,
            },
        }
    }

    /// Whether the rule's own numbers count nothing: all passes, or nothing does. Then they imply no algorithm.
    fn counts_nothing(&self) -> bool {
        self.units.is_none_or(|units| units == 0)
    }
}

impl RuleLimit {
    /// What the numbers of an override allow under this limit; or why it cannot have them. Counts that nobody shares need nothing that is
    /// for sharing.
    pub(crate) fn overridden(&self, numbers: &OverrideNumbers, is_shared: bool) -> Result<Allowance, String> {
        let OverrideNumbers::Per { units, period, burst } = *numbers else {
            return Ok(Allowance::Unlimited);
        };
        let counting = &self.counting;
        let Some(period) = period.or(counting.period) else {
            return Err("it needs a `unit` or a `period`: the rule has none of its own".to_owned());
        };
        let inherited = burst.or(counting.burst);
        let algorithm = if counting.counts_nothing() {
            counting.algorithm(Some(period), inherited.is_some())
        } else {
            counting.algorithm(counting.period, counting.burst.is_some())
        };
        let is_queue = algorithm == Named::LeakyBucket && counting.how.max_wait.is_some();
        if burst.is_some() && is_queue {
            return Err("a queue is bounded by `max_wait`, not by `burst`".to_owned());
        }
        if burst.is_some() && !algorithm.has_burst() {
            return Err(format!("`burst` has no meaning for a `{}`", algorithm.name()));
        }
        let amount = Amount { units, period, burst: inherited };
        self.quota(algorithm, amount, is_shared).map(Allowance::Quota).map_err(|error| error.to_string())
    }

    /// The same limit with so many hundredths of a quota's units and burst. Nothing where that cannot be counted.
    pub(crate) fn boosted(&self, quota: &Quota, percent: u32) -> Option<Quota> {
        let algorithm = Named::of(&quota.limit)?;
        let part = |units: u64| {
            let part = u128::from(units) * u128::from(percent) / 100;
            let part = u64::try_from(part).unwrap_or(u64::MAX);
            if percent == 0 { 0 } else { part.max(1) }
        };
        let has_burst = matches!(quota.limit, Limit::TokenBucket(_) | Limit::LeakyBucket(_));
        let burst = has_burst.then(|| part(quota.limit.capacity()));
        let amount = Amount { units: part(quota.units), period: quota.period, burst };
        self.quota(algorithm, amount, quota.shared.is_some()).ok()
    }

    fn quota(&self, algorithm: Named, amount: Amount, is_shared: bool) -> Result<Quota, LimitError> {
        let limit = self.counting.how.build(algorithm, amount)?;
        let is_durable = self.consistency == Some(Consistency::Durable);
        if !is_shared && !is_durable {
            let Amount { units, period, .. } = amount;
            return Ok(Quota { limit, units, period, shared: None, leased: None });
        }
        let mut quota = Quota::new(limit, amount.units, amount.period);
        if is_durable {
            if quota.shared.is_none() && quota.units > 0 {
                // Counted in memory, it would be forgotten.
                return Err(LimitError::NotShared);
            }
            quota.lease_durably(self.local_percent);
            return Ok(quota);
        }
        let when_hot = self.counting.lease_when_hot;
        if when_hot || self.consistency == Some(Consistency::Leased) {
            quota.lease(self.strict, self.local_percent);
            if let Some(terms) = &mut quota.leased {
                terms.when_hot = when_hot;
            }
        }
        Ok(quota)
    }
}
