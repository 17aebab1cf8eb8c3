//! What waits for the database: never more than may, and those who wait not behind all that nobody waits for.

use std::time::Duration;

use tollgate_core::{Cost, FixedWindow, Rate, SharedLimit, Tick};
use tollgate_store::authority::breaker::State as BreakerState;
use tollgate_store::authority::{Act, SharedKey};

use super::*;

fn question(act: Act) -> Question {
    let hour = Tick::NANOSECOND.span(Duration::from_hours(1)).unwrap();
    let limit = SharedLimit::new(&FixedWindow::new(Rate::new(10, hour).unwrap()).into()).unwrap();
    Question { key: SharedKey(1), limit: Arc::new(limit), act, account: None }
}

fn line(waiting_max: usize) -> Line {
    Line::new(Arc::new(Clock::new()), waiting_max, 1)
}

fn enter(line: &Line, count: usize) -> Vec<Entry> {
    line.enter(&vec![question(Act::Take(Cost::ONE)); count], line.clock.now()).0
}

fn is_crowded(entry: &Entry) -> bool {
    matches!(entry, Entry::Told(Told { answer: Err(Failure::Crowded), .. }))
}

#[test]
fn no_more_wait_than_may() {
    let line = line(5);
    let entries = enter(&line, 7);
    assert_eq!(
        entries.iter().map(is_crowded).collect::<Vec<_>>(),
        [false, false, false, false, false, true, true]
    );
    assert_eq!((line.stats().waiting, line.stats().asked), (5, 5));
    // Once they are being asked, there is room again.
    assert_eq!(line.state().take_group(true).len(), 5);
    assert!(!is_crowded(&enter(&line, 1)[0]));
}

#[test]
fn no_more_is_owed_than_may_be_and_the_rest_is_counted() {
    let line = line(5);
    line.owe((0..OWED_MAX + 3).map(|_| question(Act::Reset)));
    assert_eq!((line.stats().owed, line.stats().forgotten), (OWED_MAX, 3));
    let group = line.state().take_group(true);
    assert_eq!(group.len(), GROUP_OWED_MAX);
    line.owe(vec![question(Act::Reset); 2]);
    // What was not done goes first, but there is no more room for it than there was.
    line.state().owe_again(group);
    assert_eq!((line.stats().owed, line.stats().forgotten), (OWED_MAX, 5));
}

#[test]
fn what_the_database_is_against_is_tried_a_few_times() {
    let line = line(5);
    line.owe([question(Act::Reset)]);
    for tries in 1..=TRIES_MAX {
        let mut group = line.state().take_group(true);
        assert_eq!(group.len(), 1, "before try {tries}");
        group[0].tries += 1;
        line.state().owe_again(group);
    }
    assert_eq!((line.stats().owed, line.stats().forgotten), (0, 1));
}

#[test]
fn a_group_has_room_for_those_who_wait() {
    let line = line(1 << 14);
    line.owe(vec![question(Act::Reset); GROUP_MAX]);
    let entries = enter(&line, GROUP_MAX);
    let group = line.state().take_group(true);
    assert_eq!(group.len(), GROUP_MAX);
    assert_eq!(group.iter().filter(|item| item.is_awaited()).count(), GROUP_MAX - GROUP_OWED_MAX);
    // While the database is away, only those who wait try.
    assert!(line.state().take_group(false).iter().all(Item::is_awaited));
    assert_eq!(line.stats().owed, GROUP_MAX - GROUP_OWED_MAX);
    drop(entries);
}

#[test]
fn whoever_has_gone_is_not_asked_for() {
    let line = line(100);
    let mut entries = enter(&line, 3);
    entries.remove(1);
    let (booked, _) = line.enter(&[question(Act::Book(Cost::ONE))], line.clock.now());
    drop(booked);
    let group = line.state().take_group(true);
    assert_eq!(
        group.iter().map(Item::is_awaited).collect::<Vec<_>>(),
        [true, true, false],
        "what is booked was spent"
    );
}

#[test]
fn while_the_breaker_is_open_nobody_waits() {
    let line = line(100);
    let mut now = line.clock.now();
    while line.state().breaker.state(now) == BreakerState::Closed {
        let (_, pass) = line.enter(&[question(Act::Take(Cost::ONE))], now);
        line.state().breaker.failed(pass.unwrap(), now);
        now = now.plus(tollgate_core::Span::from_ticks(10_000_000));
    }
    let waiting = line.stats().waiting;
    let (entries, pass) = line.enter(&[question(Act::Take(Cost::ONE))], now);
    assert!(matches!(entries[0], Entry::Told(Told { answer: Err(Failure::NotAsked), .. })));
    assert_eq!((pass, line.stats().waiting), (None, waiting));
}
