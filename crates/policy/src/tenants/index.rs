//! Which terms a tenant has: a table that anybody reads without a lock, while one writer adds to it.
//!
//! A slot is 16 bytes, so that four of them fill a cache line and a tenant costs one look at memory:
//!
//! ```text
//! hash   64 bits   of the tenant's name; 0: the slot is free, and so is everything behind it
//! rest   32 bits   more of the hash      32 bits: the number of the terms; 0: the tenant had terms once, and has none any more
//! ```
//!
//! A slot belongs to its tenant until the table is built anew: its hash is written once, after its rest. So whoever has read the hash
//! reads a rest of that tenant, and terms change by one store.
//!
//! Names are not kept. Their hash is keyed with secrets of the process and has 96 bits, so nobody can choose a name that finds somebody else's
//! terms: among a million tenants, one try in 2^76 does.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

/// A tenant's name, hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TenantHash {
    /// Never 0.
    hash: u64,
    more: u32,
}

/// Hashes names of tenants with secrets of its own.
#[derive(Clone)]
pub(super) struct TenantHasher {
    secrets: [RapidSecrets; 2],
}

impl TenantHasher {
    /// One that nobody can foresee: the standard library's keys are random.
    pub(super) fn random() -> TenantHasher {
        let number = || RandomState::new().build_hasher().finish();
        let secrets = || RapidSecrets { seed: number(), secrets: std::array::from_fn(|_| number() | 1) };
        TenantHasher { secrets: [secrets(), secrets()] }
    }

    #[inline]
    pub(super) fn hash(&self, tenant: &[u8]) -> TenantHash {
        const AVALANCHE: bool = true;
        const COMPACT: bool = true;
        const PROTECTED: bool = true;
        let [hash, more] = self
            .secrets
            .each_ref()
            .map(|secrets| rapidhash_v3_inline::<AVALANCHE, COMPACT, PROTECTED>(tenant, secrets));
        TenantHash { hash: hash.max(1), more: high_half(more) }
    }
}

/// The table.
pub(super) struct Index {
    slots: Box<[Slot]>,
    /// How many slots belong to somebody. Only the writer looks at it.
    used: AtomicUsize,
}

/// Whose terms these are, and which.
#[derive(Default)]
#[repr(align(16))]
pub(super) struct Slot {
    hash: AtomicU64,
    rest: AtomicU64,
}

impl Index {
    /// A table with room for so many tenants, and half as many again.
    pub(super) fn with_room(tenants: usize) -> Index {
        let slots = tenants + tenants / 2 + 64;
        Index { slots: (0..slots).map(|_| Slot::default()).collect(), used: AtomicUsize::new(0) }
    }

    /// How many slots belong to somebody.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether one more tenant has room: beyond seven eighths, looking for one would take long.
    pub(super) fn has_room(&self) -> bool {
        self.used() + 1 < self.slots.len() / 8 * 7
    }

    /// The number of a tenant's terms; 0 if it has none any more.
    #[inline]
    pub(super) fn find(&self, tenant: TenantHash) -> Option<u32> {
        for slot in self.slots_from_home(tenant) {
            // Acquire: pairs with the store of the hash in `put`, after which the rest is there.
            match slot.hash.load(Ordering::Acquire) {
                0 => return None,
                hash if hash == tenant.hash => {
                    // Acquire: pairs with the stores of the rest in `put`: the terms are there.
                    let rest = slot.rest.load(Ordering::Acquire);
                    if high_half(rest) == tenant.more {
                        return Some(low_half(rest));
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The first slot that a tenant may stand in, whoever it belongs to. Nothing in it is read yet.
    #[inline]
    pub(super) fn home(&self, tenant: TenantHash) -> Option<&Slot> {
        self.slots_from_home(tenant).next()
    }

    /// Gives a tenant the terms of this number, and says which it had. There must be room, and nobody else may write.
    pub(super) fn put(&self, tenant: TenantHash, number: u32) -> u32 {
        let rest = u64::from(tenant.more) << 32 | u64::from(number);
        for slot in self.slots_from_home(tenant) {
            let hash = slot.hash.load(Ordering::Relaxed); // written by nobody else
            if hash == 0 {
                slot.rest.store(rest, Ordering::Release); // pairs with the load of the rest in `find`
                slot.hash.store(tenant.hash, Ordering::Release); // pairs with the load of the hash in `find`
                self.used.fetch_add(1, Ordering::Relaxed);
                return 0;
            }
            let before = slot.rest.load(Ordering::Relaxed);
            if hash == tenant.hash && high_half(before) == tenant.more {
                slot.rest.store(rest, Ordering::Release); // pairs with the load of the rest in `find`
                return low_half(before);
            }
        }
        debug_assert!(false, "there is always a free slot");
        0
    }

    /// All tenants, and the numbers of their terms.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TenantHash, u32)> + '_ {
        self.slots.iter().filter_map(|slot| {
            let (hash, rest) = (slot.hash.load(Ordering::Acquire), slot.rest.load(Ordering::Acquire));
            (hash != 0).then(|| (TenantHash { hash, more: high_half(rest) }, low_half(rest)))
        })
    }

    /// All slots, beginning with the first that a tenant may stand in.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // It is below the number of slots.
    fn slots_from_home(&self, tenant: TenantHash) -> impl Iterator<Item = &Slot> {
        let home = ((u128::from(tenant.hash) * self.slots.len() as u128) >> 64) as usize;
        let (before, behind) = self.slots.split_at(home);
        behind.iter().chain(before)
    }
}

#[allow(clippy::cast_possible_truncation)] // One half is wanted.
fn low_half(number: u64) -> u32 {
    number as u32
}

#[allow(clippy::cast_possible_truncation)] // Nothing is lost.
fn high_half(number: u64) -> u32 {
    (number >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn finds_what_was_put_last() {
        let (hasher, index) = (TenantHasher::random(), Index::with_room(1_000));
        let mut model = HashMap::new();
        for turn in 0..5_000_u32 {
            let name = format!("tenant {}", turn * 7_919 % 1_000);
            let hash = hasher.hash(name.as_bytes());
            assert_eq!(index.find(hash), model.get(&name).copied(), "{name}");
            assert_eq!(index.put(hash, turn % 5), model.insert(name, turn % 5).unwrap_or(0));
        }
        assert_eq!((index.used(), index.iter().count()), (1_000, 1_000));
        assert!(index.has_room());
    }

    #[test]
    fn a_full_table_says_so_while_there_are_free_slots() {
        let (hasher, index) = (TenantHasher::random(), Index::with_room(0));
        let mut count = 0_u32;
        while index.has_room() {
            count += 1;
            index.put(hasher.hash(&count.to_le_bytes()), count);
        }
        assert!((40..64).contains(&count), "{count}");
        assert_eq!(index.find(hasher.hash(b"somebody else")), None);
        assert!((1..=count).all(|number| index.find(hasher.hash(&number.to_le_bytes())) == Some(number)));
    }

    #[test]
    fn names_with_one_hash_are_told_apart_by_the_rest() {
        let index = Index::with_room(10);
        let [one, other] = [1, 2].map(|more| TenantHash { hash: u64::MAX, more });
        index.put(one, 1);
        index.put(other, 2);
        assert_eq!((index.find(one), index.find(other)), (Some(1), Some(2)));
        assert_eq!(index.find(TenantHash { hash: u64::MAX, more: 3 }), None);
    }
}
