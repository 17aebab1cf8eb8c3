//! The sliding window counter, by its inequality: `P*(W-e) + (C+c)*W <= N*W`.

use super::Model;
use super::history::History;

#[derive(Debug)]
pub(crate) struct SlidingWindow {
    units: u128,
    period: u128,
    history: History,
}

impl SlidingWindow {
    pub(crate) fn new(units: u64, period_ticks: u64) -> SlidingWindow {
        SlidingWindow {
            units: u128::from(units),
            period: u128::from(period_ticks),
            history: History::default(),
        }
    }

    /// What is used at `at`, times W: `P*(W-e) + C*W`.
    fn used_times_period(&self, at: u128) -> u128 {
        let index = at / self.period;
        let elapsed = at % self.period;
        let previous = self.history.units(|counted_at| counted_at / self.period + 1 == index);
        let current = self.history.units(|counted_at| counted_at / self.period == index);
        previous * (self.period - elapsed) + current * self.period
    }
}

impl Model for SlidingWindow {
    fn limit(&self) -> u128 {
        self.units
    }

    fn used(&self, at: u128) -> u128 {
        self.used_times_period(at).div_ceil(self.period)
    }

    fn admits(&self, units: u128, at: u128) -> bool {
        self.used_times_period(at) + units * self.period <= self.units * self.period
    }

    fn take(&mut self, units: u128, at: u128) {
        self.history.add(units, at);
    }

    fn give_back(&mut self, units: u128, counted_at: u128, _at: u128) {
        let period = self.period;
        self.history.forget(units, |at| at / period == counted_at / period);
    }

    fn reset_after(&self, at: u128) -> Option<u128> {
        Some(self.period - at % self.period)
    }
}
