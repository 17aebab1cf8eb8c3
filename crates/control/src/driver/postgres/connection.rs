//! One connection to PostgreSQL.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write;
use std::future::{Future, poll_fn};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{AsyncMessage, Client, Socket, Statement};

use super::super::{Cell, Row, Session, Value, Work, WriteError};
use super::Access;
use crate::document::Version;
use crate::error::DatabaseError;
use crate::tls::Encrypted;

/// The name under which changes are told of.
const CHANNEL: &str = "tollgate";
/// Of whoever migrates: "tollgate" in ASCII.
const SCHEMA_LOCK: i64 = 0x746f_6c6c_6761_7465;
/// So many statements are kept ready.
const STATEMENTS_MAX: usize = 256;
/// The server ends a statement that takes too long. If it does not even do that, it hangs.
const GRACE: Duration = Duration::from_millis(500);

/// A connection, with the statements that it knows.
pub(crate) struct Connection {
    client: Client,
    statements: HashMap<String, Statement>,
    /// What moves bytes. It ends with the connection.
    task: JoinHandle<()>,
    timeout: Duration,
    is_used: bool,
}

impl Connection {
    /// Connects. Notices that come over it are counted.
    pub(super) async fn open(
        access: &Access,
        notices: Option<watch::Sender<u64>>,
    ) -> Result<Connection, DatabaseError> {
        let opened = timeout(access.connect_timeout, connect(access)).await;
        let slow = |_| DatabaseError::Away(format!("{} does not answer", access.place));
        let (client, mut socket) = opened.map_err(slow)??;
        let task = tokio::spawn(async move {
            // An error is one for those who wait for answers, and they hear of it.
            while let Some(Ok(message)) = poll_fn(|context| socket.poll_message(context)).await {
                if let (AsyncMessage::Notification(_), Some(notices)) = (message, &notices) {
                    notices.send_modify(|count| *count += 1);
                }
            }
        });
        let timeout = access.statement_timeout + GRACE;
        let mut connection = Connection { client, statements: HashMap::new(), task, timeout, is_used: false };
        // Whoever vanishes in the middle of a change must not keep the others from theirs.
        let timeout_ms = access.statement_timeout.as_millis();
        let settings = format!(
            "SET statement_timeout = {timeout_ms}; SET idle_in_transaction_session_timeout = {}",
            timeout_ms * 2
        );
        connection.batch(&settings).await?;
        Ok(connection)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Whether it has served before, and may have died since.
    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }

    pub(super) fn set_used(&mut self) {
        self.is_used = true;
    }

    /// Waits until it is closed.
    pub(super) async fn ended(&mut self) {
        let _ = (&mut self.task).await;
    }

    /// Does a work in a transaction.
    pub(super) async fn transact<W: Work>(
        &mut self,
        begin: &str,
        work: &W,
    ) -> Result<W::Out, WriteError<W::Out>> {
        self.batch(begin).await.map_err(WriteError::Failed)?;
        let out = work.run(&mut Session::Postgres(self)).await.map_err(WriteError::Failed)?;
        match self.batch("COMMIT").await {
            Ok(()) => Ok(out),
            // It was lost after it was asked to commit: it may have done so.
            Err(error @ (DatabaseError::Away(_) | DatabaseError::Slow(_))) => {
                Err(WriteError::Unsure(out, error))
            }
            Err(error) => Err(WriteError::Failed(error)),
        }
    }

    pub(super) async fn roll_back(&mut self) -> Result<(), DatabaseError> {
        self.batch("ROLLBACK").await
    }

    pub(super) async fn ping(&mut self) -> Result<(), DatabaseError> {
        self.batch("").await
    }

    pub(super) async fn listen(&mut self) -> Result<(), DatabaseError> {
        self.batch(&format!("LISTEN {CHANNEL}")).await
    }

    pub(crate) async fn notify(&mut self, version: Version) -> Result<(), DatabaseError> {
        self.batch(&format!("NOTIFY {CHANNEL}, '{version}'")).await
    }

    pub(crate) async fn lock_schema(&mut self) -> Result<(), DatabaseError> {
        self.batch(&format!("SELECT pg_advisory_xact_lock({SCHEMA_LOCK})")).await
    }

    async fn batch(&mut self, sql: &str) -> Result<(), DatabaseError> {
        in_time(self.timeout, self.client.batch_execute(sql)).await
    }

    pub(crate) async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        let statement = match self.statements.get(sql) {
            Some(statement) => statement.clone(),
            None => self.prepare(sql).await?,
        };
        let values: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let rows = in_time(self.timeout, self.client.query(&statement, &values)).await?;
        rows.iter().map(row_of).collect()
    }

    async fn prepare(&mut self, sql: &str) -> Result<Statement, DatabaseError> {
        let statement = in_time(self.timeout, self.client.prepare(&translate(sql))).await?;
        if self.statements.len() >= STATEMENTS_MAX {
            self.statements.clear();
        }
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Its socket closes at once, also where the server hangs and takes nothing more.
        self.task.abort();
    }
}

