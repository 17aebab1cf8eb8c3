//! Everybody who is measured, behind one interface: work through a segment of keys, count what was admitted.
//!
//! A segment is a call, so that the interface costs nothing per decision. One limit serves all: large enough that
//! nobody is ever denied, and so slow to come back that no key turns idle while the benchmark runs. Every
//! decision therefore finds its key, changes it, and writes it back.

mod governor;
mod pingora;
mod throttlecrab;
mod tollgate;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;

use crate::keys::{KeyStream, Segment};

/// Units of the limit that all contenders enforce, and its burst.
const UNITS: u32 = 100_000_000;
/// The period of that limit, nine years: a unit takes three seconds to come back.
const PERIOD: Duration = Duration::from_hours(9 * 365 * 24);
/// How many keys at a time a table is filled with: their text need not all be held at once.
const FILL_CHUNK: u64 = 1 << 20;

/// Whether other threads use the contender at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// This thread alone.
    Alone,
    /// Other threads too.
    Shared,
}

/// A rate limiter with its table.
pub(crate) trait Contender: Send + Sync {
    /// Takes one unit of every key of the segment, and says how many were admitted.
    fn take_each(&self, segment: Segment<'_>, sharing: Sharing) -> u64;

    /// Makes every key of the segment known, and has it stay in use for as long as the benchmark runs.
    fn fill(&self, segment: Segment<'_>) {
        self.take_each(segment, Sharing::Alone);
    }

    /// Upkeep that a server does in the background, where the contender has any.
    fn tend(&self) {}
}

/// Who can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Our ledger, token bucket, one by one.
    Bucket,
    /// Our ledger, token bucket, one by one, with a reading of the clock for each.
    BucketClock,
    /// Our ledger, token bucket, in batches.
    BucketBatch,
    /// Our ledger, sliding window, one by one.
    Sliding,
    /// Our ledger, sliding window, one by one, with a reading of the clock for each.
    SlidingClock,
    /// Our ledger, sliding window, in batches.
    SlidingBatch,
    /// governor with string keys.
    GovernorText,
    /// governor with numbers for keys.
    GovernorNumber,
    /// throttlecrab.
    Throttlecrab,
    /// pingora-limits.
    Pingora,
}

impl Kind {
    /// All of them, in the order of the tables.
    pub(crate) const ALL: [Kind; 10] = [
        Kind::Bucket,
        Kind::BucketClock,
        Kind::BucketBatch,
        Kind::Sliding,
        Kind::SlidingClock,
        Kind::SlidingBatch,
        Kind::GovernorText,
        Kind::GovernorNumber,
        Kind::Throttlecrab,
        Kind::Pingora,
    ];

    /// What the tables call it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Kind::Bucket => "tollgate, token bucket",
            Kind::BucketClock => "tollgate, token bucket, clock read for each",
            Kind::BucketBatch => "tollgate, token bucket, batches of 32",
            Kind::Sliding => "tollgate, sliding window",
            Kind::SlidingClock => "tollgate, sliding window, clock read for each",
            Kind::SlidingBatch => "tollgate, sliding window, batches of 32",
            Kind::GovernorText => "governor, string keys",
            Kind::GovernorNumber => "governor, u64 keys",
            Kind::Throttlecrab => "throttlecrab (2 threads: in a mutex)",
            Kind::Pingora => "pingora-limits (approximate: one sketch for all keys)",
        }
    }

    /// The name that the hidden memory subcommand knows it by.
    pub(crate) fn argument(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether it works on the table of a kind before it, and so needs no filling and no memory of its own.
    pub(crate) fn shares_table(self) -> bool {
        matches!(self, Kind::BucketClock | Kind::BucketBatch | Kind::SlidingClock | Kind::SlidingBatch)
    }
}

/// A contender with a table for `keys` keys; 0 lets it start small and grow.
pub(crate) fn build(kind: Kind, keys: usize) -> Result<Arc<dyn Contender>, Box<dyn Error>> {
    Ok(match kind {
        Kind::BucketClock => tollgate::build(tollgate::bucket()?, keys)?.one_by_one_with_clock(),
        Kind::Bucket | Kind::BucketBatch => tollgate::build(tollgate::bucket()?, keys)?.one_by_one(),
        Kind::Sliding | Kind::SlidingClock | Kind::SlidingBatch => {
            tollgate::build(tollgate::sliding()?, keys)?.one_by_one()
        }
        Kind::GovernorText => governor::with_text_keys(keys)?,
        Kind::GovernorNumber => governor::with_number_keys(keys)?,
        Kind::Throttlecrab => throttlecrab::build(keys),
        Kind::Pingora => pingora::build(),
    })
}

/// One contender in a measurement.
pub(crate) struct Entrant {
    /// Who it is.
    pub(crate) kind: Kind,
    /// Its limiter.
    pub(crate) contender: Arc<dyn Contender>,
}

/// Every kind of contender, filled with the keys 0 to `keys`. Peers are sized for them beforehand. Ours starts small
/// and grows, which is its default, so that its time and its bytes per key are those of the same table.
pub(crate) fn lineup(keys: u64, mut filled: impl FnMut(Kind)) -> Result<Vec<Entrant>, Box<dyn Error>> {
    let table_keys = usize::try_from(keys)?;
    let bucket = tollgate::build(tollgate::bucket()?, 0)?;
    let sliding = tollgate::build(tollgate::sliding()?, 0)?;
    let mut entrants = Vec::new();
    for kind in Kind::ALL {
        let contender = match kind {
            Kind::Bucket => bucket.one_by_one(),
            Kind::BucketClock => bucket.one_by_one_with_clock(),
            Kind::BucketBatch => bucket.batched(),
            Kind::Sliding => sliding.one_by_one(),
            Kind::SlidingClock => sliding.one_by_one_with_clock(),
            Kind::SlidingBatch => sliding.batched(),
            _ => build(kind, table_keys)?,
        };
        if !kind.shares_table() {
            fill(&*contender, keys);
            contender.tend();
        }
        filled(kind);
        entrants.push(Entrant { kind, contender });
    }
    Ok(entrants)
}

/// Takes one unit of each of the keys 0 to `keys`.
pub(crate) fn fill(contender: &dyn Contender, keys: u64) {
    for start in (0..keys).step_by(FILL_CHUNK as usize) {
        let stream = KeyStream::of(start..keys.min(start + FILL_CHUNK));
        contender.fill(stream.whole());
    }
}
