//! The thin layer between what is said to a database and the two databases.
//!
//! A [`Work`] is what is done with a [`Session`], in statements that both databases understand. It is asynchronous; with SQLite it never waits, and runs
//! on a thread of the driver's own. Statements have `?` for values and say `COLLATE BINARY` where texts are put in order; that,
//! the notice after a change and the lock around a migration are all that differs.

mod postgres;
mod sqlite;
#[cfg(test)]
mod tests;

use std::future::Future;

pub(crate) use postgres::{Access as PostgresAccess, Postgres};
pub(crate) use sqlite::{Durability, Sqlite};

use tollgate_core::Time;

use crate::document::Version;
use crate::error::DatabaseError;

/// A value of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Text(&'a str),
}

/// A value of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cell {
    #[default]
    Null,
    Integer(i64),
    Text(String),
}

/// A row of an answer.
#[derive(Debug)]
pub(crate) struct Row(Vec<Cell>);

/// A connection that work is done with.
pub(crate) enum Session<'a> {
    Sqlite(&'a mut rusqlite::Connection),
    Postgres(&'a mut postgres::Connection),
}

/// Something that is done with a database, all or nothing. It may be done again from the start.
pub(crate) trait Work: Send + Sync + 'static {
    /// What comes of it.
    type Out: Send + 'static;

    fn run(&self, session: &mut Session<'_>)
    -> impl Future<Output = Result<Self::Out, DatabaseError>> + Send;
}

/// Why something was not written, or perhaps was.
#[derive(Debug)]
pub(crate) enum WriteError<Out> {
    /// Nothing was written.
    Failed(DatabaseError),
    /// All was done, and whether it was committed is not known.
    Unsure(Out, DatabaseError),
}

impl<Out> WriteError<Out> {
    /// For whom the difference does not matter.
    fn into_error(self) -> DatabaseError {
        match self {
            WriteError::Failed(error) | WriteError::Unsure(_, error) => error,
        }
    }
}

/// The time in PostgreSQL, in microseconds since 1970.
const TIME_WORDS: &str = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)";

/// One of the two databases.
pub(crate) enum Driver {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

impl Driver {
    /// Whether it is a file that a thread of this process writes.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Driver::Sqlite(_))
    }

    /// The moment at which something is asked for, for [`Driver::write_since`]. PostgreSQL has time limits of its own.
    pub(crate) fn asked_now(&self) -> Option<Time> {
        match self {
            Driver::Sqlite(sqlite) => Some(sqlite.now()),
            Driver::Postgres(_) => None,
        }
    }

    /// Does it in one transaction, alone or as if it were.
    pub(crate) async fn write<W: Work>(&self, work: W) -> Result<W::Out, WriteError<W::Out>> {
        self.write_since(self.asked_now(), work).await
    }

    /// The same for what was asked for before, and has waited here: a file that others keep is waited for from then on.
    pub(crate) async fn write_since<W: Work>(
        &self,
        asked_at: Option<Time>,
        work: W,
    ) -> Result<W::Out, WriteError<W::Out>> {
        match self {
            Driver::Sqlite(sqlite) => {
                let asked_at = asked_at.unwrap_or_else(|| sqlite.now());
                sqlite.write_since(asked_at, work).await.map_err(WriteError::Failed)
            }
            Driver::Postgres(postgres) => postgres.write(&work).await,
        }
    }

    /// Does it in one transaction for which there is no doubt that matters.
    pub(crate) async fn write_plainly<W: Work>(&self, work: W) -> Result<W::Out, DatabaseError> {
        self.write(work).await.map_err(WriteError::into_error)
    }

    /// Reads it all as it was at one moment, however long that takes.
    pub(crate) async fn snapshot<W: Work>(&self, work: W) -> Result<W::Out, DatabaseError> {
        match self {
            Driver::Sqlite(sqlite) => sqlite.snapshot(work).await,
            Driver::Postgres(postgres) => postgres.snapshot(&work).await,
        }
    }

    /// What time it is there, in microseconds since 1970. A file has no clock.
    pub(crate) async fn time_us(&self) -> Result<Option<u64>, DatabaseError> {
        if self.is_file() {
            return Ok(None);
        }
        let mut rows = self.query(&format!("SELECT {TIME_WORDS}"), &[]).await?;
        rows.first_mut().map(|row| row.version(0)).transpose()
    }

    /// One statement that only reads.
    pub(crate) async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        let work = Statement::new(sql, values);
        match self {
            Driver::Sqlite(sqlite) => sqlite.read(work).await,
            Driver::Postgres(postgres) => postgres.single(&work).await,
        }
    }

    /// One statement that writes, and takes no part in changes.
    pub(crate) async fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<(), DatabaseError> {
        let work = Statement::new(sql, values);
        match self {
            Driver::Sqlite(sqlite) => sqlite.write_since(sqlite.now(), work).await.map(drop),
            Driver::Postgres(postgres) => postgres.single(&work).await.map(drop),
        }
    }
}

/// A work of one statement.
struct Statement {
    sql: String,
    values: Vec<Cell>,
}

impl Statement {
    fn new(sql: &str, values: &[Value<'_>]) -> Statement {
        Statement { sql: sql.to_owned(), values: values.iter().map(|value| value.to_cell()).collect() }
    }
}

impl Work for Statement {
    type Out = Vec<Row>;

