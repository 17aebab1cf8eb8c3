//! Bookings that the database could not be told: they are kept on disk, and told once.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tollgate_testkit::real::postgres::PostgresServer;
use tollgate_testkit::real::{Launch, Signal, Tollgate, until};

use crate::launch;

const RULES: &str = "
domain: tokens
descriptors:
- key: tenant
  rate_limit: {requests: 1000000, calendar: month, fail_mode: open, durable: true, local_fraction: 0}
";
/// Bookings while the database is away, each of so many units.
const BOOKINGS: u64 = 200;
const UNITS: u64 = 3;

fn launch_tokens(database: &str, data: &Path) -> Launch {
    let launch = launch(database).rules("tokens.yaml", RULES).flag("database-deadline", "200ms");
    launch.flag("data", &data.display().to_string())
}

/// Books a cost. The rule fails open, so that every booking is acknowledged.
fn book(server: &Tollgate, units: u64) {
    let entries = json!([{ "key": "tenant", "value": "acme" }]);
    let descriptors = json!([{ "entries": entries, "hits_addend": units }]);
    let reply = server.post("/v1/check", &json!({ "domain": "tokens", "descriptors": descriptors }));
    assert_eq!(reply.status, 200, "{}", reply.body);
}

/// All that the database has counted, in counters and in the history.
fn counted(postgres: &PostgresServer) -> (u64, u64) {
    let sum = |column: &str, table: &str| {
        let sql = format!("SELECT COALESCE(SUM({column}), 0) FROM {table}");
        postgres.sql(&sql).trim().parse().unwrap()
    };
    (sum("used", "counters"), sum("counted - given_back", "usage_days"))
}

/// The files of what is owed.
fn files(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_string_lossy().contains("/owed-")).collect()
}

fn until_counted(postgres: &PostgresServer, units: u64) {
    until("all bookings are counted", || (counted(postgres) == (units, units)).then_some(()));
}

#[test]
fn a_server_that_stops_while_the_database_is_away_loses_no_booking() {
    let data = tempfile::tempdir().unwrap();
    let mut postgres = PostgresServer::start();
    let mut server = launch_tokens(&postgres.url(), data.path()).start();
    book(&server, UNITS);
    postgres.kill();
    (0..BOOKINGS).for_each(|_| book(&server, UNITS));
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(0));
    server.wait_for_log("kept in the data directory");
    assert!(!server.logs().contains("stays counted"), "{}", server.logs());
    assert_eq!(files(data.path()).len(), 1);

    postgres.restart();
    server.restart();
    until_counted(&postgres, (BOOKINGS + 1) * UNITS);
    until("the file is deleted", || files(data.path()).is_empty().then_some(()));
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(0));
    server.restart();
    book(&server, 1);
    assert_eq!(counted(&postgres).0, (BOOKINGS + 1) * UNITS + 1, "told once");
}

#[test]
fn a_server_that_stops_while_the_database_is_frozen_loses_no_booking() {
    let data = tempfile::tempdir().unwrap();
    let postgres = PostgresServer::start();
    let mut server = launch_tokens(&postgres.url(), data.path()).start();
    book(&server, UNITS);
    postgres.freeze();
    (0..BOOKINGS).for_each(|_| book(&server, UNITS));
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(0));
    postgres.thaw();
    server.restart();
    until_counted(&postgres, (BOOKINGS + 1) * UNITS);
}

/// A process that is killed cannot say what it owes. While the database stays away it writes it down every second.
#[test]
fn a_server_that_is_killed_while_the_database_is_away_loses_no_booking_that_was_written_down() {
    let data = tempfile::tempdir().unwrap();
    let mut postgres = PostgresServer::start();
    let mut server = launch_tokens(&postgres.url(), data.path()).start();
    book(&server, UNITS);
    postgres.kill();
    let mut bookings = 1;
    let written = |data: &Path| -> u64 {
        let texts = files(data).into_iter().map(|path| fs::read_to_string(path).unwrap());
        texts.map(|text| text.matches("\tbook ").count() as u64).sum()
    };
    until("all of it is written down", || {
        if bookings <= BOOKINGS {
            book(&server, UNITS);
            bookings += 1;
        }
        (bookings > BOOKINGS && written(data.path()) == BOOKINGS).then_some(())
    });
    server.signal(Signal::KILL);
    server.wait();
    postgres.restart();
    server.restart();
    until_counted(&postgres, (BOOKINGS + 1) * UNITS);
}

/// A process that is killed after the database was told and before it could delete its file.
#[test]
fn a_file_that_comes_back_is_not_told_twice() {
    let data = tempfile::tempdir().unwrap();
    let mut postgres = PostgresServer::start();
    let mut server = launch_tokens(&postgres.url(), data.path()).start();
    book(&server, UNITS);
    postgres.kill();
    (0..BOOKINGS).for_each(|_| book(&server, UNITS));
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(0));
    postgres.restart();
    let file = files(data.path()).remove(0);
    let text = fs::read(&file).unwrap();
    // Its row is as it is after the first batch was told and before the file was deleted.
    let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
    server.restart();
    until_counted(&postgres, (BOOKINGS + 1) * UNITS);
    until("the file is deleted", || files(data.path()).is_empty().then_some(()));
    let at = "9000000000000000";
    until("its row is deleted", || {
        (postgres.sql(&format!("SELECT count(*) FROM commits WHERE writer = '{name}'")).trim() == "0")
            .then_some(())
    });
    postgres.sql(&format!("INSERT INTO commits (writer, number, at) VALUES ('{name}', 1000, {at})"));
    fs::write(&file, text).unwrap();
    server.restart();
    until("the file is deleted again", || files(data.path()).is_empty().then_some(()));
    book(&server, 1);
    assert_eq!(counted(&postgres).0, (BOOKINGS + 1) * UNITS + 1);
}
