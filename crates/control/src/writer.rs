//! The one task of a process that makes changes: whatever waits at the same time goes into one transaction.
//!
//! Whoever has been answered can rely on it. Where a connection is lost while the database commits, the next one asks whether it
//! did: it waits for the lock that the lost one held, and then looks for the row by its hash.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tollgate_core::Time;

use crate::audit::{self, AuditRow};
use crate::batch::{Asked, Known, Place, Plan, RepeatPlace, Repeated, plan};
use crate::chain::Head;
use crate::change::{Changed, REPEATS_KEPT_MS};
use crate::document::{self, Document, Stored, Version};
use crate::driver::{Driver, Session, Value, Work, WriteError};
use crate::error::{ChangeError, DatabaseError};
use crate::rows::by_rows;

/// So many changes go into one transaction,
pub(crate) const BATCH_CHANGES_MAX: usize = 256;
/// and about so much text.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// So long it is tried to find out whether something was committed,
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(5);
/// that often.
const CONFIRM_INTERVAL: Duration = Duration::from_millis(50);
/// So often what is too old to be known again is thrown away.
const SWEEP_INTERVAL_MS: i64 = 10 * 60 * 1_000;

/// A change that somebody waits for.
pub(crate) struct Queued {
    pub(crate) asked: Asked,
    /// Since when it waits, if the database is a file.
    pub(crate) asked_at: Option<Time>,
    pub(crate) answer: oneshot::Sender<Result<Changed, ChangeError>>,
}

/// Makes changes until nobody can ask for any more.
pub(crate) async fn write_all(driver: Arc<Driver>, mut queue: mpsc::Receiver<Queued>) {
    let mut queued = Vec::new();
    let mut swept_at_ms = 0;
    while queue.recv_many(&mut queued, BATCH_CHANGES_MAX).await > 0 {
        while !queued.is_empty() {
            let batch: Vec<Queued> = queued.drain(..batch_len(&queued)).collect();
            // That of the first, which has waited longest.
            let asked_at = batch.first().and_then(|queued| queued.asked_at);
            let (asked, answers): (Vec<Asked>, Vec<_>) =
                batch.into_iter().map(|queued| (queued.asked, queued.answer)).unzip();
            let now_ms = asked.first().map_or(0, |asked| asked.now_ms);
            let sweep = (now_ms.saturating_sub(swept_at_ms) >= SWEEP_INTERVAL_MS).then_some(now_ms);
            swept_at_ms = sweep.unwrap_or(swept_at_ms);
            for (answer, outcome) in answers.into_iter().zip(make(&driver, (asked, asked_at), sweep).await) {
                // Whoever has gone does not need to know.
                let _ = answer.send(outcome);
            }
        }
    }
}

/// How many of them go together: always at least one.
fn batch_len(queued: &[Queued]) -> usize {
    let mut bytes = 0;
    let fits = queued.iter().take_while(|queued| {
        bytes += queued.asked.change.bytes();
        bytes <= BATCH_BYTES_MAX
    });
    fits.count().max(1)
}

/// Makes them together. If the database has something against that, each alone: only one of them may be too much for it.
async fn make(
    driver: &Driver,
    (asked, asked_at): (Vec<Asked>, Option<Time>),
    sweep: Option<i64>,
) -> Vec<Result<Changed, ChangeError>> {
    let asked: Arc<[Asked]> = asked.into();
    match commit(driver, (&asked, asked_at), sweep).await {
        Ok(outcomes) => outcomes,
        Err(ChangeError::Full(_) | ChangeError::Other(_)) if asked.len() > 1 => {
            let mut outcomes = Vec::with_capacity(asked.len());
            for asked in &*asked {
                let alone = commit(driver, (&[asked.clone()].into(), asked_at), None).await;
                outcomes.extend(alone.unwrap_or_else(|error| vec![Err(error)]));
            }
            outcomes
        }
        Err(error) => asked.iter().map(|_| Err(error.clone())).collect(),
    }
}

type Outcomes = Vec<Result<Changed, ChangeError>>;

async fn commit(
    driver: &Driver,
    asked: (&Arc<[Asked]>, Option<Time>),
    sweep: Option<i64>,
) -> Result<Outcomes, ChangeError> {
    let first = attempt(driver, asked, sweep).await?;
    match first {
        Some(outcomes) => Ok(outcomes),
        // It is certain that nothing was committed: once more.
        None => attempt(driver, asked, None).await?.ok_or_else(|| {
            ChangeError::Away("the database cannot be reached: lost twice while it was to commit".to_owned())
        }),
    }
}

