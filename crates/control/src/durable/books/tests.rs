//! What questions make of counters, without a database.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Calendar, CalendarUnit, FixedWindow, Rate, Tick, TokenBucket, Windows};

use super::*;

const DAY_US: u64 = 86_400_000_000;
/// The first of November.
const NOVEMBER_US: u64 = 1_698_796_800_000_000;

fn shared(limit: FixedWindow) -> Arc<SharedLimit> {
    Arc::new(SharedLimit::new(&limit.into()).unwrap())
}

fn per_month(units: u64) -> Arc<SharedLimit> {
    let windows = Windows::Calendar(Calendar::utc(CalendarUnit::Month, Tick::NANOSECOND));
    shared(FixedWindow::in_windows(units, windows).unwrap())
}

fn question(limit: &Arc<SharedLimit>, act: Act) -> Question {
    let account = Account { subject: "acme".into(), rule: "quota".into() };
    Question { key: SharedKey(7), limit: Arc::clone(limit), act, account: Some(Arc::new(account)) }
}

fn used(books: &Books) -> u64 {
    books.counters.get(&SharedKey(7)).map_or(0, |counter| counter.count().units())
}

/// The days together. No day has less than nothing.
fn total(books: &Books) -> u64 {
    let day = |usage: &Usage| usage.counted.checked_sub(usage.given_back).expect("a day below zero");
    books.usage.values().map(day).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// After any sequence within a window, as long as nothing is reset or capped. A step: how much later, what, how many units, of which of those before.
    #[test]
    fn the_days_of_a_window_are_what_it_has_used(
        steps in prop::collection::vec((0..DAY_US, 0_u8..6, 0_u64..50, any::<usize>()), 1..28),
    ) {
        let limit = per_month(1_000);
        let mut books = Books::new(NOVEMBER_US);
        let (mut taken, mut leased): (Vec<(Time, u64)>, Vec<LeaseRest>) = (Vec::new(), Vec::new());
        for (number, (later, what, units, which)) in steps.into_iter().enumerate() {
            books.now_us += later;
            let number = number as u64;
            let act = match what {
                0 | 1 => Act::Take(Cost::new(units)),
                2 => Act::Book(Cost::new(units)),
                3 => Act::Lease { units, nodes: 1, number, life: Span::from_ticks(DAY_US * 1_000) },
                4 if !taken.is_empty() => {
                    let (counted_at, taken_units) = taken.swap_remove(which % taken.len());
                    Act::GiveBack { units: taken_units, counted_at, undoes: units % 2 == 0 }
                }
                _ if !leased.is_empty() => {
                    let rest = leased.swap_remove(which % leased.len());
                    Act::Return(LeaseRest { units: rest.units.min(units), ..rest })
                }
                _ => Act::Peek(Cost::new(units)),
            };
            let grant = books.answer(&question(&limit, act)).unwrap();
            match act {
                Act::Take(cost) if grant.decision.is_allowed() => taken.push((grant.at, cost.units())),
                Act::Lease { .. } if grant.leased > 0 => leased.push(LeaseRest {
                    units: grant.leased, counted_at: grant.at, deadline: grant.at, number,
                }),
                _ => {}
            }
            prop_assert_eq!(total(&books), used(&books));
        }
    }
}

#[test]
fn what_is_settled_after_its_window_leaves_the_day_that_counted_it() {
    let limit = per_month(100);
    let mut books = Books::new(NOVEMBER_US + 29 * DAY_US);
    let taken = books.answer(&question(&limit, Act::Take(Cost::new(60)))).unwrap();
    books.now_us += 2 * DAY_US;
    books.answer(&question(&limit, Act::Take(Cost::new(5)))).unwrap();
    let act = Act::GiveBack { units: 40, counted_at: taken.at, undoes: false };
    books.answer(&question(&limit, act)).unwrap();
    assert_eq!(used(&books), 5, "December has lost nothing");
    let days: Vec<_> = books.usage.values().map(|day| day.counted - day.given_back).collect();
    assert_eq!(days, [20, 5]);
}

#[test]
fn more_than_was_used_does_not_come_back() {
    let limit = per_month(100);
    let mut books = Books::new(NOVEMBER_US);
    let taken = books.answer(&question(&limit, Act::Take(Cost::new(3)))).unwrap();
    let act = Act::GiveBack { units: u64::MAX, counted_at: taken.at, undoes: false };
    books.answer(&question(&limit, act)).unwrap();
    assert_eq!((used(&books), total(&books)), (0, 0));
    // Of a counter that is full of debt, all that was booked does.
    books.answer(&question(&limit, Act::Book(Cost::new(500)))).unwrap();
    assert_eq!((used(&books), total(&books)), (200, 500));
    let act = Act::GiveBack { units: 150, counted_at: taken.at, undoes: false };
    books.answer(&question(&limit, act)).unwrap();
    assert_eq!((used(&books), total(&books)), (50, 350));
}

#[test]
fn windows_of_a_jittered_key_end_by_the_clock_of_the_database() {
    let hour = Rate::new(10, Tick::NANOSECOND.span(Duration::from_hours(1)).unwrap()).unwrap();
    let limit = shared(FixedWindow::new(hour).jittered());
    let mut books = Books::new(NOVEMBER_US);
    let asked = Question { key: SharedKey(1_234_567_890), ..question(&limit, Act::Take(Cost::ONE)) };
    let grant = books.answer(&asked).unwrap();
    let (_, counter) = books.changed().next().unwrap();
    let reset_us = grant.decision.reset_after.unwrap().ticks() / 1_000;
    assert!(reset_us < 3_600_000_000);
    assert_eq!(counter.over_at_us, NOVEMBER_US + reset_us);
}

#[test]
fn what_a_question_cannot_understand_it_refuses() {
    let limit = per_month(10);
    let mut books = Books::new(NOVEMBER_US);
    books.put_counter(SharedKey(7), 1_000, Count::default());
    assert_eq!(books.answer(&question(&limit, Act::Take(Cost::ONE))), Err(Failure::Refused));
    let rate = Rate::new(10, Span::from_ticks(60_000_000_000)).unwrap();
    let bucket = Arc::new(SharedLimit::new(&TokenBucket::new(rate, 10).unwrap().into()).unwrap());
    assert_eq!(books.answer(&question(&bucket, Act::Take(Cost::ONE))), Err(Failure::Refused));
    assert_eq!(books.changed().count(), 0);
}

#[test]
fn names_are_cut_off_between_letters() {
    assert_eq!(&*text(&"ä".repeat(300)), "ä".repeat(256));
    assert_eq!(text(&format!("x{}", "ä".repeat(300))).len(), 511);
    assert_eq!(&*text("a\0b"), "a\u{fffd}b");
}
