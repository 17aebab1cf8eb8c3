//! Purses, step by step.

use std::sync::Arc;

use tollgate_core::{
    Decision, FixedWindow, Limit, Outcome, Rate, SharedLimit, Span, Tick, Time, TokenBucket,
};

use super::{Errand, Leased, Purses, PursesSettings, Spent};
use crate::authority::{Act, Failure, Grant, SharedKey};

const SECOND: u64 = 1_000_000_000;
const KEY: u64 = 9;
const LIFE: Span = Span::from_ticks(10 * SECOND);

/// A node with one key of interest.
struct Node {
    purses: Purses,
    leased: Leased,
}

fn at(ns: u64) -> Time {
    Time::from_ticks(1_700_000_000 * SECOND + ns)
}

fn bucket(units: u64, burst: u64) -> Limit {
    TokenBucket::new(Rate::new(units, Span::from_ticks(1_000_000)).unwrap(), burst).unwrap().into()
}

impl Node {
    fn new(limit: Limit, budget: u64) -> Node {
        let purses = Purses::new(PursesSettings { life: LIFE, ..PursesSettings::new(1) });
        let limit = Arc::new(SharedLimit::in_ticks(limit, Tick::MICROSECOND).unwrap());
        Node { purses, leased: Leased { key: SharedKey(7), pin: None, limit, budget, node_max: u64::MAX } }
    }

    fn spend(&self, units: u64, now: Time) -> Option<Spent> {
        self.purses.spend(KEY, units, now, &self.leased.limit, || self.leased.clone())
    }

    /// The one errand that waits, and how many units it asks for.
    fn asks(&self) -> Option<(Errand, u64)> {
        let mut errands = self.purses.take_errands(10);
        assert!(errands.len() <= 1, "{errands:?}");
        let errand = errands.pop()?;
        match errand.question.0.act {
            Act::Lease { units, .. } => Some((errand, units)),
            act => panic!("{act:?} instead of a question"),
        }
    }

    fn grant(&self, errand: &Errand, leased: u64, remaining: u64, now: Time) {
        let limit = &self.leased.limit;
        let outcome = if leased > 0 {
            Outcome::ALLOWED
        } else {
            Outcome::NotNow { retry_after: Span::from_ticks(SECOND) }
        };
        let decision =
            Decision { outcome, limit: 100, remaining, reset_after: Some(Span::from_ticks(SECOND)) };
        let grant = Grant { decision, at: limit.moment(now), holder: None, leased };
        self.purses.settle(errand, Ok(&grant), now);
    }

    /// A node that has been granted so many units at this moment.
    fn with_units(limit: Limit, units: u64, now: Time) -> Node {
        let node = Node::new(limit, units.max(2) * 2);
        node.spend(1, now);
        node.spend(1, now);
        let (errand, _) = node.asks().unwrap();
        node.grant(&errand, units, 50, now);
        node
    }

    fn units(&self, now: Time) -> u64 {
        self.purses.units(KEY, now).0
    }

    /// What is given back by looking after all purses once: units, and which lease.
    fn gives_up(&self, now: Time) -> Vec<u64> {
        for _ in 0..PursesSettings::new(1).stripes {
            self.purses.tend(now);
        }
        let units = |errand: &Errand| match errand.question.0.act {
            Act::Return(rest) => Some(rest.units),
            _ => None,
        };
        self.purses.take_errands(10).iter().filter_map(units).collect()
    }
}

#[test]
fn one_request_is_no_demand_and_two_are() {
    let node = Node::new(bucket(100, 100), 50);
    assert!(node.spend(1, at(0)).is_none());
    assert!(node.asks().is_none());
    assert!(node.spend(1, at(SECOND)).is_none());
    let (errand, units) = node.asks().unwrap();
    assert_eq!(units, 4, "two a second would be more, but blocks grow fourfold at most");
    node.spend(1, at(SECOND));
    assert!(node.asks().is_none(), "one question at a time");
    node.grant(&errand, 3, 50, at(SECOND));
    assert_eq!(node.units(at(SECOND)), 3);
}

#[test]
fn units_are_spent_until_their_deadline_which_counts_from_the_question() {
    let node = Node::new(bucket(100, 100), 50);
    node.spend(1, at(0));
    node.spend(1, at(0));
    let (errand, _) = node.asks().unwrap();
    node.grant(&errand, 4, 50, at(2 * SECOND));
    assert!(node.spend(1, at(9 * SECOND)).is_some());
    assert!(node.spend(1, at(10 * SECOND)).is_none(), "ten seconds after it was asked for");
    assert!(node.gives_up(at(10 * SECOND)).is_empty(), "what is dead is not given back");
}

#[test]
fn units_end_with_the_window_that_counted_them() {
    let rate = Rate::new(100, Span::from_ticks(1_000_000)).unwrap();
    let node = Node::with_units(FixedWindow::new(rate).into(), 4, at(SECOND / 2));
    assert!(node.spend(1, at(SECOND - SECOND / 10)).is_some());
    assert!(node.spend(1, at(SECOND)).is_none());
}

