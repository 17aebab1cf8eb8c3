//! Keys as keyed hashes, and what a collision costs.
//!
//! The table keeps 64 bits of a key, not the key. Two keys with the same hash share a counter, so whoever could choose
//! collisions could eat somebody else's quota. Nobody can: the hash is SipHash-1-3 with a random 128-bit key that each
//! process draws when it starts and never shows. Without the key, hitting one given victim is a matter of luck: a
//! chance of 2^-64 per try, so an attacker who sends a million new keys every second for a year hits once in half
//! a million such years. Among honest keys, ten million at once hold a colliding pair with a probability of 3 in a
//! million. The price over an unkeyed hash is about ten nanoseconds, which batches overlap.
//!
//! Since the key of the hash differs between processes, nothing here may be sent to another one.

use siphasher::sip::SipHasher13;
use tollgate_core::{Limit, Time};

use super::LedgerError;
use crate::table::Tag;

/// A key of one ledger. Meaningless to any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// Where the key's state under `limit` is kept. States that cannot be read with each other's numbers are kept
    /// apart, so a word is never misread.
    #[inline]
    pub(crate) fn tag(self, limit: &Limit) -> Tag {
        Tag::of(self.0 ^ limit.shape())
    }

    /// The time on the key's own clock: ahead of `now` where the limit spreads its windows.
    #[inline]
    pub(crate) fn time(self, limit: &Limit, now: Time) -> Time {
        limit.key_time(self.0, now)
    }
}

pub(crate) struct KeyHasher {
    sip: SipHasher13,
}

impl KeyHasher {
    pub(crate) fn random() -> Result<KeyHasher, LedgerError> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(LedgerError::Random)?;
        Ok(KeyHasher { sip: SipHasher13::new_with_key(&secret) })
    }

    #[inline]
    pub(crate) fn key(&self, bytes: &[u8]) -> Key {
        Key(self.sip.hash(bytes))
    }
}
