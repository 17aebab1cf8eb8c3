//! The last token that a connection has shown and that was admitted, so that a proxy's token is not hashed anew for every call.
//!
//! What is remembered is a keyed 64-bit hash of the token, with a key that only this connection has. A wrong token is taken for the
//! right one with a chance of 2^-64, and only on a connection that has shown the right one before.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;

use tollgate::core::Time;

use super::{Access, Admitted, Refused};
use crate::metrics::Protocol;

/// The last token that was admitted on a connection.
#[derive(Default)]
pub(crate) struct Remembered {
    hasher: RandomState,
    last: Option<Last>,
}

struct Last {
    /// Of the tokens among which it was found.
    generation: u64,
    hash: u64,
    admitted: Admitted,
}

impl Remembered {
    /// As [`Access::admit`], and quicker if the same token was admitted last.
    pub(crate) fn admit(
        &mut self,
        access: &Access,
        protocol: Protocol,
        shown: &[u8],
        now: impl FnOnce() -> Time,
    ) -> Result<Admitted, Refused> {
        let Some(tokens) = access.tokens(protocol) else { return Ok(Admitted::default()) };
        // Acquire, before the lookup: pairs with the release of `Tokens::replace`.
        let generation = tokens.generation.load(Ordering::Acquire);
        let hash = self.hasher.hash_one(shown);
        if let Some(last) = &self.last
            && (last.generation, last.hash) == (generation, hash)
        {
            return if last.admitted.has_expired(now) {
                Err(Refused::Expired)
            } else {
                Ok(last.admitted.clone())
            };
        }
        let admitted = access.admit(protocol, Some(shown), now)?;
        self.last = Some(Last { generation, hash, admitted: admitted.clone() });
        Ok(admitted)
    }
}
