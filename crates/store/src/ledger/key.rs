//! Keys as keyed hashes, and what a collision costs.
//!
//! The table keeps 63 bits of a key's hash, not the key. Two keys with the same hash share a counter, so a client that could choose
//! collisions could eat somebody else's quota. The hash is rapidhash (its protected variant) with 512 random bits of secrets
//! that each process draws when it starts and never shows, and no hash ever leaves the process.
//!
//! **By chance**: ten million keys at once contain a colliding pair with a probability of 1 in 180,000.
//!
//! **By attack**: to hit one given victim without knowing the secrets is a matter of luck, 2^-63 per try: a million new keys
//! every second for a year hit once in three hundred thousand such years. To learn about the secrets, an attacker would have to observe
//! hashes, and all there is to observe is whether two keys *of his own* share a counter. In a full table of 2^25 keys that is
//! the case once in 2^14 fillings, and would then have to be noticed.
//!
//! **What was weighed**: SipHash-1-3 is built to withstand attackers who see hashes, and costs 15 ns where rapidhash costs 4
//! (`docs/performance.md`). Since nobody sees any, that is a third of a decision for a guarantee that nothing here needs. Who lets
//! hashes out of the process (into logs, say) must change this.
//!
//! Since the secrets differ between processes, nothing here may be sent to another one.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};
use tollgate_core::{Algorithm, Limit, Time};

use super::LedgerError;
use crate::authority::mix;
use crate::table::Tag;

/// A key of one ledger. Meaningless to any other.
///
/// ```text
///    63                                          1 0
///   +---------------------------------------------+-+
///   | hash                                        |c|    c: the limits of this key are brought along by callers
///   +---------------------------------------------+-+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

/// The bit of a key that says which part of the memory its states are in.
const OF_CALLER: u64 = 1;

impl Key {
    /// The same key under limits that callers bring along.
    #[inline]
    pub(crate) fn of_caller(self) -> Key {
        Key(self.0 | OF_CALLER)
    }

    #[inline]
    pub(crate) fn is_of_caller(self) -> bool {
        self.0 & OF_CALLER != 0
    }

    /// The key that all keys of one of so many groups share, under the limit with this fingerprint.
    pub(crate) fn in_group(self, fingerprint: u64, groups: u64) -> Key {
        // Other bits than those that choose a slot in the table.
        let group = (self.0 >> 8) % groups;
        Key(mix(fingerprint.wrapping_add(mix(group))) & !OF_CALLER)
    }

    /// Where the key's state under `limit` is kept. States that cannot be read with each other's numbers are kept
    /// apart, so a word is never misread.
    #[inline]
    pub(crate) fn tag(self, limit: &Limit) -> Tag {
        self.tag_of(limit.shape())
    }

    #[inline]
    pub(crate) fn tag_of(self, shape: u64) -> Tag {
        Tag::of(self.0 ^ shape)
    }

    /// A number for the key under a limit of this shape, by which whatever else this process keeps of it can be found.
    pub fn number(self, shape: u64) -> u64 {
        mix(self.0 ^ shape)
    }

    /// A number below `count` that belongs to the key.
    pub(crate) fn stripe(self, count: usize) -> usize {
        usize::try_from(self.0 % count as u64).unwrap_or(0)
    }

    /// The time on the key's own clock: ahead of `now` where the limit spreads its windows.
    pub(crate) fn time(self, limit: &Limit, now: Time) -> Time {
        limit.key_time(self.0, now)
    }

    #[inline]
    pub(crate) fn time_of(self, algorithm: &impl Algorithm, now: Time) -> Time {
        algorithm.key_time(self.0, now)
    }
}

pub(crate) struct KeyHasher {
    secrets: RapidSecrets,
}

impl KeyHasher {
    pub(crate) fn random() -> Result<KeyHasher, LedgerError> {
        let mut secrets = RapidSecrets { seed: random()?, secrets: [0; 7] };
        for secret in &mut secrets.secrets {
            *secret = random()?;
        }
        Ok(KeyHasher { secrets })
    }

    #[inline]
    pub(crate) fn key(&self, bytes: &[u8]) -> Key {
        const AVALANCHE: bool = true;
        const COMPACT: bool = true;
        const PROTECTED: bool = true;
        Key(rapidhash_v3_inline::<AVALANCHE, COMPACT, PROTECTED>(bytes, &self.secrets) & !OF_CALLER)
    }
}

pub(super) fn random() -> Result<u64, LedgerError> {
    getrandom::u64().map_err(LedgerError::Random)
}
