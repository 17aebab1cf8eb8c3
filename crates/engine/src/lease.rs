//! Leases: what a caller carries away from [`crate::Engine::acquire`], to bring it back when it is done.
//!
//! The engine keeps no list of them. A lease names the holds themselves, and the process that gave it out: elsewhere, or after a
//! restart, the same numbers may stand for another caller's. What is held of a limit that a fleet shares can be released by every
//! process of the fleet. Each lease has a [seal](crate::seal), so that no caller can make one up or alter one.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;
use tollgate_core::{Concurrency, Holder, Limit, LimitError, SharedLimit, Span};
use tollgate_store::authority::{Pin, SharedKey};

use crate::seal::{Sealed, Sealer};

/// A right to be at it, until it is released or its deadline passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease(Vec<u8>);

/// A text that no engine gave out as a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this is not a lease: send back the `lease` that was given, as it is")]
pub struct NotALease;

/// Why a lease cannot be released here. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReleaseError {
    /// Its seal is neither that of this process nor that of its fleet.
    #[error(
        "this lease was not given by this server or its fleet, or it was altered: nothing was released. A lease that was \
         given before a restart is void if the server has neither a `store_secret` nor a database; what it held has ended \
         with the process, or ends at its deadline"
    )]
    Unsealed,
    /// It holds nothing but units that another process counts in its memory.
    #[error(
        "this lease was given by another process, which counts in its own memory what the lease holds: release it there. If \
         that process has stopped, the lease holds nothing any more"
    )]
    Elsewhere,
}

/// Gives out leases, and knows its own.
#[derive(Debug)]
pub(crate) struct LeaseIssuer {
    process: [u8; 8],
    /// Holds have deadlines of their own, so that any limit of the kind can end them.
    any_limit: Limit,
    any_shared_limit: Arc<SharedLimit>,
}

/// So much of a lease is released at most: more than any request is given, and no more than one client may ask of others at once.
const HOLDS_MAX: usize = 128;

/// Stands where the length of a key stands, for a hold whose counter others share.
const SHARED: u64 = u64::MAX;

/// Units that are held of a limit that others share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldThere {
    pub(crate) name: SharedKey,
    pub(crate) holder: Holder,
    pub(crate) pin: Option<Pin>,
}

/// One of the things that a lease holds.
pub(crate) enum Hold<'a> {
    /// Units of a limit of this process.
    Here { key: &'a [u8], holder: Holder },
    /// Units of a limit that others share, and what its counter is pinned as, if that is not empty.
    Shared { name: SharedKey, holder: Holder, pinned: &'a [u8] },
}

impl LeaseIssuer {
    pub(crate) fn new(process: u64) -> Result<LeaseIssuer, LimitError> {
        let any_limit = Concurrency::new(1, Span::from_ticks(1_000_000_000))?.into();
        let any_shared_limit = SharedLimit::new(&any_limit)?.into();
        Ok(LeaseIssuer { process: process.to_le_bytes(), any_limit, any_shared_limit })
    }

    /// A number that no other process has.
    pub(crate) fn seed(&self) -> u64 {
        u64::from_le_bytes(self.process)
    }

    pub(crate) fn any_limit(&self) -> &Limit {
        &self.any_limit
    }

    pub(crate) fn any_shared_limit(&self) -> &Arc<SharedLimit> {
        &self.any_shared_limit
    }

    /// A lease that holds nothing yet.
    pub(crate) fn start(&self) -> Lease {
        Lease(self.process.to_vec())
    }

    /// What a lease holds: in this process, if it is the one that gave it out, and of limits that others share, if this process
    /// shares any.
    pub(crate) fn holds<'a>(
        &self,
        lease: &'a Lease,
        sealer: &Sealer,
        is_sharing: bool,
    ) -> Result<Vec<Hold<'a>>, ReleaseError> {
        let bytes = sealer.open(Sealed::Permit, &lease.0).ok_or(ReleaseError::Unsealed)?;
        let (process, mut rest) = bytes.split_at_checked(self.process.len()).ok_or(ReleaseError::Unsealed)?;
        let is_own = process == self.process;
        let mut holds = Vec::new();
        while holds.len() < HOLDS_MAX
            && let Some((hold, after)) = read_hold(rest)
        {
            rest = after;
            holds.push(hold);
        }
        holds.retain(|hold| match hold {
            Hold::Here { .. } => is_own,
            Hold::Shared { .. } => is_sharing,
        });
        if holds.is_empty() && !is_own {
            return Err(ReleaseError::Elsewhere);
        }
        Ok(holds)
    }
}

/// The first of the holds, and what follows it.
fn read_hold(bytes: &[u8]) -> Option<(Hold<'_>, &[u8])> {
    let (&length, after) = bytes.split_first_chunk()?;
    let length = u64::from_le_bytes(length);
    let name_bytes = if length == SHARED { size_of::<SharedKey>() } else { usize::try_from(length).ok()? };
    let (name, after) = after.split_at_checked(name_bytes)?;
    let (&holder, after) = after.split_first_chunk()?;
    let holder = Holder::from_number(u64::from_le_bytes(holder));
    if length != SHARED {
        return Some((Hold::Here { key: name, holder }, after));
    }
    let name = SharedKey(u128::from_le_bytes(name.try_into().ok()?));
    let (&length, after) = after.split_first_chunk()?;
    let (pinned, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(length)).ok()?)?;
    Some((Hold::Shared { name, holder, pinned }, after))
}

impl Lease {
    /// The same lease, with its seal.
    pub(crate) fn sealed(mut self, sealer: &Sealer) -> Lease {
        sealer.seal(Sealed::Permit, &mut self.0);
        self
    }

    /// Adds what is held elsewhere. Pins have names that everybody in the fleet knows; their numbers are each process's own.
    pub(crate) fn add_shared(&mut self, held: &HeldThere, pinned: &[u8]) {
        self.0.extend_from_slice(&SHARED.to_le_bytes());
        self.0.extend_from_slice(&held.name.0.to_le_bytes());
        self.0.extend_from_slice(&held.holder.number().to_le_bytes());
        self.0.extend_from_slice(&(pinned.len() as u64).to_le_bytes());
        self.0.extend_from_slice(pinned);
    }

    pub(crate) fn add(&mut self, key: &[u8], holder: Holder) {
        self.0.extend_from_slice(&(key.len() as u64).to_le_bytes());
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(&holder.number().to_le_bytes());
    }
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Lease {
    type Err = NotALease;

    fn from_str(text: &str) -> Result<Lease, NotALease> {
        let digit = |byte: u8| {
            char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).ok_or(NotALease)
        };
        let (pairs, odd) = text.as_bytes().as_chunks::<2>();
        if !odd.is_empty() {
            return Err(NotALease);
        }
        pairs
            .iter()
            .map(|&[high, low]| Ok(digit(high)? << 4 | digit(low)?))
            .collect::<Result<_, _>>()
            .map(Lease)
    }
}
