//! What is kept: texts under a kind and an id.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::driver::{Row, Value};
use crate::error::DatabaseError;
use crate::page;

/// The number of a change. The first is 1, and none is left out; 0 is what nobody has changed yet.
pub type Version = u64;

/// The longest text of a document.
pub const BODY_BYTES_MAX: usize = 256 * 1024;
/// The longest id. PostgreSQL has no index over much longer ones.
pub const ID_BYTES_MAX: usize = 512;
/// The longest name, role, action and key of a repetition.
pub const TEXT_BYTES_MAX: usize = 256;

/// What a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A named policy, or a domain.
    Policy,
    /// What one tenant may.
    Quota,
    /// A key that is banned or boosted.
    Key,
    /// What is switched off.
    Switch,
    /// What was counted: an act without a document.
    Usage,
    /// The rules of files: an act without a document.
    Rules,
}

/// What is kept under a kind and an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// What it is about.
    pub kind: Kind,
    /// Which one of them.
    pub id: String,
    /// The change that wrote it.
    pub version: Version,
    /// JSON, as it was given.
    pub body: String,
    /// When it was written, in milliseconds since 1970.
    pub changed_at_ms: i64,
    /// Who wrote it.
    pub changed_by: String,
}

/// No kind has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no such kind: there are policy, quota, key, switch, usage and rules")]
pub struct UnknownKind;

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 6] = [Kind::Policy, Kind::Quota, Kind::Key, Kind::Switch, Kind::Usage, Kind::Rules];

    /// Its name, as it is stored.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Policy => "policy",
            Kind::Quota => "quota",
            Kind::Key => "key",
            Kind::Switch => "switch",
            Kind::Usage => "usage",
            Kind::Rules => "rules",
        }
    }

    /// Whether there are documents of it. What is not is only ever told in the audit.
    pub const fn is_document(self) -> bool {
        matches!(self, Kind::Policy | Kind::Quota | Kind::Key | Kind::Switch)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Kind, UnknownKind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == text).ok_or(UnknownKind)
    }
}

/// The columns of a document, in the order of [`Stored`].
pub(crate) const COLUMNS: &str = "kind, id, version, body, changed_at, changed_by";

/// The columns that say how large it is.
pub(crate) fn sizes() -> String {
    page::sizes(&["id", "body"])
}

/// A document as it is stored, of a kind that we may not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) version: Version,
    pub(crate) body: String,
    pub(crate) changed_at_ms: i64,
    pub(crate) changed_by: String,
}

impl Stored {
    pub(crate) fn read(mut row: Row) -> Result<Stored, DatabaseError> {
        Ok(Stored {
            kind: row.text(0)?,
            id: row.text(1)?,
            version: row.version(2)?,
            body: row.text(3)?,
            changed_at_ms: row.integer(4)?,
            changed_by: row.text(5)?,
        })
    }

    pub(crate) fn values(&self) -> Result<[Value<'_>; 6], DatabaseError> {
        Ok([
            Value::Text(&self.kind),
            Value::Text(&self.id),
            Value::version(self.version)?,
            Value::Text(&self.body),
            Value::Integer(self.changed_at_ms),
            Value::Text(&self.changed_by),
        ])
    }

    /// As a document, if we know its kind: a newer node may write others.
    pub(crate) fn known(self) -> Option<Document> {
        let Stored { kind, id, version, body, changed_at_ms, changed_by } = self;
        Some(Document { kind: kind.parse().ok()?, id, version, body, changed_at_ms, changed_by })
    }
}

impl From<Document> for Stored {
    fn from(document: Document) -> Stored {
        let Document { kind, id, version, body, changed_at_ms, changed_by } = document;
        Stored { kind: kind.name().to_owned(), id, version, body, changed_at_ms, changed_by }
    }
}
