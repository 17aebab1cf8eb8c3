//! SQLite in a file of its own.
//!
//! One connection writes, on a thread of its own; another reads, on another, so that a long write keeps nobody from reading. Whoever reads everything gets a
//! connection and a thread for that. The file is in WAL mode, and a commit is on the disk when it comes back.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::future::Future;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, ffi, params_from_iter};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tollgate_core::{Span, Time};
use tollgate_store::Clock;

use super::{Cell, Row, Session, Value, Work};
use crate::error::DatabaseError;

/// So many jobs wait for a thread; whoever brings more waits before the queue.
const JOBS_MAX: usize = 256;
/// So many read everything at the same time.
const SNAPSHOTS_MAX: usize = 2;
/// So long others, who may be other processes, are waited for, from the moment at which something was asked for: what stands before it in a queue waits for
/// them too,
const BUSY_TIMEOUT_S: u64 = 5;
const BUSY_TIMEOUT: Span = Span::from_ticks(BUSY_TIMEOUT_S * 1_000_000_000);
/// and so long at a time, not always the same. Nobody is told that a file is free, and whoever writes much leaves it so only for a moment: who looks
/// seldom, as SQLite does by itself, finds it taken again and again.
const BUSY_INTERVALS_MS: [u64; 3] = [1, 2, 3];
/// So many statements are kept ready.
const STATEMENTS_MAX: usize = 128;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

thread_local! {
    /// The clock by which a thread waits for others, and since when what it does was asked for. SQLite hands its handler nothing of that.
    static WAITING: RefCell<Option<(Arc<Clock>, Time)>> = const { RefCell::new(None) };
}

/// What is true of a commit that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It survives the loss of power.
    Full,
    /// It survives the end of the process. After a loss of power the last ones may be missing.
    Normal,
}

/// A file.
pub(crate) struct Sqlite {
    path: PathBuf,
    clock: Arc<Clock>,
    writer: mpsc::Sender<Job>,
    reader: mpsc::Sender<Job>,
    snapshots: Semaphore,
}

impl Sqlite {
    /// Opens a file, or makes one that only its owner may read.
    pub(crate) async fn open(path: &Path, durability: Durability) -> Result<Sqlite, DatabaseError> {
        let (own, clock) = (path.to_owned(), Arc::new(Clock::new()));
        let writer = spawn("tollgate-sql-write", &clock, move || open_writer(&own, durability)).await?;
        let own = path.to_owned();
        let reader = spawn("tollgate-sql-read", &clock, move || open_reader(&own)).await?;
        let snapshots = Semaphore::new(SNAPSHOTS_MAX);
        Ok(Sqlite { path: path.to_owned(), clock, writer, reader, snapshots })
    }

    /// This moment, for [`Sqlite::write_since`].
    pub(crate) fn now(&self) -> Time {
        self.clock.steady()
    }

    /// Writes what was asked for at that moment: others are waited for [`BUSY_TIMEOUT`] from then on.
    pub(crate) async fn write_since<W: Work>(
        &self,
        asked_at: Time,
        work: W,
    ) -> Result<W::Out, DatabaseError> {
        let write = move |connection: &mut Connection| transact(connection, "BEGIN IMMEDIATE", &work);
        ask(&self.writer, asked_at, write).await
    }

    pub(crate) async fn read<W: Work>(&self, work: W) -> Result<W::Out, DatabaseError> {
        let read = move |connection: &mut Connection| block_on(work.run(&mut Session::Sqlite(connection)));
        ask(&self.reader, self.now(), read).await
    }

    pub(crate) async fn snapshot<W: Work>(&self, work: W) -> Result<W::Out, DatabaseError> {
        let _permit = self.snapshots.acquire().await.map_err(|_| thread_ended())?;
        let path = self.path.clone();
        let snapshot = spawn("tollgate-sql-all", &self.clock, move || open_reader(&path)).await?;
        ask(&snapshot, self.now(), move |connection| transact(connection, "BEGIN", &work)).await
    }
}

/// A thread with a connection, which ends when nobody can bring it jobs any more.
async fn spawn(
    name: &str,
    clock: &Arc<Clock>,
    open: impl FnOnce() -> Result<Connection, DatabaseError> + Send + 'static,
) -> Result<mpsc::Sender<Job>, DatabaseError> {
    let (sender, mut jobs) = mpsc::channel::<Job>(JOBS_MAX);
    let (told, opened) = oneshot::channel();
    let clock = Arc::clone(clock);
    let run = move || {
        let now = clock.steady();
        WAITING.set(Some((clock, now)));
        match open() {
            Err(error) => drop(told.send(Err(error))),
            Ok(mut connection) => {
                let _ = told.send(Ok(()));
                while let Some(job) = jobs.blocking_recv() {
                    job(&mut connection);
                }
            }
        }
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|error| DatabaseError::Other(format!("no thread for it: {error}")))?;
    opened.await.map_err(|_| thread_ended())??;
    Ok(sender)
}

async fn ask<Out: Send + 'static>(
    thread: &mpsc::Sender<Job>,
    asked_at: Time,
    job: impl FnOnce(&mut Connection) -> Result<Out, DatabaseError> + Send + 'static,
) -> Result<Out, DatabaseError> {
    let (told, answer) = oneshot::channel();
    let job: Job = Box::new(move |connection| {
        WAITING.with_borrow_mut(|waiting| {
            if let Some((_, since)) = waiting {
                *since = asked_at;
            }
        });
        drop(told.send(job(connection)));
    });
    thread.send(job).await.map_err(|_| thread_ended())?;
    answer.await.map_err(|_| thread_ended())?
}

