//! The same for durable limits, whose counts are in PostgreSQL. A connection that breaks at the commit is tested in
//! `crates/control/tests/durable_faults.rs` and `lost_commit.rs`.

use std::thread;
use std::time::Duration;

use tollgate_testkit::real::postgres::PostgresServer;
use tollgate_testkit::real::{Launch, Signal, Tollgate, until};

use super::{
    BEFORE, Book, Check, Expected, Prepared, Refund, Reserve, Reset, Settle, Told, check_when, counted,
};

/// No units in hand: each operation goes to the database.
const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {requests: 1000, calendar: month, durable: true, local_fraction: 0, fail_mode: closed}
policies:
  plain: {requests: 1000, calendar: month, durable: true, local_fraction: 0, fail_mode: closed}
  booked:
    {requests: 1000, calendar: month, durable: true, local_fraction: 0, fail_mode: closed, overshoot: book}
";

fn start(postgres: &PostgresServer, deadline: &str) -> Tollgate {
    let launch = Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", RULES);
    launch.flag("database", &postgres.url()).flag("database-deadline", deadline).start()
}

fn check(server: &Tollgate, expected: [Expected; 6], play: impl FnMut(&Prepared) -> Told) {
    check_when(server, "ratelimit_durable_owed", &expected, play);
}

#[test]
fn operations_that_the_database_answers_after_the_deadline() {
    let postgres = PostgresServer::start();
    let server = start(&postgres, "500ms");
    let expected = [
        (Check, Told::Unavailable, BEFORE),
        (Book, Told::Pending, Book.once()),
        (Refund, Told::Pending, Refund.once()),
        (Reserve, Told::Unavailable, BEFORE),
        (Settle, Told::Pending, Settle.once()),
        (Reset, Told::Unavailable, BEFORE),
    ];
    check(&server, expected, |prepared| {
        postgres.freeze();
        let told = prepared.send(&server);
        postgres.thaw();
        told
    });
}

#[test]
fn operations_while_the_database_is_killed() {
    let mut postgres = PostgresServer::start();
    let server = start(&postgres, "2s");
    let expected = [
        (Check, Told::Unavailable, BEFORE),
        (Book, Told::Pending, Book.once()),
        (Refund, Told::Pending, Refund.once()),
        (Reserve, Told::Unavailable, BEFORE),
        (Settle, Told::Pending, Settle.once()),
        (Reset, Told::Unavailable, BEFORE),
    ];
    check(&server, expected, |prepared| {
        postgres.kill();
        let told = prepared.send(&server);
        postgres.restart();
        told
    });
}

/// A transaction whose server is killed is rolled back.
#[test]
fn operations_whose_server_is_killed_before_the_commit() {
    let postgres = PostgresServer::start();
    let witness = start(&postgres, "2s");
    let expected =
        [Check, Book, Refund, Reserve, Settle, Reset].map(|operation| (operation, Told::Nothing, BEFORE));
    check(&witness, expected, |prepared| {
        let victim = start(&postgres, "30s");
        until("the database answers", || counted(&victim, prepared.operation));
        postgres.freeze();
        let told = thread::scope(|scope| {
            let sender = scope.spawn(|| prepared.send(&victim));
            thread::sleep(Duration::from_millis(200));
            victim.signal(Signal::KILL);
            sender.join().unwrap()
        });
        postgres.thaw();
        told
    });
}
