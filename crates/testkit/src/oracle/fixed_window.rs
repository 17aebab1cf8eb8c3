//! A fixed window counts what falls into the same window.

use super::Model;
use super::history::History;

#[derive(Debug)]
pub(crate) struct FixedWindow {
    units: u128,
    period: u128,
    history: History,
}

impl FixedWindow {
    pub(crate) fn new(units: u64, period_ticks: u64) -> FixedWindow {
        FixedWindow {
            units: u128::from(units),
            period: u128::from(period_ticks),
            history: History::default(),
        }
    }
}

impl Model for FixedWindow {
    fn limit(&self) -> u128 {
        self.units
    }

    fn used(&self, at: u128) -> u128 {
        self.history.units(|counted_at| counted_at / self.period == at / self.period)
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
