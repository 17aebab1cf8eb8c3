//! The secret that the servers of a fleet have in common through their database.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

#[macro_use]
mod common;

use common::{Stand, check_verifies, make, put};
use tollgate_control::{AuditFilter, FleetSecret, Kind, Replica};

on_both!(
    servers_that_start_together_have_one_secret,
    a_secret_outlives_the_server_that_wrote_it,
    a_secret_is_in_no_document_and_no_audit_row,
    a_replica_keeps_the_secret,
);

const PURPOSE: &str = "a test";

async fn servers_that_start_together_have_one_secret(stand: &Stand) {
    stand.open().await;
    let mut starting = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let database = stand.open().await;
        starting.spawn(async move { database.fleet_secret().await.unwrap() });
    }
    let secrets = starting.join_all().await;
    assert!(secrets.iter().all(|secret| *secret == secrets[0]), "one of them wrote it, and all have read it");
    let written = stand.sql("SELECT value FROM settings WHERE name = 'fleet_secret'");
    assert_eq!(written.len(), 64);
    assert_ne!(
        secrets[0].derive(PURPOSE),
        FleetSecret::of_store_secret(written.as_bytes()).unwrap().derive(PURPOSE)
    );
}

async fn a_secret_outlives_the_server_that_wrote_it(stand: &Stand) {
    let before = stand.open().await.fleet_secret().await.unwrap();
    let after = stand.open().await.fleet_secret().await.unwrap();
    assert_eq!(before.derive(PURPOSE), after.derive(PURPOSE));
    stand.sql("UPDATE settings SET value = 'damaged' WHERE name = 'fleet_secret'");
    let error = stand.open().await.fleet_secret().await.unwrap_err().to_string();
    assert!(error.contains("secret of the fleet") && !error.contains("damaged\""), "{error}");
}

async fn a_secret_is_in_no_document_and_no_audit_row(stand: &Stand) {
    let database = stand.open().await;
    make(&database, put(Kind::Quota, "acme", "{}")).await;
    database.fleet_secret().await.unwrap();
    make(&database, put(Kind::Quota, "acme", "[]")).await;
    let written = stand.sql("SELECT value FROM settings WHERE name = 'fleet_secret'");
    let audit = database.audit(&AuditFilter { limit: 100, ..AuditFilter::default() }).await.unwrap();
    assert_eq!(audit.rows.len(), 2);
    assert!(!format!("{audit:?}").contains(&written));
    check_verifies(&database, 2).await;
}

async fn a_replica_keeps_the_secret(stand: &Stand) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replica.db");
    let secret = stand.open().await.fleet_secret().await.unwrap();
    let replica = Replica::open(&path).await.unwrap();
    assert_eq!(replica.fleet_secret().await.unwrap(), None);
    replica.keep_fleet_secret(&FleetSecret::of_store_secret(b"of before").unwrap()).await.unwrap();
    replica.keep_fleet_secret(&secret).await.unwrap();
    drop(replica);
    assert_eq!(Replica::open(&path).await.unwrap().fleet_secret().await.unwrap(), Some(secret));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_an_earlier_version_gets_a_secret() {
    let stand = Stand::sqlite();
    drop(stand.open().await);
    stand.sql("DELETE FROM settings WHERE name = 'fleet_secret'; DROP TABLE past_counters; DROP TABLE settlements; DROP TABLE request_ids; UPDATE settings SET value = '3' WHERE name = 'schema'");
    let [one, other] = [stand.open().await, stand.open().await];
    assert_eq!(one.fleet_secret().await.unwrap(), other.fleet_secret().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_only_update_settings_writes_the_secret() {
    let stand = Stand::postgres();
    drop(stand.open().await);
    let Stand::Postgres(server) = &stand else { unreachable!() };
    server.sql("CREATE ROLE node LOGIN PASSWORD 'pw'; GRANT SELECT, UPDATE ON settings TO node;");
    let owner = server.url();
    let (user, _) = owner.trim_start_matches("postgres://").split_once('@').unwrap();
    let node = owner.replacen(user, "node:pw", 1).parse().unwrap();
    let database =
        tollgate_control::Database::open(tollgate_control::DatabaseSettings::new(node)).await.unwrap();
    let secret = database.fleet_secret().await.unwrap();
    assert_eq!(stand.open().await.fleet_secret().await.unwrap(), secret);
}
