//! Holding and letting go: units under a concurrency limit belong to somebody.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use proptest::prelude::*;
use tollgate_core::{Algorithm, Concurrency, Cost, Holder, Holders, Outcome, Refund, Span, Time};

mod common;
use common::at;

fn concurrency(units: u64, hold_ticks_max: u64) -> Concurrency {
    Concurrency::new(units, Span::from_ticks(hold_ticks_max)).unwrap()
}

/// Acquires units that must be there to be had.
fn acquire(limit: &Concurrency, holders: &mut Holders, units: u64, now: u64) -> Holder {
    let (decision, holder) = limit.acquire(holders, Cost::new(units), at(now));
    assert!(decision.is_allowed(), "{decision:?}");
    holder.unwrap()
}

#[test]
fn released_units_can_be_had_again() {
    let (limit, mut holders) = (concurrency(3, 100), Holders::default());
    let two = acquire(&limit, &mut holders, 2, 0);
    let one = acquire(&limit, &mut holders, 1, 0);
    let (denied, nobody) = limit.acquire(&mut holders, Cost::ONE, at(1));
    assert_eq!((denied.outcome, denied.remaining, nobody), (Outcome::Busy, 0, None));
    assert!(limit.release(&mut holders, two, at(1)));
    assert_eq!(limit.used(&holders, at(1)), 1);
    acquire(&limit, &mut holders, 2, 1);
    assert!(limit.release(&mut holders, one, at(1)));
}

#[test]
fn a_hold_is_released_once() {
    let (limit, mut holders) = (concurrency(3, 100), Holders::default());
    let holder = acquire(&limit, &mut holders, 2, 0);
    acquire(&limit, &mut holders, 1, 0);
    assert!(limit.release(&mut holders, holder, at(5)));
    assert!(!limit.release(&mut holders, holder, at(5)), "released twice");
    assert_eq!(limit.used(&holders, at(5)), 1, "the other hold is untouched");
    assert!(
        !limit.release(&mut holders, Holder::from_number(holder.number() + 1_000), at(5)),
        "a stranger released"
    );
}

#[test]
fn a_hold_ends_at_its_deadline() {
    let (limit, mut holders) = (concurrency(1, 100), Holders::default());
    let holder = acquire(&limit, &mut holders, 1, 7);
    assert_eq!(limit.used(&holders, at(106)), 1);
    assert_eq!(limit.used(&holders, at(107)), 0);
    assert_eq!(limit.expires_at(&holders), at(107));
    assert!(!limit.release(&mut holders, holder, at(107)), "released after the deadline");
    acquire(&limit, &mut holders, 1, 107);
}

#[test]
fn nobody_is_held_for_nothing() {
    let (limit, mut holders) = (concurrency(1, 100), Holders::default());
    let (decision, nobody) = limit.acquire(&mut holders, Cost::ZERO, at(0));
    assert_eq!((decision.outcome, nobody), (Outcome::ALLOWED, None));
    let (decision, nobody) = limit.acquire(&mut holders, Cost::new(2), at(0));
    assert_eq!((decision.outcome, nobody), (Outcome::Never, None));
    assert_eq!(holders, Holders::default());
}

/// A key that was forgotten, because all its holds had passed, does not hand out their names again.
#[test]
fn a_forgotten_key_gives_new_names() {
    let limit = concurrency(5, 10);
    let mut holders = Holders::default();
    let old: Vec<_> = (0..5).map(|_| acquire(&limit, &mut holders, 1, 1_000)).collect();
    let mut forgotten = Holders::default();
    let new = acquire(&limit, &mut forgotten, 1, limit.expires_at(&holders).ticks());
    assert!(!old.contains(&new));
    assert!(new.number() >= 1_010);
}

#[test]
fn the_newest_units_are_given_back_first() {
    let (limit, mut holders) = (concurrency(9, 100), Holders::default());
    let old = acquire(&limit, &mut holders, 3, 0);
    let new = acquire(&limit, &mut holders, 4, 50);
    limit.give_back(&mut holders, Refund::at_once(5, at(60)));
    assert_eq!(limit.used(&holders, at(60)), 2);
    assert!(!limit.release(&mut holders, new, at(60)));
    assert!(limit.release(&mut holders, old, at(60)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against a plain list of who holds what until when.
    #[test]
    fn holds_are_kept_like_in_a_list(
        units in 1_u64..8, hold_ticks_max in 1_u64..50,
        steps in proptest::collection::vec((0_u64..12, 0_u64..4, any::<Option<u8>>()), 1..80),
    ) {
        let limit = concurrency(units, hold_ticks_max);
        let mut holders = Holders::default();
        let mut list: Vec<(Holder, Time, u64)> = Vec::new();
        let mut names = Vec::new();
        let mut now = 0;
        for (gap, cost, release) in steps {
            now += gap;
            let held = |list: &[(Holder, Time, u64)]| -> u64 {
                list.iter().filter(|hold| hold.1 > at(now)).map(|hold| hold.2).sum()
            };
            if let Some(pick) = release && !names.is_empty() {
                let holder = names[usize::from(pick) % names.len()];
                let place = list.iter().position(|hold| hold.0 == holder && hold.1 > at(now));
                prop_assert_eq!(limit.release(&mut holders, holder, at(now)), place.is_some());
                place.map(|place| list.remove(place));
            } else {
                let admitted = held(&list) + cost <= units;
                let (decision, holder) = limit.acquire(&mut holders, Cost::new(cost), at(now));
                prop_assert_eq!(decision.is_allowed(), admitted);
                prop_assert_eq!(holder.is_some(), admitted && cost > 0);
                if let Some(holder) = holder {
                    prop_assert!(!names.contains(&holder), "a name was given twice");
                    names.push(holder);
                    list.push((holder, at(now + hold_ticks_max), cost));
                }
            }
            prop_assert_eq!(limit.used(&holders, at(now)), held(&list));
        }
    }
}
