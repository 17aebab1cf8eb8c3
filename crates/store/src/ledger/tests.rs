//! What the ledger adds to the algorithms: many limits at once, changed rules, holders, caps.
#![allow(clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollgate_core::{
    Blocked, Concurrency, FixedWindow, Intent, OldestCounts, Outcome, Rate, SlidingLog, SlidingWindow, Span,
    SubWindows, TokenBucket,
};

use super::*;

const MINUTE: u64 = 60_000_000_000;
const NOW: Time = Time::from_ticks(1_700_000_000_000_000_000);

fn ledger() -> Ledger {
    Ledger::new(LedgerSettings::with_cap(64 << 20)).unwrap()
}

fn rate(units: u64) -> Rate {
    Rate::new(units, Span::from_ticks(MINUTE)).unwrap()
}

fn bucket(burst: u64) -> Limit {
    TokenBucket::new(rate(burst), burst).unwrap().into()
}

fn sub_windows(units: u64) -> Limit {
    SubWindows::new(rate(units), 10, OldestCounts::Whole).unwrap().into()
}

fn take(ledger: &Ledger, key: Key, limit: &Limit, units: u64) -> bool {
    ledger.decide(&Charge::take(key, limit, Cost::new(units)), NOW).is_allowed()
}

fn later(ticks: u64) -> Time {
    Time::from_ticks(NOW.ticks() + ticks)
}

#[test]
fn keys_and_shapes_are_counted_apart() {
    let ledger = ledger();
    let limits =
        [bucket(5), SlidingWindow::new(rate(5)).into(), FixedWindow::new(rate(5)).into(), sub_windows(5)];
    for limit in &limits {
        for name in [b"a", b"b"] {
            assert_eq!(ledger.used(ledger.key(name), limit, NOW), 0, "{limit:?}");
            assert!(take(&ledger, ledger.key(name), limit, 5));
            assert!(!take(&ledger, ledger.key(name), limit, 1));
        }
    }
}

#[test]
fn a_reset_key_starts_anew() {
    for limit in [bucket(3), sub_windows(3)] {
        let (ledger, limit) = (ledger(), limit);
        let key = ledger.key(b"k");
        assert!(!ledger.reset(key, &limit));
        assert!(take(&ledger, key, &limit, 3));
        assert!(ledger.reset(key, &limit));
        assert_eq!(ledger.read(key, &limit), None);
        assert!(take(&ledger, key, &limit, 3));
    }
}

#[test]
fn shows_what_it_holds() {
    let ledger = ledger();
    let (words, wholes) = (bucket(10), sub_windows(10));
    let key = ledger.key(b"k");
    assert!(take(&ledger, key, &words, 4) && take(&ledger, key, &wholes, 7));
    let mut used = Vec::new();
    ledger.for_each(|entry| {
        for limit in [&words, &wholes] {
            used.extend(entry.state(key, limit).map(|state| limit.used(&state, NOW)));
        }
    });
    assert_eq!(used, [4, 7]);
    assert_eq!(ledger.stats().keys, 2);
}

#[test]
fn a_batch_answers_like_its_charges_one_by_one() {
    fn charges<'a>(ledger: &Ledger, names: &[[u8; 1]], limits: &'a [Limit]) -> Vec<Charge<'a>> {
        let pick = |i: usize| &limits[i % limits.len()];
        names.iter().enumerate().map(|(i, n)| Charge::take(ledger.key(n), pick(i), Cost::ONE)).collect()
    }

    let (one, other) = (ledger(), ledger());
    let limits = [bucket(3), SlidingWindow::new(rate(2)).into(), sub_windows(4)];
    let names: Vec<[u8; 1]> = (0..100_u8).map(|i| [i % 5]).collect();
    let mut in_batch = Vec::new();
    one.decide_batch(&charges(&one, &names, &limits), NOW, &mut in_batch);
    let one_by_one: Vec<_> =
        charges(&other, &names, &limits).iter().map(|charge| other.decide(charge, NOW)).collect();
    assert_eq!(in_batch, one_by_one);
    assert!(in_batch.iter().any(|decision| !decision.is_allowed()));
}

