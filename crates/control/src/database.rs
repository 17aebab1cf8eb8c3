//! The database, as the rest of Tollgate sees it.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::address::DatabaseAddress;
use crate::audit::{self, AuditFilter, AuditRow};
use crate::batch::Asked;
use crate::chain::Head;
use crate::change::{Change, Changed, Repeat, Who};
use crate::document::{self, Document, Kind, Stored, Version};
use crate::driver::{Driver, Durability, Postgres, PostgresAccess, Sqlite, Value};
use crate::error::{ChangeError, DatabaseError};
use crate::fleet_secret::{self, FleetSecret};
use crate::nodes::{NODES_KEPT_MS, NodeState};
use crate::page::{self, Fit, PAGE_ROWS_MAX, Page};
use crate::scan::{Scan, Scanned};
use crate::schema;
use crate::verify::{self, Anchor, Verified, VerifyError};
use crate::writer::{BATCH_CHANGES_MAX, Queued, write_all};

/// So many changes wait; whoever brings more waits before the queue.
const QUEUE_MAX: usize = 4 * BATCH_CHANGES_MAX;

/// How the database is reached.
#[derive(Clone, Debug)]
pub struct DatabaseSettings {
    /// Where it is.
    pub address: DatabaseAddress,
    /// The longest that connecting may take, greetings and all.
    pub connect_timeout: Duration,
    /// The longest that one statement may take. A change has several.
    pub statement_timeout: Duration,
}

/// A database. When it is dropped, what was asked before is still done.
pub struct Database {
    driver: Arc<Driver>,
    changes: mpsc::Sender<Queued>,
    fleet: String,
    /// What never changes, where nobody tells of changes.
    silence: watch::Sender<u64>,
}

impl DatabaseSettings {
    /// For this address, with everything else as it usually is.
    pub fn new(address: DatabaseAddress) -> DatabaseSettings {
        let (connect_timeout, statement_timeout) = (Duration::from_secs(2), Duration::from_secs(5));
        DatabaseSettings { address, connect_timeout, statement_timeout }
    }
}

impl Database {
    /// Opens it, and brings its tables up to date. Has to be called inside of a runtime, which then also makes the changes.
    pub async fn open(settings: DatabaseSettings) -> Result<Database, DatabaseError> {
        let driver = match &settings.address {
            DatabaseAddress::Off => return Err(DatabaseError::Off),
            DatabaseAddress::Sqlite(path) => Driver::Sqlite(Sqlite::open(path, Durability::Full).await?),
            DatabaseAddress::Postgres(address) => {
                let access =
                    PostgresAccess::new(address, settings.connect_timeout, settings.statement_timeout)?;
                Driver::Postgres(Postgres::open(access).await?)
            }
        };
        let driver = Arc::new(driver);
        let fleet = schema::migrate(&driver).await?;
        let (changes, queue) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(write_all(Arc::clone(&driver), queue));
        Ok(Database { driver, changes, fleet, silence: watch::Sender::new(0) })
    }

    /// The fleet that it belongs to: a name that was made up with it. A copy of a database has the same.
    pub fn fleet(&self) -> &str {
        &self.fleet
    }

    /// The secret of the fleet: the one that the database has, or a new one, which is then written there for all servers. Whichever
    /// server asks first writes it.
    pub async fn fleet_secret(&self) -> Result<FleetSecret, DatabaseError> {
        // Reading comes first: a user who may not write can still read what is there.
        if let Some(secret) = self.driver.snapshot(fleet_secret::Read).await? {
            return Ok(secret);
        }
        let written = self.driver.write_plainly(fleet_secret::WriteOnce(FleetSecret::random()?)).await?;
        written.ok_or_else(|| DatabaseError::Corrupt("the row of the fleet's secret is missing".to_owned()))
    }

    /// Makes a change. It is made, and will not be lost, when this comes back without an error; with any error but
    /// [`ChangeError::Unknown`], nothing was changed.
    pub async fn change(&self, change: Change, now_ms: i64) -> Result<Changed, ChangeError> {
        let answer = self.enqueue(change, now_ms).await?;
        answer.await.unwrap_or_else(|_| Err(writer_ended()))
    }

