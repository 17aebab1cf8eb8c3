//! A queue in front of a server that works on one unit for T ticks.

use super::Model;

#[derive(Debug)]
pub(crate) struct Queue {
    units: u128,
    interval: u128,
    max_wait: u128,
    /// When the server has nothing left to do.
    idle_at: u128,
}

impl Queue {
    pub(crate) fn new(units: u64, period_ticks: u64, max_wait_ticks: u64) -> Queue {
        let interval = u128::from(period_ticks).div_ceil(u128::from(units));
        Queue { units: u128::from(units), interval, max_wait: u128::from(max_wait_ticks), idle_at: 0 }
    }
}

impl Model for Queue {
    fn limit(&self) -> u128 {
        self.max_wait / self.interval + 1
    }

    fn is_never(&self, units: u128) -> bool {
        units > self.units
    }

    fn used(&self, at: u128) -> u128 {
        self.wait(at).div_ceil(self.interval)
    }

    fn admits(&self, _units: u128, at: u128) -> bool {
        self.wait(at) <= self.max_wait
    }

    fn admits_one_by_one(&self, units: u128, at: u128) -> bool {
        // The last of them waits for the others.
        units == 0 || self.wait(at) + (units - 1) * self.interval <= self.max_wait
    }

    fn wait(&self, at: u128) -> u128 {
        self.idle_at.saturating_sub(at)
    }

    fn take(&mut self, units: u128, at: u128) {
        self.idle_at = self.idle_at.max(at) + units * self.interval;
    }

    fn book(&mut self, units: u128, at: u128) {
        self.take(units, at);
        // The longest queue with a whole period behind it, which is all that can be admitted, and another in debt.
        let debt_end = at + self.max_wait + 2 * self.units * self.interval;
        self.idle_at = self.idle_at.min(debt_end);
    }

    fn give_back(&mut self, units: u128, _counted_at: u128, at: u128) {
        self.idle_at = self.idle_at.saturating_sub(units * self.interval).max(at);
    }

    fn reset_after(&self, at: u128) -> Option<u128> {
        Some(self.wait(at))
    }
}
