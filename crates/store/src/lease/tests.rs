//! Purses, step by step.

use std::sync::Arc;

use tollgate_core::{
    Decision, FixedWindow, Limit, Outcome, Rate, SharedLimit, Span, Tick, Time, TokenBucket,
};

use super::{Errand, Leased, Purses, PursesSettings, Spent, Wanted};
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
        purses.set_nodes(1);
        let limit = Arc::new(SharedLimit::in_ticks(limit, Tick::MICROSECOND).unwrap());
        let (key, node_max) = (SharedKey(7), u64::MAX);
        Node { purses, leased: Leased { key, pin: None, limit, budget, node_max, account: None } }
    }

    fn spend(&self, units: u64, now: Time) -> Option<Spent> {
        self.wants(KEY, units, false, now)
    }

    fn wants(&self, key: u64, units: u64, is_lent: bool, now: Time) -> Option<Spent> {
        let wanted = Wanted { key, units, is_lent, limit: &self.leased.limit };
        self.purses.spend(wanted, now, || self.leased.clone())
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

    fn grant(&self, errand: Errand, leased: u64, remaining: u64, now: Time) {
        let limit = &self.leased.limit;
        let outcome = if leased > 0 {
            Outcome::ALLOWED
        } else {
            Outcome::NotNow { retry_after: Span::from_ticks(SECOND) }
        };
        let decision =
            Decision { outcome, limit: 100, remaining, reset_after: Some(Span::from_ticks(SECOND)) };
        let grant = Grant { decision, at: limit.moment(now), holder: None, leased, is_repeated: false };
        self.purses.settle(errand, Ok(&grant), now);
    }

    /// A node that has been granted so many units at this moment.
    fn with_units(limit: Limit, units: u64, now: Time) -> Node {
        let node = Node::new(limit, units.max(2) * 8);
        node.spend(1, now);
        node.spend(1, now);
        let (errand, _) = node.asks().unwrap();
        node.grant(errand, units, 50, now);
        node
    }

    fn units(&self, now: Time) -> u64 {
        self.purses.units(KEY, now).0
    }

    fn tend_all(&self, now: Time) {
        for _ in 0..PursesSettings::new(1).stripes {
            self.purses.tend(now);
        }
    }

    /// What is given back by looking after all purses once: units, and which lease.
    fn gives_up(&self, now: Time) -> Vec<u64> {
        self.tend_all(now);
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
    node.grant(errand, 3, 50, at(SECOND));
    assert_eq!(node.units(at(SECOND)), 3);
}

#[test]
fn units_are_spent_until_their_deadline_which_counts_from_the_question() {
    let node = Node::new(bucket(100, 100), 50);
    node.spend(1, at(0));
    node.spend(1, at(0));
    let (errand, _) = node.asks().unwrap();
    node.grant(errand, 4, 50, at(2 * SECOND));
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
    let spent = node.wants(KEY, 3, true, at(1)).unwrap();
    assert_eq!(spent.parts().map(|(_, units)| units).sum::<u64>(), 3);
    node.purses.put_back(KEY, &spent, at(1));
    assert_eq!(node.units(at(1)), 4);
}

#[test]
fn what_is_lent_counts_as_here() {
    for puts_back in [true, false] {
        let node = Node::new(bucket(1_000, 100), 16);
        node.spend(1, at(0));
        node.spend(3, at(0));
        let (errand, _) = node.asks().unwrap();
        node.grant(errand, 4, 50, at(0));
        let spent = node.wants(KEY, 4, true, at(1_000)).unwrap();
        let (errand, units) = node.asks().unwrap();
        assert_eq!(units, 12, "all that it may have, less what is lent");
        node.grant(errand, 12, 50, at(2_000));
        if puts_back {
            node.purses.put_back(KEY, &spent, at(3_000));
        } else {
            node.purses.keep(KEY, &spent);
        }
        let units = if puts_back { 16 } else { 12 };
        assert_eq!(node.purses.units(KEY, at(3_000)), (units, units));
    }
}

#[test]
fn what_was_granted_under_other_rules_goes_back_under_those() {
    let mut node = Node::with_units(bucket(1_000, 100), 4, at(0));
    let before = Arc::clone(&node.leased.limit);
    for (limit, gives_up) in [(bucket(1_000, 100), false), (bucket(1, 100), true)] {
        node.leased.limit = Arc::new(SharedLimit::in_ticks(limit, Tick::MICROSECOND).unwrap());
        assert_eq!(node.spend(1, at(1)).is_some(), !gives_up);
    }
    let errands = node.purses.take_errands(10);
    let Act::Return(rest) = errands[0].question.0.act else { panic!("{errands:?}") };
    assert_eq!((rest.units, &errands[0].question.0.limit), (3, &before));
}

#[test]
fn a_grant_under_other_rules_goes_back() {
    let mut node = Node::new(bucket(1_000, 100), 50);
    node.spend(1, at(0));
    node.spend(1, at(0));
    let (errand, _) = node.asks().unwrap();
    let limit = Arc::new(SharedLimit::in_ticks(bucket(1, 100), Tick::MICROSECOND).unwrap());
    let before = std::mem::replace(&mut node.leased.limit, limit);
    node.spend(1, at(1));
    node.grant(errand, 4, 50, at(2));
    assert_eq!(node.units(at(2)), 0);
    let errands = node.purses.take_errands(10);
    assert!(matches!(errands[0].question.0.act, Act::GiveBack { units: 4, undoes: true, .. }), "{errands:?}");
    assert_eq!(errands[0].question.0.limit, before);
}

#[test]
fn what_would_die_soon_goes_back_although_somebody_asks() {
    let node = Node::with_units(bucket(100, 100), 40, at(0));
    for second in 1..=7 {
        node.spend(1, at(second * SECOND));
        assert!(node.gives_up(at(second * SECOND)).is_empty(), "{second}");
    }
    assert_eq!(node.gives_up(at(7_500_000_000)), [33]);
}

#[test]
fn all_goes_back_at_the_end() {
    let node = Node::with_units(bucket(100, 100), 4, at(0));
    node.spend(1, at(1));
    assert!(node.purses.close(at(2)));
    let stats = node.purses.stats(at(2));
    assert_eq!((stats.units, stats.granted_units, stats.returned_units), (0, 4, 3));
    assert_eq!(node.purses.take_errands(10).len(), 1);
    node.purses.set_leasing_until(Time::MAX);
    for _ in 0..5 {
        assert!(node.spend(1, at(SECOND)).is_none());
    }
    assert!(node.asks().is_none(), "nothing more is asked for");
}

/// Whoever stops asks for both: what waits, and what did not arrive and waits for another try.
#[test]
fn what_did_not_arrive_is_known_to_be_due() {
    let node = Node::with_units(bucket(100, 100), 4, at(0));
    assert!(node.purses.close(at(2)) && !node.purses.has_retries());
    for errand in node.purses.take_errands(10) {
        node.purses.settle(errand, Err(Failure::Unreachable), at(3));
    }
    assert!(!node.purses.has_errands() && node.purses.has_retries());
    node.purses.run_retries(at(4));
    assert!(!node.purses.has_errands(), "not at once");
    node.purses.run_retries(at(SECOND));
    assert!(node.purses.has_errands() && !node.purses.has_retries());
    assert_eq!(node.purses.stats(at(SECOND)).dropped, 0);
    for errand in node.purses.take_errands(10) {
        node.purses.settle(errand, Err(Failure::Unreachable), at(60 * SECOND));
    }
    assert_eq!(
        (node.purses.has_retries(), node.purses.stats(at(60 * SECOND)).dropped),
        (false, 1),
        "too late"
    );
}

#[test]
fn blocks_last_no_longer_than_their_window() {
    let rate = Rate::new(100_000, Span::from_ticks(1_000_000)).unwrap();
    let node = Node::new(FixedWindow::new(rate).into(), 50_000);
    // A hundred a second, and a tenth of a second is left of the window.
    for step in 0..1_000 {
        let now = at(step * SECOND / 100);
        node.spend(1, now);
        if let Some((errand, units)) = node.asks() {
            let left = 100 - step % 100;
            assert!(units <= left.max(2), "{units} where {left} are wanted until the window ends");
            node.grant(errand, units, 50, now);
        }
    }
}

#[test]
fn who_is_asked_for_now_and_then_is_not_worth_a_lease() {
    for (gap, is_worth) in [(8, false), (3, false), (2, true)] {
        let node = Node::new(bucket(100, 100), 50);
        let asks = |step: u64| {
            node.spend(1, at(step * gap * SECOND));
            node.asks().is_some()
        };
        assert_eq!((0..100).any(asks), is_worth, "{gap}");
    }
}

#[test]
fn who_got_no_answer_waits_a_little_before_asking_again() {
    let node = Node::new(bucket(100, 100), 50);
    node.spend(1, at(0));
    node.spend(1, at(0));
    let (errand, _) = node.asks().unwrap();
    node.purses.settle(errand, Err(Failure::TimedOut), at(0));
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
    node.grant(errand, 0, 0, at(0));
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
    assert_eq!(node.purses.units(KEY, at(6 * SECOND + 2)), (0, 3), "on their way, as far as anybody knows");
    node.gives_up(at(12 * SECOND));
    assert_eq!(node.purses.keys(), 0, "forgotten");
}

#[test]
fn what_is_on_its_way_back_counts_until_it_is_there() {
    for is_answered in [true, false] {
        let node = Node::new(bucket(1_000, 100), 16);
        node.spend(1, at(0));
        node.spend(3, at(0));
        let (errand, _) = node.asks().unwrap();
        node.grant(errand, 16, 50, at(0));
        node.tend_all(at(6 * SECOND));
        let back = node.purses.take_errands(10).pop().unwrap();
        if is_answered {
            node.grant(back, 0, 50, at(6 * SECOND));
        } else {
            node.purses.settle(back, Err(Failure::TimedOut), at(6 * SECOND));
        }
        let asked = (0..9).find_map(|step| {
            node.spend(1, at(6 * SECOND + step * 1_000));
            node.asks()
        });
        assert_eq!(asked.is_some(), is_answered);
        let again = node.gives_up(at(11 * SECOND));
        assert_eq!(again, if is_answered { vec![] } else { vec![16] });
        node.spend(2, at(11 * SECOND));
        node.spend(2, at(11 * SECOND + 1));
        assert_eq!(node.asks().is_some(), !is_answered, "by then it is there or never will be");
    }
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
            node.grant(errand, units, 50, now);
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
    node.purses.set_leasing_until(Time::default());
    for step in 0..5 {
        node.spend(1, at(step));
    }
    assert!(node.asks().is_none());
    node.purses.set_leasing_until(at(4 * SECOND));
    node.purses.tend(at(4 * SECOND - 1));
    node.spend(1, at(4 * SECOND + 1));
    assert!(node.asks().is_none(), "it has stood still");
    node.purses.set_leasing_until(at(7 * SECOND));
    node.spend(1, at(4 * SECOND + 2));
    assert!(node.asks().is_some());
}

#[test]
fn there_is_room_for_so_many_keys() {
    let settings = PursesSettings { keys_max: 2, ..PursesSettings::new(1) };
    let node = Node { purses: Purses::new(settings), ..Node::new(bucket(100, 100), 50) };
    node.purses.set_nodes(1);
    for key in 0..5 {
        for _ in 0..3 {
            assert!(node.wants(key, 1, false, at(0)).is_none());
        }
    }
    assert_eq!(node.purses.keys(), 2);
    assert_eq!(node.purses.take_errands(10).len(), 2);
}

#[test]
fn keys_with_a_purse_fit_beside_the_counters() {
    let keys_max = |cap_bytes| PursesSettings::new(1).within(cap_bytes).keys_max;
    assert_eq!((keys_max(256 << 20), keys_max(1 << 30)), (1 << 14, 1 << 16));
    assert_eq!(keys_max(1 << 40), PursesSettings::new(1).keys_max);
}

/// How many units a node asks for that wants many, at this moment.
fn largest_block(node: &Node, now: Time) -> u64 {
    for _ in 0..20 {
        (0..1_000).for_each(|_| {
            node.spend(1, now);
        });
        let Some((errand, units)) = node.asks() else { break };
        node.grant(errand, units, u64::MAX, now);
    }
    node.purses.units(KEY, now).0
}

#[test]
fn after_an_unclean_end_blocks_are_small_and_double_with_every_minute() {
    let minute = 60 * SECOND;
    for (minutes, part) in [(0, 16), (1, 8), (2, 4), (3, 2), (4, 1), (60, 1)] {
        let node = Node::new(bucket(1_000, 100), 16_000);
        node.purses.begin_cautiously(at(0));
        let now = at(minutes * minute);
        node.purses.tend(now);
        let most = largest_block(&node, now);
        assert!(most <= 16_000 / part && most > 16_000 / part / 4, "{most} after {minutes} minutes");
    }
}

#[test]
fn a_quota_of_a_few_units_is_leased_one_by_one_after_an_unclean_end() {
    let node = Node::new(bucket(1_000, 100), 8);
    node.purses.begin_cautiously(at(0));
    node.spend(1, at(0));
    node.spend(1, at(0));
    assert_eq!(node.asks().map(|(_, units)| units), Some(1));
}

#[test]
fn what_was_closed_for_a_jump_of_the_clock_asks_again_after_it() {
    let node = Node::with_units(bucket(1_000, 100), 4, at(0));
    assert!(node.purses.close(at(1)));
    assert_eq!(node.purses.take_errands(10).len(), 1, "what is left goes back");
    (0..3).for_each(|_| assert!(node.spend(1, at(2)).is_none()));
    assert!(node.asks().is_none());
    node.purses.reopen();
    (0..3).for_each(|_| assert!(node.spend(1, at(3)).is_none()));
    assert!(node.asks().is_some());
}

#[test]
fn nothing_is_asked_for_before_anybody_says_how_many_there_are() {
    let Node { leased, .. } = Node::new(bucket(1_000, 100), 50);
    let node = Node { purses: Purses::new(PursesSettings::new(1)), leased };
    node.spend(1, at(0));
    node.spend(1, at(0));
    assert!(node.asks().is_none());
}

/// What is to be given back, as numbers of leases and units.
fn returns(errands: &[Errand]) -> Vec<(u64, u64)> {
    let rest = |errand: &Errand| match errand.question.0.act {
        Act::Return(rest) => (rest.number, rest.units),
        act => panic!("{act:?} instead of what is left"),
    };
    errands.iter().map(rest).collect()
}

#[test]
fn what_did_not_come_back_is_given_back_again_as_long_as_it_can_be() {
    let node = Node::with_units(bucket(100, 100), 4, at(0));
    node.purses.give_up(KEY, at(SECOND));
    let mut errands = node.purses.take_errands(10);
    let first = returns(&errands);
    let (mut now, mut tries) = (SECOND, 0);
    while let Some(errand) = errands.pop() {
        node.purses.settle(errand, Err(Failure::Unreachable), at(now));
        node.tend_all(at(now + SECOND / 4));
        assert!(
            node.purses.take_errands(10).is_empty(),
            "not at once: whoever is away is not asked all the time"
        );
        now += SECOND;
        node.tend_all(at(now));
        errands = node.purses.take_errands(10);
        assert!(errands.is_empty() || returns(&errands) == first);
        tries += 1;
    }
    assert_eq!(tries, 11, "until the life of a lease has passed");
}

#[test]
fn what_was_lent_can_be_put_back_although_nothing_else_was_left() {
    let node = Node::with_units(bucket(100, 100), 4, at(0));
    let spent = node.wants(KEY, 4, true, at(1)).unwrap();
    node.tend_all(at(2));
    node.purses.put_back(KEY, &spent, at(3));
    assert_eq!(node.units(at(3)), 4);
    let spent = node.wants(KEY, 4, true, at(4)).unwrap();
    node.purses.keep(KEY, &spent);
    node.tend_all(at(5));
    node.purses.put_back(KEY, &spent, at(6));
    assert_eq!(node.units(at(6)), 0, "what is kept is spent");
}

#[test]
fn an_answer_that_comes_late_is_no_news() {
    let node = Node::with_units(bucket(100, 100), 4, at(0));
    let said = |remaining: u64, at_us: u64| {
        let decision = Decision { outcome: Outcome::ALLOWED, limit: 100, remaining, reset_after: None };
        Grant { decision, at: Time::from_ticks(at_us), holder: None, leased: 0, is_repeated: false }
    };
    let told = |now: Time| node.purses.peek(KEY, 1, now).unwrap().remaining;
    let (earlier, later) = (1_700_000_001_000_000, 1_700_000_001_000_500);
    node.purses.know(KEY, &said(10, later), at(SECOND));
    node.purses.know(KEY, &said(90, earlier), at(SECOND + 1));
    assert_eq!(told(at(SECOND + 1)), 10 + 4);
    node.purses.know(KEY, &said(14, later), at(SECOND + 2));
    assert_eq!(told(at(SECOND + 2)), 10 + 4, "said in the same transaction, before the block was counted");
    node.purses.know(KEY, &said(90, earlier), at(3 * SECOND));
    assert_eq!(told(at(3 * SECOND)), 90 + 4, "its clock was set back");
}

#[test]
fn a_question_that_nobody_says_anything_about_is_not_waited_for_for_ever() {
    let node = Node::new(bucket(1_000, 100), 50);
    node.spend(1, at(0));
    node.spend(1, at(0));
    let (errand, _) = node.asks().unwrap();
    node.spend(1, at(SECOND));
    assert!(node.asks().is_none());
    for step in 0..10 {
        node.spend(1, at(11 * SECOND + step));
    }
    assert!(node.asks().is_some());
    node.grant(errand, 4, 50, at(12 * SECOND));
    assert_eq!(node.units(at(12 * SECOND)), 0, "it is too late for that one");
}

#[test]
fn what_is_more_than_errands_can_wait_goes_back_in_turns() {
    let settings = PursesSettings { life: LIFE, errands_max: 2, stripes: 4, ..PursesSettings::new(1) };
    let node = Node { purses: Purses::new(settings), ..Node::new(bucket(1_000, 100), 50) };
    node.purses.set_nodes(1);
    for key in (0..8_u64).map(|key| key << 32) {
        node.wants(key, 1, false, at(0));
        node.wants(key, 1, false, at(0));
        let (errand, _) = node.asks().unwrap();
        node.grant(errand, 4, 50, at(0));
    }
    let mut given_back = 0;
    for turn in 1..=4 {
        let is_all = node.purses.close(at(1));
        assert_eq!(is_all, turn == 4);
        given_back += node.purses.take_errands(100).len();
    }
    assert_eq!(given_back, 8);
}