/// None if it was lost on the way and is known not to have been made.
async fn attempt(
    driver: &Driver,
    (asked, asked_at): (&Arc<[Asked]>, Option<Time>),
    sweep: Option<i64>,
) -> Result<Option<Outcomes>, ChangeError> {
    match driver.write_since(asked_at, Batch { asked: Arc::clone(asked), sweep }).await {
        Ok((outcomes, _)) => Ok(Some(outcomes)),
        Err(WriteError::Failed(error)) => Err(error.into()),
        Err(WriteError::Unsure(outcomes_and_head, error)) => {
            let (outcomes, head) = outcomes_and_head;
            let Some(head) = head else { return Ok(Some(outcomes)) };
            match timeout(CONFIRM_TIMEOUT, confirm(driver, head)).await {
                Ok(true) => Ok(Some(outcomes)),
                Ok(false) => Ok(None),
                Err(_) => Err(ChangeError::Unknown(error.to_string())),
            }
        }
    }
}

/// Whether it was committed. Asks until there is an answer.
async fn confirm(driver: &Driver, head: Head) -> bool {
    loop {
        match driver.write_plainly(Confirm { head: head.clone() }).await {
            Ok(is_committed) => return is_committed,
            Err(_) => sleep(CONFIRM_INTERVAL).await,
        }
    }
}

/// Looks for a row that may have been committed.
struct Confirm {
    head: Head,
}

impl Work for Confirm {
    type Out = bool;

    async fn run(&self, session: &mut Session<'_>) -> Result<bool, DatabaseError> {
        // Whoever has this lock knows that the other transaction has ended, one way or the other.
        lock_head(session).await?;
        let values = [Value::version(self.head.version)?];
        let mut rows = session.query("SELECT hash FROM audit WHERE version = ?", &values).await?;
        let hash = rows.first_mut().map(|row| row.text(0)).transpose()?;
        Ok(hash.as_ref() == Some(&self.head.hash))
    }
}

/// Some changes in one transaction.
struct Batch {
    asked: Arc<[Asked]>,
    /// Repetitions are thrown away that are too old at this time.
    sweep: Option<i64>,
}

impl Work for Batch {
    /// What is answered, and the head if it was moved.
    type Out = (Outcomes, Option<Head>);

    async fn run(&self, session: &mut Session<'_>) -> Result<Self::Out, DatabaseError> {
        if let Some(now_ms) = self.sweep {
            let before = [Value::Integer(now_ms.saturating_sub(REPEATS_KEPT_MS))];
            session.execute("DELETE FROM repeats WHERE at < ?", &before).await?;
        }
        let head = lock_head(session).await?;
        let documents = self.documents(session).await?;
        let repeats = self.repeats(session).await?;
        let plan = plan(Known { head, documents, repeats }, &self.asked);
        if plan.rows.is_empty() {
            return Ok((plan.outcomes, None));
        }
        write(session, &plan).await?;
        session.notify(plan.head.version).await?;
        Ok((plan.outcomes, Some(plan.head)))
    }
}

impl Batch {
    async fn documents(&self, session: &mut Session<'_>) -> Result<HashMap<Place, Document>, DatabaseError> {
        let changes = self.asked.iter().map(|asked| &asked.change);
        let of_documents = changes.filter(|change| change.kind.is_document());
        let places: Vec<_> =
            of_documents.map(|change| [Value::Text(change.kind.name()), Value::Text(&change.id)]).collect();
        let select = format!("SELECT {} FROM documents WHERE (kind, id) IN (VALUES ", document::COLUMNS);
        let mut found = HashMap::new();
        for row in by_rows(session, &select, &places, ")").await? {
            if let Some(document) = Stored::read(row)?.known() {
                found.insert((document.kind, document.id.clone()), document);
            }
        }
        Ok(found)
    }

    async fn repeats(
        &self,
        session: &mut Session<'_>,
    ) -> Result<HashMap<RepeatPlace, Repeated>, DatabaseError> {
        let mut places = Vec::new();
        for change in self.asked.iter().map(|asked| &asked.change) {
            let key = change.repeat.as_ref().map(|repeat| Value::Text(&repeat.key));
            places.extend(key.map(|key| [Value::Text(&change.who.name), key]));
        }
        let select =
            "SELECT who, key, fingerprint, version, at, finished FROM repeats WHERE (who, key) IN (VALUES ";
        let mut found = HashMap::new();
        for mut row in by_rows(session, select, &places, ")").await? {
            let place = (row.text(0)?, row.text(1)?);
            let (fingerprint, version, at_ms) = (row.text(2)?, row.version(3)?, row.integer(4)?);
            let is_finished = row.integer(5)? != 0;
            if let Some(changed) = changed_at(session, version).await? {
                let changed = Changed { is_finished, ..changed };
                found.insert(place, Repeated { fingerprint, at_ms, changed });
            }
        }
        Ok(found)
    }
}

