//! Reading everything as it was at one moment, page by page.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

use crate::audit;
use crate::chain::Head;
use crate::document::{self, Stored};
use crate::driver::{Row, Session, Value, Work};
use crate::error::DatabaseError;
use crate::page::{self, Fit};
use crate::schema::setting;

/// So many rows are in a page, if they fit.
const PAGE_ROWS: usize = 500;
/// So many pages wait for who takes them.
const PAGES_AHEAD: usize = 2;

/// What is found, in this order.
pub(crate) enum Scanned {
    /// The newest change, and the fleet.
    Head { head: Head, fleet: String },
    /// Some rows of the audit, by version; not yet looked at.
    Audit(Vec<Row>),
    /// Some documents, by kind and id.
    Documents(Vec<Stored>),
    /// That was all.
    End,
}

/// Reads everything, for somebody who takes the pages.
pub(crate) struct Scan {
    with_audit: bool,
    pages: mpsc::Sender<Scanned>,
    /// What has been taken cannot be taken back, so it cannot be begun anew.
    is_begun: AtomicBool,
}

/// Whoever took the pages wants no more.
struct Enough;

enum Stop {
    Enough,
    Failed(DatabaseError),
}

impl Scan {
    /// With the audit, or only the documents.
    pub(crate) fn new(with_audit: bool) -> (Scan, mpsc::Receiver<Scanned>) {
        let (pages, taken) = mpsc::channel(PAGES_AHEAD);
        (Scan { with_audit, pages, is_begun: AtomicBool::new(false) }, taken)
    }

    async fn give(&self, page: Scanned) -> Result<(), Enough> {
        self.pages.send(page).await.map_err(|_| Enough)
    }

    async fn audit(&self, session: &mut Session<'_>) -> Result<(), Stop> {
        let select =
            |columns: &str| format!("SELECT {columns} FROM audit WHERE version > ? ORDER BY version LIMIT ?");
        let (of_sizes, of_rows) = (select(&audit::sizes()), select(audit::COLUMNS));
        let mut after = i64::MIN;
        loop {
            let sized =
                session.query(&of_sizes, &[Value::Integer(after), Value::count(PAGE_ROWS + 1)]).await?;
            let Fit { rows: count, has_more, .. } = page::fit(&sized, PAGE_ROWS);
            let rows = session.query(&of_rows, &[Value::Integer(after), Value::count(count)]).await?;
            let last = rows.last().and_then(|row| row.peek_integer(0));
            self.give(Scanned::Audit(rows)).await?;
            match last {
                Some(last) if has_more => after = last,
                _ => return Ok(()),
            }
        }
    }

    async fn documents(&self, session: &mut Session<'_>) -> Result<(), Stop> {
        let select = |columns: &str| {
            format!("SELECT {columns} FROM documents WHERE (kind, id) > (?, ?) ORDER BY kind, id LIMIT ?")
        };
        let (of_sizes, of_rows) = (select(&document::sizes()), select(document::COLUMNS));
        let (mut kind, mut id) = (String::new(), String::new());
        loop {
            let values = |count| [Value::Text(&kind), Value::Text(&id), Value::count(count)];
            let sized = session.query(&of_sizes, &values(PAGE_ROWS + 1)).await?;
            let Fit { rows: count, has_more, .. } = page::fit(&sized, PAGE_ROWS);
            let rows = session.query(&of_rows, &values(count)).await?;
            let documents = rows.into_iter().map(Stored::read).collect::<Result<Vec<_>, _>>()?;
            let Some(last) = documents.last() else { return Ok(()) };
            (kind, id) = (last.kind.clone(), last.id.clone());
            self.give(Scanned::Documents(documents)).await?;
            if !has_more {
                return Ok(());
            }
        }
    }

    async fn all(&self, session: &mut Session<'_>) -> Result<(), Stop> {
        let head = setting(session, "head").await?;
        let head = head.ok_or_else(|| DatabaseError::Corrupt("the audit has no head".to_owned()))?;
        let fleet = setting(session, "fleet").await?.unwrap_or_default();
        // Relaxed: it orders nothing, and is only asked by whoever begins again after us.
        if self.is_begun.swap(true, Ordering::Relaxed) {
            return Err(Stop::Failed(DatabaseError::Away("lost while all of it was read".to_owned())));
        }
        self.give(Scanned::Head { head: Head::read(&head)?, fleet }).await?;
        if self.with_audit {
            self.audit(session).await?;
        }
        self.documents(session).await?;
        Ok(self.give(Scanned::End).await?)
    }
}

impl Work for Scan {
    type Out = ();

    async fn run(&self, session: &mut Session<'_>) -> Result<(), DatabaseError> {
        match self.all(session).await {
            Ok(()) | Err(Stop::Enough) => Ok(()),
            Err(Stop::Failed(error)) => Err(error),
        }
    }
}

impl From<DatabaseError> for Stop {
    fn from(error: DatabaseError) -> Stop {
        Stop::Failed(error)
    }
}

impl From<Enough> for Stop {
    fn from(_: Enough) -> Stop {
        Stop::Enough
    }
}
