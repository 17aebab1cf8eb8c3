//! Which keys a load asks for.

use crate::random::{Random, Zipf};

/// The most keys that a load can tell apart: what the digits of a key can count.
pub const KEYS_MAX: u64 = 1_000_000_000_000;

/// How the next key is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Draw {
    /// Every key as often as every other.
    Uniform,
    /// Zipf's law with this exponent, above 0: few keys are asked for most of the time.
    Zipf(f64),
    /// One after the other, and then from the first on again.
    InOrder,
}

/// Which keys a load asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keys {
    /// How many different ones.
    pub count: u64,
    /// How the next is chosen.
    pub draw: Draw,
    /// The same seed, the same keys.
    pub seed: u64,
}

/// Numbers of keys, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct KeyStream {
    count: u64,
    choice: Choice,
}

#[derive(Clone, Debug)]
enum Choice {
    Uniform(Random),
    Zipf(Zipf, Random),
    InOrder(u64),
}

impl Keys {
    pub(crate) fn stream(&self) -> KeyStream {
        let count = self.count.clamp(1, KEYS_MAX);
        let random = Random::new(self.seed);
        let choice = match self.draw {
            Draw::Uniform => Choice::Uniform(random),
            Draw::Zipf(exponent) => Choice::Zipf(Zipf::new(count, exponent), random),
            Draw::InOrder => Choice::InOrder(0),
        };
        KeyStream { count, choice }
    }
}

impl KeyStream {
    pub(crate) fn next(&mut self) -> u64 {
        match &mut self.choice {
            Choice::Uniform(random) => random.below(self.count),
            Choice::Zipf(zipf, random) => zipf.rank(random),
            Choice::InOrder(next) => {
                let key = *next;
                *next = (key + 1) % self.count;
                key
            }
        }
    }
}

#[cfg(test)]
mod tests;
