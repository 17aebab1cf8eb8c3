//! What goes wrong with a database, in words for those who run it.

use thiserror::Error;

use crate::document::Version;

/// Why a database did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DatabaseError {
    /// There is none.
    #[error("no database is set (database: off)")]
    Off,
    /// It cannot be reached now, or does not answer in time.
    #[error("the database cannot be reached: {0}")]
    Away(String),
    /// It is there, and has given up on what it was asked: that takes too long.
    #[error("the database takes too long: {0}")]
    Slow(String),
    /// It has no room.
    #[error("the database is full: {0}")]
    Full(String),
    /// It takes no changes.
    #[error("the database is read-only: {0}")]
    ReadOnly(String),
    /// Others are at it for too long.
    #[error("the database is locked by others: {0}")]
    Locked(String),
    /// What it holds is damaged.
    #[error("the database is damaged: {0}")]
    Corrupt(String),
    /// It does not let us in, or not do what we must.
    #[error("the database refuses us: {0}")]
    Denied(String),
    /// A newer Tollgate has made it into something that this one does not know.
    #[error(
        "the database has schema {found}, and this version of Tollgate knows only {known}: run the newer one"
    )]
    Newer {
        /// What it has.
        found: u64,
        /// What we know.
        known: u64,
    },
    /// It cannot be used as it was set.
    #[error("the database's settings: {0}")]
    Settings(String),
    /// Anything else.
    #[error("the database: {0}")]
    Other(String),
}

/// Why a change was not made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// What it was to depend on does not hold.
    #[error("{}", current_text(*.current))]
    Condition {
        /// The document's version, if there is one.
        current: Option<Version>,
    },
    /// Something else was asked under the same key before.
    #[error("something else was asked before under the same idempotency key")]
    RepeatDiffers,
    /// There is nothing to delete.
    #[error("there is no such document")]
    Missing,
    /// It cannot be kept.
    #[error("{0}")]
    Invalid(String),
    /// The database has no room. Nothing was changed.
    #[error("{0}; nothing was changed")]
    Full(String),
    /// The database cannot be reached, or takes no changes now. Nothing was changed.
    #[error("{0}; nothing was changed")]
    Away(String),
    /// The database is there, and has given up. Nothing was changed.
    #[error("{0}; nothing was changed")]
    Slow(String),
    /// The database was lost while it was about to confirm, and did not come back in time to be asked.
    #[error("{0}; whether the change was made is not known: read it again before asking again")]
    Unknown(String),
    /// Anything else. Nothing was changed.
    #[error("{0}; nothing was changed")]
    Other(DatabaseError),
}

impl From<DatabaseError> for ChangeError {
    fn from(error: DatabaseError) -> ChangeError {
        match error {
            DatabaseError::Full(_) => ChangeError::Full(error.to_string()),
            DatabaseError::Slow(_) => ChangeError::Slow(error.to_string()),
            DatabaseError::Away(_) | DatabaseError::ReadOnly(_) | DatabaseError::Locked(_) => {
                ChangeError::Away(error.to_string())
            }
            other => ChangeError::Other(other),
        }
    }
}

fn current_text(current: Option<Version>) -> String {
    match current {
        Some(version) => format!("the document is there, with version {version}"),
        None => "there is no such document".to_owned(),
    }
}
