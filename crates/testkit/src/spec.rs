//! The numbers of a limit, from which both the real one and its oracle are built.

mod strategy;
#[cfg(test)]
mod tests;

use proptest::strategy::BoxedStrategy;
use tollgate_core::{
    Blocked, Calendar, CalendarUnit, Concurrency, FixedWindow, LeakyBucket, LeakyQueue, Limit, LimitError,
    OldestCounts, Rate, SlidingLog, SlidingWindow, Span, SubWindows, Tick, TokenBucket, Windows,
};

use crate::oracle::{self, Oracle};
use crate::timeline::Timeline;
use crate::trace::draw;

/// The numbers of one limit, by algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are those of the algorithms and of their numbers.
pub enum Spec {
    TokenBucket { units: u64, period_ticks: u64, burst: u64 },
    LeakyBucket { units: u64, period_ticks: u64, size: u64 },
    LeakyQueue { units: u64, period_ticks: u64, max_wait_ticks: u64 },
    FixedWindow { units: u64, period_ticks: u64 },
    CalendarWindow { units: u64, unit: CalendarUnit, zone: &'static str, anchor_day: u8, tick: Tick },
    SlidingWindow { units: u64, period_ticks: u64 },
    SubWindows { units: u64, period_ticks: u64, count: u32, oldest: OldestCounts },
    SlidingLog { units: u64, period_ticks: u64 },
    Concurrency { units: u64, hold_ticks_max: u64 },
    Blocked,
}

impl Spec {
    /// The limit as it is used. Panics where the numbers are not allowed.
    pub fn limit(&self) -> Limit {
        self.try_limit().unwrap_or_else(|error| panic!("{self:?} cannot be built: {error}"))
    }

    /// The limit as it is used, or why there is none.
    pub fn try_limit(&self) -> Result<Limit, LimitError> {
        let rate = |units, period_ticks| Rate::new(units, Span::from_ticks(period_ticks));
        Ok(match *self {
            Spec::TokenBucket { units, period_ticks, burst } => {
                TokenBucket::new(rate(units, period_ticks)?, burst)?.into()
            }
            Spec::LeakyBucket { units, period_ticks, size } => {
                LeakyBucket::new(rate(units, period_ticks)?, size)?.into()
            }
            Spec::LeakyQueue { units, period_ticks, max_wait_ticks } => {
                LeakyQueue::new(rate(units, period_ticks)?, Span::from_ticks(max_wait_ticks))?.into()
            }
            Spec::FixedWindow { units, period_ticks } => FixedWindow::new(rate(units, period_ticks)?).into(),
            Spec::CalendarWindow { units, unit, zone, anchor_day, tick } => {
                let calendar = Calendar::new(unit, zone, tick)?.anchored(anchor_day);
                FixedWindow::in_windows(units, Windows::Calendar(calendar))?.into()
            }
            Spec::SlidingWindow { units, period_ticks } => {
                SlidingWindow::new(rate(units, period_ticks)?).into()
            }
            Spec::SubWindows { units, period_ticks, count, oldest } => {
                SubWindows::new(rate(units, period_ticks)?, count, oldest)?.into()
            }
            Spec::SlidingLog { units, period_ticks } => SlidingLog::new(rate(units, period_ticks)?)?.into(),
            Spec::Concurrency { units, hold_ticks_max } => {
                Concurrency::new(units, Span::from_ticks(hold_ticks_max))?.into()
            }
            Spec::Blocked => Blocked.into(),
        })
    }

