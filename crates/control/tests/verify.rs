//! Whatever is done to the audit or to the documents behind Tollgate's back, `verify` finds it and says where.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

#[macro_use]
mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{NOW_MS, Stand, delete, make, put};
use tollgate_control::{Action, Anchor, Change, Database, Fault, Kind, VerifyError};

on_both!(
    every_change_of_the_audit_is_found,
    every_change_of_a_document_is_found,
    what_was_kept_elsewhere_has_to_be_on_the_chain,
);

/// Eight versions: three documents, one of which is changed, one deleted; and an act.
async fn history(stand: &Stand) -> Database {
    let database = stand.open().await;
    for id in ["a", "b", "c"] {
        make(&database, put(Kind::Quota, id, "{}")).await;
    }
    make(&database, put(Kind::Quota, "a", "[1]")).await;
    make(&database, put(Kind::Quota, "a", "[2]")).await;
    make(&database, delete(Kind::Quota, "b")).await;
    make(&database, Change { action: Action::RESET, ..put(Kind::Usage, "a", "{}") }).await;
    make(&database, put(Kind::Policy, "p", "{}")).await;
    stand.sql("CREATE TABLE kept_audit AS SELECT * FROM audit");
    stand.sql("CREATE TABLE kept_documents AS SELECT * FROM documents");
    stand.sql("CREATE TABLE kept_settings AS SELECT * FROM settings");
    database
}