    /// Makes several changes, in order, with few transactions. Each has an outcome of its own, and one that fails does not undo others.
    pub async fn change_many(&self, changes: Vec<Change>, now_ms: i64) -> Vec<Result<Changed, ChangeError>> {
        let mut outcomes = Vec::with_capacity(changes.len());
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            let mut answers = Vec::with_capacity(BATCH_CHANGES_MAX);
            for change in changes.by_ref().take(BATCH_CHANGES_MAX) {
                answers.push(self.enqueue(change, now_ms).await);
            }
            for answer in answers {
                outcomes.push(match answer {
                    Ok(answer) => answer.await.unwrap_or_else(|_| Err(writer_ended())),
                    Err(error) => Err(error),
                });
            }
        }
        outcomes
    }

    /// Notes down that what a change asks for beyond the database is done, for when it is asked for again. Nothing without a key for that.
    pub async fn finish(
        &self,
        who: &Who,
        repeat: Option<&Repeat>,
        version: Version,
    ) -> Result<(), DatabaseError> {
        let Some(Repeat { key, .. }) = repeat else { return Ok(()) };
        let sql = "UPDATE repeats SET finished = 1 WHERE who = ? AND key = ? AND version = ?";
        let values = [Value::Text(&who.name), Value::Text(key), Value::version(version)?];
        self.driver.execute(sql, &values).await
    }

    async fn enqueue(
        &self,
        change: Change,
        now_ms: i64,
    ) -> Result<oneshot::Receiver<Result<Changed, ChangeError>>, ChangeError> {
        change.check()?;
        let (answer, answered) = oneshot::channel();
        let asked_at = self.driver.asked_now();
        let queued = Queued { asked: Asked { change, now_ms }, asked_at, answer };
        self.changes.send(queued).await.map_err(|_| writer_ended())?;
        Ok(answered)
    }

    /// A document.
    pub async fn document(&self, kind: Kind, id: &str) -> Result<Option<Document>, DatabaseError> {
        let sql = format!("SELECT {} FROM documents WHERE kind = ? AND id = ?", document::COLUMNS);
        let rows = self.driver.query(&sql, &[Value::Text(kind.name()), Value::Text(id)]).await?;
        let found = rows.into_iter().next().map(Stored::read).transpose()?;
        Ok(found.and_then(Stored::known))
    }

    /// The documents of a kind whose ids come after this one, by the bytes of their ids: so many, or as many as fit into a page.
    pub async fn documents(
        &self,
        kind: Kind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Document>, DatabaseError> {
        let select = |columns: &str| {
            format!("SELECT {columns} FROM documents WHERE kind = ? AND id > ? ORDER BY id LIMIT ?")
        };
        let (of_sizes, of_rows) = (select(&document::sizes()), select(document::COLUMNS));
        let limit = limit.min(PAGE_ROWS_MAX);
        let (kind, after) = (Value::Text(kind.name()), Value::Text(after.unwrap_or_default()));
        loop {
            let sized = self.driver.query(&of_sizes, &[kind, after, Value::count(limit + 1)]).await?;
            let Fit { rows: count, has_more, .. } = page::fit(&sized, limit);
            let found = self.driver.query(&of_rows, &[kind, after, Value::count(count)]).await?;
            // If others have deleted just these meanwhile, it is not known from where to go on.
            if count > 0 && has_more && found.is_empty() {
                continue;
            }
            let stored = found.into_iter().map(Stored::read).collect::<Result<Vec<_>, _>>()?;
            let rows = stored.into_iter().filter_map(Stored::known).collect();
            return Ok(Page { rows, has_more });
        }
    }

    /// All documents, by kind and id, and the head that they are of: as it was at one moment.
    pub async fn load(&self, each: impl FnMut(Document) + Send) -> Result<Head, DatabaseError> {
        load(&self.driver, each).await
    }

    /// What was changed after this version, in order: so many, or as many as fit into a page.
    pub async fn since(&self, version: Version, max: usize) -> Result<Vec<AuditRow>, DatabaseError> {
        let filter = AuditFilter { after: Some(version), limit: max, ..AuditFilter::default() };
        self.audit(&filter).await.map(|page| page.rows)
    }

    /// What was changed, as far as it is asked for and fits into a page.
    pub async fn audit(&self, filter: &AuditFilter) -> Result<Page<AuditRow>, DatabaseError> {
        let limit = filter.limit.min(PAGE_ROWS_MAX);
        let (sql, values) = filter.sizes(limit + 1)?;
        let Fit { rows: count, has_more, last } = page::fit(&self.driver.query(&sql, &values).await?, limit);
        if count == 0 {
            return Ok(Page { rows: Vec::new(), has_more });
        }
        let (sql, values) = filter.rows(last, count)?;
        let rows = self.driver.query(&sql, &values).await?;
        Ok(Page { rows: rows.into_iter().map(AuditRow::read).collect::<Result<_, _>>()?, has_more })
    }

    /// Whether the audit is what it was, and the documents are what it says; and whether a point of it that was kept elsewhere is on
    /// it. How many rows have been looked at is told now and then.
    pub async fn verify(
        &self,
        anchor: Option<&Anchor>,
        progress: impl FnMut(u64) + Send,
    ) -> Result<Verified, VerifyError> {
        verify::verify(&self.driver, anchor, progress).await
    }

    /// A node tells that it is there.
    pub async fn beat(&self, node: &NodeState, now_ms: i64) -> Result<(), DatabaseError> {
        let sql = "INSERT INTO nodes (node, name, version, rules, started_at, seen_at) VALUES (?, ?, ?, ?, ?, ?) \
            ON CONFLICT (node) DO UPDATE SET name = excluded.name, version = excluded.version, \
            rules = excluded.rules, started_at = excluded.started_at, seen_at = excluded.seen_at";
        let NodeState { node, name, version, rules, started_at_ms, .. } = node;
        let values = [
            Value::Text(node),
            Value::Text(name),
            Value::version(*version)?,
            Value::Text(rules),
            Value::Integer(*started_at_ms),
            Value::Integer(now_ms),
        ];
        self.driver.execute(sql, &values).await
    }

    /// A node says that it goes.
    pub async fn leave(&self, node: &str) -> Result<(), DatabaseError> {
        self.driver.execute("DELETE FROM nodes WHERE node = ?", &[Value::Text(node)]).await
    }

    /// The nodes that were heard of during the last [`NODES_KEPT_MS`]. Others are forgotten.
    pub async fn nodes(&self, now_ms: i64) -> Result<Vec<NodeState>, DatabaseError> {
        let since = now_ms.saturating_sub(NODES_KEPT_MS);
        let sql = "SELECT node, name, version, rules, started_at, seen_at FROM nodes ORDER BY node";
        let rows = self.driver.query(sql, &[]).await?;
        let mut nodes = rows.into_iter().map(NodeState::read).collect::<Result<Vec<_>, _>>()?;
        let all = nodes.len();
        nodes.retain(|node| node.seen_at_ms >= since);
        if nodes.len() < all {
            self.driver.execute("DELETE FROM nodes WHERE seen_at < ?", &[Value::Integer(since)]).await?;
        }
        Ok(nodes)
    }

    /// Changes when somebody, be it this node, may have changed something. Without PostgreSQL nobody tells: ask for the version.
    pub fn noticed(&self) -> watch::Receiver<u64> {
        match &*self.driver {
            Driver::Sqlite(_) => self.silence.subscribe(),
            Driver::Postgres(postgres) => postgres.noticed(),
        }
    }

    /// The newest version.
    pub async fn version(&self) -> Result<Version, DatabaseError> {
        self.head().await.map(|head| head.version)
    }

    /// The newest version, and the hash of its row.
    pub async fn head(&self) -> Result<Head, DatabaseError> {
        head(&self.driver).await
    }

    /// What time it is by the clock of the database, in microseconds since 1970. None for a file, which has no clock of its own.
    pub async fn time_us(&self) -> Result<Option<u64>, DatabaseError> {
        self.driver.time_us().await
    }

    /// The hash of a version's row, if there is one: who was here before and finds another has another history.
    pub async fn hash_of(&self, version: Version) -> Result<Option<String>, DatabaseError> {
        if version == 0 {
            return Ok(Some(Head::first(&self.fleet).hash));
        }
        let sql = format!("SELECT {} FROM audit WHERE version = ?", audit::COLUMNS);
        let rows = self.driver.query(&sql, &[Value::version(version)?]).await?;
        Ok(rows.into_iter().next().map(AuditRow::read).transpose()?.map(|row| row.hash))
    }

    pub(crate) fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }
}