#[test]
fn who_lags_gets_back_what_was_counted_in_the_open_window() {
    for limit in [FixedWindow::new(rate(10)).into(), SlidingWindow::new(rate(10)).into(), sub_windows(10)] {
        let ledger = ledger();
        let key = ledger.key(b"k");
        let start = Time::from_ticks((NOW.ticks() / MINUTE + 1) * MINUTE);
        let before = Time::from_ticks(start.ticks() - 1);
        assert!(ledger.decide(&Charge::take(key, &limit, Cost::ONE), start).is_allowed());
        assert!(ledger.decide(&Charge::take(key, &limit, Cost::new(3)), before).is_allowed());
        ledger.give_back(key, &limit, Refund::at_once(3, before));
        assert_eq!(ledger.used(key, &limit, start), 1, "{}", limit.algorithm());
    }
}

#[test]
fn jittered_windows_begin_at_their_own_moment() {
    let ledger = ledger();
    let limit: Limit = FixedWindow::new(rate(1)).jittered().into();
    let resets: Vec<_> = (0..100_u8)
        .map(|name| {
            let charge = Charge::take(ledger.key(&[name]), &limit, Cost::ONE);
            let first = ledger.decide(&charge, NOW);
            let reset_after = first.reset_after.unwrap();
            let until = NOW.ticks() + reset_after.ticks();
            assert!(!ledger.decide(&charge, Time::from_ticks(until - 1)).is_allowed());
            assert!(ledger.decide(&charge, Time::from_ticks(until)).is_allowed());
            reset_after.ticks()
        })
        .collect();
    let early = resets.iter().filter(|&&ticks| ticks < MINUTE / 2).count();
    assert!((25..=75).contains(&early), "{early} of 100 windows end within half a period");
}

mod changed_rules {
    use super::*;

    fn check(was: &Limit, becomes: &Limit, used: u64, used_then: u64) {
        let ledger = ledger();
        let key = ledger.key(b"k");
        assert!(take(&ledger, key, was, used));
        ledger.carry_over(key, was, becomes, NOW);
        assert_eq!(ledger.used(key, becomes, NOW), used_then, "from {was:?} to {becomes:?}");
        // It is carried over once.
        assert!(ledger.reset(key, becomes));
        ledger.carry_over(key, was, becomes, NOW);
        assert_eq!(ledger.used(key, becomes, NOW), 0);
    }

    #[test]
    fn what_was_used_is_carried_over() {
        let (bucket, window) = (bucket(100), Limit::from(SlidingWindow::new(rate(100))));
        let longer = Limit::from(SlidingWindow::new(Rate::new(100, Span::from_ticks(7 * MINUTE)).unwrap()));
        let wholes = sub_windows(100);
        check(&bucket, &window, 30, 30);
        check(&window, &longer, 30, 30);
        check(&longer, &bucket, 30, 30);
        check(&bucket, &wholes, 30, 30);
        check(&wholes, &window, 30, 30);
    }

    #[test]
    fn clamped_to_what_the_new_rule_has() {
        check(&bucket(100), &SlidingWindow::new(rate(10)).into(), 30, 10);
        check(&bucket(100), &sub_windows(10), 30, 10);
    }

    #[test]
    fn other_numbers_of_the_same_shape_just_go_on() {
        let ledger = ledger();
        let key = ledger.key(b"k");
        let (small, large) =
            (Limit::from(SlidingWindow::new(rate(10))), Limit::from(SlidingWindow::new(rate(50))));
        assert!(take(&ledger, key, &small, 10));
        assert_eq!(ledger.used(key, &large, NOW), 10);
        assert!(take(&ledger, key, &large, 40));
        assert!(!take(&ledger, key, &small, 1));
    }

    #[test]
    fn what_has_expired_under_the_new_rule_is_no_obstacle() {
        let ledger = ledger();
        let (key, now) = (ledger.key(b"k"), later(10 * MINUTE));
        let (bucket, window) = (bucket(100), Limit::from(SlidingWindow::new(rate(100))));
        assert!(take(&ledger, key, &bucket, 5));
        assert!(ledger.decide(&Charge::take(key, &window, Cost::new(30)), now).is_allowed());
        ledger.carry_over(key, &window, &bucket, now);
        assert_eq!(ledger.used(key, &bucket, now), 30);
    }

