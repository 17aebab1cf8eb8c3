//! What is said to PostgreSQL, and what becomes of what the databases say.

use super::*;

#[test]
fn a_row_gives_what_it_has_and_says_what_it_has_not() {
    let mut row = Row(vec![Cell::Integer(-1), Cell::Text("a".to_owned()), Cell::Null]);
    assert_eq!(row.peek_integer(0), Some(-1));
    assert_eq!(row.peek_integer(1), None);
    assert!(matches!(row.version(0), Err(DatabaseError::Corrupt(_))));
    assert_eq!(row.text(1), Ok("a".to_owned()));
    assert_eq!(row.text_or_null(2), Ok(None));
    assert!(matches!(row.text(2), Err(DatabaseError::Corrupt(_))));
    assert!(matches!(row.integer(9), Err(DatabaseError::Corrupt(_))));
}

/// What SQLite says, in words for those who run it.
#[test]
fn errors_of_sqlite_are_told_apart() {
    use rusqlite::{Connection, OpenFlags};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE a (b TEXT NOT NULL)").unwrap();
    let reader = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let error = sqlite::query(&reader, "INSERT INTO a VALUES (?)", &[Value::Text("c")]).unwrap_err();
    assert!(
        matches!(&error, DatabaseError::ReadOnly(text) if text.contains("cannot be written")),
        "{error:?}"
    );
    let error = sqlite::query(&reader, "SELECT nothing FROM a", &[]).unwrap_err();
    assert!(matches!(error, DatabaseError::Other(_)), "{error:?}");
    let cases = [
        (rusqlite::ffi::SQLITE_FULL, "the database is full"),
        (rusqlite::ffi::SQLITE_IOERR_SHMSIZE, "the database is full"),
        (rusqlite::ffi::SQLITE_IOERR_WRITE, "the disk of its file fails"),
        (rusqlite::ffi::SQLITE_BUSY, "the database is locked by others"),
        (rusqlite::ffi::SQLITE_CORRUPT, "the database is damaged"),
        (rusqlite::ffi::SQLITE_NOTADB, "the database is damaged"),
        (rusqlite::ffi::SQLITE_CANTOPEN, "its file cannot be opened"),
    ];
    for (code, expected) in cases {
        let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        let text = sqlite::error_of(&error).to_string();
        assert!(text.contains(expected), "{code}: {text}");
    }
}