    /// What is right under these numbers, for one key.
    pub fn oracle(&self) -> Oracle {
        match *self {
            Spec::TokenBucket { units, period_ticks, burst } => {
                Oracle::new(oracle::Bucket::new(units, period_ticks, burst))
            }
            Spec::LeakyBucket { units, period_ticks, size } => {
                Oracle::new(oracle::Bucket::new(units, period_ticks, size))
            }
            Spec::LeakyQueue { units, period_ticks, max_wait_ticks } => {
                Oracle::new(oracle::Queue::new(units, period_ticks, max_wait_ticks))
            }
            Spec::FixedWindow { units, period_ticks } => {
                Oracle::new(oracle::FixedWindow::new(units, period_ticks))
            }
            Spec::CalendarWindow { units, unit, zone, anchor_day, tick } => {
                Oracle::new(oracle::CalendarWindow::new(units, unit, zone, tick).anchored(anchor_day))
            }
            Spec::SlidingWindow { units, period_ticks } => {
                Oracle::new(oracle::SlidingWindow::new(units, period_ticks))
            }
            Spec::SubWindows { units, period_ticks, count, oldest } => {
                Oracle::new(oracle::SubWindows::new(units, period_ticks, count, oldest))
            }
            Spec::SlidingLog { units, period_ticks } => {
                Oracle::new(oracle::SlidingLog::new(units, period_ticks))
            }
            Spec::Concurrency { units, hold_ticks_max } => {
                Oracle::new(oracle::Concurrency::new(units, hold_ticks_max))
            }
            Spec::Blocked => Oracle::new(oracle::Blocked),
        }
    }

    /// Specs of every algorithm, small, ordinary and extreme: each algorithm as likely as the others.
    pub fn any() -> BoxedStrategy<Spec> {
        strategy::any(Timeline::LEDGER)
    }

    /// One strategy per kind of limit: every algorithm at least once.
    pub fn kinds() -> Vec<BoxedStrategy<Spec>> {
        Spec::kinds_on(Timeline::LEDGER)
    }

    /// As [`Spec::kinds`], on any timeline. Not all of them fit a script there.
    pub fn kinds_on(timeline: Timeline) -> Vec<BoxedStrategy<Spec>> {
        strategy::kinds(timeline)
    }

    /// One spec of each kind, as a seed has it.
    pub fn drawn_on(timeline: Timeline, seed: u64) -> Vec<Spec> {
        let draw_one = |(kind, specs): (usize, BoxedStrategy<Spec>)| draw(&specs, seed << 8 | kind as u64);
        Spec::kinds_on(timeline).into_iter().enumerate().map(draw_one).collect()
    }

    /// The most units that one request can have.
    pub fn cost_max(&self) -> u64 {
        match *self {
            Spec::TokenBucket { burst, .. } => burst,
            Spec::LeakyBucket { size, .. } => size,
            Spec::LeakyQueue { units, .. }
            | Spec::FixedWindow { units, .. }
            | Spec::CalendarWindow { units, .. }
            | Spec::SlidingWindow { units, .. }
            | Spec::SubWindows { units, .. }
            | Spec::SlidingLog { units, .. }
            | Spec::Concurrency { units, .. } => units,
            Spec::Blocked => 0,
        }
    }

    /// The ticks after which something may change by itself: a unit comes back, a window ends.
    pub fn beat(&self) -> u64 {
        match *self {
            Spec::TokenBucket { units, period_ticks, .. }
            | Spec::LeakyBucket { units, period_ticks, .. }
            | Spec::LeakyQueue { units, period_ticks, .. } => period_ticks.div_ceil(units),
            Spec::SubWindows { period_ticks, count, .. } => period_ticks.div_ceil(u64::from(count)),
            Spec::FixedWindow { period_ticks, .. }
            | Spec::SlidingWindow { period_ticks, .. }
            | Spec::SlidingLog { period_ticks, .. } => period_ticks,
            Spec::Concurrency { hold_ticks_max, .. } => hold_ticks_max,
            Spec::CalendarWindow { tick, .. } => 86_400_000_000_000 / tick.length_ns(),
            Spec::Blocked => 1,
        }
    }

    /// The ticks after which a key that was used to the full, without debt, is as good as new.
    pub fn memory(&self) -> u64 {
        match *self {
            Spec::TokenBucket { burst, .. } => self.beat() * burst,
            Spec::LeakyBucket { size, .. } => self.beat() * size,
            Spec::LeakyQueue { units, max_wait_ticks, .. } => max_wait_ticks + units * self.beat(),
            Spec::SlidingWindow { period_ticks, .. } => 2 * period_ticks,
            Spec::SubWindows { count, .. } => self.beat() * (u64::from(count) + 1),
            Spec::CalendarWindow { .. } => 31 * self.beat(),
            Spec::FixedWindow { .. } | Spec::SlidingLog { .. } | Spec::Concurrency { .. } | Spec::Blocked => {
                self.beat()
            }
        }
    }
}
