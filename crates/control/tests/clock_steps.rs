//! Clocks that are wrong for a while: what was counted comes back when they are right.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use common::Stand;
use common::durable::{DAY_US, NOON_US, authority, count, granted, per_month, question, take};
use tollgate_core::Cost;
use tollgate_store::authority::Act;

/// A month ahead, a month behind, and back again.
async fn a_count_comes_back_when_the_clock_does(stand: &Stand) {
    let authority = authority(&stand.open().await);
    let limit = per_month(100);
    for (number, wrong_us) in [(1, NOON_US + 20 * DAY_US), (2, NOON_US - 20 * DAY_US)] {
        for round in 1..4 {
            authority.make_up_time(Some(NOON_US));
            let peeked = granted(&authority, question(number, &limit, Act::Peek(Cost::ONE))).await;
            assert_eq!(peeked.decision.remaining, 110 - 10 * round);
            let grant = granted(&authority, take(number, &limit, 10)).await;
            assert_eq!(grant.decision.remaining, 100 - 10 * round, "round {round}");
            assert!(grant.decision.reset_after.unwrap().ticks() <= 31 * DAY_US * 1_000);
            authority.make_up_time(Some(wrong_us));
            granted(&authority, take(number, &limit, 3)).await;
        }
    }
}

async fn a_reset_leaves_nothing_that_comes_back(stand: &Stand) {
    let authority = authority(&stand.open().await);
    let limit = per_month(100);
    for now_us in [NOON_US, NOON_US + 20 * DAY_US] {
        authority.make_up_time(Some(now_us));
        granted(&authority, take(1, &limit, 10)).await;
    }
    assert_eq!(count(stand, "past_counters"), 1);
    granted(&authority, question(1, &limit, Act::Reset)).await;
    assert_eq!(count(stand, "past_counters"), 0);
    authority.make_up_time(Some(NOON_US));
    assert_eq!(granted(&authority, take(1, &limit, 1)).await.decision.remaining, 99);
}

async fn a_window_that_follows_another_leaves_one_past_count(stand: &Stand) {
    let authority = authority(&stand.open().await);
    let limit = per_month(100);
    for day in 0..20 {
        authority.make_up_time(Some(NOON_US + day * DAY_US));
        granted(&authority, take(1, &limit, 1)).await;
    }
    assert_eq!(count(stand, "past_counters"), 1);
}

on_both!(
    a_count_comes_back_when_the_clock_does,
    a_reset_leaves_nothing_that_comes_back,
    a_window_that_follows_another_leaves_one_past_count,
);
