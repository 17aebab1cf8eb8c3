//! The sliding log counts what was taken in `(now - W, now]`.

use super::Model;
use super::history::History;

#[derive(Debug)]
pub(crate) struct SlidingLog {
    units: u128,
    period: u128,
    history: History,
}

impl SlidingLog {
    pub(crate) fn new(units: u64, period_ticks: u64) -> SlidingLog {
        SlidingLog { units: u128::from(units), period: u128::from(period_ticks), history: History::default() }
    }
}

impl Model for SlidingLog {
    fn limit(&self) -> u128 {
        self.units
    }

    fn used(&self, at: u128) -> u128 {
        self.history.units(|taken_at| at - taken_at < self.period)
    }

    fn take(&mut self, units: u128, at: u128) {
        self.history.add(units, at);
    }

    fn give_back(&mut self, units: u128, _counted_at: u128, _at: u128) {
        self.history.forget(units, |_| true);
    }

    fn reset_after(&self, at: u128) -> Option<u128> {
        let last = self.history.last(|taken_at| at - taken_at < self.period);
        Some(last.map_or(0, |taken_at| taken_at + self.period - at))
    }
}
