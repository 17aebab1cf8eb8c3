//! Leaky bucket as a meter: the token bucket seen from the other side.
//!
//! Units pour in, leak out at one every T ticks, and whatever would overflow the bucket is denied. "What has not
//! leaked yet" is the token bucket's backlog and "the bucket's size" its burst, so the arithmetic is the same
//! and is not written again. Bound: as for the token bucket.

use crate::algorithm::Algorithm;
use crate::algorithm::token_bucket::TokenBucket;
use crate::ask::{Ask, Refund};
use crate::decision::Decision;
use crate::error::LimitError;
use crate::rate::Rate;
use crate::script::{Script, Scripted};
use crate::share::Share;
use crate::time::{Tick, Time};
use crate::word::Packed;

/// A bucket of a given size that leaks at a given rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeakyBucket {
    bucket: TokenBucket,
}

impl LeakyBucket {
    /// A bucket that holds `size` units and leaks at `rate`.
    pub fn new(rate: Rate, size: u64) -> Result<LeakyBucket, LimitError> {
        Ok(LeakyBucket { bucket: TokenBucket::new(rate, size)? })
    }

    /// As [`crate::Limit::with_reserve`].
    pub(crate) fn with_reserve(&self, units: u64) -> Option<LeakyBucket> {
        Some(LeakyBucket { bucket: self.bucket.with_reserve(units)? })
    }

    /// The limit of a node that has this share of the size and of the rate.
    pub(crate) fn share(&self, share: Share) -> LeakyBucket {
        LeakyBucket { bucket: self.bucket.share(share) }
    }
}

impl Algorithm for LeakyBucket {
    type State = Time;

    fn decide(&self, empty_at: &mut Time, ask: Ask) -> Decision {
        self.bucket.decide(empty_at, ask)
    }

    fn give_back(&self, empty_at: &mut Time, refund: Refund) {
        self.bucket.give_back(empty_at, refund);
    }

    fn used(&self, empty_at: &Time, now: Time) -> u64 {
        self.bucket.used(empty_at, now)
    }

    fn expires_at(&self, empty_at: &Time) -> Time {
        self.bucket.expires_at(empty_at)
    }

    fn shape(&self) -> u64 {
        self.bucket.shape()
    }
}

impl Packed for LeakyBucket {
    type Moment = ();

    #[inline]
    fn packs(&self) -> bool {
        self.bucket.packs()
    }

    fn moment(&self, _now: Time) {}

    #[inline]
    fn used_part(&self, word: u64, now: Time) -> (u64, u64) {
        self.bucket.used_part(word, now)
    }

    fn pack(&self, empty_at: &Time) -> u64 {
        self.bucket.pack(empty_at)
    }

    fn unpack(&self, word: u64) -> Time {
        self.bucket.unpack(word)
    }
}

impl Scripted for LeakyBucket {
    const SCRIPT: Option<&'static Script> = TokenBucket::SCRIPT;

    fn in_ticks(&self, tick: Tick) -> Result<LeakyBucket, LimitError> {
        Ok(LeakyBucket { bucket: self.bucket.in_ticks(tick)? })
    }

    fn fits_script(&self, tick: Tick) -> bool {
        self.bucket.fits_script(tick)
    }

    fn cost_max(&self) -> u64 {
        self.bucket.cost_max()
    }

    fn put_numbers(&self, around: Time, put: &mut dyn FnMut(u64)) {
        self.bucket.put_numbers(around, put);
    }
}
