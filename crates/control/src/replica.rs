//! A node's own copy of what is in PostgreSQL, so that it can start while that is away.
//!
//! It is a SQLite file with the same tables, of which only the documents and the head are used. It is never the authority: what is
//! damaged is thrown away, and what does not fit the database any more is copied anew.

use std::path::Path;

use tokio::sync::{Mutex, mpsc};

use crate::audit::AuditRow;
use crate::chain::Head;
use crate::database::{self, Database};
use crate::document::{Document, Stored, Version};
use crate::driver::{Driver, Durability, Session, Sqlite, Value, Work};
use crate::error::DatabaseError;
use crate::fleet_secret::{self, FleetSecret};
use crate::page::PAGE_ROWS_MAX;
use crate::scan::{Scan, Scanned};
use crate::schema::{self, setting};
use crate::writer::{delete_document, set_head, write_documents};

/// From so many changes on it is better to copy everything than to make them all again.
const BEHIND_MAX: Version = 100_000;

/// A copy of what is in a database.
pub struct Replica {
    driver: Driver,
}

impl Replica {
    /// Opens it, or makes one with nothing in it. One that is damaged is thrown away.
    pub async fn open(path: &Path) -> Result<Replica, DatabaseError> {
        match open(path).await {
            Err(DatabaseError::Corrupt(error)) => {
                tracing::warn!(path = %path.display(), error, "the copy of the database is damaged and is begun anew");
                for end in ["", "-wal", "-shm"] {
                    let mut file = path.as_os_str().to_owned();
                    file.push(end);
                    match std::fs::remove_file(&file) {
                        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                            return Err(DatabaseError::Settings(format!("{}: {error}", path.display())));
                        }
                        _ => {}
                    }
                }
                open(path).await
            }
            opened => opened,
        }
    }

    /// The version that it is a copy of. 0 if it is of none.
    pub async fn version(&self) -> Result<Version, DatabaseError> {
        self.head().await.map(|head| head.version)
    }

    /// The same, and the hash of its row.
    pub async fn head(&self) -> Result<Head, DatabaseError> {
        database::head(&self.driver).await
    }

    /// The fleet that it is a copy of. One that nobody else has, if it is of none.
    pub async fn fleet(&self) -> Result<String, DatabaseError> {
        let rows = self.driver.query("SELECT value FROM settings WHERE name = 'fleet'", &[]).await?;
        rows.into_iter().next().map(|mut row| row.text(0)).transpose().map(Option::unwrap_or_default)
    }

    /// The secret of the fleet, if it was kept here.
    pub async fn fleet_secret(&self) -> Result<Option<FleetSecret>, DatabaseError> {
        self.driver.snapshot(fleet_secret::Read).await
    }

    /// Keeps the secret of the fleet for a start without the database.
    pub async fn keep_fleet_secret(&self, secret: &FleetSecret) -> Result<(), DatabaseError> {
        self.driver.write_plainly(fleet_secret::Replace(secret.clone())).await
    }

    /// All documents, by kind and id, and the head that they are of.
    pub async fn load(&self, each: impl FnMut(Document) + Send) -> Result<Head, DatabaseError> {
        database::load(&self.driver, each).await
    }

    /// Makes these changes here, too, all or none. What it knows already is passed over. Returns the version after them. An error if something is
    /// left out before them, or if they are of another history.
    pub async fn apply(&self, rows: &[AuditRow]) -> Result<Version, DatabaseError> {
        self.driver.write_plainly(Apply { rows: rows.to_vec() }).await
    }

    /// Copies everything.
    pub async fn copy_from(&self, database: &Database) -> Result<Version, DatabaseError> {
        let (scan, pages) = Scan::new(false);
        let copy = self.driver.write_plainly(Copy { pages: Mutex::new(pages) });
        let (scanned, copied) = tokio::join!(database.driver().snapshot(scan), copy);
        scanned?;
        copied
    }

    /// Becomes what the database is, by as few changes as that takes. Returns the version.
    pub async fn catch_up(&self, database: &Database) -> Result<Version, DatabaseError> {
        let (here, there) = (self.head().await?, database.version().await?);
        let is_same = self.fleet().await? == database.fleet()
            && database.hash_of(here.version).await?.as_ref() == Some(&here.hash);
        if !is_same || there.saturating_sub(here.version) > BEHIND_MAX {
            return self.copy_from(database).await;
        }
        let mut version = here.version;
        while version < there {
            let rows = database.since(version, PAGE_ROWS_MAX).await?;
            if rows.is_empty() {
                break;
            }
            version = self.apply(&rows).await?;
        }
        Ok(version)
    }
}

async fn open(path: &Path) -> Result<Replica, DatabaseError> {
    // What is lost with the power is copied again.
    let driver = Driver::Sqlite(Sqlite::open(path, Durability::Normal).await?);
    schema::migrate(&driver).await?;
    Ok(Replica { driver })
}

struct Apply {
    rows: Vec<AuditRow>,
}

impl Work for Apply {
    type Out = Version;

    async fn run(&self, session: &mut Session<'_>) -> Result<Version, DatabaseError> {
        let head = setting(session, "head").await?.unwrap_or_default();
        let mut head = Head::read(&head)?;
        let known = head.version;
        for row in self.rows.iter().filter(|row| row.version > known) {
            if row.version != head.version + 1 || row.previous != head.hash {
                let text =
                    format!("version {} does not follow the copy's version {}", row.version, head.version);
                return Err(DatabaseError::Other(text));
            }
            // A kind that we do not know yet is kept for when we do.
            if row.known_kind().is_none_or(crate::Kind::is_document) {
                match &row.after {
                    Some(body) => write_documents(session, &[stored(row, body)]).await?,
                    None => delete_document(session, &row.kind, &row.id).await?,
                }
            }
            head = Head { version: row.version, hash: row.hash.clone() };
        }
        set_head(session, &head).await?;
        Ok(head.version)
    }
}

fn stored(row: &AuditRow, body: &str) -> Stored {
    Stored {
        kind: row.kind.clone(),
        id: row.id.clone(),
        version: row.version,
        body: body.to_owned(),
        changed_at_ms: row.at_ms,
        changed_by: row.who.clone(),
    }
}

/// Puts what comes in the place of all that is there.
struct Copy {
    pages: Mutex<mpsc::Receiver<Scanned>>,
}

impl Work for Copy {
    type Out = Version;

    async fn run(&self, session: &mut Session<'_>) -> Result<Version, DatabaseError> {
        let mut pages = self.pages.lock().await;
        let mut version = 0;
        session.execute("DELETE FROM documents", &[]).await?;
        while let Some(page) = pages.recv().await {
            match page {
                Scanned::Head { head, fleet } => {
                    version = head.version;
                    set_head(session, &head).await?;
                    let set = "UPDATE settings SET value = ? WHERE name = 'fleet'";
                    session.execute(set, &[Value::Text(&fleet)]).await?;
                }
                Scanned::Documents(documents) => write_documents(session, &documents).await?,
                Scanned::Audit(_) => {}
                Scanned::End => return Ok(version),
            }
        }
        Err(DatabaseError::Away("lost while all of it was copied".to_owned()))
    }
}
