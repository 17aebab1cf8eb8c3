//! A secret that all servers on one database have in common, without an operator who sets one.
//!
//! Servers seal what callers carry away, so that another server of the fleet, or the same one after a restart, recognises it. Where no
//! `store_secret` is set, the first server that opens the database makes a secret up and writes it there, once. It stands in
//! the table `settings`, which no part of the admin API reads; it is in no audit row, no log and no error.

#[cfg(test)]
mod tests;

use std::fmt;

use crate::driver::{Session, Value, Work};
use crate::error::DatabaseError;
use crate::schema::setting;

const SECRET_BYTES: usize = 32;
/// The row of the table `settings`. The migration that makes it leaves its value empty.
pub(crate) const ROW: &str = "fleet_secret";
/// Keeps what is derived from a `store_secret` apart from what is derived from a secret of the database.
const OF_STORE_SECRET: &str = "tollgate: fleet secret from store_secret, layout 1";

/// A secret of a fleet. It is used through keys that are derived from it, one for each purpose.
#[derive(Clone, PartialEq, Eq)]
pub struct FleetSecret([u8; SECRET_BYTES]);

impl FleetSecret {
    /// A secret that no other fleet has.
    pub(crate) fn random() -> Result<FleetSecret, DatabaseError> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret)
            .map_err(|error| DatabaseError::Other(format!("no randomness: {error}")))?;
        Ok(FleetSecret(secret))
    }

    /// The secret that operators gave as `store_secret`. None if it is empty.
    pub fn of_store_secret(secret: &[u8]) -> Option<FleetSecret> {
        (!secret.is_empty()).then(|| FleetSecret(blake3::derive_key(OF_STORE_SECRET, secret)))
    }

    /// A key for one purpose, such as `"tollgate: seals of permits, layout 1"`: the same in every process of the fleet. It tells nothing
    /// about the secret, nor about keys for other purposes.
    pub fn derive(&self, purpose: &'static str) -> [u8; 32] {
        blake3::derive_key(purpose, &self.0)
    }

    fn to_text(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    fn from_text(text: &str) -> Result<FleetSecret, DatabaseError> {
        let damaged =
            |_| DatabaseError::Corrupt("the secret of the fleet is not 64 hexadecimal digits".to_owned());
        blake3::Hash::from_hex(text).map(|hash| FleetSecret(*hash.as_bytes())).map_err(damaged)
    }
}

impl fmt::Debug for FleetSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FleetSecret(..)")
    }
}

/// The secret that a database or a replica has, if it has one.
pub(crate) struct Read;

impl Work for Read {
    type Out = Option<FleetSecret>;

    async fn run(&self, session: &mut Session<'_>) -> Result<Option<FleetSecret>, DatabaseError> {
        let text = setting(session, ROW).await?.unwrap_or_default();
        if text.is_empty() { Ok(None) } else { FleetSecret::from_text(&text).map(Some) }
    }
}

/// Writes a secret where there is none, and says which one is there then: of several servers that start together, one writes.
pub(crate) struct WriteOnce(pub(crate) FleetSecret);

impl Work for WriteOnce {
    type Out = Option<FleetSecret>;

    async fn run(&self, session: &mut Session<'_>) -> Result<Option<FleetSecret>, DatabaseError> {
        // PostgreSQL lets the second writer wait for the first, and looks at the condition again.
        let sql = "UPDATE settings SET value = ? WHERE name = ? AND value = ''";
        session.execute(sql, &[Value::Text(&self.0.to_text()), Value::Text(ROW)]).await?;
        Read.run(session).await
    }
}

/// Replaces the secret, in a replica that follows another database than before.
pub(crate) struct Replace(pub(crate) FleetSecret);

impl Work for Replace {
    type Out = ();

    async fn run(&self, session: &mut Session<'_>) -> Result<(), DatabaseError> {
        let sql = "UPDATE settings SET value = ? WHERE name = ?";
        session.execute(sql, &[Value::Text(&self.0.to_text()), Value::Text(ROW)]).await
    }
}