pub(crate) async fn head(driver: &Driver) -> Result<Head, DatabaseError> {
    let mut rows = driver.query("SELECT value FROM settings WHERE name = 'head'", &[]).await?;
    let value = rows.first_mut().map(|row| row.text(0)).transpose()?;
    Head::read(&value.ok_or_else(|| DatabaseError::Corrupt("the audit has no head".to_owned()))?)
}

pub(crate) async fn load(
    driver: &Driver,
    mut each: impl FnMut(Document) + Send,
) -> Result<Head, DatabaseError> {
    let (scan, mut pages) = Scan::new(false);
    let take = async move {
        let (mut found, mut is_whole) = (None, false);
        while let Some(page) = pages.recv().await {
            match page {
                Scanned::Head { head, .. } => found = Some(head),
                Scanned::Documents(documents) => {
                    documents.into_iter().filter_map(Stored::known).for_each(&mut each);
                }
                Scanned::Audit(_) => {}
                Scanned::End => is_whole = true,
            }
        }
        found.filter(|_| is_whole)
    };
    let (scanned, head) = tokio::join!(driver.snapshot(scan), take);
    scanned?;
    head.ok_or_else(|| DatabaseError::Other("it was not read to its end".to_owned()))
}

fn writer_ended() -> ChangeError {
    ChangeError::Other(DatabaseError::Other("what makes changes has ended".to_owned()))
}
