//! What a process owes the database when it ends: kept on disk, and told once by the next one.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use common::Stand;
use common::detour::{LOSE_ALL, LOSE_QUESTION, NOBODY, PASS, url_by_detour};
use common::durable::{
    DAY_US, NOON_US, PATIENCE, ask, count, granted, history, per_month, question, settle, take, used,
};
use tollgate_control::{Database, DatabaseSettings, DurableAuthority, DurableSettings, Left};
use tollgate_core::{Cost, SharedLimit};
use tollgate_store::Clock;
use tollgate_store::authority::{Act, Question};
use tollgate_testkit::real::postgres::PostgresServer;

fn authority(database: &Database, folder: &Path) -> DurableAuthority {
    let owed_folder = Some(folder.to_owned());
    let settings = DurableSettings { node: "node-1".to_owned(), queue_max: 1 << 14, seed: 7, owed_folder };
    DurableAuthority::start(database, Arc::new(Clock::new()), settings)
}

fn booking(limit: &Arc<SharedLimit>, units: u64) -> Question {
    question(1, limit, Act::Book(Cost::new(units)))
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_ends_while_its_file_is_locked_loses_no_booking() {
    let (stand, folder, limit) = (Stand::sqlite(), tempfile::tempdir().unwrap(), per_month(1_000));
    let database = stand.open().await;
    let before = authority(&database, folder.path());
    let other = rusqlite::Connection::open(stand.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    before.tell(vec![booking(&limit, 5); 700]);
    assert!(!before.settle(Duration::from_millis(50)).await);
    assert_eq!(before.keep(PATIENCE).await, Left { kept: 700, lost: 0 });
    drop(before);
    other.execute_batch("ROLLBACK").unwrap();

    let after = authority(&database, folder.path());
    granted(&after, take(2, &limit, 1)).await;
    settle(&after).await;
    assert_eq!(history(&database, "acme").await, 3_501);
    assert_eq!((files(folder.path()), count(&stand, "commits")), (0, 1), "only the row of sweeps is left");
}

/// Whether the lost transaction was committed is found out by the next process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_booking_that_may_have_been_committed_when_the_process_ended_counts_once() {
    for what in [LOSE_QUESTION, LOSE_ALL] {
        let (server, folder, limit) =
            (PostgresServer::start(), tempfile::tempdir().unwrap(), per_month(1_000));
        let mode = Arc::new(AtomicU8::new(PASS));
        let url = url_by_detour(&server, &mode).await;
        let stand = Stand::Postgres(Box::new(server));
        let database = Database::open(DatabaseSettings::new(url.parse().unwrap())).await.unwrap();
        let before = authority(&database, folder.path());
        granted(&before, take(1, &limit, 100)).await;
        mode.store(what, Ordering::SeqCst);
        before.tell(vec![booking(&limit, 7)]);
        while mode.load(Ordering::SeqCst) == what {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        mode.store(NOBODY, Ordering::SeqCst);
        before.tell(vec![booking(&limit, 20)]);
        let left = before.keep(PATIENCE).await;
        assert_eq!(left.lost, 0, "{left:?}");
        drop(before);
        mode.store(PASS, Ordering::SeqCst);
        let after = authority(&database, folder.path());
        // The way to the database was just lost, and is not tried again at once.
        while ask(&after, take(2, &limit, 1)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        settle(&after).await;
        assert_eq!(used(&stand, 1), 127, "{what}");
        assert_eq!(history(&database, "acme").await, 128);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_booking_that_is_told_in_a_later_window_counts_on_its_day_and_in_no_window() {
    let (stand, folder, limit) = (Stand::sqlite(), tempfile::tempdir().unwrap(), per_month(1_000));
    let database = stand.open().await;
    let before = authority(&database, folder.path());
    before.make_up_time(Some(NOON_US));
    granted(&before, take(1, &limit, 1)).await;
    let other = rusqlite::Connection::open(stand.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    before.tell(vec![booking(&limit, 5)]);
    assert_eq!(before.keep(PATIENCE).await, Left { kept: 1, lost: 0 });
    other.execute_batch("ROLLBACK").unwrap();

    let after = authority(&database, folder.path());
    after.make_up_time(Some(NOON_US + 40 * DAY_US));
    granted(&after, take(1, &limit, 2)).await;
    settle(&after).await;
    assert_eq!(used(&stand, 1), 2, "the window of the booking is over");
    let today = NOON_US / DAY_US;
    let days = "SELECT COALESCE(SUM(counted), 0) FROM usage_days WHERE day =";
    assert_eq!(stand.sql(&format!("{days} {today}")), "6");
    assert_eq!(stand.sql(&format!("{days} {}", today + 40)), "2");
}
