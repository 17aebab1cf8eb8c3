//! What is owed to the database and kept on disk: by this process, or by one that ended before it could tell.
//!
//! A batch is one transaction, under a number of its file. The transaction writes the number into the row of the file, so it is done
//! once: also if its answer is lost, or the process ends before it deletes the file, or another process tells it again.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use tracing::{info, warn};

use super::commit::{Commit, LastCommitted, Mark, Writer};
use super::journal::{Batch, Journal, Journals};
use super::line::{GROUP_OWED_MAX, TRIES_MAX};
use super::owed::{Condition, Owed};
use crate::driver::{Driver, Session, Value, Work};
use crate::error::DatabaseError;

/// The database remembers for so long which batches of a file it was told. A file is deleted when all of it is told, and its row with it; a server
/// that lies switched off with a file which was told in part must start again within this time.
const NUMBERS_KEPT_US: u64 = 400 * 24 * 3_600 * 1_000_000;

/// What is kept on disk.
pub(super) struct Backlog {
    /// None where there is no place for files.
    journals: Option<Journals>,
    /// The process's own name: that of its file.
    writer: Arc<str>,
    /// The number of the last batch in the process's own file.
    number: i64,
    files: VecDeque<Kept>,
}

/// A file, and what of it is still to be told.
struct Kept {
    journal: Journal,
    batches: VecDeque<Arc<Batch>>,
    /// How often the database had something against the first.
    tries: u8,
}

/// What could not be written, and why.
pub(super) struct Unkept {
    pub(super) error: io::Error,
    pub(super) owed: Vec<Owed>,
}

impl Kept {
    fn new(journal: Journal, batches: VecDeque<Arc<Batch>>) -> Kept {
        Kept { journal, batches, tries: 0 }
    }

    fn len(&self) -> usize {
        self.batches.iter().map(|batch| batch.owed.len()).sum()
    }

    /// Writes batches to the file for as long as that goes well.
    fn append(&mut self, batches: &mut VecDeque<Batch>) -> io::Result<()> {
        while let Some(batch) = batches.front() {
            self.journal.append(batch)?;
            self.batches.extend(batches.pop_front().map(Arc::new));
        }
        Ok(())
    }
}

