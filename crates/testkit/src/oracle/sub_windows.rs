//! The last b+1 sub-windows; the oldest as a whole, or for the part of it that is less than a period ago.

use tollgate_core::OldestCounts;

use super::Model;
use super::history::History;

#[derive(Debug)]
pub(crate) struct SubWindows {
    units: u128,
    count: u128,
    sub_period: u128,
    oldest_counts: OldestCounts,
    history: History,
}

impl SubWindows {
    pub(crate) fn new(units: u64, period_ticks: u64, count: u32, oldest_counts: OldestCounts) -> SubWindows {
        let count = u128::from(count);
        let sub_period = u128::from(period_ticks).div_ceil(count);
        SubWindows { units: u128::from(units), count, sub_period, oldest_counts, history: History::default() }
    }

    /// What was counted in the sub-windows that began `ages` sub-windows ago.
    fn counted(&self, ages: std::ops::Range<u128>, at: u128) -> u128 {
        let index = at / self.sub_period;
        self.history.units(|counted_at| ages.contains(&(index - counted_at / self.sub_period)))
    }
}

impl Model for SubWindows {
    fn limit(&self) -> u128 {
        self.units
    }

    fn used(&self, at: u128) -> u128 {
        let younger = self.counted(0..self.count, at);
        let oldest = self.counted(self.count..self.count + 1, at);
        let left = self.sub_period - at % self.sub_period;
        match self.oldest_counts {
            OldestCounts::Whole => younger + oldest,
            OldestCounts::ByOverlap => younger + (oldest * left).div_ceil(self.sub_period),
        }
    }

    fn take(&mut self, units: u128, at: u128) {
        self.history.add(units, at);
    }

    fn give_back(&mut self, units: u128, counted_at: u128, _at: u128) {
        let sub_period = self.sub_period;
        self.history.forget(units, |at| at / sub_period == counted_at / sub_period);
    }

    fn reset_after(&self, at: u128) -> Option<u128> {
        let period = self.count * self.sub_period;
        Some(period - at % period)
    }
}