    #[test]
    fn nothing_is_lost_when_two_threads_meet_the_change() {
        const KEYS: u64 = 50_000;
        let (ledger, was, becomes) = (ledger(), bucket(100), Limit::from(SlidingWindow::new(rate(100))));
        let key = |name: u64| ledger.key(&name.to_be_bytes());
        (0..KEYS).for_each(|name| assert!(take(&ledger, key(name), &was, 30)));
        let barrier = Barrier::new(2);
        let charge_all = || {
            for name in 0..KEYS {
                if name.is_multiple_of(64) {
                    barrier.wait();
                }
                ledger.carry_over(key(name), &was, &becomes, NOW);
                ledger.decide(&Charge::take(key(name), &becomes, Cost::ONE), NOW);
            }
        };
        thread::scope(|scope| {
            scope.spawn(charge_all);
            scope.spawn(charge_all);
        });
        let wrong = (0..KEYS).filter(|&name| ledger.used(key(name), &becomes, NOW) != 32).count();
        assert_eq!(wrong, 0, "keys that have not used 30 + 1 + 1");
    }

    #[test]
    fn holds_start_anew_because_nobody_has_their_names() {
        let concurrency = Limit::from(Concurrency::new(5, Span::from_ticks(MINUTE)).unwrap());
        let ledger = ledger();
        let key = ledger.key(b"k");
        assert!(take(&ledger, key, &bucket(100), 30));
        ledger.carry_over(key, &bucket(100), &concurrency, NOW);
        assert_eq!(ledger.used(key, &concurrency, NOW), 0);
    }

    #[test]
    fn a_blocked_limit_keeps_what_was_used_for_the_next() {
        let (ledger, window) = (ledger(), Limit::from(SlidingWindow::new(rate(100))));
        let key = ledger.key(b"k");
        assert!(take(&ledger, key, &bucket(100), 30));
        ledger.carry_over(key, &bucket(100), &Limit::from(Blocked), NOW);
        ledger.carry_over(key, &bucket(100), &window, NOW);
        assert_eq!(ledger.used(key, &window, NOW), 30);
    }

