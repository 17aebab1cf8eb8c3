//! Random numbers that a seed repeats: the same load for everybody who is compared, and for every run.

/// A `SplitMix64` generator: small, fast, and good enough to spread keys and arrivals.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence that belongs to `seed`.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, by multiplication: biased by less than `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A fraction in [0, 1).
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The gap to the next arrival of a Poisson process.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.fraction()).ln()
    }
}

/// Ranks with Zipf's law: rank r comes with a probability proportional to 1/r^exponent.
///
/// Drawn by rejection-inversion (Hörmann and Derflinger 1996) with the integral of the law's density, so that no table
/// of ten million probabilities is needed.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: f64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    sure: f64,
}

impl Zipf {
    /// Zipf's law over the ranks 1 to `ranks`. The exponent is above 0.
    pub fn new(ranks: u64, exponent: f64) -> Zipf {
        let mut zipf =
            Zipf { ranks: ranks as f64, exponent, integral_first: 0.0, integral_last: 0.0, sure: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(zipf.ranks + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// A rank, counted from 0.
    pub fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let integral =
                self.integral_last + random.fraction() * (self.integral_first - self.integral_last);
            let exact = self.inverse(integral);
            let rank = exact.round().clamp(1.0, self.ranks);
            if rank - exact <= self.sure || integral >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// From 1 to x. Near an exponent of 1 it is a logarithm, and the general formula would divide by nothing.
    fn integral(&self, x: f64) -> f64 {
        let rest = 1.0 - self.exponent;
        if rest.abs() < NEARLY_ZERO { x.ln() } else { (rest * x.ln()).exp_m1() / rest }
    }

    fn inverse(&self, integral: f64) -> f64 {
        let rest = 1.0 - self.exponent;
        if rest.abs() < NEARLY_ZERO { integral.exp() } else { ((rest * integral).ln_1p() / rest).exp() }
    }
}

const NEARLY_ZERO: f64 = 1e-9;

#[cfg(test)]
mod tests;
