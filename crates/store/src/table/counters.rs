//! Counts that many threads add to and hardly anybody reads: spread over cache lines, summed when asked for.

// Not through `crate::sync`: they decide nothing that a model checks.
use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering};

use super::locks::LINES_PER_BLOCK;

const STRIPES: usize = 16;

#[derive(Default)]
#[repr(align(64))]
struct Stripe<T>(T);

/// How many slots are not empty.
#[derive(Default)]
pub(super) struct SlotCount {
    stripes: [Stripe<AtomicIsize>; STRIPES],
}

impl SlotCount {
    pub(super) fn add(&self, line: usize, slots: isize) {
        // Relaxed, here and below: a count orders nothing.
        self.stripes[stripe(line)].0.fetch_add(slots, Ordering::Relaxed);
    }

    pub(super) fn sum(&self) -> usize {
        let sum: isize = self.stripes.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum();
        usize::try_from(sum).unwrap_or(0)
    }
}

/// What became of keys: which came, and which made room for them.
#[derive(Default)]
pub(super) struct Tally {
    stripes: [Stripe<Fates>; STRIPES],
}

#[derive(Default)]
struct Fates {
    placed: AtomicU64,
    reclaimed: AtomicU64,
    evicted: AtomicU64,
}

impl Tally {
    /// Counts a new key, and says how many its stripe has seen.
    pub(super) fn add_placed(&self, line: usize) -> u64 {
        self.stripes[stripe(line)].0.placed.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn add_reclaimed(&self, line: usize) {
        self.stripes[stripe(line)].0.reclaimed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_evicted(&self, line: usize) {
        self.stripes[stripe(line)].0.evicted.fetch_add(1, Ordering::Relaxed);
    }

    /// Idle keys that were forgotten, which costs nothing.
    pub(super) fn reclaimed(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.0.reclaimed.load(Ordering::Relaxed)).sum()
    }

    /// Keys that were forgotten although they had used something.
    pub(super) fn evicted(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.0.evicted.load(Ordering::Relaxed)).sum()
    }
}

fn stripe(line: usize) -> usize {
    line / LINES_PER_BLOCK % STRIPES
}
