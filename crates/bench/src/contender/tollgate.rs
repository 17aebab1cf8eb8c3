//! Our own ledger, asked one by one or in batches.
//!
//! The hash of the key is part of every decision. Time is an argument of the ledger: a server reads the clock once for
//! everything that came with one read of a socket. So the ledger is measured with a time that is passed in, and
//! once more with a reading for every decision, as governor takes one.

use std::error::Error;
use std::sync::Arc;

use tollgate_core::{Cost, Limit, LimitError, Rate, SlidingWindow, Tick, TokenBucket};
use tollgate_store::clock::Clock;
use tollgate_store::{Charge, Ledger, LedgerSettings};

use super::{Contender, PERIOD, Sharing, UNITS};
use crate::keys::{KEY_BYTES, Segment};

/// Decisions per batch.
const BATCH: usize = 32;
/// Far above what any benchmark fills: the cap is not what is measured here.
const CAP_BYTES: usize = 4 << 30;

/// A ledger with the limit it enforces.
pub(super) struct Tollgate {
    ledger: Ledger,
    limit: Limit,
    clock: Clock,
}

struct OneByOne(Arc<Tollgate>);

struct WithClock(Arc<Tollgate>);

struct Batched(Arc<Tollgate>);

/// The common limit as a token bucket.
pub(super) fn bucket() -> Result<Limit, LimitError> {
    Ok(TokenBucket::new(rate()?, u64::from(UNITS))?.into())
}

/// The common limit as a sliding window.
pub(super) fn sliding() -> Result<Limit, LimitError> {
    Ok(SlidingWindow::new(rate()?).into())
}

fn rate() -> Result<Rate, LimitError> {
    Rate::new(u64::from(UNITS), Tick::NANOSECOND.span(PERIOD)?)
}

/// A ledger for so many keys; 0 lets it grow.
pub(super) fn build(limit: Limit, keys_expected: usize) -> Result<Arc<Tollgate>, Box<dyn Error>> {
    let ledger = Ledger::new(LedgerSettings { keys_expected, ..LedgerSettings::with_cap(CAP_BYTES) })?;
    Ok(Arc::new(Tollgate { ledger, limit, clock: Clock::new() }))
}

impl Tollgate {
    /// The ledger, asked one by one.
    pub(super) fn one_by_one(self: &Arc<Tollgate>) -> Arc<dyn Contender> {
        Arc::new(OneByOne(Arc::clone(self)))
    }

    /// The same, with a reading of the clock for each.
    pub(super) fn one_by_one_with_clock(self: &Arc<Tollgate>) -> Arc<dyn Contender> {
        Arc::new(WithClock(Arc::clone(self)))
    }

    /// The same ledger, asked in batches.
    pub(super) fn batched(self: &Arc<Tollgate>) -> Arc<dyn Contender> {
        Arc::new(Batched(Arc::clone(self)))
    }

    fn charge(&self, key: &[u8]) -> Charge<'_> {
        Charge::take(self.ledger.key(key), &self.limit, Cost::ONE)
    }

    fn tend(&self) {
        self.ledger.tend(self.clock.now());
    }
}

impl Contender for OneByOne {
    /// Ours forgets keys that are idle: so many units take most of an hour to come back.
    fn fill(&self, segment: Segment<'_>) {
        let Tollgate { ledger, limit, clock } = &*self.0;
        let now = clock.now();
        segment.bytes().for_each(|key| {
            ledger.decide(&Charge::take(ledger.key(key), limit, Cost::new(1_000)), now);
        });
    }

    fn take_each(&self, segment: Segment<'_>, _: Sharing) -> u64 {
        let Tollgate { ledger, clock, .. } = &*self.0;
        let now = clock.now();
        let take = |key| ledger.decide(&self.0.charge(key), now);
        segment.bytes().map(|key| u64::from(take(key).is_allowed())).sum()
    }

    fn tend(&self) {
        self.0.tend();
    }
}

impl Contender for WithClock {
    fn take_each(&self, segment: Segment<'_>, _: Sharing) -> u64 {
        let Tollgate { ledger, clock, .. } = &*self.0;
        let take = |key| ledger.decide(&self.0.charge(key), clock.now());
        segment.bytes().map(|key| u64::from(take(key).is_allowed())).sum()
    }
}

impl Contender for Batched {
    fn take_each(&self, segment: Segment<'_>, _: Sharing) -> u64 {
        let Tollgate { ledger, clock, .. } = &*self.0;
        let mut charges = Vec::with_capacity(BATCH);
        let mut decisions = Vec::with_capacity(BATCH);
        let mut admitted = 0;
        for batch in segment.byte_runs(BATCH) {
            charges.clear();
            charges.extend(batch.chunks_exact(KEY_BYTES).map(|key| self.0.charge(key)));
            ledger.decide_batch(&charges, clock.now(), &mut decisions);
            admitted += decisions.iter().map(|decision| u64::from(decision.is_allowed())).sum::<u64>();
        }
        admitted
    }

    fn tend(&self) {
        self.0.tend();
    }
}
