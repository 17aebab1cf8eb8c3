//! Whether the audit is what it was: every row is hashed again, and what the documents are is compared with what it says.
//!
//! A chain shows that nothing in it was changed, taken out or moved. That its end was not cut off and made anew shows only who has kept a hash of
//! it elsewhere: the [`Anchor`].

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use blake3::Hasher;
use thiserror::Error;
use tokio::task::spawn_blocking;

use crate::audit::AuditRow;
use crate::chain::{self, Head};
use crate::document::{Kind, Stored, Version};
use crate::driver::{Driver, Row};
use crate::error::DatabaseError;
use crate::scan::{Scan, Scanned};

/// A point of the chain that somebody has kept elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The number of a change.
    pub version: Version,
    /// The hash that its row had.
    pub hash: String,
}

/// What was found to be in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// How many rows the chain has.
    pub rows: u64,
    /// How many documents are what it says.
    pub documents: u64,
    /// The end of the chain, to be kept elsewhere.
    pub head: Anchor,
}

/// What is wrong, and where it begins.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// A row is not what it was.
    #[error("version {0}: the row has been changed, its hash does not fit")]
    Changed(Version),
    /// A row is not there.
    #[error("version {0}: the row has been removed")]
    Removed(Version),
    /// A row does not follow the one before.
    #[error("version {0}: the row does not follow the one before, which has been changed or replaced")]
    Unlinked(Version),
    /// A row cannot be read as one.
    #[error("version {0}: the row cannot be read: {1}")]
    Unreadable(Version, String),
    /// A row stands where there can be none.
    #[error("a row before version 1, or twice the same version, at version {0}")]
    Misplaced(i64),
    /// The head is not the last row.
    #[error(
        "the head has been changed: it says version {stated}, and the last row that fits is version {last}"
    )]
    Head {
        /// What it says.
        stated: Version,
        /// What it should say.
        last: Version,
    },
    /// A document is not what a change wrote.
    #[error("version {version}: the document {kind} {id:?} is not what was written then")]
    Document {
        /// The change that last wrote it.
        version: Version,
        /// What it is about.
        kind: String,
        /// Which one.
        id: String,
    },
    /// A document is there that should not be.
    #[error("the document {kind} {id:?} was written by no change, or deleted by one")]
    Unwritten {
        /// What it is about.
        kind: String,
        /// Which one.
        id: String,
    },
    /// A document is not there.
    #[error("version {0}: the document that was written then has been removed")]
    DocumentRemoved(Version),
    /// What was kept elsewhere is not on the chain.
    #[error("version {0}: the chain is another one than the one whose hash was kept")]
    Anchor(Version),
}

