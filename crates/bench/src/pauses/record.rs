//! How long decisions took: counts per magnitude, percentiles, and the longest.

use std::error::Error;

use hdrhistogram::Histogram;
use tollgate_store::Stats;

/// A decision that took longer is a pause.
const PAUSE_NS: u64 = 100_000;
/// Upper bounds of the magnitudes that are counted.
const BOUNDS_NS: [u64; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
/// The percentiles that are shown.
const PERCENTILES: [f64; 4] = [50.0, 99.0, 99.9, 99.99];

/// The heads of what [`Record::cells`] shows.
pub(super) const COLUMNS: [&str; 11] = [
    "<100 ns",
    "<1 us",
    "<10 us",
    "<100 us",
    "<1 ms",
    ">=1 ms",
    "p50 ns",
    "p99 ns",
    "p99.9 ns",
    "p99.99 ns",
    "max ns",
];

/// The times of all decisions of a load, and what the ledger did meanwhile.
pub(super) struct Record {
    times_ns: Histogram<u64>,
    reclaimed: u64,
    evicted: u64,
    bytes: usize,
}

impl Record {
    /// Nothing yet.
    pub(super) fn new() -> Result<Record, Box<dyn Error>> {
        Ok(Record { times_ns: Histogram::new(3)?, reclaimed: 0, evicted: 0, bytes: 0 })
    }

    /// One decision more.
    #[inline]
    pub(super) fn note(&mut self, time_ns: u64) {
        // A histogram that resizes itself takes every value.
        let _ = self.times_ns.record(time_ns);
    }

    /// What the ledger says of itself at the end.
    pub(super) fn note_stats(&mut self, stats: &Stats) {
        self.reclaimed += stats.reclaimed;
        self.evicted += stats.evicted;
        self.bytes = self.bytes.max(stats.bytes);
    }

    /// Everything of another record too.
    pub(super) fn add(&mut self, other: &Record) -> Result<(), Box<dyn Error>> {
        self.times_ns.add(&other.times_ns)?;
        self.reclaimed += other.reclaimed;
        self.evicted += other.evicted;
        self.bytes = self.bytes.max(other.bytes);
        Ok(())
    }

    /// Decisions that took longer than [`PAUSE_NS`].
    pub(super) fn pauses(&self) -> u64 {
        self.times_ns.count_between(PAUSE_NS + 1, u64::MAX)
    }

    /// Counts per magnitude, percentiles, and the longest.
    pub(super) fn cells(&self) -> Vec<String> {
        let mut cells = Vec::with_capacity(COLUMNS.len());
        let mut below = 0;
        for bound_ns in BOUNDS_NS {
            let up_to = self.times_ns.count_between(0, bound_ns - 1);
            cells.push((up_to - below).to_string());
            below = up_to;
        }
        cells.push((self.times_ns.len() - below).to_string());
        cells.extend(PERCENTILES.map(|percentile| self.times_ns.value_at_percentile(percentile).to_string()));
        cells.push(self.times_ns.max().to_string());
        cells
    }

    /// What the ledger did, in words.
    pub(super) fn upkeep(&self) -> String {
        let mebibytes = self.bytes >> 20;
        format!("{} reclaimed, {} evicted, at most {mebibytes} MiB", self.reclaimed, self.evicted)
    }
}
