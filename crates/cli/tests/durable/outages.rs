//! The database is away: what is in hand is spent, and then the rule says what happens.

use tollgate_testkit::real::postgres::PostgresServer;
use tollgate_testkit::real::until;

use crate::{MONTHLY, check, launch};

/// Decides by what it has in hand, at least so often.
const IN_HAND_MIN: u64 = 20;

#[test]
fn served_from_the_block_and_then_by_the_fail_mode() {
    let mut postgres = PostgresServer::start();
    let mut server = launch(&postgres.url()).flag("database-deadline", "500ms").start();
    let mut admitted = 0_u64;
    until("enough is in hand", || {
        assert_eq!(check(&server, "monthly", "acme").0, 200);
        admitted += 1;
        (server.metric("ratelimit_durable_units") >= IN_HAND_MIN).then_some(())
    });
    postgres.kill();
    let (mut of_block, mut passed) = (0, 0_u64);
    let denied = until("the block is used up", || {
        let (status, answer) = check(&server, "monthly", "acme");
        let decided_by = answer["decisions"][0]["decided_by"].clone();
        of_block += u64::from(status == 200 && decided_by == "lease");
        passed += u64::from(status == 200);
        (status != 200).then_some((status, decided_by))
    });
    assert_eq!(denied, (503, "fail_closed".into()), "nobody knows, and that is not the caller's fault");
    assert_eq!(of_block, passed, "nothing passes that is not counted");
    assert!(of_block >= IN_HAND_MIN, "{of_block}");
    assert_eq!(check(&server, "hourly", "acme").0, 200, "this rule fails open");
    assert_eq!(check(&server, "plain", "acme").0, 200, "others do not need the database");

    postgres.restart();
    until("the database counts again", || (check(&server, "monthly", "acme").0 == 200).then_some(()));
    server.signal(tollgate_testkit::real::Signal::TERM);
    assert_eq!(server.wait(), Some(0));
    server.restart();
    admitted += passed + 1;
    let used = MONTHLY.used(&server);
    assert!(used >= admitted, "{admitted} were admitted, {used} are counted");
}

#[test]
fn a_server_starts_while_the_database_is_away() {
    let mut postgres = PostgresServer::start();
    let mut server = launch(&postgres.url()).start();
    assert_eq!(check(&server, "exact", "acme").0, 200);
    postgres.kill();
    server.restart();
    assert_eq!(check(&server, "exact", "acme").0, 503);
    postgres.restart();
    until("the database is reached", || (check(&server, "exact", "acme").0 == 200).then_some(()));
    assert_eq!(check(&server, "exact", "acme").1["remaining"], 47);
}
