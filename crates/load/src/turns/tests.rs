//! Turns come when they are due, keep their planned times, and end.

use std::time::Duration;

use super::{Turn, Turns};
use crate::plan::{Arrivals, Extent, Plan};

fn open(requests: u64) -> Turns {
    let extent = Extent { duration: Duration::from_mins(1), requests_max: requests, seed: 1 };
    Turns::open(Plan::new(100_000.0, Arrivals::Uniform, 1, extent))
}

fn turn(index: u64) -> Turn {
    Turn { planned_ns: index * 10_000, requests: 1 }
}

#[tokio::test]
async fn a_turn_that_is_taken_late_keeps_its_planned_time() {
    let turns = open(3);
    assert_eq!(turns.try_take(), None, "nothing is due before the start");
    turns.start().await.unwrap();
    for index in 0..3 {
        assert_eq!(turns.try_take(), Some(turn(index)));
    }
    assert!(turns.has_ended());
    assert_eq!((turns.try_take(), turns.take().await), (None, None));
}

#[tokio::test]
async fn a_turn_is_waited_for() {
    let turns = open(2);
    let three = async { [turns.take().await, turns.take().await, turns.take().await] };
    let (started, taken) = tokio::join!(turns.start(), three);
    started.unwrap();
    assert_eq!(taken, [Some(turn(0)), Some(turn(1)), None]);
}

#[tokio::test]
async fn who_waits_is_told_of_the_end() {
    let turns = open(10);
    let (taken, ()) = tokio::join!(turns.take(), async { turns.end() });
    assert_eq!(taken, None);
}

#[tokio::test]
async fn what_nobody_took_is_given_up_with_its_planned_time() {
    let turns = open(3);
    turns.start().await.unwrap();
    assert_eq!(turns.try_take(), Some(turn(0)));
    turns.end();
    let mut given_up = Vec::new();
    turns.give_up(|moment| given_up.push(moment.at_ns));
    assert_eq!(given_up, [10_000, 20_000]);
    turns.give_up(|_| panic!("once is enough"));
}

#[tokio::test]
async fn what_comes_due_after_the_end_is_nobodys_loss() {
    let turns = open(u64::MAX);
    turns.end();
    while turns.now_ns() < 1_000_000 {
        tokio::task::yield_now().await;
    }
    let mut given_up = 0;
    turns.give_up(|_| given_up += 1);
    assert!(given_up < 100, "a hundred would have come due within the millisecond, but it ended before");
}

#[tokio::test]
async fn without_a_plan_turns_come_at_once_and_in_whole_batches() {
    let turns = Turns::closed(u64::MAX, 10, 4);
    let requests: Vec<u64> = std::iter::from_fn(|| turns.try_take()).map(|turn| turn.requests).collect();
    assert_eq!(requests, [4, 4, 2]);
    assert!(turns.has_ended());
}

#[tokio::test]
async fn without_a_plan_turns_end_with_their_time() {
    let turns = Turns::closed(1, u64::MAX, 4);
    turns.start().await.unwrap();
    assert_eq!(turns.take().await, None);
    assert!(turns.has_ended());
}
