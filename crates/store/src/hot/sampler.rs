//! Which decisions are looked at, and how many each of them stands for.

use std::cell::Cell;

use tollgate_core::{Span, Time};

use crate::authority::mix;

/// So many samples make a round, and a round should take so long: some ten thousand samples a second are enough to tell the keys apart.
const ROUND_SAMPLES: u32 = 1_000;
const ROUND_MIN: Span = Span::from_ticks(100_000_000);
const ROUND_MAX: Span = Span::from_ticks(250_000_000);
/// At most one decision in so many is sampled, as a power of two. More would save nothing, and a thread that falls idle would take long to its next sample.
const GAP_BITS_MAX: u32 = 10;

/// Counts a thread's decisions down to the next that is looked at. Made to be a `const` variable of its thread, which costs least.
#[derive(Debug)]
pub struct Sampler {
    left: Cell<u32>,
    /// How far the next sample is from the last: for how many decisions it stands.
    gap: Cell<u32>,
    turns: Cell<u64>,
}

impl Sampler {
    /// Looks at the first decision.
    pub const fn new() -> Sampler {
        Sampler { left: Cell::new(0), gap: Cell::new(1), turns: Cell::new(0) }
    }

    /// Whether none of so many decisions is looked at. Nearly always so.
    #[inline]
    pub fn passes_over(&self, decisions: usize) -> bool {
        match u32::try_from(decisions) {
            Ok(decisions) if decisions < self.left.get() => {
                self.left.set(self.left.get() - decisions);
                true
            }
            _ => decisions == 0,
        }
    }

    /// One decision, and for how many it stands if it is looked at. The next gap is random, of this many bits.
    pub fn next(&self, gap_bits: u32) -> Option<u32> {
        if self.left.get() > 1 {
            self.left.set(self.left.get() - 1);
            return None;
        }
        let weight = self.gap.get();
        let turns = self.turns.get().wrapping_add(1);
        // From 1 to twice the mean less one, each as likely as any other.
        let gaps = (2 << gap_bits.min(GAP_BITS_MAX)) - 1;
        let gap = u32::try_from(mix(turns) % gaps).unwrap_or(0) + 1;
        self.left.set(gap);
        self.gap.set(gap);
        self.turns.set(turns);
        Some(weight)
    }
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler::new()
    }
}

/// How far samples are apart, so that there are enough and not too many: all where decisions are few.
#[derive(Debug, Default)]
pub struct Pace {
    gap_bits: u32,
    samples: u32,
    since: Time,
}

impl Pace {
    /// Counts a sample, and says how far the next ones are apart: two to the power of this, on average.
    pub fn sampled(&mut self, now: Time) -> u32 {
        self.samples += 1;
        let elapsed = now.since(self.since);
        if elapsed > ROUND_MAX {
            self.begin(self.gap_bits.saturating_sub(1), now);
        } else if self.samples >= ROUND_SAMPLES {
            let is_hasty = elapsed < ROUND_MIN;
            self.begin((self.gap_bits + u32::from(is_hasty)).min(GAP_BITS_MAX), now);
        }
        self.gap_bits
    }

    fn begin(&mut self, gap_bits: u32, now: Time) {
        *self = Pace { gap_bits, samples: 0, since: now };
    }
}