fn thread_ended() -> DatabaseError {
    DatabaseError::Other("its thread has ended".to_owned())
}

fn transact<W: Work>(connection: &mut Connection, begin: &str, work: &W) -> Result<W::Out, DatabaseError> {
    connection.execute_batch(begin).map_err(|error| error_of(&error))?;
    let done = block_on(work.run(&mut Session::Sqlite(connection)));
    let done = done.and_then(|out| {
        connection.execute_batch("COMMIT").map_err(|error| error_of(&error))?;
        Ok(out)
    });
    if done.is_err() && !connection.is_autocommit() {
        // A full disk may have ended it already. Nothing else can be done if this fails, and nothing is committed then.
        let _ = connection.execute_batch("ROLLBACK");
    }
    done
}

/// Runs to the end what waits for nothing but a channel.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(out) => return out,
            Poll::Pending => thread::park(),
        }
    }
}

fn open_writer(path: &Path, durability: Durability) -> Result<Connection, DatabaseError> {
    // SQLite would let everybody read it. The files beside it get the rights of this one. One that is there is left to SQLite: whoever closes it
    // elsewhere in a process takes away all locks that the process has on it.
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    let made = match options.create_new(true).open(path) {
        // A link to a file that is not there yet.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && !path.exists() => {
            options.create_new(false).create(true).truncate(false).open(path)
        }
        made => made,
    };
    if let Err(error) = made
        && !path.exists()
    {
        return Err(DatabaseError::Settings(format!("{} cannot be made: {error}", path.display())));
    }
    let connection = open(path)?;
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    let settings = format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous};");
    connection.execute_batch(&settings).map_err(|error| error_of(&error))?;
    Ok(connection)
}

fn open_reader(path: &Path) -> Result<Connection, DatabaseError> {
    let connection = open(path)?;
    connection.execute_batch("PRAGMA query_only = ON").map_err(|error| error_of(&error))?;
    Ok(connection)
}

fn open(path: &Path) -> Result<Connection, DatabaseError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_handler(Some(wait_for_others))?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cache_size = -16000;")?;
        Ok(connection)
    };
    open().map_err(|error| match error_of(&error) {
        DatabaseError::Corrupt(text) => DatabaseError::Corrupt(format!("{}: {text}", path.display())),
        other => other,
    })
}

/// Waits a moment for the process that has the file, after so many times. Not if that was long enough, by the clock: a moment takes much longer than it
/// should where the machine is busy.
fn wait_for_others(times: i32) -> bool {
    let is_to_wait = WAITING.with_borrow(|waiting| {
        waiting.as_ref().is_some_and(|(clock, since)| clock.steady().since(*since) < BUSY_TIMEOUT)
    });
    if is_to_wait {
        let times = usize::try_from(times).unwrap_or(usize::MAX);
        thread::sleep(Duration::from_millis(BUSY_INTERVALS_MS[times % BUSY_INTERVALS_MS.len()]));
    }
    is_to_wait
}

pub(super) fn query(
    connection: &Connection,
    sql: &str,
    values: &[Value<'_>],
) -> Result<Vec<Row>, DatabaseError> {
    let read = || {
        let mut statement = connection.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query(params_from_iter(values))?;
        let mut read = Vec::new();
        while let Some(row) = rows.next()? {
            let cells = (0..columns).map(|column| row.get_ref(column).map(cell_of));
            read.push(Row(cells.collect::<rusqlite::Result<_>>()?));
        }
        Ok(read)
    };
    read().map_err(|error| error_of(&error))
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Value::Null => ValueRef::Null,
            Value::Integer(integer) => ValueRef::Integer(integer),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

/// Whoever changes a file by hand can put anything anywhere: what is neither a number nor a text is nothing.
fn cell_of(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Integer(integer) => Cell::Integer(integer),
        ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => Cell::Null,
    }
}

pub(super) fn error_of(error: &rusqlite::Error) -> DatabaseError {
    let text = error.to_string();
    let Some(code) = error.sqlite_error() else { return DatabaseError::Other(text) };
    match code.code {
        ErrorCode::DiskFull => DatabaseError::Full("no room on the disk of its file".to_owned()),
        // The index of the write-ahead log could not grow.
        ErrorCode::SystemIoFailure if code.extended_code == ffi::SQLITE_IOERR_SHMSIZE => {
            DatabaseError::Full("no room on the disk of its file".to_owned())
        }
        ErrorCode::SystemIoFailure => DatabaseError::Away(format!("the disk of its file fails: {text}")),
        ErrorCode::ReadOnly => DatabaseError::ReadOnly(format!("its file cannot be written: {text}")),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            DatabaseError::Locked(format!("others have kept its file for {BUSY_TIMEOUT_S} s"))
        }
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => DatabaseError::Corrupt(text),
        ErrorCode::CannotOpen => DatabaseError::Settings(format!("its file cannot be opened: {text}")),
        ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => {
            DatabaseError::Denied(text)
        }
        _ => DatabaseError::Other(text),
    }
}
