//! Floods of new keys against a small ledger: a key at its limit keeps its count, whatever floods the table.
//!
//! Time stands still in each test, so no key becomes idle and every admission of a used-up key is one too many.
#![allow(clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use tollgate_core::{
    Concurrency, Cost, FixedWindow, LeakyBucket, LeakyQueue, Limit, OldestCounts, Outcome, Rate, Refund,
    SlidingLog, SlidingWindow, Span, SubWindows, Time, TokenBucket,
};
use tollgate_store::{Charge, Key, Ledger, LedgerSettings};

const NOW: Time = Time::from_ticks(1_700_000_000_000_000_000);
const SECOND: u64 = 1_000_000_000;
const PERIODS: [(&str, u64); 4] =
    [("second", SECOND), ("minute", 60 * SECOND), ("hour", 3_600 * SECOND), ("day", 86_400 * SECOND)];
/// Keys of a flood: more than the smallest cap below has room for.
const FLOOD: u64 = 100_000;

fn ledger(cap_bytes: usize) -> Ledger {
    Ledger::new(LedgerSettings::with_cap(cap_bytes)).unwrap()
}

/// One limit of each algorithm: so many units a period.
fn limits(units: u64, period: u64) -> Vec<Limit> {
    let (span, rate) = (Span::from_ticks(period), Rate::new(units, Span::from_ticks(period)).unwrap());
    vec![
        TokenBucket::new(rate, units).unwrap().into(),
        LeakyBucket::new(rate, units).unwrap().into(),
        LeakyQueue::new(rate, span).unwrap().into(),
        FixedWindow::new(rate).into(),
        SlidingWindow::new(rate).into(),
        SubWindows::new(rate, 10, OldestCounts::Whole).unwrap().into(),
        SlidingLog::new(rate).unwrap().into(),
        Concurrency::new(units, span).unwrap().into(),
    ]
}

fn key(ledger: &Ledger, name: &str, number: u64) -> Key {
    ledger.key(format!("{name}:{number}").as_bytes())
}

fn take(ledger: &Ledger, key: Key, limit: &Limit) -> bool {
    ledger.decide(&Charge::take(key, limit, Cost::ONE), NOW).is_allowed()
}

/// Takes until the limit denies.
fn use_up(ledger: &Ledger, key: Key, limit: &Limit) -> u64 {
    (0..1_000_000).take_while(|_| take(ledger, key, limit)).count() as u64
}

/// Twenty keys at their limit for each of these limits.
fn used_up<'a>(ledger: &Ledger, limits: &'a [Limit]) -> Vec<(Key, &'a Limit)> {
    // Buckets of all periods have one shape, so each limit has keys of its own.
    let pairs =
        limits.iter().enumerate().flat_map(|(at, limit)| (0..20).map(move |number| (at, number, limit)));
    let keys: Vec<_> =
        pairs.map(|(at, number, limit)| (key(ledger, &format!("honest {at}"), number), limit)).collect();
    for (key, limit) in &keys {
        assert!(use_up(ledger, *key, limit) >= 5, "{limit:?}");
    }
    keys
}

fn check_all_denied(ledger: &Ledger, keys: &[(Key, &Limit)], flood: &str) {
    for (key, limit) in keys {
        assert!(!take(ledger, *key, limit), "{flood} has freed a key of {limit:?}");
    }
}

fn check_within_cap(ledger: &Ledger, cap_bytes: usize) {
    let stats = ledger.stats();
    assert!(stats.bytes <= cap_bytes, "{stats:?}");
}

#[test]
fn keys_used_once_under_a_large_limit_free_no_key_at_its_limit() {
    const CAP: usize = 1 << 20;
    for (length, period) in PERIODS {
        let ledger = ledger(CAP);
        let honest: Vec<Limit> = PERIODS.iter().flat_map(|(_, period)| limits(5, *period)).collect();
        let honest = used_up(&ledger, &honest);
        let flood = limits(1_000, period);
        for number in 0..FLOOD {
            let limit = &flood[usize::try_from(number).unwrap() % (flood.len() - 1)]; // All but holders.
            assert!(take(&ledger, key(&ledger, "flood", number), limit));
        }
        assert!(ledger.stats().evicted > 0);
        check_all_denied(&ledger, &honest, &format!("a flood of keys used once a {length}"));
        check_within_cap(&ledger, CAP);
    }
}

