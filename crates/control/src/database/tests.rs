//! A database that is full, wherever the tests run: SQLite has a limit of its own.

use super::*;
use crate::change::{Action, Condition, Who};

fn put(id: u32, bytes: usize) -> Change {
    Change {
        who: Who { name: "ann".to_owned(), role: "admin".to_owned() },
        action: Action::PUT,
        kind: Kind::Quota,
        id: id.to_string(),
        body: Some("x".repeat(bytes)),
        condition: Condition::Any,
        repeat: None,
    }
}

#[tokio::test]
async fn what_has_no_room_is_refused_and_what_has_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.db");
    let database =
        Database::open(DatabaseSettings::new(DatabaseAddress::Sqlite(path.clone()))).await.unwrap();
    database.driver.execute("PRAGMA max_page_count = 100", &[]).await.unwrap();

    // In one transaction: a few that are small, one that is too large, and a few that are small.
    let sizes = [1_000, 1_000, 250_000, 1_000, 1_000];
    let changes: Vec<Change> = (0..).zip(sizes).map(|(id, bytes)| put(id, bytes)).collect();
    let outcomes = database.change_many(changes, 1).await;
    for (size, outcome) in sizes.iter().zip(&outcomes) {
        match outcome {
            Ok(_) => assert!(*size < 2_000),
            Err(error) => assert!(*size > 2_000 && matches!(error, ChangeError::Full(_)), "{error:?}"),
        }
    }
    assert_eq!(database.version().await, Ok(4));
    assert_eq!(database.verify(None, |_| {}).await.map(|verified| verified.rows), Ok(4));

    database.driver.execute("PRAGMA max_page_count = 10000", &[]).await.unwrap();
    assert_eq!(database.change(put(9, 250_000), 1).await.map(|changed| changed.version), Ok(5));
    let mut rows = database.driver.query("PRAGMA integrity_check", &[]).await.unwrap();
    assert_eq!(rows.remove(0).text(0).as_deref(), Ok("ok"));
}
