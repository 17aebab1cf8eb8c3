//! The copy that a node keeps of what is in a database.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

#[macro_use]
mod common;

use common::{NOW_MS, Stand, delete, everything, make, put};
use tollgate_control::{Database, DatabaseError, Document, Kind, Replica};

on_both!(it_becomes_what_the_database_is, it_is_copied_anew_where_the_history_is_another);

async fn loaded(replica: &Replica) -> (u64, Vec<Document>) {
    let mut documents = Vec::new();
    let head = replica.load(|document| documents.push(document)).await.unwrap();
    (head.version, documents)
}

async fn check_same(replica: &Replica, database: &Database) {
    assert_eq!(loaded(replica).await, everything(database).await);
    assert_eq!(replica.fleet().await.unwrap(), database.fleet());
}

async fn it_becomes_what_the_database_is(stand: &Stand) {
    let database = stand.open().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replica.db");
    let replica = Replica::open(&path).await.unwrap();
    assert_eq!(loaded(&replica).await, (0, Vec::new()));

    let all = (0..1_500).map(|number| put(Kind::Quota, &format!("{number}"), "{}")).collect();
    database.change_many(all, NOW_MS).await;
    assert_eq!(replica.catch_up(&database).await, Ok(1_500));
    check_same(&replica, &database).await;

    // Row by row, with some that it knows already.
    make(&database, put(Kind::Quota, "7", "[]")).await;
    make(&database, delete(Kind::Quota, "8")).await;
    make(&database, put(Kind::Usage, "7", "{}")).await;
    let rows = database.since(1_498, 10).await.unwrap();
    assert_eq!(replica.apply(&rows).await, Ok(1_503));
    assert_eq!(replica.apply(&rows).await, Ok(1_503));
    check_same(&replica, &database).await;

    // Not with something left out; then nothing of it is applied.
    for _ in 0..3 {
        make(&database, put(Kind::Key, "k", "{}")).await;
    }
    let mut rows = database.since(1_503, 10).await.unwrap();
    rows.remove(1);
    assert!(matches!(replica.apply(&rows).await, Err(DatabaseError::Other(_))));
    assert_eq!(replica.version().await, Ok(1_503));
    assert_eq!(replica.catch_up(&database).await, Ok(1_506));
    check_same(&replica, &database).await;

    // It is there after the node has ended, and a second one is as good.
    drop(replica);
    let replica = Replica::open(&path).await.unwrap();
    check_same(&replica, &database).await;
    assert_eq!(replica.catch_up(&database).await, Ok(1_506));
}

async fn it_is_copied_anew_where_the_history_is_another(stand: &Stand) {
    let other = Stand::sqlite();
    let (database, other) = (stand.open().await, other.open().await);
    let folder = tempfile::tempdir().unwrap();
    let replica = Replica::open(&folder.path().join("replica.db")).await.unwrap();
    for number in 0..5 {
        make(&other, put(Kind::Quota, &format!("other{number}"), "{}")).await;
        make(&database, put(Kind::Quota, &format!("{number}"), "{}")).await;
    }
    replica.catch_up(&other).await.unwrap();
    assert!(replica.apply(&database.since(4, 10).await.unwrap()).await.is_ok_and(|version| version == 5));
    make(&database, put(Kind::Quota, "new", "{}")).await;
    assert!(replica.apply(&database.since(5, 10).await.unwrap()).await.is_err());
    assert_eq!(replica.catch_up(&database).await, Ok(6));
    check_same(&replica, &database).await;
}

#[tokio::test]
async fn a_damaged_copy_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replica.db");
    std::fs::write(&path, "not a database at all ".repeat(500)).unwrap();
    let replica = Replica::open(&path).await.unwrap();
    assert_eq!(replica.version().await, Ok(0));
    let stand = Stand::sqlite();
    let database = stand.open().await;
    make(&database, put(Kind::Quota, "a", "{}")).await;
    assert_eq!(replica.catch_up(&database).await, Ok(1));
}
