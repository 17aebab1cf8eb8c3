//! Which keys a full ledger forgets first, below the level at which it forgets none.
//!
//! Time stands still in each test, so no key becomes idle.
#![allow(clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use tollgate_core::{
    Concurrency, Cost, FixedWindow, Holder, Intent, LeakyBucket, Limit, OldestCounts, Rate, SlidingLog,
    SlidingWindow, Span, SubWindows, Time, TokenBucket,
};
use tollgate_store::{Charge, Key, Ledger, LedgerSettings};

const NOW: Time = Time::from_ticks(1_700_000_000_000_000_000);
const MINUTE: u64 = 60_000_000_000;
const DAY: u64 = 1_440 * MINUTE;
/// Room for dozens of states in each of the shards that states of many words have, so that there are always some to choose from.
const WHOLES: LedgerSettings = LedgerSettings { wholes_bytes: 8 << 20, ..LedgerSettings::with_cap(32 << 20) };

fn rate(units: u64, period: u64) -> Rate {
    Rate::new(units, Span::from_ticks(period)).unwrap()
}

/// Limits whose states fit a word.
fn words(units: u64, period: u64) -> [Limit; 4] {
    let rate = rate(units, period);
    [
        TokenBucket::new(rate, units).unwrap().into(),
        LeakyBucket::new(rate, units).unwrap().into(),
        FixedWindow::new(rate).into(),
        SlidingWindow::new(rate).into(),
    ]
}

/// Limits whose states do not.
fn wholes(units: u64, period: u64) -> [Limit; 2] {
    let rate = rate(units, period);
    [SlidingLog::new(rate).unwrap().into(), SubWindows::new(rate, 10, OldestCounts::Whole).unwrap().into()]
}

fn key(ledger: &Ledger, name: &str, number: u64) -> Key {
    ledger.key(format!("{name}:{number}").as_bytes())
}

fn take(ledger: &Ledger, key: Key, limit: &Limit, units: u64) -> bool {
    ledger.decide(&Charge::take(key, limit, Cost::new(units)), NOW).is_allowed()
}

/// Keys that have used a tenth of a limit per minute, which may be evicted, under a flood of keys that have used a thousandth of a limit per day: the
/// windows of the flood end much later.
fn check_tenth_used_outlast(settings: LedgerSettings, tenth_used: &[Limit], flood: &[Limit]) {
    const UNITS: u64 = 100;
    for (limit, flood) in tenth_used.iter().zip(flood) {
        let ledger = Ledger::new(settings).unwrap();
        for number in 0..20 {
            assert!(take(&ledger, key(&ledger, "tenth", number), limit, UNITS / 10));
        }
        for number in 0..100_000 {
            take(&ledger, key(&ledger, "flood", number), flood, 1);
        }
        assert!(ledger.stats().evicted > 10_000, "{:?}", ledger.stats());
        let kept = (0..20)
            .filter(|&number| !take(&ledger, key(&ledger, "tenth", number), limit, UNITS - UNITS / 10 + 1));
        assert_eq!(kept.count(), 20, "keys used by a tenth that were kept under {limit:?}");
    }
}

#[test]
fn a_key_used_by_a_tenth_outlasts_keys_used_once_under_a_longer_window() {
    check_tenth_used_outlast(LedgerSettings::with_cap(2 << 20), &words(100, MINUTE), &words(1_000, DAY));
}

#[test]
fn a_state_of_many_words_used_by_a_tenth_outlasts_those_used_once_under_a_longer_window() {
    check_tenth_used_outlast(WHOLES, &wholes(100, MINUTE), &wholes(1_000, DAY));
}

/// However few units a caller holds, and whatever was asked about its key since.
#[test]
fn a_permit_can_be_released_after_a_flood_though_its_key_was_asked_about_or_released_from() {
    let ledger = Ledger::new(WHOLES).unwrap();
    let limit: Limit = Concurrency::new(1_000, Span::from_ticks(MINUTE)).unwrap().into();
    let acquire = |key| ledger.acquire(key, &limit, Cost::ONE, NOW).1.unwrap();
    let mut permits = Vec::new();
    for number in 0..100 {
        let key = key(&ledger, "holders", number);
        permits.push((key, acquire(key)));
        if number % 2 == 0 {
            let peek = Charge { intent: Intent::Peek, ..Charge::take(key, &limit, Cost::ONE) };
            assert_eq!(ledger.decide(&peek, NOW).remaining, 999);
        } else {
            let other = acquire(key);
            assert!(ledger.release(key, &limit, other, NOW));
        }
    }
    let [log, ..] = wholes(1_000, DAY);
    for number in 0..100_000 {
        take(&ledger, key(&ledger, "flood", number), &log, 1);
    }
    assert!(ledger.stats().evicted > 10_000, "{:?}", ledger.stats());
    let is_released = |&(number, (key, holder)): &(usize, (Key, Holder))| {
        ledger.release(key, &limit, holder, NOW) || panic!("permit {number} was lost")
    };
    assert_eq!(permits.into_iter().enumerate().filter(is_released).count(), 100);
}

/// One key in thirty has used little, and all others are at their limits: a new key finds one of the few.
#[test]
fn a_new_key_finds_the_few_that_may_go_among_many_that_may_not() {
    const NEW: u64 = 200;
    let ledger = Ledger::new(LedgerSettings::with_cap(2 << 20)).unwrap();
    let ([used_up, ..], [used_once, ..]) = (words(1, DAY), words(1_000, DAY));
    for number in 0..1_000_000 {
        let limit = if number % 30 == 0 { &used_once } else { &used_up };
        take(&ledger, key(&ledger, "old", number), limit, 1);
        if ledger.stats().evicted >= 100 {
            break;
        }
    }
    let before = ledger.stats().coarse;
    for number in 0..NEW {
        take(&ledger, key(&ledger, "new", number), &used_up, 1);
    }
    let coarse = ledger.stats().coarse - before;
    assert!(coarse < NEW / 4, "{coarse} of {NEW} new keys found no slot");
}