#[test]
fn keys_at_a_limit_of_one_free_no_key_at_its_limit_and_are_not_freed() {
    const CAP: usize = 1 << 20;
    for (length, period) in PERIODS {
        let ledger = ledger(CAP);
        let honest: Vec<Limit> = PERIODS.iter().flat_map(|(_, period)| limits(5, *period)).collect();
        let honest = used_up(&ledger, &honest);
        let flood = limits(1, period);
        let limit_of = |number: u64| &flood[usize::try_from(number).unwrap() % flood.len()];
        let admitted: Vec<u64> = (0..FLOOD)
            .filter(|&number| take(&ledger, key(&ledger, "flood", number), limit_of(number)))
            .collect();
        check_all_denied(&ledger, &honest, &format!("a flood of keys at one a {length}"));
        let twice = admitted.iter().filter(|&&number| {
            // A queue has a second place.
            let is_queue = matches!(limit_of(number), Limit::LeakyQueue(_));
            !is_queue && take(&ledger, key(&ledger, "flood", number), limit_of(number))
        });
        assert_eq!(twice.count(), 0, "keys of the flood that were admitted twice");
        let stats = ledger.stats();
        assert!(stats.coarse > 0 && stats.refused > 0, "{stats:?}");
        check_within_cap(&ledger, CAP);
    }
}

/// Keys that have used half of their limit count as well as keys that have used all of it.
#[test]
fn keys_at_a_limit_of_one_reset_no_key_that_has_used_half_of_its_limit() {
    let ledger = ledger(1 << 20);
    let mut half_used = Vec::new();
    for (at, limit) in PERIODS.iter().flat_map(|(_, period)| limits(6, *period)).enumerate() {
        for number in 0..5 {
            let key = key(&ledger, &format!("half {at}"), number);
            assert_eq!((0..3).filter(|_| take(&ledger, key, &limit)).count(), 3);
            half_used.push((key, limit.clone()));
        }
    }
    let flood = limits(1, 86_400 * SECOND);
    for number in 0..FLOOD {
        take(&ledger, key(&ledger, "flood", number), &flood[usize::try_from(number).unwrap() % flood.len()]);
    }
    let stats = ledger.stats();
    assert!(stats.coarse > 0 && stats.refused > 0, "{stats:?}");
    for (key, limit) in half_used {
        assert_eq!(ledger.used(key, &limit, NOW), 3, "{limit:?}");
    }
}

/// A peek at a new key stores nothing, so nothing has to go for it.
#[test]
fn peeks_at_new_keys_evict_nothing_and_store_nothing() {
    let ledger = ledger(1 << 20);
    for limit in limits(1_000, 86_400 * SECOND) {
        for number in 0..FLOOD / 4 {
            take(&ledger, key(&ledger, "old", number), &limit);
        }
    }
    let before = ledger.stats();
    assert!(before.evicted > 0, "the ledger is full: {before:?}");
    for limit in limits(1_000, 86_400 * SECOND) {
        for number in 0..FLOOD / 4 {
            ledger.decide(&Charge::peek(key(&ledger, "new", number), &limit, Cost::ONE), NOW);
        }
    }
    assert_eq!(ledger.stats(), before);
}

/// Units that come back free the slot for new keys: reserving and settling for nothing must not fill the table.
#[test]
fn a_key_whose_units_came_back_makes_room_for_new_keys() {
    let ledger = ledger(1 << 20);
    let window = &limits(1, 86_400 * SECOND)[3];
    for number in 0..FLOOD {
        let key = key(&ledger, "refunded", number);
        assert!(take(&ledger, key, window), "{number}");
        ledger.give_back(key, window, Refund::at_once(1, NOW));
    }
    assert_eq!(ledger.stats().coarse, 0);
}

/// What gives way when no memory suffices: a new client shares a counter with others, and is not locked out.
#[test]
fn a_new_client_is_counted_with_others_when_all_memory_is_used_up() {
    let ledger = ledger(1 << 20);
    let one_a_day = &limits(1, 86_400 * SECOND)[0];
    for number in 0..FLOOD {
        take(&ledger, key(&ledger, "flood", number), one_a_day);
    }
    for limit in &limits(100, 60 * SECOND)[..5] {
        let mut served = 0;
        for number in 0..200 {
            let admitted = (0..110).filter(|_| take(&ledger, key(&ledger, "new", number), limit)).count();
            assert!(admitted <= 101, "{admitted} of 100 under {limit:?}"); // A queue has one place more.
            served += usize::from(admitted > 0);
        }
        assert!(served > 100, "{served} of 200 new clients were served under {limit:?}");
    }
}

