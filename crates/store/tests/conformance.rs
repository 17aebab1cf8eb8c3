//! The ledger passes the suite that every implementation passes: one by one, in batches, and as the only charge of a
//! request; undisturbed, and while other keys make the table move under it.
#![allow(clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use std::thread;

use tollgate_core::{Ask, Cost, Decision, Intent, Limit, Rate, Refund, Span, Time, TokenBucket};
use tollgate_store::{Charge, Ledger, LedgerSettings, Stats};
use tollgate_testkit::{Subject, run_suite};

const CASES: u64 = 400;

/// How a question is put to the ledger.
#[derive(Clone, Copy)]
enum Way {
    OneByOne,
    InBatches,
    AllOrNothing,
}

struct Asked<'a> {
    ledger: &'a Ledger,
    way: Way,
    /// Keeps the keys of different traces apart.
    trace: u64,
}

impl Asked<'_> {
    fn key(&self, key: &[u8]) -> tollgate_store::Key {
        self.ledger.key(&[&self.trace.to_be_bytes(), key].concat())
    }
}

impl Subject for Asked<'_> {
    fn decide(&mut self, key: &[u8], limit: &Limit, ask: Ask) -> Decision {
        let charge = Charge { intent: ask.intent, ..Charge::take(self.key(key), limit, ask.cost) };
        let mut decisions = Vec::new();
        match self.way {
            Way::OneByOne => self.ledger.decide(&charge, ask.now),
            Way::InBatches => {
                // A stranger on either side, whose questions change nothing.
                let stranger = Charge::peek(self.key(b"stranger"), limit, Cost::ONE);
                self.ledger.decide_batch(&[stranger, charge, stranger], ask.now, &mut decisions);
                decisions.remove(1)
            }
            Way::AllOrNothing => {
                self.ledger.decide_all(&[charge], ask.now, &mut decisions);
                decisions.remove(0)
            }
        }
    }

    fn give_back(&mut self, key: &[u8], limit: &Limit, refund: Refund) {
        self.ledger.give_back(self.key(key), limit, refund);
    }

    fn used(&mut self, key: &[u8], limit: &Limit, now: Time) -> Option<u64> {
        Some(self.ledger.used(self.key(key), limit, now))
    }
}

fn check(ledger: &Ledger, way: Way) {
    let mut trace = 0;
    let next_subject = |_spec: &_| {
        trace += 1;
        Some(Asked { ledger, way, trace })
    };
    let played = run_suite(next_subject, CASES).unwrap_or_else(|divergence| panic!("{divergence}"));
    assert!(played > CASES);
}

fn ledger() -> Ledger {
    Ledger::new(LedgerSettings::with_cap(256 << 20)).unwrap()
}

#[test]
fn one_by_one() {
    check(&ledger(), Way::OneByOne);
}

#[test]
fn in_batches() {
    check(&ledger(), Way::InBatches);
}

#[test]
fn all_or_nothing() {
    check(&ledger(), Way::AllOrNothing);
}

#[test]
fn while_other_keys_come_and_the_table_grows() {
    let ledger = ledger();
    // A unit that takes years to come back: the other keys are idle only to traces of a later time, which sweep them out.
    let limit = Limit::from(TokenBucket::new(Rate::new(1, Span::from_ticks(1 << 57)).unwrap(), 1).unwrap());
    assert!(limit.packs());
    thread::scope(|scope| {
        let suite = scope.spawn(|| check(&ledger, Way::OneByOne));
        let mut number = 0_u64;
        while !suite.is_finished() {
            number += 1;
            let key = ledger.key(&number.to_be_bytes());
            ledger.decide(&Charge::take(key, &limit, Cost::ONE), Time::default());
            if number == 2_000_000 {
                break;
            }
        }
    });
    let Stats { keys, reclaimed, .. } = ledger.stats();
    assert!(keys as u64 + reclaimed > 10_000, "{keys} and {reclaimed}: the table was busy");
    assert_eq!(ledger.stats().evicted, 0);
}

#[test]
fn a_booking_is_a_booking_whichever_way() {
    let ledger = ledger();
    let limit = Limit::from(TokenBucket::new(Rate::new(10, Span::from_ticks(1_000)).unwrap(), 10).unwrap());
    let (key, now) = (ledger.key(b"tokens"), Time::from_ticks(5_000));
    let charge = Charge::book(key, &limit, Cost::new(15));
    assert_eq!(charge.intent, Intent::Book);
    assert!(!ledger.decide(&charge, now).is_allowed());
    assert_eq!(ledger.used(key, &limit, now), 15);
}