    async fn run(&self, session: &mut Session<'_>) -> Result<Vec<Row>, DatabaseError> {
        let values: Vec<Value<'_>> = self.values.iter().map(Cell::as_value).collect();
        session.query(&self.sql, &values).await
    }
}

impl Session<'_> {
    /// The rows that a statement answers with.
    pub(crate) async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        match self {
            Session::Sqlite(connection) => sqlite::query(connection, sql, values),
            Session::Postgres(connection) => connection.query(sql, values).await,
        }
    }

    /// Does what a statement says.
    pub(crate) async fn execute(&mut self, sql: &str, values: &[Value<'_>]) -> Result<(), DatabaseError> {
        self.query(sql, values).await.map(drop)
    }

    /// Whether there is such a table.
    pub(crate) async fn has_table(&mut self, name: &str) -> Result<bool, DatabaseError> {
        let sql = match self {
            Session::Sqlite(_) => "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?",
            Session::Postgres(_) => {
                "SELECT count(*) FROM pg_tables WHERE tablename = ? AND schemaname = ANY (current_schemas(false))"
            }
        };
        let mut rows = self.query(sql, &[Value::Text(name)]).await?;
        Ok(rows.first_mut().map(|row| row.integer(0)).transpose()?.unwrap_or(0) > 0)
    }

    /// Keeps others from changing tables until the end of the transaction.
    pub(crate) async fn lock_schema(&mut self) -> Result<(), DatabaseError> {
        match self {
            // Whoever writes is alone.
            Session::Sqlite(_) => Ok(()),
            Session::Postgres(connection) => connection.lock_schema().await,
        }
    }

    /// Whether nobody else writes until the end of a transaction that writes.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self, Session::Sqlite(_))
    }

    /// Whether the database has a clock of its own. A file has none.
    pub(crate) fn has_clock(&self) -> bool {
        matches!(self, Session::Postgres(_))
    }

    /// The words for what time it is there, in microseconds since 1970: also in the middle of a transaction. Nothing where a file has no clock.
    pub(crate) fn time_words(&self) -> &'static str {
        match self {
            Session::Sqlite(_) => "NULL",
            Session::Postgres(_) => TIME_WORDS,
        }
    }

    /// Tells others of a change once it is committed.
    pub(crate) async fn notify(&mut self, version: Version) -> Result<(), DatabaseError> {
        match self {
            // There is nobody to tell: they ask.
            Session::Sqlite(_) => Ok(()),
            Session::Postgres(connection) => connection.notify(version).await,
        }
    }
}

impl<'a> Value<'a> {
    pub(crate) fn version(version: Version) -> Result<Value<'a>, DatabaseError> {
        let version = i64::try_from(version);
        version.map(Value::Integer).map_err(|_| DatabaseError::Other("no version is so great".to_owned()))
    }

    pub(crate) fn count(count: usize) -> Value<'a> {
        Value::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }

    fn to_cell(self) -> Cell {
        match self {
            Value::Null => Cell::Null,
            Value::Integer(integer) => Cell::Integer(integer),
            Value::Text(text) => Cell::Text(text.to_owned()),
        }
    }
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(text: Option<&'a str>) -> Value<'a> {
        text.map_or(Value::Null, Value::Text)
    }
}

impl Cell {
    fn as_value(&self) -> Value<'_> {
        match self {
            Cell::Null => Value::Null,
            Cell::Integer(integer) => Value::Integer(*integer),
            Cell::Text(text) => Value::Text(text),
        }
    }
}

impl Row {
    #[cfg(test)]
    pub(crate) fn of(cells: Vec<Cell>) -> Row {
        Row(cells)
    }

    fn take(&mut self, column: usize) -> Cell {
        self.0.get_mut(column).map(std::mem::take).unwrap_or_default()
    }

    /// A number, which stays there.
    pub(crate) fn peek_integer(&self, column: usize) -> Option<i64> {
        match self.0.get(column) {
            Some(Cell::Integer(integer)) => Some(*integer),
            _ => None,
        }
    }

    /// A number.
    pub(crate) fn integer(&mut self, column: usize) -> Result<i64, DatabaseError> {
        match self.take(column) {
            Cell::Integer(integer) => Ok(integer),
            other => Err(misplaced(column, &other, "a number")),
        }
    }

    /// A number that is not negative.
    pub(crate) fn version(&mut self, column: usize) -> Result<Version, DatabaseError> {
        let integer = self.integer(column)?;
        Version::try_from(integer).map_err(|_| misplaced(column, &Cell::Integer(integer), "a version"))
    }

    /// A text.
    pub(crate) fn text(&mut self, column: usize) -> Result<String, DatabaseError> {
        self.text_or_null(column)?.ok_or_else(|| misplaced(column, &Cell::Null, "a text"))
    }

    /// A text, or nothing.
    pub(crate) fn text_or_null(&mut self, column: usize) -> Result<Option<String>, DatabaseError> {
        match self.take(column) {
            Cell::Text(text) => Ok(Some(text)),
            Cell::Null => Ok(None),
            other @ Cell::Integer(_) => Err(misplaced(column, &other, "a text")),
        }
    }
}

fn misplaced(column: usize, found: &Cell, wanted: &str) -> DatabaseError {
    let found = match found {
        Cell::Null => "nothing".to_owned(),
        Cell::Integer(integer) => integer.to_string(),
        Cell::Text(_) => "a text".to_owned(),
    };
    DatabaseError::Corrupt(format!("column {} has {found} where {wanted} belongs", column + 1))
}