/// A client may be counted with others first, and get a slot of its own when other keys are reset.
#[test]
fn a_new_client_that_gets_a_slot_of_its_own_later_gets_no_more_than_its_limit() {
    // Many limits, so that their groups are not used up before the table is full.
    let days: Vec<Limit> = (0..8).map(|at| limits(1, 86_400 * SECOND + at)[0].clone()).collect();
    for limit in &limits(100, 60 * SECOND)[..5] {
        let ledger = ledger(1 << 20);
        let flood = || (0..FLOOD).map(|number| key(&ledger, "flood", number)).zip(days.iter().cycle());
        flood().for_each(|(key, one_a_day)| {
            take(&ledger, key, one_a_day);
        });
        let clients: Vec<Key> = (0..200).map(|number| key(&ledger, "new", number)).collect();
        let used_by = |client: &Key| (0..60).filter(|_| take(&ledger, *client, limit)).count() as u64;
        let used: Vec<u64> = clients.iter().map(used_by).collect();
        assert!(used.contains(&60), "{used:?}");
        let without_slot = clients.iter().filter(|client| ledger.used(**client, limit, NOW) == 0).count();
        assert!(without_slot > 100, "{without_slot} of 200 have no slot of their own");
        flood().for_each(|(key, one_a_day)| {
            ledger.reset(key, one_a_day);
        });
        for (client, used) in clients.into_iter().zip(used) {
            let seen = ledger.decide(&Charge::peek(client, limit, Cost::ZERO), NOW).remaining;
            let more = use_up(&ledger, client, limit);
            assert_eq!(seen, more, "a peek says what is left under {limit:?}");
            assert!(used + more <= 101, "{used} and {more} of 100 under {limit:?}"); // A queue has one place more.
        }
    }
}

/// The attack of `CL.THROTTLE p 0 1 4611686018`: limits that callers bring along, each key used up for 146 years.
#[test]
fn limits_that_callers_bring_along_evict_no_key_of_a_rule() {
    const CAP: usize = 16 << 20;
    let ledger = ledger(CAP);
    let honest: Vec<Limit> = PERIODS.iter().flat_map(|(_, period)| limits(5, *period)).collect();
    let honest = used_up(&ledger, &honest);
    let half_used: Vec<_> =
        honest.iter().zip(0..).map(|((_, limit), number)| (key(&ledger, "half", number), *limit)).collect();
    for (key, limit) in &half_used {
        assert!(take(&ledger, *key, limit));
    }
    let bucket = |units, seconds| {
        TokenBucket::new(Rate::new(1, Span::from_ticks(seconds * SECOND)).unwrap(), units).unwrap()
    };
    let caller = |number: u64| ledger.key_of_caller(format!("caller:{number}").as_bytes());
    let callers_limit = Limit::from(bucket(5, 60).reading_foreign_states());
    (0..100).for_each(|number| assert_eq!(use_up(&ledger, caller(number), &callers_limit), 5));

    let long = Limit::from(bucket(1, 4_611_686_018).reading_foreign_states());
    for number in 0..900_000_u64 {
        take(&ledger, ledger.key_of_caller(&number.to_be_bytes()), &long);
    }
    check_all_denied(&ledger, &honest, "a flood of limits that callers bring along");
    let rules_evicted = half_used.iter().filter(|(key, limit)| ledger.used(*key, limit, NOW) == 0).count();
    assert_eq!(rules_evicted, 0, "keys of rules that were evicted");
    (0..100).for_each(|number| assert!(!take(&ledger, caller(number), &callers_limit)));
    // After the flood, new callers get their limit at most, and new keys of rules are not affected at all.
    (1_000..1_500).for_each(|number| assert!(use_up(&ledger, caller(number), &callers_limit) <= 5));
    for limit in limits(5, 60 * SECOND) {
        assert!(use_up(&ledger, ledger.key(b"after"), &limit) >= 5, "{limit:?}");
    }
    check_within_cap(&ledger, CAP);
}

/// Logins, 5 a minute, while keys used once under a daily rule come: no user gets a sixth.
#[test]
fn a_flood_under_a_daily_rule_lets_no_login_pass_beyond_its_limit() {
    let ledger = ledger(1 << 20);
    let rate = |units, seconds| Rate::new(units, Span::from_ticks(seconds * SECOND)).unwrap();
    let logins: Limit = SlidingWindow::new(rate(5, 60)).into();
    let daily: Limit = SlidingWindow::new(rate(1_000, 86_400)).into();
    let login = ledger.key(b"login:mallory");
    let mut passed = 0;
    for number in 0..FLOOD {
        assert!(take(&ledger, key(&ledger, "flood", number), &daily));
        passed += u64::from(number % 100 == 0 && take(&ledger, login, &logins));
    }
    assert_eq!(passed, 5);
}

mod whole_states {
    use super::*;

    /// New keys of a log, one unit of a thousand each: more than there is room for.
    fn flood(ledger: &Ledger, count: u64) {
        let log = &limits(1_000, 86_400 * SECOND)[6];
        for number in 0..count {
            take(ledger, key(ledger, "flood", number), log);
        }
        assert!(ledger.stats().evicted > count / 2);
    }

