//! Pairs of a reservation and its settlement at three servers, while faults happen. `tollgate-bench settlements` makes
//! more of them.

use tollgate_testkit::real::settlements::{
    Cause, Settlements, fail_over_redis, pause_redis, restart_postgres,
};

const PAIRS: u64 = 600;
const BINARY: &str = env!("CARGO_BIN_EXE_tollgate");

fn check(settlements: &Settlements) {
    println!("{settlements:?}");
    assert_eq!(settlements.pairs, PAIRS, "{settlements:?}");
    assert_eq!(settlements.unexplained(), 0, "{settlements:?}");
}

#[test]
fn while_redis_pauses_pairs_are_charged_with_what_they_used() {
    let settlements = pause_redis(BINARY, PAIRS);
    check(&settlements);
    assert_eq!(settlements.charged, settlements.used, "{settlements:?}");
}

#[test]
fn across_a_failover_only_what_was_not_replicated_or_not_confirmed_differs() {
    let settlements = fail_over_redis(BINARY, PAIRS);
    check(&settlements);
}

#[test]
fn while_postgres_and_servers_are_killed_only_what_was_not_confirmed_differs() {
    let settlements = restart_postgres(BINARY, PAIRS);
    check(&settlements);
    assert_eq!(settlements.units(Cause::Unreplicated), 0, "{settlements:?}");
}
