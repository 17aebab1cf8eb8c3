//! Random numbers that a seed repeats: the same load for every contender, and for every run.

/// A `SplitMix64` generator: small, fast, and good enough to spread keys and arrivals.
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// The sequence that belongs to `seed`.
    pub(crate) fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, by multiplication: biased by less than `bound / 2^64`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A fraction in [0, 1).
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The gap to the next arrival of a Poisson process.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.fraction()).ln()
    }
}

/// Ranks with Zipf's law of exponent 1: rank r comes with a probability proportional to 1/r.
///
/// Drawn by rejection-inversion (Hörmann and Derflinger 1996) with the integral `ln x` of `1/x`, so that no table
/// of ten million probabilities is needed.
pub(crate) struct Zipf {
    ranks: f64,
    integral_first: f64,
    integral_last: f64,
    sure: f64,
}

impl Zipf {
    /// Zipf's law over the ranks 1 to `ranks`.
    pub(crate) fn new(ranks: u64) -> Zipf {
        let ranks = ranks as f64;
        Zipf {
            ranks,
            integral_first: 1.5_f64.ln() - 1.0,
            integral_last: (ranks + 0.5).ln(),
            sure: 2.0 - (2.5_f64.ln() - 0.5).exp(),
        }
    }

    /// A rank, counted from 0.
    pub(crate) fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let integral =
                self.integral_last + random.fraction() * (self.integral_first - self.integral_last);
            let exact = integral.exp();
            let rank = exact.round().clamp(1.0, self.ranks);
            if rank - exact <= self.sure || integral >= (rank + 0.5).ln() - 1.0 / rank {
                return rank as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