    #[test]
    fn nobody_finds_a_key_unused_that_is_being_carried_over() {
        const KEYS: u64 = 50_000;
        let (ledger, was, becomes) = (ledger(), bucket(100), Limit::from(SlidingWindow::new(rate(100))));
        let key = |name: u64| ledger.key(&name.to_be_bytes());
        (0..KEYS).for_each(|name| assert!(take(&ledger, key(name), &was, 100)));
        let barrier = Barrier::new(2);
        let admitted = || {
            let pass = |name: &u64| {
                if name.is_multiple_of(64) {
                    barrier.wait();
                }
                ledger.carry_over(key(*name), &was, &becomes, NOW);
                take(&ledger, key(*name), &becomes, 1)
            };
            (0..KEYS).filter(pass).count()
        };
        let admitted: usize = thread::scope(|scope| {
            let threads = [scope.spawn(admitted), scope.spawn(admitted)];
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(admitted, 0, "requests on keys that had nothing left");
    }

    #[test]
    fn a_window_that_no_longer_packs_takes_its_count_along() {
        let ledger = ledger();
        let key = ledger.key(b"k");
        let (packed, whole) =
            (Limit::from(FixedWindow::new(rate(10))), Limit::from(FixedWindow::new(rate(1 << 40))));
        assert!(packed.packs() && !whole.packs() && packed.shape() == whole.shape());
        assert!(take(&ledger, key, &packed, 10));
        ledger.carry_over(key, &packed, &whole, NOW);
        assert_eq!(ledger.used(key, &whole, NOW), 10);
    }
}

mod all_or_nothing {
    use super::*;

    struct Request {
        ledger: Ledger,
        limits: [Limit; 3],
    }

    impl Request {
        fn new(limits: [Limit; 3]) -> Request {
            Request { ledger: ledger(), limits }
        }

        fn key(&self, index: usize) -> Key {
            self.ledger.key(&[u8::try_from(index).unwrap()])
        }

        fn charges(&self, units: [u64; 3]) -> [Charge<'_>; 3] {
            std::array::from_fn(|i| Charge::take(self.key(i), &self.limits[i], Cost::new(units[i])))
        }

        fn check(&self, charges: &[Charge<'_>], passes: bool, used: [u64; 3]) -> Vec<Decision> {
            let mut decisions = Vec::new();
            assert_eq!(self.ledger.decide_all(charges, NOW, &mut decisions), passes);
            assert_eq!(decisions.len(), charges.len());
            let now_used = std::array::from_fn(|i| self.ledger.used(self.key(i), &self.limits[i], NOW));
            assert_eq!(now_used, used);
            decisions
        }
    }

    #[test]
    fn a_denied_request_consumes_nothing_anywhere() {
        let request = Request::new([bucket(10), sub_windows(2), SlidingWindow::new(rate(10)).into()]);
        request.check(&request.charges([1, 1, 1]), true, [1, 1, 1]);
        request.check(&request.charges([3, 1, 2]), true, [4, 2, 3]);
        let decisions = request.check(&request.charges([1, 1, 1]), false, [4, 2, 3]);
        let allowed: Vec<_> = decisions.iter().map(Decision::is_allowed).collect();
        assert_eq!(allowed, [true, false, true]);
        assert_eq!(decisions[0].remaining, 6, "what is left when nothing was taken");
    }

    #[test]
    fn a_shadow_counts_with_the_others_and_stops_nothing() {
        let request = Request::new([bucket(5), bucket(2), bucket(9)]);
        let mut charges = request.charges([1, 1, 1]);
        charges[1].shadow = true;
        request.check(&charges, true, [1, 1, 1]);
        request.check(&charges, true, [2, 2, 2]);
        let over = request.check(&charges, true, [3, 2, 3]);
        assert!(!over[1].is_allowed(), "the shadow says what it would have done");
        request.check(&request.charges([2, 0, 0]), true, [5, 2, 3]);
        // Denied by another: the shadow does not count a request that did not pass.
        request.ledger.reset(request.key(1), &request.limits[1]);
        request.check(&charges, false, [5, 0, 3]);
    }

    #[test]
    fn a_booking_stays_whatever_the_others_say() {
        let request = Request::new([bucket(5), bucket(5), bucket(5)]);
        let mut charges = request.charges([7, 1, 1]);
        charges[0].intent = Intent::Book;
        let decisions = request.check(&charges, false, [7, 0, 0]);
        assert_eq!(decisions[0].outcome, Outcome::Never, "seven of five");

        let mut charges = request.charges([0, 3, 6]);
        charges[0].cost = Cost::ZERO;
        charges[1].intent = Intent::Book;
        request.check(&charges[1..], false, [7, 3, 0]);
    }

    #[test]
    fn one_key_twice_in_a_request_is_counted_twice_or_not_at_all() {
        let request = Request::new([bucket(3), bucket(3), bucket(3)]);
        let twice = [request.charges([2, 0, 0])[0]; 2];
        request.check(&twice, false, [0, 0, 0]);
        let twice = [request.charges([1, 0, 0])[0]; 2];
        request.check(&twice, true, [2, 0, 0]);
    }

    #[test]
    fn the_moment_it_promises_comes() {
        let second = Span::from_ticks(1_000_000_000);
        let bucket = |burst| Limit::from(TokenBucket::new(Rate::new(1, second).unwrap(), burst).unwrap());
        let (ledger, large, small) = (ledger(), bucket(1_000), bucket(1));
        let key = ledger.key(b"k");
        assert!(take(&ledger, key, &large, 1_000));
        let (charges, mut decisions) = ([Charge::take(key, &small, Cost::ONE)], Vec::new());
        assert!(!ledger.decide_all(&charges, NOW, &mut decisions));
        let retry_after = decisions[0].retry_after().unwrap();
        assert!(ledger.decide_all(&charges, later(retry_after.ticks()), &mut decisions), "{decisions:?}");
    }

    #[test]
    fn holds_are_named_and_a_denied_request_holds_nothing() {
        let concurrency = Limit::from(Concurrency::new(5, Span::from_ticks(MINUTE)).unwrap());
        let request = Request::new([concurrency.clone(), bucket(2), bucket(9)]);
        let (mut decisions, mut holders) = (Vec::new(), Vec::new());
        let mut acquire = |units| {
            let passes =
                request.ledger.acquire_all(&request.charges(units), NOW, &mut decisions, &mut holders);
            (passes, holders.clone())
        };
        let (passes, held) = acquire([1, 1, 1]);
        assert!(passes && held.len() == 3 && held[1].is_none());
        assert!(!acquire([1, 2, 1]).0);
        request.check(&[], true, [1, 1, 1]);
        assert!(request.ledger.release(request.key(0), &concurrency, held[0].unwrap(), NOW));
        request.check(&[], true, [0, 1, 1]);
    }

    /// Both charges are on one key, so the probe admits each and the second take fails: the first hold is given back, and
    /// not one that somebody else acquired later.
    #[test]
    fn a_lost_race_gives_back_its_own_hold() {
        let concurrency = Limit::from(Concurrency::new(5, Span::from_ticks(MINUTE)).unwrap());
        let request = Request::new([concurrency.clone(), bucket(2), bucket(9)]);
        let (_, other) = request.ledger.acquire(request.key(0), &concurrency, Cost::ONE, later(1));
        let twice = [request.charges([3, 0, 0])[0]; 2];
        request.check(&twice, false, [1, 0, 0]);
        assert!(request.ledger.release(request.key(0), &concurrency, other.unwrap(), later(2)));
    }

    #[test]
    fn no_charges_pass() {
        let request = Request::new([bucket(1), bucket(1), bucket(1)]);
        request.check(&[], true, [0, 0, 0]);
    }

    /// Two threads want pairs of three keys. However they race, what each key has given is what was admitted on it.
    #[test]
    fn races_never_admit_more_than_there_is() {
        const UNITS: u64 = 2_000;
        let ledger = ledger();
        let limit = bucket(UNITS);
        let keys: [Key; 3] = [b"a", b"b", b"c"].map(|name| ledger.key(name));
        let (admitted, barrier) = (AtomicU64::new(0), Barrier::new(2));
        let ask = |first: usize| {
            let pairs = [[keys[first], keys[(first + 1) % 3]], [keys[(first + 2) % 3], keys[first]]];
            let mut decisions = Vec::new();
            barrier.wait();
            for round in 0..2 * 2_000 {
                let charges = pairs[round % 2].map(|key| Charge::take(key, &limit, Cost::ONE));
                let passes = ledger.decide_all(&charges, NOW, &mut decisions);
                admitted.fetch_add(u64::from(passes), Ordering::Relaxed);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| ask(0));
            scope.spawn(|| ask(1));
        });
        let used: Vec<_> = keys.iter().map(|&key| ledger.used(key, &limit, NOW)).collect();
        assert!(used.iter().all(|&units| units <= UNITS), "{used:?}");
        assert_eq!(used.iter().sum::<u64>(), 2 * admitted.load(Ordering::Relaxed), "{used:?}");
    }
}

mod holders {
    use super::*;

    #[test]
    fn are_released_once_and_by_name() {
        let ledger = ledger();
        let limit = Limit::from(Concurrency::new(2, Span::from_ticks(MINUTE)).unwrap());
        let key = ledger.key(b"k");
        let (_, first) = ledger.acquire(key, &limit, Cost::ONE, NOW);
        let (_, second) = ledger.acquire(key, &limit, Cost::ONE, NOW);
        let (denied, nobody) = ledger.acquire(key, &limit, Cost::ONE, NOW);
        assert_eq!((denied.outcome, nobody), (Outcome::Busy, None));
        assert!(ledger.release(key, &limit, first.unwrap(), NOW));
        assert!(!ledger.release(key, &limit, first.unwrap(), NOW));
        assert!(ledger.acquire(key, &limit, Cost::ONE, NOW).0.is_allowed());
        assert_ne!(first, second);
    }

    #[test]
    fn that_crashed_let_go_at_their_deadline() {
        let ledger = ledger();
        let limit = Limit::from(Concurrency::new(1, Span::from_ticks(MINUTE)).unwrap());
        let key = ledger.key(b"k");
        let (_, crashed) = ledger.acquire(key, &limit, Cost::ONE, NOW);
        assert!(!ledger.acquire(key, &limit, Cost::ONE, later(MINUTE - 1)).0.is_allowed());
        let (_, next) = ledger.acquire(key, &limit, Cost::ONE, later(MINUTE));
        assert!(!ledger.release(key, &limit, crashed.unwrap(), later(MINUTE)));
        assert!(ledger.release(key, &limit, next.unwrap(), later(MINUTE)));
    }

    #[test]
    fn of_other_limits_have_nothing_to_release() {
        let ledger = ledger();
        let (key, limit) = (ledger.key(b"k"), bucket(1));
        let (decision, holder) = ledger.acquire(key, &limit, Cost::ONE, NOW);
        assert!(decision.is_allowed() && holder.is_none());
        assert!(!ledger.release(key, &limit, Holder::from_number(1), NOW));
    }
}

mod whole_states {
    use super::*;

    fn log(units: u64) -> Limit {
        SlidingLog::new(rate(units)).unwrap().into()
    }

    #[test]
    fn that_are_idle_are_forgotten_along_the_way() {
        let ledger = ledger();
        let limit = log(3);
        for name in 0..100_000_u64 {
            // A thousand keys per period.
            let now = later(name * MINUTE / 1_000);
            ledger.decide(&Charge::take(ledger.key(&name.to_be_bytes()), &limit, Cost::ONE), now);
        }
        let stats = ledger.stats();
        assert!(stats.keys < 5_000, "{stats:?}");
        assert_eq!(stats.evicted, 0);
        (0..2 * 1_024).for_each(|_| ledger.tend(later(1_000 * MINUTE)));
        assert_eq!(ledger.stats().keys, 0);
    }

    #[test]
    fn stay_within_their_part_of_the_cap() {
        let wholes_bytes = 1 << 20;
        let settings = LedgerSettings { wholes_bytes, ..LedgerSettings::with_cap(4 << 20) };
        let ledger = Ledger::new(settings).unwrap();
        let limit = log(1_000);
        let hot = ledger.key(b"hot");
        for name in 0..20_000_u64 {
            ledger.decide(&Charge::take(ledger.key(&name.to_be_bytes()), &limit, Cost::ONE), later(name));
            let tick = later(MINUTE + name);
            assert!(ledger.decide(&Charge::take(hot, &limit, Cost::ZERO), tick).is_allowed());
        }
        let stats = ledger.stats();
        assert!(stats.evicted + stats.reclaimed > 10_000, "{stats:?}");
        assert!(ledger.rules.wholes.stats().bytes <= wholes_bytes);
    }

    /// One key grows by half a megabyte at once, and thousands of small ones have to make room for it.
    #[test]
    fn stay_within_it_when_one_of_them_grows_and_others_are_reset() {
        let wholes_bytes = 4 << 20;
        let settings = LedgerSettings { wholes_bytes, ..LedgerSettings::with_cap(16 << 20) };
        let ledger = Ledger::new(settings).unwrap();
        let limit = log(1 << 16);
        let key = |name: u64| ledger.key(&name.to_be_bytes());
        for name in 0..40_000 {
            ledger.decide(&Charge::take(key(name), &limit, Cost::ONE), later(name));
        }
        for tick in 0..1 << 16 {
            ledger.decide(&Charge::take(ledger.key(b"hot"), &limit, Cost::ONE), later(40_000 + tick));
        }
        assert!(ledger.rules.wholes.stats().bytes <= wholes_bytes);
        for name in 0..40_000 {
            ledger.reset(key(name), &limit);
        }
        ledger.tend(later(40_000));
        assert!(ledger.rules.wholes.stats().bytes <= wholes_bytes);
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let too_large = LedgerSettings { wholes_bytes: 2 << 20, ..LedgerSettings::with_cap(1 << 20) };
    let message = Ledger::new(too_large).err().unwrap().to_string();
    assert_eq!(
        message,
        "2097152 bytes for whole states and 262144 for callers' own limits do not fit into a cap of 1048576 bytes"
    );
    let too_small = LedgerSettings { wholes_bytes: 0, ..LedgerSettings::with_cap(400 << 10) };
    assert!(matches!(Ledger::new(too_small), Err(LedgerError::CapTooSmall { .. })));
    assert!(Ledger::new(LedgerSettings::with_cap(640 << 10)).is_ok());
}
