//! Leases: what a caller carries away from [`crate::Engine::acquire`], to bring it back when it is done.
//!
//! The engine keeps no list of them. A lease names the holds themselves, and the process that gave it out: elsewhere, or after a
//! restart, the same numbers may stand for somebody else's.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use tollgate_core::{Concurrency, Holder, Limit, LimitError, Span};

/// A right to be at it, until it is released or its deadline passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease(Vec<u8>);

/// A text that no engine gave out as a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this is not a lease: send back the `lease` that was given, as it is")]
pub struct NotALease;

/// Gives out leases, and knows its own.
#[derive(Debug)]
pub(crate) struct LeaseIssuer {
    process: [u8; 8],
    /// Holds have deadlines of their own, so that any limit of the kind can end them.
    any_limit: Limit,
}

impl LeaseIssuer {
    pub(crate) fn new(process: u64) -> Result<LeaseIssuer, LimitError> {
        Ok(LeaseIssuer {
            process: process.to_le_bytes(),
            any_limit: Concurrency::new(1, Span::from_ticks(1))?.into(),
        })
    }

    pub(crate) fn any_limit(&self) -> &Limit {
        &self.any_limit
    }

    /// A lease that holds nothing yet.
    pub(crate) fn start(&self) -> Lease {
        Lease(self.process.to_vec())
    }

    /// The keys and holders of a lease of this process.
    pub(crate) fn holds<'a>(&self, lease: &'a Lease) -> impl Iterator<Item = (&'a [u8], Holder)> {
        let mut rest = lease.0.strip_prefix(&self.process).unwrap_or_default();
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first_chunk()?;
            let (key, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
            let (holder, after) = after.split_first_chunk()?;
            rest = after;
            Some((key, Holder::from_number(u64::from_le_bytes(*holder))))
        })
    }
}

impl Lease {
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