impl Backlog {
    pub(super) fn new(journals: Option<Journals>, writer: Arc<str>) -> Backlog {
        Backlog { journals, writer, number: 0, files: VecDeque::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Takes over what processes have left behind that are gone. Tells how much that is.
    pub(super) async fn take_over(&mut self) -> usize {
        let Some(journals) = self.journals.clone() else { return 0 };
        let mut count = 0;
        match spawn_blocking(move || journals.take_over()).await.map_err(io::Error::other).flatten() {
            Ok(found) => {
                for (journal, batches) in found {
                    let kept = Kept::new(journal, batches.into_iter().map(Arc::new).collect());
                    count += kept.len();
                    self.files.push_back(kept);
                }
            }
            Err(error) => warn!(%error, "cannot look for what was owed to the database"),
        }
        if count > 0 {
            info!(count, "found on disk what was owed to the database: telling it");
        }
        count
    }

    /// Keeps this on disk, and hands back what could not be.
    pub(super) async fn keep(&mut self, owed: Vec<Owed>, doubt: Option<i64>) -> Result<(), Unkept> {
        let Some(journals) = self.journals.clone() else {
            return Err(Unkept { error: io::Error::other("there is no directory for it"), owed });
        };
        let own = self.files.iter().position(|kept| kept.journal.writer == self.writer);
        let own = own.and_then(|at| self.files.remove(at));
        let (writer, first) = (Arc::clone(&self.writer), self.number + 1);
        let mut batches = VecDeque::from(batches(owed, doubt, first));
        self.number += i64::try_from(batches.len()).unwrap_or(0);
        let write = move || {
            let begin = || io::Result::Ok(Kept::new(journals.create(&writer)?, VecDeque::new()));
            let (kept, result) = match own.map_or_else(begin, Ok) {
                Ok(mut kept) => {
                    let result = kept.append(&mut batches);
                    (Some(kept), result)
                }
                Err(error) => (None, Err(error)),
            };
            let owed = batches.into_iter().flat_map(|batch| batch.owed).collect();
            (kept, result.map_err(|error| Unkept { error, owed }))
        };
        let written = spawn_blocking(write).await;
        let (kept, result) =
            written.map_err(|error| Unkept { error: io::Error::other(error), owed: Vec::new() })?;
        self.files.extend(kept);
        result
    }

    /// Tells the next batch, and how many things it had.
    pub(super) async fn tell_next(
        &mut self,
        driver: &Driver,
        writer: &Writer,
        made_up_us: Option<u64>,
    ) -> Result<usize, DatabaseError> {
        let Some(kept) = self.files.front() else { return Ok(0) };
        let Some(batch) = kept.batches.front() else {
            self.finish(driver).await;
            return Ok(0);
        };
        let tell = TellOnce {
            writer: Writer { name: row_of(&kept.journal.writer), ..writer.clone() },
            process: Arc::clone(&kept.journal.writer),
            batch: Arc::clone(batch),
            made_up_us,
        };
        driver.write_plainly(tell).await?;
        let told = self.files.front_mut().and_then(|kept| kept.batches.pop_front());
        if self.files.front().is_some_and(|kept| kept.batches.is_empty()) {
            self.finish(driver).await;
        }
        Ok(told.map_or(0, |batch| batch.owed.len()))
    }

    /// The database had something against the next batch. If that was so often enough, its file is set aside, for an operator to look at; tells how many
    /// things that were.
    pub(super) async fn refused(&mut self) -> usize {
        let Some(kept) = self.files.front_mut() else { return 0 };
        kept.tries += 1;
        if kept.tries < TRIES_MAX {
            return 0;
        }
        let Some(kept) = self.files.pop_front() else { return 0 };
        let count = kept.len();
        let set_aside = spawn_blocking(move || kept.journal.set_aside()).await;
        match set_aside.map_err(io::Error::other).flatten() {
            Ok(path) => {
                warn!(count, path = %path.display(), "the database refuses what is owed to it: it is not told");
            }
            Err(error) => {
                warn!(count, %error, "the database refuses what is owed to it, and its file cannot be renamed");
            }
        }
        count
    }

    /// All of a file is told.
    async fn finish(&mut self, driver: &Driver) {
        let Some(Kept { journal, .. }) = self.files.pop_front() else { return };
        let row = row_of(&journal.writer);
        match spawn_blocking(move || journal.delete()).await.map_err(io::Error::other).flatten() {
            // No file has its numbers any more. If this fails, the row stays until it is too old.
            Ok(()) => {
                let sql = "DELETE FROM commits WHERE writer = ?";
                let _ = driver.execute(sql, &[Value::Text(&row)]).await;
            }
            Err(error) => {
                warn!(%error, "cannot delete what was owed to the database: it is told, and will not count again");
            }
        }
    }
}

/// Batches of what one transaction can tell. What depends on a doubt goes into the first, as a whole.
fn batches(owed: Vec<Owed>, doubt: Option<i64>, first: i64) -> Vec<Batch> {
    let (doubtful, certain): (Vec<Owed>, Vec<Owed>) =
        owed.into_iter().partition(|owed| owed.condition != Condition::Always);
    let doubtful = (doubt.is_some() && !doubtful.is_empty()).then_some((doubt, doubtful));
    let mut parts: Vec<(Option<i64>, Vec<Owed>)> = doubtful.into_iter().collect();
    parts.extend(certain.chunks(GROUP_OWED_MAX).map(|chunk| (None, chunk.to_vec())));
    (first..).zip(parts).map(|(number, (doubt, owed))| Batch { number, doubt, owed }).collect()
}

/// The name of a file's row: the process itself has a row under its own name.
fn row_of(writer: &str) -> Arc<str> {
    format!("owed-{writer}").into()
}

/// A batch in one transaction, unless it was told before.
struct TellOnce {
    writer: Writer,
    /// The process that wrote the batch.
    process: Arc<str>,
    batch: Arc<Batch>,
    made_up_us: Option<u64>,
}

impl Work for TellOnce {
    type Out = ();

    async fn run(&self, session: &mut Session<'_>) -> Result<(), DatabaseError> {
        let last = LastCommitted { writer: Arc::clone(&self.writer.name) }.run(session).await?;
        if last >= self.batch.number {
            return Ok(());
        }
        let is_committed = match self.batch.doubt {
            Some(number) => LastCommitted { writer: Arc::clone(&self.process) }.run(session).await? == number,
            None => false,
        };
        let is_due = |owed: &&Owed| match owed.condition {
            Condition::Always => true,
            Condition::IfCommitted => is_committed,
            Condition::IfNotCommitted => !is_committed,
        };
        let due: Vec<&Owed> = self.batch.owed.iter().filter(is_due).collect();
        let commit = Commit {
            writer: self.writer.clone(),
            number: self.batch.number,
            questions: due.iter().map(|owed| owed.question.clone()).collect(),
            since_us: due.iter().map(|owed| owed.since_us).collect(),
            mark: Mark::For { us: NUMBERS_KEPT_US },
            made_up_us: self.made_up_us,
        };
        commit.run(session).await.map(drop)
    }
}