    #[test]
    fn new_keys_free_no_log_at_its_limit_and_no_permit() {
        const CAP: usize = 8 << 20;
        let ledger = ledger(CAP);
        let minute = limits(5, 60 * SECOND);
        let (log, concurrency) = (&minute[6], &minute[7]);
        for number in 0..200 {
            assert_eq!(use_up(&ledger, key(&ledger, "log", number), log), 5);
        }
        let permits: Vec<_> = (0..500)
            .map(|permit| {
                let key = key(&ledger, "holders", permit / 5);
                (key, ledger.acquire(key, concurrency, Cost::ONE, NOW).1.unwrap())
            })
            .collect();
        flood(&ledger, FLOOD);
        let freed = (0..200).filter(|&number| take(&ledger, key(&ledger, "log", number), log)).count();
        assert_eq!(freed, 0, "used-up logs that admit again");
        let sixth = |number| ledger.acquire(key(&ledger, "holders", number), concurrency, Cost::ONE, NOW).1;
        assert_eq!((0..100).filter(|&number| sixth(number).is_some()).count(), 0, "sixth holders");
        let released = permits.iter().filter(|(key, holder)| ledger.release(*key, concurrency, *holder, NOW));
        assert_eq!(released.count(), 500, "permits that could be released");
        assert!((0..100).all(|number| sixth(number).is_some()), "a released permit can be acquired again");
        check_within_cap(&ledger, CAP);
    }

    #[test]
    fn a_permit_that_cannot_be_recorded_is_not_handed_out() {
        const CAP: usize = 2 << 20;
        let ledger = ledger(CAP);
        let concurrency = &limits(5, 3_600 * SECOND)[7];
        let acquire = |number| ledger.acquire(key(&ledger, "holders", number), concurrency, Cost::ONE, NOW);
        let mut permits = Vec::new();
        for number in 0..20_000 {
            let (decision, holder) = acquire(number);
            assert_eq!(decision.is_allowed(), holder.is_some());
            match holder {
                Some(holder) => permits.push((key(&ledger, "holders", number), holder)),
                None => assert_eq!(decision.outcome, Outcome::Busy),
            }
        }
        assert!(permits.len() < 20_000 && ledger.stats().refused > 0);
        check_within_cap(&ledger, CAP);
        let released = permits.iter().filter(|(key, holder)| ledger.release(*key, concurrency, *holder, NOW));
        assert_eq!(released.count(), permits.len());
        assert!(acquire(30_000).1.is_some(), "there is room again");
    }

    #[test]
    fn a_new_client_that_gets_room_later_gets_no_more_than_its_limit() {
        let ledger = ledger(2 << 20);
        let (day, minute) = (limits(5, 86_400 * SECOND), limits(100, 60 * SECOND));
        let acquire = |number| ledger.acquire(key(&ledger, "holders", number), &day[7], Cost::ONE, NOW).1;
        for (at, limit) in minute.iter().enumerate().skip(5).take(2) {
            let permits: Vec<_> = (0..20_000).map_while(|number| Some((number, acquire(number)?))).collect();
            let client = key(&ledger, "new", at as u64);
            let used = use_up(&ledger, client, limit);
            assert!((1..=100).contains(&used), "{used}");
            assert_eq!(ledger.used(client, limit, NOW), 0, "it has room of its own already");
            for (number, holder) in permits {
                assert!(ledger.release(key(&ledger, "holders", number), &day[7], holder, NOW));
            }
            let more = use_up(&ledger, client, limit);
            assert!(used + more <= 100, "{used} and {more} of 100 under {limit:?}");
        }
    }

    /// Holders of one key want more memory than all whole states have.
    #[test]
    fn a_state_that_cannot_grow_is_denied_and_not_forgotten() {
        const WHOLES: usize = 256 << 10;
        let settings = LedgerSettings { wholes_bytes: WHOLES, ..LedgerSettings::with_cap(2 << 20) };
        let ledger = Ledger::new(settings).unwrap();
        let concurrency = &limits(60_000, 3_600 * SECOND)[7];
        let key = key(&ledger, "holders", 0);
        let acquire = || ledger.acquire(key, concurrency, Cost::ONE, NOW);
        let mut permits: Vec<_> = (0..60_000).map_while(|_| acquire().1).collect();
        assert!((1_000..59_999).contains(&permits.len()), "{} permits", permits.len());
        let refused = acquire().0;
        assert_eq!((refused.outcome, refused.remaining), (Outcome::Busy, 0));
        assert!(ledger.stats().refused > 0);
        // It may be over by as much as the last step has taken: a list that doubles.
        check_within_cap(&ledger, (2 << 20) + 2 * WHOLES);
        assert!(permits.drain(..).all(|holder| ledger.release(key, concurrency, holder, NOW)));
    }
}
