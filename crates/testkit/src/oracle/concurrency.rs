//! Who was admitted holds on for a given time. Being many at once leaves no debt.

use super::Model;
use super::history::History;

#[derive(Debug)]
pub(crate) struct Concurrency {
    units: u128,
    hold_max: u128,
    history: History,
}

impl Concurrency {
    pub(crate) fn new(units: u64, hold_ticks_max: u64) -> Concurrency {
        let hold_max = u128::from(hold_ticks_max);
        Concurrency { units: u128::from(units), hold_max, history: History::default() }
    }
}

impl Model for Concurrency {
    fn limit(&self) -> u128 {
        self.units
    }

    fn used(&self, at: u128) -> u128 {
        self.history.units(|held_from| at < held_from + self.hold_max)
    }

    fn knows_when(&self) -> bool {
        false
    }

    fn take(&mut self, units: u128, at: u128) {
        self.history.add(units, at);
    }

    fn book(&mut self, _units: u128, _at: u128) {}

    fn give_back(&mut self, units: u128, _counted_at: u128, _at: u128) {
        self.history.forget(units, |_| true);
    }

    fn reset_after(&self, _at: u128) -> Option<u128> {
        None
    }
}