async fn check(stand: &Stand, database: &Database, damage: &str, expected: &Fault) {
    stand.sql(damage);
    let found = database.verify(None, |_| {}).await;
    assert_eq!(found, Err(VerifyError::Fault(expected.clone())), "{damage}");
    assert!(found.unwrap_err().to_string().starts_with("the audit is not what it was: "));
    for table in ["audit", "documents", "settings"] {
        stand.sql(&format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept_{table}"));
    }
    assert_eq!(database.verify(None, |_| {}).await.map(|verified| verified.rows), Ok(8), "{damage}");
}

async fn every_change_of_the_audit_is_found(stand: &Stand) {
    let database = history(stand).await;
    let columns = ["who", "role", "action", "kind", "id", "before", "after", "previous", "hash"];
    for column in columns {
        check(
            stand,
            &database,
            &format!("UPDATE audit SET {column} = 'x' WHERE version = 5"),
            &Fault::Changed(5),
        )
        .await;
    }
    let hash_of_the_second = "(SELECT hash FROM kept_audit WHERE version = 2)";
    let first = "UPDATE audit SET hash = 'x' WHERE version = 1";
    let cases = [
        ("UPDATE audit SET at = at + 1 WHERE version = 5".to_owned(), Fault::Changed(5)),
        ("UPDATE audit SET before = NULL WHERE version = 5".to_owned(), Fault::Changed(5)),
        (first.to_owned(), Fault::Changed(1)),
        (format!("UPDATE audit SET hash = {hash_of_the_second} WHERE version = 8"), Fault::Changed(8)),
        ("DELETE FROM audit WHERE version = 4".to_owned(), Fault::Removed(4)),
        ("DELETE FROM audit WHERE version = 1".to_owned(), Fault::Removed(1)),
        ("DELETE FROM audit WHERE version = 8".to_owned(), Fault::Head { stated: 8, last: 7 }),
        ("DELETE FROM audit".to_owned(), Fault::Head { stated: 8, last: 0 }),
        // Two rows change places.
        (
            "UPDATE audit SET version = 100 WHERE version = 3; UPDATE audit SET version = 3 WHERE version = 4; \
             UPDATE audit SET version = 4 WHERE version = 100"
                .to_owned(),
            Fault::Changed(3),
        ),
        ("UPDATE audit SET version = 9 WHERE version = 8".to_owned(), Fault::Removed(8)),
        ("UPDATE audit SET version = 0 WHERE version = 8".to_owned(), Fault::Misplaced(0)),
        (
            "UPDATE settings SET value = '9 00' WHERE name = 'head'".to_owned(),
            Fault::Head { stated: 9, last: 8 },
        ),
        (
            "UPDATE settings SET value = '8 00' WHERE name = 'head'".to_owned(),
            Fault::Head { stated: 8, last: 8 },
        ),
        ("UPDATE settings SET value = 'other' WHERE name = 'fleet'".to_owned(), Fault::Unlinked(1)),
    ];
    for (damage, expected) in &cases {
        check(stand, &database, damage, expected).await;
    }
}

async fn every_change_of_a_document_is_found(stand: &Stand) {
    let database = history(stand).await;
    let (kind, id) = ("quota".to_owned(), str::to_owned);
    let changed = || Fault::Document { version: 5, kind: kind.clone(), id: id("a") };
    let unwritten = |name| Fault::Unwritten { kind: kind.clone(), id: id(name) };
    let cases = [
        ("UPDATE documents SET body = '[1]' WHERE id = 'a'", changed()),
        ("UPDATE documents SET version = 4 WHERE id = 'a'", changed()),
        ("UPDATE documents SET changed_by = 'bob' WHERE id = 'a'", changed()),
        ("UPDATE documents SET changed_at = 0 WHERE id = 'a'", changed()),
        ("UPDATE documents SET id = 'd' WHERE id = 'c'", unwritten("d")),
        (
            "INSERT INTO documents SELECT kind, 'b', version, body, changed_at, changed_by FROM kept_documents WHERE id = 'c'",
            unwritten("b"),
        ),
        ("DELETE FROM documents WHERE id = 'c'", Fault::DocumentRemoved(3)),
    ];
    for (damage, expected) in &cases {
        check(stand, &database, damage, expected).await;
    }
}

async fn what_was_kept_elsewhere_has_to_be_on_the_chain(stand: &Stand) {
    let database = history(stand).await;
    let verified = database.verify(None, |_| {}).await.unwrap();
    assert_eq!((verified.rows, verified.documents), (8, 3));
    let row = database.since(4, 1).await.unwrap().remove(0);
    let kept = Anchor { version: 5, hash: row.hash };
    let mut told = Vec::new();
    assert_eq!(database.verify(Some(&kept), |rows| told.push(rows)).await.as_ref(), Ok(&verified));
    assert_eq!(told, [8]);
    assert_eq!(database.verify(Some(&verified.head), |_| {}).await.as_ref(), Ok(&verified));
    for anchor in [
        Anchor { hash: "00".to_owned(), ..kept.clone() },
        Anchor { version: 9, ..kept.clone() },
        Anchor { version: 8, ..kept },
    ] {
        let found = database.verify(Some(&anchor), |_| {}).await;
        assert_eq!(found, Err(VerifyError::Fault(Fault::Anchor(anchor.version))));
    }
    // The end is cut off and made anew: only who has kept the head can tell.
    let head = stand.sql("SELECT previous FROM audit WHERE version = 8");
    stand.sql("DELETE FROM audit WHERE version = 8");
    stand.sql("DELETE FROM documents WHERE id = 'p'");
    stand.sql(&format!("UPDATE settings SET value = '7 {head}' WHERE name = 'head'"));
    assert_eq!(database.verify(None, |_| {}).await.map(|verified| verified.rows), Ok(7));
    let found = database.verify(Some(&verified.head), |_| {}).await;
    assert_eq!(found, Err(VerifyError::Fault(Fault::Anchor(8))));
    database.change(put(Kind::Policy, "p", "[]"), NOW_MS).await.unwrap();
    let found = database.verify(Some(&verified.head), |_| {}).await;
    assert_eq!(found, Err(VerifyError::Fault(Fault::Anchor(8))));
}

/// As long as no thread is free for it, nothing is hashed: not on one that has others to serve.
#[test]
fn it_keeps_no_thread_from_others() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let stand = Stand::sqlite();
        let database = Arc::new(history(&stand).await);
        let (free, wait) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || wait.recv().is_ok());
        let verifying = tokio::spawn(async move { database.verify(None, |_| {}).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!verifying.is_finished(), "somebody else has done it");
        drop(free);
        busy.await.unwrap();
        assert_eq!(verifying.await.unwrap().map(|verified| verified.rows), Ok(8));
    });
}
