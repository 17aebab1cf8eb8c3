//! Seals: how a process recognises what it, or another process of its fleet, gave to a caller.
//!
//! A permit of a concurrency limit and a reservation are carried by callers, and name what they hold or have charged. Without
//! a seal, a caller that guesses or alters these names ends what another caller holds. So each carries a keyed BLAKE3 hash of
//! 128 bits.
//!
//! The key is derived from a secret that the processes of a fleet have in common, as soon as there is one: `store_secret`, or the
//! secret that the first server has written into the database. Until then, and where there is none, a key of the process takes
//! its place, from the randomness of the system. What was sealed with that stays valid in this process, and nowhere else.

use std::fmt;
use std::sync::OnceLock;

/// How many bytes of the hash a seal has: 128 bits cannot be guessed.
pub(crate) const SEAL_BYTES: usize = 16;

/// What a seal is made for. A seal of one kind is never valid as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sealed {
    /// A permit of a concurrency limit.
    Permit,
    /// A reservation of counts in the store.
    Reservation,
    /// A reservation of counts in the store and in the database. Servers that know the other layout only do not take it for theirs.
    DurableReservation,
}

impl Sealed {
    /// The context of the key derivation. Servers of one fleet may run different versions, so these texts never change.
    fn context(self) -> &'static str {
        match self {
            Sealed::Permit => "tollgate: seals of leases, layout 1",
            Sealed::Reservation => "tollgate: seals of reservations, layout 1",
            Sealed::DurableReservation => "tollgate: seals of reservations, layout 2",
        }
    }
}

/// Makes seals and checks them.
pub(crate) struct Sealer {
    process: Keys,
    /// Set once: a process belongs to one fleet.
    fleet: OnceLock<Keys>,
}

struct Keys {
    permit: [u8; 32],
    reservation: [u8; 32],
    durable_reservation: [u8; 32],
}

impl Keys {
    fn new(secret: &[u8]) -> Keys {
        let derive = |sealed: Sealed| blake3::derive_key(sealed.context(), secret);
        Keys {
            permit: derive(Sealed::Permit),
            reservation: derive(Sealed::Reservation),
            durable_reservation: derive(Sealed::DurableReservation),
        }
    }

    /// The first bytes of the hash, and zeros behind them.
    fn hash(&self, sealed: Sealed, bytes: &[u8]) -> blake3::Hash {
        let key = match sealed {
            Sealed::Permit => &self.permit,
            Sealed::Reservation => &self.reservation,
            Sealed::DurableReservation => &self.durable_reservation,
        };
        let mut hash = *blake3::keyed_hash(key, bytes).as_bytes();
        hash[SEAL_BYTES..].fill(0);
        hash.into()
    }
}

impl Sealer {
    /// A sealer with a key of this process alone.
    pub(crate) fn new() -> Result<Sealer, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Sealer { process: Keys::new(&secret), fleet: OnceLock::new() })
    }

    /// Seals with the secret of the fleet from now on. The first secret counts; an empty one is none.
    pub(crate) fn set_fleet_secret(&self, secret: &[u8]) {
        if !secret.is_empty() {
            self.fleet.get_or_init(|| Keys::new(secret));
        }
    }

    /// Whether other processes can check the seals that are made now.
    pub(crate) fn is_of_fleet(&self) -> bool {
        self.fleet.get().is_some()
    }

    /// Appends a seal.
    pub(crate) fn seal(&self, sealed: Sealed, bytes: &mut Vec<u8>) {
        let hash = self.fleet.get().unwrap_or(&self.process).hash(sealed, bytes);
        bytes.extend_from_slice(&hash.as_bytes()[..SEAL_BYTES]);
    }

    /// What was sealed, without its seal. None if neither this process nor its fleet has sealed it.
    pub(crate) fn open<'b>(&self, sealed: Sealed, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (content, shown) = bytes.split_last_chunk::<SEAL_BYTES>()?;
        let mut padded = [0; blake3::OUT_LEN];
        padded[..SEAL_BYTES].copy_from_slice(shown);
        // `blake3::Hash` compares in constant time.
        let is_made_with = |keys: &Keys| keys.hash(sealed, content) == padded;
        let is_ours = self.fleet.get().is_some_and(is_made_with) || is_made_with(&self.process);
        is_ours.then_some(content)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("is_of_fleet", &self.is_of_fleet()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn sealed(sealer: &Sealer) -> Vec<u8> {
        let mut bytes = b"content".to_vec();
        sealer.seal(Sealed::Permit, &mut bytes);
        bytes
    }

    fn of_fleet(secret: &[u8]) -> Sealer {
        let sealer = Sealer::new().unwrap();
        sealer.set_fleet_secret(secret);
        sealer
    }

    #[test]
    fn a_seal_of_a_process_is_valid_in_that_process_only() {
        let [here, there] = [Sealer::new().unwrap(), Sealer::new().unwrap()];
        let bytes = sealed(&here);
        assert_eq!(bytes.len(), 7 + SEAL_BYTES);
        assert_eq!(here.open(Sealed::Permit, &bytes), Some(&b"content"[..]));
        assert_eq!(there.open(Sealed::Permit, &bytes), None);
        assert_eq!(here.open(Sealed::Reservation, &bytes), None, "another kind");
    }

    #[test]
    fn a_seal_of_a_fleet_is_valid_in_all_of_its_processes() {
        let bytes = sealed(&of_fleet(b"secret"));
        assert!(of_fleet(b"secret").open(Sealed::Permit, &bytes).is_some());
        assert!(of_fleet(b"another").open(Sealed::Permit, &bytes).is_none());
        assert!(Sealer::new().unwrap().open(Sealed::Permit, &bytes).is_none());
    }

    #[test]
    fn what_was_sealed_before_the_secret_was_known_stays_valid_here() {
        let sealer = Sealer::new().unwrap();
        let before = sealed(&sealer);
        sealer.set_fleet_secret(b"secret");
        assert!(sealer.open(Sealed::Permit, &before).is_some());
        assert_ne!(sealed(&sealer), before);
        sealer.set_fleet_secret(b"another");
        assert!(
            of_fleet(b"secret").open(Sealed::Permit, &sealed(&sealer)).is_some(),
            "the first secret counts"
        );
    }

    #[test]
    fn an_empty_secret_is_none() {
        let sealer = of_fleet(b"");
        assert!(!sealer.is_of_fleet());
        assert!(of_fleet(b"").open(Sealed::Permit, &sealed(&sealer)).is_none());
    }

    #[test]
    fn an_altered_seal_or_content_is_refused() {
        let sealer = of_fleet(b"secret");
        let bytes = sealed(&sealer);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut altered = bytes.clone();
                altered[at] ^= 1 << bit;
                assert_eq!(sealer.open(Sealed::Permit, &altered), None, "bit {bit} of byte {at}");
            }
            assert_eq!(sealer.open(Sealed::Permit, &bytes[..at]), None, "cut off at {at}");
        }
        assert!(!format!("{sealer:?}").contains("key"));
    }
}
