//! What the tests share: a place where a database is, of either kind, and changes to make there.

// Each test file uses a part of it.
#![allow(dead_code)]

pub(crate) mod detour;
pub(crate) mod durable;

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tollgate_control::{
    Action, Change, ChangeError, Changed, Condition, Database, DatabaseAddress, DatabaseSettings, Document,
    Kind, Repeat, Who,
};
use tollgate_testkit::real::postgres::PostgresServer;

/// A day in November.
pub(crate) const NOW_MS: i64 = 1_700_000_000_000;

/// Where a database is.
pub(crate) enum Stand {
    Sqlite(TempDir),
    Postgres(Box<PostgresServer>),
}

impl Stand {
    pub(crate) fn sqlite() -> Stand {
        Stand::Sqlite(tempfile::tempdir().expect("a temporary directory"))
    }

    pub(crate) fn postgres() -> Stand {
        Stand::Postgres(Box::new(PostgresServer::start()))
    }

    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Stand::Sqlite(folder) => folder.path().join("tollgate.db"),
            Stand::Postgres(_) => panic!("not a file"),
        }
    }

    pub(crate) fn address(&self) -> DatabaseAddress {
        match self {
            Stand::Sqlite(_) => DatabaseAddress::Sqlite(self.path()),
            Stand::Postgres(server) => server.url().parse().expect("an address"),
        }
    }

    pub(crate) async fn open(&self) -> Database {
        Database::open(DatabaseSettings::new(self.address())).await.expect("a database")
    }

    /// Does something behind Tollgate's back. Returns the first column of the first row.
    pub(crate) fn sql(&self, statements: &str) -> String {
        match self {
            Stand::Postgres(server) => {
                server.sql(statements).split(['|', '\n']).next().unwrap_or_default().to_owned()
            }
            Stand::Sqlite(_) => {
                let connection = rusqlite::Connection::open(self.path()).expect("the file");
                if statements.starts_with("SELECT") || statements.starts_with("PRAGMA") {
                    let value: rusqlite::types::Value =
                        connection.query_row(statements, [], |row| row.get(0)).expect(statements);
                    match value {
                        rusqlite::types::Value::Integer(integer) => integer.to_string(),
                        rusqlite::types::Value::Text(text) => text,
                        other => panic!("{other:?}"),
                    }
                } else {
                    connection.execute_batch(statements).expect(statements);
                    String::new()
                }
            }
        }
    }
}

/// Runs the same checks on both databases.
#[macro_export]
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(&super::common::Stand::sqlite()).await;
                }
            )*
        }
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(&super::common::Stand::postgres()).await;
                }
            )*
        }
    };
}

pub(crate) fn ann() -> Who {
    Who { name: "ann".to_owned(), role: "admin".to_owned() }
}

pub(crate) fn put(kind: Kind, id: &str, body: &str) -> Change {
    Change {
        who: ann(),
        action: Action::PUT,
        kind,
        id: id.to_owned(),
        body: Some(body.to_owned()),
        condition: Condition::Any,
        repeat: None,
    }
}

pub(crate) fn delete(kind: Kind, id: &str) -> Change {
    Change { action: Action::DELETE, body: None, ..put(kind, id, "") }
}

pub(crate) fn provided(condition: Condition, change: Change) -> Change {
    Change { condition, ..change }
}

pub(crate) fn repeatable(key: &str, fingerprint: &str, change: Change) -> Change {
    Change { repeat: Some(Repeat { key: key.to_owned(), fingerprint: fingerprint.to_owned() }), ..change }
}

pub(crate) async fn make(database: &Database, change: Change) -> Changed {
    database.change(change, NOW_MS).await.expect("a change that can be made")
}

/// All documents, and the version that they are of.
pub(crate) async fn everything(database: &Database) -> (u64, Vec<Document>) {
    let mut documents = Vec::new();
    let head = database.load(|document| documents.push(document)).await.expect("all documents");
    (head.version, documents)
}

pub(crate) async fn check_verifies(database: &Database, rows: u64) {
    let verified = database.verify(None, |_| {}).await.expect("an audit in order");
    assert_eq!(verified.rows, rows);
    assert_eq!(verified.head.version, rows);
}

/// A file system with little room.
pub(crate) struct Small(PathBuf);

impl Small {
    /// Of so many MiB, if we may mount one.
    pub(crate) fn mount(mebibytes: u32) -> Option<Small> {
        let folder = tempfile::tempdir().expect("a temporary directory").keep();
        let options = format!("size={mebibytes}m,mode=777");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&folder).output();
        done.is_ok_and(|done| done.status.success()).then_some(Small(folder))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    pub(crate) fn resize(&self, mebibytes: u32) {
        let options = format!("remount,size={mebibytes}m");
        let done = Command::new("mount").args(["-o", &options]).arg(&self.0).status();
        assert!(done.is_ok_and(|status| status.success()), "it cannot be made larger");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Writes until there is no room. Returns how many changes were made.
pub(crate) async fn fill(database: &Database) -> u64 {
    // PostgreSQL would press it into nothing if it were the same letter again and again.
    let body = |number: u64| {
        let words =
            (0..3_000).map(|word| (word + number * 7).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string());
        words.collect::<Vec<_>>().concat()
    };
    for number in 0..2_000 {
        match database.change(put(Kind::Quota, &format!("{number}"), &body(number)), NOW_MS).await {
            Ok(_) => {}
            Err(ChangeError::Full(text)) => {
                assert!(text.contains("full"), "{text}");
                return number;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("it is never full");
}
