//! What is owed, under made-up time.

use std::sync::Arc;

use tollgate_core::{Concurrency, FixedWindow, Holder, Limit, Rate, SharedLimit, TokenBucket};

use super::super::SharedKey;
use super::*;

const START_MS: u64 = 1_700_000_000_000;
const SECOND: Span = Span::from_ticks(1_000 * MS);

fn at(ms: u64) -> Time {
    Time::from_ticks((START_MS + ms) * MS)
}

fn shared(limit: impl Into<Limit>) -> Arc<SharedLimit> {
    Arc::new(SharedLimit::new(&limit.into()).unwrap())
}

/// Something owed since 0 ms.
fn debt(limit: &Arc<SharedLimit>, units: u64) -> Debt {
    let act = Act::GiveBack { units, counted_at: limit.moment(at(0)), undoes: false };
    Debt {
        question: Question { key: SharedKey(7), limit: Arc::clone(limit), act, account: None },
        since: at(0),
    }
}

fn window() -> Arc<SharedLimit> {
    shared(FixedWindow::new(Rate::new(10, Span::from_ticks(3_600 * SECOND.ticks())).unwrap()))
}

fn due(debts: &mut Debts, ms: u64) -> usize {
    debts.take_due(at(ms)).count()
}

#[test]
fn pauses_grow_until_something_is_done() {
    let (mut debts, limit) = (Debts::default(), window());
    let mut told_at = Vec::new();
    debts.owe(debt(&limit, 1), at(0));
    for ms in 0..5_000 {
        for debt in debts.take_due(at(ms)).collect::<Vec<_>>() {
            told_at.push(ms);
            debts.owe(debt, at(ms)); // In vain.
        }
    }
    assert_eq!(told_at, [50, 150, 350, 750, 1_550, 2_550, 3_550, 4_550]);
    debts.settled();
    assert_eq!(due(&mut debts, 5_000), 1);
    debts.owe(debt(&limit, 1), at(5_001));
    assert_eq!((due(&mut debts, 5_100), due(&mut debts, 5_101)), (0, 1), "the pause is still long");
}

#[test]
fn nothing_is_owed_for_ever() {
    let (mut debts, limit) = (Debts::default(), window());
    debts.owe(debt(&limit, 1), at(29_999));
    debts.owe(debt(&limit, 1), at(30_000));
    assert_eq!(debts.kept.len(), 1);
    assert_eq!(due(&mut debts, 60_000), 0);
    assert_eq!(debts.kept.len(), 0);
}

#[test]
fn no_more_is_kept_than_there_is_room_for() {
    let (mut debts, limit) = (Debts::default(), window());
    for _ in 0..=DEBTS_MAX {
        debts.owe(debt(&limit, 1), at(0));
    }
    assert_eq!(debts.kept.len(), DEBTS_MAX);
    let told: usize = (0..DEBTS_MAX / DUE_MAX).map(|_| due(&mut debts, 100)).sum();
    assert_eq!((told, debts.kept.len()), (DEBTS_MAX, 0), "a few at a time");
}

/// However often it is told in vain: the authority takes off what has come back by itself, from the moment at which it was taken.
#[test]
fn what_is_told_later_is_undone() {
    let mut debts = Debts::default();
    let rate = Rate::new(1, SECOND).unwrap();
    let limit = shared(TokenBucket::new(rate, 20).unwrap());
    debts.owe(debt(&limit, 10), at(0));
    for ms in [1_000, 2_000, 5_000] {
        let due: Vec<Debt> = debts.take_due(at(ms)).collect();
        let undone = Act::GiveBack { units: 10, counted_at: limit.moment(at(0)), undoes: true };
        assert_eq!(due[0].question.act, undone);
        debts.owe(due[0].clone(), at(ms));
    }
}

#[test]
fn a_hold_is_ended_as_it_is() {
    let mut debts = Debts::default();
    let limit = shared(Concurrency::new(2, SECOND).unwrap());
    let release = Act::Release(Holder::from_number(7));
    let debt =
        Debt { question: Question { key: SharedKey(7), limit, act: release, account: None }, since: at(0) };
    debts.owe(debt.clone(), at(0));
    assert_eq!(debts.take_due(at(100)).collect::<Vec<_>>(), [debt]);
}