type Connected = (Client, tokio_postgres::Connection<Socket, Encrypted<Socket>>);

/// Connects as far as the server shows what it must: see [`Protection`](super::Protection).
async fn connect(access: &Access) -> Result<Connected, DatabaseError> {
    let error = match access.config.connect(access.tls.clone()).await {
        Ok(connected) => return Ok(connected),
        Err(error) => error,
    };
    let (error, reason) = (error_of(&error), reason(&error));
    if access.protection.falls_back(&reason) {
        let connected = access.config_without_tls.connect(access.tls.clone()).await;
        return connected.map_err(|error| at_place(access, error_of(&error)));
    }
    Err(access.protection.error(&access.place, &reason).unwrap_or_else(|| at_place(access, error)))
}

fn at_place(access: &Access, error: DatabaseError) -> DatabaseError {
    match error {
        DatabaseError::Away(text) => DatabaseError::Away(format!("{}: {text}", access.place)),
        other => other,
    }
}

async fn in_time<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, DatabaseError> {
    match timeout(limit, answer).await {
        Ok(answer) => answer.map_err(|error| error_of(&error)),
        Err(_) => Err(DatabaseError::Away(format!("no answer within {} ms", limit.as_millis()))),
    }
}

/// A statement in PostgreSQL's words: values have numbers, and its order of bytes is called "C". No text in a statement has a `?` in it.
pub(super) fn translate(sql: &str) -> String {
    let mut translated = String::with_capacity(sql.len() + 16);
    for (number, part) in sql.split('?').enumerate() {
        if number > 0 {
            // Writing to a string cannot fail.
            let _ = write!(translated, "${number}");
        }
        translated.push_str(part);
    }
    translated.replace("COLLATE BINARY", "COLLATE \"C\"")
}

impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(integer) => integer.to_sql_checked(ty, out),
            Value::Text(text) => text.to_sql_checked(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        // Asked of the type alone; the value decides.
        true
    }

    to_sql_checked!();
}

fn row_of(row: &tokio_postgres::Row) -> Result<Row, DatabaseError> {
    let cell = |(index, column): (usize, &tokio_postgres::Column)| {
        let cell = match *column.type_() {
            Type::INT8 => row.try_get(index).map(|value: Option<i64>| value.map(Cell::Integer)),
            Type::TEXT | Type::NAME => row.try_get(index).map(|value: Option<String>| value.map(Cell::Text)),
            _ => Ok(None),
        };
        cell.map(Option::unwrap_or_default).map_err(|error| error_of(&error))
    };
    row.columns().iter().enumerate().map(cell).collect::<Result<_, _>>().map(Row)
}

/// What went wrong, and what went wrong below it, which says more.
fn reason(error: &tokio_postgres::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

fn error_of(error: &tokio_postgres::Error) -> DatabaseError {
    let Some(refusal) = error.as_db_error() else {
        let (source, text) = (error.source(), reason(error));
        return if error.is_closed() || source.is_some_and(<dyn Error>::is::<std::io::Error>) {
            DatabaseError::Away(text)
        } else {
            DatabaseError::Other(text)
        };
    };
    // The detail of an error may show what is in a row: it is not told.
    let text = format!("{} ({})", refusal.message(), refusal.code().code());
    let code = refusal.code();
    match code.code().get(..2).unwrap_or_default() {
        _ if *code == SqlState::DISK_FULL => DatabaseError::Full(text),
        _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => DatabaseError::ReadOnly(text),
        _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => DatabaseError::Denied(text),
        _ if *code == SqlState::LOCK_NOT_AVAILABLE => DatabaseError::Locked(text),
        // The statement took too long, or somebody has ended it. The connection is as good as before.
        _ if *code == SqlState::QUERY_CANCELED => DatabaseError::Slow(text),
        // Serialization failures and deadlocks.
        "40" => DatabaseError::Locked(text),
        // A wrong password, an unknown user, an unknown database.
        "28" | "3D" => DatabaseError::Denied(text),
        // Connections, resources, an operator who stops it, failures of its system.
        "08" | "53" | "57" | "58" | "25" => DatabaseError::Away(text),
        "XX" => DatabaseError::Corrupt(text),
        _ => DatabaseError::Other(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_translated() {
        let cases = [
            ("SELECT 1", "SELECT 1"),
            ("SELECT a FROM b WHERE c = ? AND d > ?", "SELECT a FROM b WHERE c = $1 AND d > $2"),
            ("VALUES (?, ?), (?, ?)", "VALUES ($1, $2), ($3, $4)"),
            ("id TEXT COLLATE BINARY NOT NULL", "id TEXT COLLATE \"C\" NOT NULL"),
        ];
        for (ours, theirs) in cases {
            assert_eq!(translate(ours), theirs);
        }
    }
}
