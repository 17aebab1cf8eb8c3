//! A bucket with a level: what a token bucket is before anybody thinks of storing it as one moment.
//!
//! The level is kept in ticks, of which a unit is worth T: it rises by one each tick, up to B*T, and sinks below
//! zero where debt is booked.

use super::Model;

#[derive(Debug)]
pub(crate) struct Bucket {
    burst: u128,
    interval: u128,
    /// The level in ticks, and when it was that.
    level: i128,
    level_at: u128,
}

impl Bucket {
    pub(crate) fn new(units: u64, period_ticks: u64, burst: u64) -> Bucket {
        let interval = u128::from(period_ticks).div_ceil(u128::from(units));
        let burst = u128::from(burst);
        Bucket { burst, interval, level: signed(burst * interval), level_at: 0 }
    }

    fn full(&self) -> i128 {
        signed(self.burst * self.interval)
    }

    fn level(&self, at: u128) -> i128 {
        (self.level + signed(at - self.level_at)).min(self.full())
    }

    fn set(&mut self, level: i128, at: u128) {
        self.level = level.clamp(-self.full(), self.full());
        self.level_at = at;
    }
}

impl Model for Bucket {
    fn limit(&self) -> u128 {
        self.burst
    }

    fn used(&self, at: u128) -> u128 {
        (self.full() - self.level(at)).unsigned_abs().div_ceil(self.interval)
    }

    fn admits(&self, units: u128, at: u128) -> bool {
        self.level(at) >= signed(units * self.interval)
    }

    fn take(&mut self, units: u128, at: u128) {
        self.set(self.level(at) - signed(units * self.interval), at);
    }

    fn book(&mut self, units: u128, at: u128) {
        self.take(units, at);
    }

    fn give_back(&mut self, units: u128, _counted_at: u128, at: u128) {
        self.set(self.level(at) + signed(units * self.interval), at);
    }

    fn reset_after(&self, at: u128) -> Option<u128> {
        Some((self.full() - self.level(at)).unsigned_abs())
    }
}

fn signed(ticks: u128) -> i128 {
    i128::try_from(ticks).expect("a cost of 2^64 units of 2^62 ticks fits")
}