/// Why the audit was not found to be in order.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VerifyError {
    /// It is not.
    #[error("the audit is not what it was: {0}")]
    Fault(#[from] Fault),
    /// It could not be read.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// Reads and compares everything, as it is at one moment. Says now and then how many rows that were.
pub(crate) async fn verify(
    driver: &Driver,
    anchor: Option<&Anchor>,
    mut progress: impl FnMut(u64) + Send,
) -> Result<Verified, VerifyError> {
    let (scan, mut pages) = Scan::new(true);
    let check = async move {
        let mut walk = None;
        while let Some(page) = pages.recv().await {
            let has_rows = matches!(page, Scanned::Audit(_));
            let walked = match (page, walk) {
                (Scanned::Head { head, fleet }, _) => (Walk::new(head, &fleet, anchor.cloned()), None),
                (page, Some(begun)) => take(begun, page).await?,
                (_, None) => break,
            };
            if let (_, verified @ Some(_)) = walked {
                return Ok(verified);
            }
            if has_rows {
                progress(walked.0.last.version);
            }
            walk = Some(walked.0);
        }
        Ok::<_, VerifyError>(None)
    };
    let (scanned, checked) = tokio::join!(driver.snapshot(scan), check);
    // What was found counts, even if the rest cannot be read.
    let checked = checked?;
    scanned?;
    checked.ok_or_else(|| DatabaseError::Other("it was not read to its end".to_owned()).into())
}

/// Takes one page more. Hashing it takes a while, and whoever asks may be on a thread that has others to serve.
async fn take(mut walk: Walk, page: Scanned) -> Result<(Walk, Option<Verified>), VerifyError> {
    let walked = spawn_blocking(move || walk.take(page).map(|verified| (walk, verified))).await;
    Ok(walked
        .map_err(|error| DatabaseError::Other(format!("it was not looked at to its end: {error}")))??)
}

/// A document as the chain tells of it.
struct Told {
    version: Version,
    digest: [u8; 16],
}

struct Walk {
    stated: Head,
    anchor: Option<Anchor>,
    /// The last row that fits.
    last: Head,
    /// What documents there should be, by the hash of kind and id: their names would take much room. Those not yet seen.
    told: HashMap<[u8; 16], Told>,
    documents: u64,
    is_chain_checked: bool,
}

impl Walk {
    fn new(stated: Head, fleet: &str, anchor: Option<Anchor>) -> Walk {
        let last = Head::first(fleet);
        Walk { stated, anchor, last, told: HashMap::new(), documents: 0, is_chain_checked: false }
    }

    /// At the end, what was found.
    fn take(&mut self, page: Scanned) -> Result<Option<Verified>, Fault> {
        match page {
            Scanned::Head { .. } => {}
            Scanned::Audit(rows) => rows.into_iter().try_for_each(|row| self.row(row))?,
            Scanned::Documents(documents) => {
                documents.into_iter().try_for_each(|document| self.document(document))?;
            }
            Scanned::End => return self.end().map(Some),
        }
        Ok(None)
    }

    fn row(&mut self, row: Row) -> Result<(), Fault> {
        let expected = self.last.version + 1;
        if let Some(found) = row.peek_integer(0)
            && u64::try_from(found).is_ok_and(|found| found > expected)
        {
            return Err(Fault::Removed(expected));
        } else if let Some(found) = row.peek_integer(0)
            && u64::try_from(found) != Ok(expected)
        {
            return Err(Fault::Misplaced(found));
        }
        let row = AuditRow::read(row).map_err(|error| Fault::Unreadable(expected, error.to_string()))?;
        if chain::hash(&row) != row.hash {
            return Err(Fault::Changed(expected));
        }
        if row.previous != self.last.hash {
            return Err(Fault::Unlinked(expected));
        }
        if self.anchor.as_ref().is_some_and(|anchor| anchor.version == row.version && anchor.hash != row.hash)
        {
            return Err(Fault::Anchor(row.version));
        }
        if is_document(&row.kind) {
            let place = digest(&[row.kind.as_bytes(), row.id.as_bytes()]);
            match &row.after {
                Some(body) => {
                    let digest = content(row.version, body, row.at_ms, &row.who);
                    self.told.insert(place, Told { version: row.version, digest });
                }
                None => drop(self.told.remove(&place)),
            }
        }
        self.last = Head { version: row.version, hash: row.hash };
        Ok(())
    }

    fn check_chain(&mut self) -> Result<(), Fault> {
        if self.is_chain_checked {
            return Ok(());
        }
        self.is_chain_checked = true;
        if self.stated != self.last {
            // Rows that the head knows of and that are not there were removed; anything else was done to the head.
            return Err(Fault::Head { stated: self.stated.version, last: self.last.version });
        }
        match &self.anchor {
            Some(anchor) if anchor.version > self.last.version => Err(Fault::Anchor(anchor.version)),
            _ => Ok(()),
        }
    }

    fn document(&mut self, document: Stored) -> Result<(), Fault> {
        self.check_chain()?;
        self.documents += 1;
        let place = digest(&[document.kind.as_bytes(), document.id.as_bytes()]);
        let found = content(document.version, &document.body, document.changed_at_ms, &document.changed_by);
        let Stored { kind, id, .. } = document;
        match self.told.entry(place) {
            Entry::Occupied(told) if told.get().digest == found => {
                told.remove();
                Ok(())
            }
            Entry::Occupied(told) => Err(Fault::Document { version: told.get().version, kind, id }),
            Entry::Vacant(_) => Err(Fault::Unwritten { kind, id }),
        }
    }

    fn end(&mut self) -> Result<Verified, Fault> {
        self.check_chain()?;
        match self.told.values().map(|told| told.version).min() {
            Some(version) => Err(Fault::DocumentRemoved(version)),
            None => Ok(Verified {
                rows: self.last.version,
                documents: self.documents,
                head: Anchor { version: self.last.version, hash: self.last.hash.clone() },
            }),
        }
    }
}

/// Kinds of a newer version have documents, as far as we know.
fn is_document(kind: &str) -> bool {
    kind.parse().map_or(true, Kind::is_document)
}

fn content(version: Version, body: &str, at_ms: i64, who: &str) -> [u8; 16] {
    digest(&[&version.to_le_bytes(), body.as_bytes(), &at_ms.to_le_bytes(), who.as_bytes()])
}

fn digest(parts: &[&[u8]]) -> [u8; 16] {
    let mut hasher = Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut digest = [0; 16];
    hasher.finalize_xof().fill(&mut digest);
    digest
}
