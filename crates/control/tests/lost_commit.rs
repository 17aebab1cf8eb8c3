//! A connection that is lost at the worst moment: when PostgreSQL was asked to commit, and before it has said that it did.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use common::detour::{LOSE_ALL, LOSE_ANSWER, LOSE_QUESTION, PASS, url_by_detour};
use common::{NOW_MS, check_verifies, make, put};
use tollgate_control::{ChangeError, Database, DatabaseSettings, Kind};
use tollgate_testkit::real::postgres::PostgresServer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_became_of_it_is_found_out_and_it_is_made_once() {
    let server = PostgresServer::start();
    let mode = Arc::new(AtomicU8::new(PASS));
    let url = url_by_detour(&server, &mode).await;
    let database = Database::open(DatabaseSettings::new(url.parse().unwrap())).await.unwrap();
    make(&database, put(Kind::Quota, "a", "0")).await;
    for (version, what) in [(2, LOSE_QUESTION), (3, LOSE_ANSWER), (4, LOSE_QUESTION), (5, LOSE_ANSWER)] {
        mode.store(what, Ordering::SeqCst);
        let changed = database.change(put(Kind::Quota, "a", &version.to_string()), NOW_MS).await;
        assert_eq!(changed.map(|changed| changed.version), Ok(version));
        assert_eq!(mode.load(Ordering::SeqCst), PASS, "nothing was lost");
    }
    check_verifies(&database, 5).await;

    // Where nobody can be asked, it is said that it is not known; here, it was made.
    mode.store(LOSE_ALL, Ordering::SeqCst);
    let changed = database.change(put(Kind::Quota, "a", "6"), NOW_MS).await;
    assert!(matches!(&changed, Err(ChangeError::Unknown(_))), "{changed:?}");
    assert!(changed.unwrap_err().to_string().contains("not known"));
    mode.store(PASS, Ordering::SeqCst);
    let mut version = database.version().await;
    while version.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        version = database.version().await;
    }
    assert_eq!(version, Ok(6));
    check_verifies(&database, 6).await;
}