#[test]
fn remaining_is_what_is_here_and_what_was_there() {
    let node = Node::with_units(bucket(100, 100), 4, at(0));
    assert_eq!(node.spend(1, at(1)).unwrap().remaining, 53);
    assert_eq!(node.spend(2, at(2)).unwrap().remaining, 51);
    assert!(node.spend(2, at(3)).is_none(), "one is left");
    assert_eq!(node.spend(1, at(4)).unwrap().remaining, 50);
}

#[test]
fn what_was_spent_can_be_put_back() {
    let node = Node::with_units(bucket(100, 100), 4, at(0));
    let spent = node.spend(3, at(1)).unwrap();
    assert_eq!(spent.parts().map(|(_, units)| units).sum::<u64>(), 3);
    node.purses.put_back(KEY, &spent);
    assert_eq!(node.units(at(1)), 4);
}

#[test]
fn an_answer_counts_once() {
    let node = Node::new(bucket(100, 100), 50);
    node.spend(1, at(0));
    node.spend(1, at(0));
    let (errand, _) = node.asks().unwrap();
    node.grant(&errand, 4, 50, at(0));
    node.grant(&errand, 4, 50, at(0));
    assert_eq!(node.units(at(0)), 4);
}

#[test]
fn who_got_no_answer_waits_a_little_before_asking_again() {
    let node = Node::new(bucket(100, 100), 50);
    node.spend(1, at(0));
    node.spend(1, at(0));
    let (errand, _) = node.asks().unwrap();
    node.purses.settle(&errand, Err(Failure::TimedOut), at(0));
    node.grant(&errand, 4, 50, at(0));
    assert_eq!(node.units(at(0)), 0, "it was given up");
    node.spend(2, at(SECOND / 100));
    assert!(node.asks().is_none());
    node.spend(2, at(SECOND / 5));
    assert!(node.asks().is_some());
}

#[test]
fn who_was_denied_asks_when_there_is_something() {
    let node = Node::new(bucket(100, 100), 50);
    node.spend(1, at(0));
    node.spend(1, at(0));
    let (errand, _) = node.asks().unwrap();
    node.grant(&errand, 0, 0, at(0));
    node.spend(2, at(SECOND / 2));
    assert!(node.asks().is_none(), "not before a second has passed");
    node.spend(2, at(SECOND));
    assert!(node.asks().is_some());
}

#[test]
fn what_nobody_wants_is_given_back_once() {
    let node = Node::with_units(bucket(100, 100), 4, at(0));
    node.spend(1, at(SECOND));
    assert!(node.gives_up(at(5 * SECOND)).is_empty());
    assert_eq!(node.gives_up(at(6 * SECOND + 1)), [3]);
    assert_eq!(node.units(at(6 * SECOND + 1)), 0, "what is given back is not spent");
    assert!(node.gives_up(at(6 * SECOND + 2)).is_empty());
    assert_eq!(node.purses.keys(), 1);
    node.gives_up(at(12 * SECOND));
    assert_eq!(node.purses.keys(), 0, "forgotten");
}

#[test]
fn a_node_has_its_part_of_the_budget() {
    let node = Node::new(bucket(100_000, 100), 12);
    let mut largest = 0;
    for step in 1..200 {
        let now = at(step * 1_000_000);
        node.spend(1, now);
        if let Some((errand, units)) = node.asks() {
            largest = largest.max(units);
            node.grant(&errand, units, 50, now);
        }
        assert!(node.purses.units(KEY, now).1 <= 12);
        if step > 100 && node.units(now) > 6 {
            break;
        }
    }
    assert!(largest >= 6, "{largest}");
    node.purses.set_nodes(4);
    let now = at(SECOND / 5);
    let units = node.units(now);
    assert!(!node.gives_up(now).is_empty(), "others have come, and {units} are here");
    assert!(node.units(now) <= 3);
}

#[test]
fn nothing_is_asked_for_before_others_count_this_node() {
    let node = Node::new(bucket(100, 100), 50);
    node.purses.lease_from(at(SECOND));
    for step in 0..5 {
        node.spend(1, at(step));
    }
    assert!(node.asks().is_none());
    node.spend(1, at(SECOND));
    assert!(node.asks().is_some());
}

#[test]
fn there_is_room_for_so_many_keys() {
    let settings = PursesSettings { keys_max: 2, ..PursesSettings::new(1) };
    let node = Node { purses: Purses::new(settings), ..Node::new(bucket(100, 100), 50) };
    for key in 0..5 {
        let leased = || node.leased.clone();
        for _ in 0..3 {
            assert!(node.purses.spend(key, 1, at(0), &node.leased.limit, leased).is_none());
        }
    }
    assert_eq!(node.purses.keys(), 2);
    assert_eq!(node.purses.take_errands(10).len(), 2);
}
