//! A server that is killed again and again: what each crash burns of a busy quota.

use tollgate_testkit::real::postgres::PostgresServer;
use tollgate_testkit::real::{DurableQuota, Launch, Signal, Tollgate, until};

const RULES: &str = "policies: {busy: {requests: 1000000, calendar: month, durable: true}}";
const BUSY: DurableQuota = DurableQuota { policy: "busy", key: "acme", units: 1_000_000 };
/// A hundredth of the quota, and a sixteenth of that after an unclean end.
const BLOCK_MAX: u64 = 10_000;
const SMALL_BLOCK_MAX: u64 = BLOCK_MAX / 16;
const KILLS: usize = 12;
/// Blocks grow fourfold from one to the next: after so many answers they are as large as they may be.
const ANSWERS: u64 = 8_000;

fn launch(database: &str) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", RULES);
    launch.flag("database", database).flag("database-deadline", "10s")
}

/// The most that the server has in hand while a client takes so many units.
fn in_hand_max(server: &Tollgate) -> u64 {
    let mut most = 0;
    let mut client = tollgate_testkit::real::redis::RedisClient::connect(server.resp()).unwrap();
    for _ in 0..ANSWERS / 100 {
        (0..100).for_each(|_| client.send(&[b"TG.CHECK", b"busy", b"acme"]).unwrap());
        (0..100).for_each(|_| drop(client.receive().unwrap()));
        most = most.max(server.metric("ratelimit_durable_units"));
    }
    most
}

fn burns_little(database: &str) {
    let mut server = launch(database).start();
    let lost: Vec<u64> = (0..KILLS).map(|_| BUSY.kill(&mut server, ANSWERS).lost()).collect();
    assert!(lost[0] <= BLOCK_MAX + DurableQuota::UNHEARD_MAX, "{lost:?}");
    assert!(lost[1..].iter().all(|lost| *lost <= SMALL_BLOCK_MAX + DurableQuota::UNHEARD_MAX), "{lost:?}");
    server.wait_for_log("did not end cleanly");
    assert!(in_hand_max(&server) <= SMALL_BLOCK_MAX);

    // A clean end returns the blocks, and the next start is as if nothing had happened.
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(0));
    server.restart();
    assert!(!server.logs().contains("did not end cleanly"), "{}", server.logs());
    until("blocks are as large as they may be", || (in_hand_max(&server) > BLOCK_MAX / 2).then_some(()));
}

#[test]
fn a_crash_loop_burns_a_sixteenth_of_a_block_per_crash_on_sqlite() {
    burns_little("sqlite:data/tollgate.db");
}

#[test]
fn a_crash_loop_burns_a_sixteenth_of_a_block_per_crash_on_postgres() {
    burns_little(&PostgresServer::start().url());
}