/// What came of a change, as the audit tells it.
async fn changed_at(session: &mut Session<'_>, version: Version) -> Result<Option<Changed>, DatabaseError> {
    let select = format!("SELECT {} FROM audit WHERE version = ?", audit::COLUMNS);
    let rows = session.query(&select, &[Value::version(version)?]).await?;
    let Some(row) = rows.into_iter().next().map(AuditRow::read).transpose()? else { return Ok(None) };
    let select = format!(
        "SELECT {} FROM audit WHERE kind = ? AND id = ? AND version < ? ORDER BY version DESC LIMIT 1",
        audit::COLUMNS
    );
    let values = [Value::Text(&row.kind), Value::Text(&row.id), Value::version(version)?];
    let before = session.query(&select, &values).await?;
    let before = before.into_iter().next().map(AuditRow::read).transpose()?;
    let before = before.and_then(|row| row.document());
    let document = row.document();
    let AuditRow { hash, previous, .. } = row;
    Ok(Some(Changed { version, hash, previous, before, document, is_repeat: true, is_finished: false }))
}

/// The head of the audit. Until the end of the transaction nobody else can move it.
async fn lock_head(session: &mut Session<'_>) -> Result<Head, DatabaseError> {
    let lock = "UPDATE settings SET value = value WHERE name = 'head' RETURNING value";
    let mut rows = session.query(lock, &[]).await?;
    let value = rows.first_mut().map(|row| row.text(0)).transpose()?;
    Head::read(&value.ok_or_else(|| DatabaseError::Corrupt("the audit has no head".to_owned()))?)
}

async fn write(session: &mut Session<'_>, plan: &Plan) -> Result<(), DatabaseError> {
    let rows = plan.rows.iter().map(AuditRow::values).collect::<Result<Vec<_>, _>>()?;
    let insert = format!("INSERT INTO audit ({}) VALUES ", audit::COLUMNS);
    by_rows(session, &insert, &rows, "").await?;
    let written: Vec<Stored> = plan.written.iter().cloned().map(Stored::from).collect();
    write_documents(session, &written).await?;
    for (kind, id) in &plan.deleted {
        delete_document(session, kind.name(), id).await?;
    }
    let mut repeats = Vec::with_capacity(plan.repeats.len());
    for new in &plan.repeats {
        let version = Value::version(new.version)?;
        let (who, key) = (Value::Text(&new.who), Value::Text(&new.repeat.key));
        repeats.push([who, key, Value::Text(&new.repeat.fingerprint), version, Value::Integer(new.at_ms)]);
    }
    let insert = "INSERT INTO repeats (who, key, fingerprint, version, at) VALUES ";
    let or_else = " ON CONFLICT (who, key) DO UPDATE \
        SET fingerprint = excluded.fingerprint, version = excluded.version, at = excluded.at, finished = 0";
    by_rows(session, insert, &repeats, or_else).await?;
    set_head(session, &plan.head).await
}

pub(crate) async fn write_documents(
    session: &mut Session<'_>,
    written: &[Stored],
) -> Result<(), DatabaseError> {
    let rows = written.iter().map(Stored::values).collect::<Result<Vec<_>, _>>()?;
    let insert = format!("INSERT INTO documents ({}) VALUES ", document::COLUMNS);
    let or_else = " ON CONFLICT (kind, id) DO UPDATE SET version = excluded.version, body = excluded.body, \
        changed_at = excluded.changed_at, changed_by = excluded.changed_by";
    by_rows(session, &insert, &rows, or_else).await.map(drop)
}

pub(crate) async fn delete_document(
    session: &mut Session<'_>,
    kind: &str,
    id: &str,
) -> Result<(), DatabaseError> {
    let delete = "DELETE FROM documents WHERE kind = ? AND id = ?";
    session.execute(delete, &[Value::Text(kind), Value::Text(id)]).await
}

pub(crate) async fn set_head(session: &mut Session<'_>, head: &Head) -> Result<(), DatabaseError> {
    let set = "UPDATE settings SET value = ? WHERE name = 'head'";
    session.execute(set, &[Value::Text(&head.write())]).await
}
