//! The twins in Lua against `core` at the same tick, where no oracle goes: time that steps back, states of larger limits, lists of
//! asks, keys with a jitter.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use std::cell::RefCell;
use std::rc::Rc;

use tollgate_core::{
    Ask, Calendar, CalendarUnit, Concurrency, Cost, FixedWindow, Intent, LeakyBucket, LeakyQueue, LeaseRest,
    Limit, OldestCounts, Refund, SharedLimit, SlidingLog, SlidingWindow, Span, SubWindows, Tick, Time,
    TokenBucket, Verb, Windows,
};
use tollgate_testkit::real::redis::{Counter, RedisServer, ScriptCaller, Scripts};
use tollgate_testkit::{Act, Gap, Spec, Step, Subject, Timeline, Trace, Units};

mod common;
use common::{at, rate};

const TICK: Tick = Tick::MICROSECOND;
const NOON: u64 = 1_700_000_000_000_000;

/// A spec of every kind for each seed, as far as scripts can have it, and a history.
fn histories(seeds: u64) -> impl Iterator<Item = (Spec, Limit, Trace)> {
    let timeline = Timeline::shared(TICK);
    (0..seeds).flat_map(move |seed| {
        Spec::drawn_on(timeline, seed).into_iter().filter_map(move |spec| {
            let limit = spec.try_limit().ok()?;
            SharedLimit::in_ticks(limit.clone(), TICK).ok()?;
            Some((spec, limit, Trace::seeded(timeline, seed, 40)))
        })
    })
}

fn gap_ticks(spec: &Spec, gap: Gap) -> u64 {
    match gap {
        Gap::Still | Gap::Promise(_) => 0,
        Gap::Ticks(ticks) => ticks,
        Gap::Beat(parts) => (u128::from(spec.beat()) * u128::from(parts) / 64).try_into().unwrap(),
        Gap::Edge(_) | Gap::Reset(_) => spec.beat(),
        Gap::Idle(more) => spec.memory().saturating_add(more),
    }
}

fn units(spec: &Spec, units: Units) -> u64 {
    match units {
        Units::Plain(units) => units,
        Units::Share(parts) => (spec.cost_max() / 64).saturating_mul(parts).max(1),
        Units::All(more) | Units::Remaining(more) => spec.cost_max().saturating_add(more),
        Units::Max => u64::MAX,
    }
}

/// The ask of a step as a script gets it.
fn ask(spec: &Spec, step: &Step, now: u64) -> (Verb, u64, u64) {
    match step.act {
        Act::Ask(cost, Intent::Peek) => (Verb::Peek, units(spec, cost), 0),
        Act::Ask(cost, Intent::Take) => (Verb::Take, units(spec, cost), 0),
        Act::Ask(cost, Intent::Book) => (Verb::Book, units(spec, cost), 0),
        Act::GiveBack(back, ago) => {
            (Verb::GiveBack, units(spec, back), now.saturating_sub(spec.beat() * ago as u64 / 2))
        }
    }
}

#[test]
fn time_may_step_back() {
    let server = RedisServer::start();
    let caller = Rc::new(RefCell::new(ScriptCaller::new(server.client())));
    for (spec, limit, trace) in histories(60) {
        let mut scripts = Scripts::new(&caller, TICK);
        let mut now = trace.start.ticks();
        for (number, step) in trace.steps.iter().enumerate() {
            let gap = gap_ticks(&spec, step.gap);
            // Every third step goes back.
            now = if number % 3 == 2 { now.saturating_sub(gap) } else { now.saturating_add(gap) };
            now = now.min(trace.end.ticks());
            match step.act {
                Act::Ask(cost, intent) => {
                    let ask = Ask { cost: Cost::new(units(&spec, cost)), now: at(now), intent };
                    let [got, expected] = scripts.decide_beside_core(b"key", &limit, ask);
                    assert_eq!(got, expected, "{spec:?}: step {number}, {ask:?} of {trace:?}");
                }
                // What has expired is forgotten by a script when units are given back, and by `core` when they are taken.
                Act::GiveBack(..) if matches!(limit, Limit::SlidingLog(_) | Limit::Concurrency(_)) => {}
                // Of the window that is open: what belongs to one that is past, a script leaves alone.
                Act::GiveBack(back, _) => {
                    let units = units(&spec, back);
                    let is_bucket =
                        matches!(limit, Limit::TokenBucket(_) | Limit::LeakyBucket(_) | Limit::LeakyQueue(_));
                    let refund = match number % 2 {
                        1 if is_bucket => Refund::undo(units, at(now.saturating_sub(gap)), at(now)),
                        _ => Refund::at_once(units, at(now)),
                    };
                    scripts.give_back(b"key", &limit, refund);
                }
            }
        }
    }
}

/// Clocks that are set back by far more than a limit remembers, and forward again.
#[test]
fn clocks_may_be_set_back_by_far() {
    let server = RedisServer::start();
    let caller = Rc::new(RefCell::new(ScriptCaller::new(server.client())));
    let limits: [Limit; 2] = [
        SlidingLog::new(rate(6, 60_000)).unwrap().into(),
        Concurrency::new(6, Span::from_ticks(60_000)).unwrap().into(),
    ];
    // How far time goes on, and back, between two asks.
    let steps = [0, 10_000, 70_000, -3_600_000, 1_000, -50_000, 30_000, -130_000, 61_000, -65_000, 3_600_000];
    for limit in limits {
        for seed in 0..200_usize {
            let mut scripts = Scripts::new(&caller, TICK);
            let mut now = NOON;
            for step in 0..30 {
                let pick = (seed * 7 + step * step * 5 + seed * step * 3) % 1_009;
                now = now.saturating_add_signed(steps[pick % steps.len()]);
                let intent = [Intent::Take, Intent::Take, Intent::Peek, Intent::Book][pick % 4];
                let ask = Ask { cost: Cost::new(pick as u64 / 4 % 4), now: at(now), intent };
                let [got, expected] = scripts.decide_beside_core(b"key", &limit, ask);
                assert_eq!(got, expected, "{limit:?}: seed {seed}, step {step}, {ask:?}");
            }
        }
    }
}

/// A list of asks gets what single calls at that instant would, and several keys in one call what each would alone.
#[test]
fn lists_are_answered_like_single_calls() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    for (number, (spec, limit, trace)) in histories(40).enumerate() {
        let shared = SharedLimit::in_ticks(limit, TICK).unwrap();
        if shared.script().is_none() {
            continue;
        }
        let names = ["single", "list", "other"].map(|name| format!("{name}:{number}").into_bytes());
        let mut now = trace.start.ticks();
        for steps in trace.steps.chunks(7) {
            now = now.saturating_add(gap_ticks(&spec, steps[0].gap)).min(trace.end.ticks());
            let mut asks: Vec<_> = steps.iter().map(|step| ask(&spec, step, now)).collect();
            if steps[0].key == 2 {
                asks.insert(asks.len() / 2, (Verb::Reset, 0, 0));
            }
            asks.insert(asks.len() / 3, (Verb::Release, 0, now + 1));
            let counter = |key: usize, asks| Counter {
                key: &names[key],
                limit: &shared,
                key_hash: 0,
                around: at(now),
                asks,
            };
            let listed = caller.call(Some(now), &[counter(2, &asks), counter(1, &asks)]);
            let single: Vec<_> =
                asks.chunks(1).flat_map(|ask| caller.call(Some(now), &[counter(0, ask)])).collect();
            let (other, list) = listed.split_at(asks.len());
            assert_eq!(list, single, "{spec:?}: {asks:?} at {now}");
            assert_eq!(other, single, "{spec:?}: {asks:?} at {now}, first of two keys");
        }
    }
}

/// A state of a larger limit is read with the numbers of this one, and trimmed as `core` does.
#[test]
fn states_of_larger_limits_are_trimmed() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    let pairs: [fn(u64) -> Limit; 6] = [
        |units| TokenBucket::new(rate(1, 1_000), units).unwrap().into(),
        |units| FixedWindow::new(rate(units, 60_000)).into(),
        |units| SlidingWindow::new(rate(units, 60_000)).into(),
        |units| SubWindows::new(rate(units, 60_000), 6, OldestCounts::ByOverlap).unwrap().into(),
        |units| SlidingLog::new(rate(units, 60_000)).unwrap().into(),
        |units| Concurrency::new(units, Span::from_ticks(60_000)).unwrap().into(),
    ];
    for make in pairs {
        let [large, small] = [50, 3].map(|units| SharedLimit::in_ticks(make(units), TICK).unwrap());
        let key = large.limit().algorithm().as_bytes();
        let mut state = large.limit().fresh();
        let (take, peek, book) =
            ((Verb::Take, Intent::Take), (Verb::Peek, Intent::Peek), (Verb::Book, Intent::Book));
        let steps = [(take, 45), (take, 1), (peek, 1), (book, 1), (take, 0)];
        for (number, ((verb, intent), units)) in steps.into_iter().enumerate() {
            let (now, shared) = (NOON + 7_000 * number as u64, if number == 0 { &large } else { &small });
            let asks = [(verb, units, 0)];
            let counter = Counter { key, limit: shared, key_hash: 0, around: at(now), asks: &asks };
            let [_, span, remaining, reset_after] = caller.call(Some(now), &[counter])[0];
            let ask = Ask { cost: Cost::new(units), now: at(now), intent };
            let expected = shared.limit().decide(&mut state, ask);
            let what = format!("{:?}: {verb:?} {units} after {number} steps", shared.limit());
            assert_eq!(u64::try_from(remaining).unwrap(), expected.remaining, "{what}");
            let retry_after = expected.retry_after().map_or(0, Span::ticks);
            if !expected.is_allowed() {
                assert_eq!(u64::try_from(span).unwrap(), retry_after, "{what}");
            }
            let reset_expected = expected.reset_after.map_or(-1, |span| span.ticks().cast_signed());
            assert_eq!(reset_after, reset_expected, "{what}");
        }
    }
}

/// The windows of a key with a jitter begin where its clock in `core` says, and what it gives back is found there.
#[test]
fn keys_with_a_jitter_have_clocks_of_their_own() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    let limits: [Limit; 3] = [
        FixedWindow::new(rate(5, 60_000)).jittered().into(),
        SlidingWindow::new(rate(5, 60_000)).jittered().into(),
        SubWindows::new(rate(5, 60_000), 4, OldestCounts::Whole).unwrap().jittered().into(),
    ];
    for limit in limits {
        let shared = SharedLimit::in_ticks(limit, TICK).unwrap();
        for key_hash in [0, 17, 59_999, 60_000, 0x9e37_79b9_7f4a_7c15] {
            let key = format!("{}:{key_hash}", shared.limit().algorithm()).into_bytes();
            let mut state = shared.limit().fresh();
            for (number, now) in (NOON..NOON + 200_000).step_by(9_000).enumerate() {
                let clock = |now| shared.limit().key_time(key_hash, at(now));
                let counted_at = now - 9_000;
                let asks = [(Verb::Take, 1, 0), (Verb::GiveBack, (number % 3 / 2) as u64, counted_at)];
                let counter = Counter { key: &key, limit: &shared, key_hash, around: at(now), asks: &asks };
                let answer = caller.call(Some(now), &[counter])[0];
                let expected = shared.limit().decide(&mut state, Ask::take(Cost::ONE, clock(now)));
                let refund =
                    Refund { counted_at: clock(counted_at), ..Refund::at_once(asks[1].1, clock(now)) };
                shared.limit().give_back(&mut state, refund);
                let got = (answer[0] == 0, answer[2], answer[3]);
                let reset_after = expected.reset_after.unwrap().ticks().cast_signed();
                let expected = (expected.is_allowed(), expected.remaining.cast_signed(), reset_after);
                assert_eq!(got, expected, "{:?} of {key_hash} at {now}", shared.limit());
            }
        }
    }
}

/// Boundaries around another time than that of Redis: nothing is done, and it is said.
#[test]
fn a_calendar_is_asked_again_where_its_windows_are_unknown() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    let calendar = Calendar::new(CalendarUnit::Day, "Europe/Berlin", TICK).unwrap();
    let windows = Windows::Calendar(calendar.clone());
    let shared = SharedLimit::in_ticks(FixedWindow::in_windows(2, windows).unwrap().into(), TICK).unwrap();
    let today = calendar.at(at(NOON));
    let tomorrow = calendar.at(today.end);
    let mut call = |around: Time, now: Time| {
        let asks = [(Verb::Take, 1, 0)];
        let counter = Counter { key: b"quota", limit: &shared, key_hash: 0, around, asks: &asks };
        caller.call(Some(now.ticks()), &[counter])[0]
    };
    let next_week = at(NOON + 7 * 86_400_000_000);
    let moment_before = |time: Time| at(time.ticks() - 1);
    // The asker's clock is far ahead or far behind.
    assert_eq!(call(next_week, at(NOON)), [4, 0, 0, -1]);
    assert_eq!(call(at(NOON), next_week), [4, 0, 0, -1]);
    assert_eq!(call(at(NOON), tomorrow.end), [4, 0, 0, -1]);
    // It is off by a day at most, and that makes no difference.
    let left = today.end.since(at(NOON)).ticks().cast_signed();
    assert_eq!(call(today.end, at(NOON)), [0, 0, 1, left], "nothing was taken before");
    assert_eq!(call(moment_before(today.start), at(NOON)), [0, 0, 0, left]);
    assert_eq!(call(at(NOON), moment_before(today.end)), [1, 1, 0, 1]);
    let day = tomorrow.end.since(today.end).ticks().cast_signed();
    assert_eq!(call(at(NOON), today.end), [0, 0, 1, day]);
    assert_eq!(call(tomorrow.end, moment_before(tomorrow.end)), [0, 0, 0, 1]);
}

/// Blocks of units: as many as `core` grants, of every algorithm that grants any, between other asks.
#[test]
fn leases_are_granted_as_in_core() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    let mut granted_in_all = 0;
    for (number, (spec, limit, trace)) in histories(60).enumerate() {
        if !limit.is_leasable() {
            continue;
        }
        let shared = SharedLimit::in_ticks(limit.clone(), TICK).unwrap();
        let (key, mut state, mut now) = (format!("{number}"), limit.fresh(), trace.start.ticks());
        for (step_number, step) in trace.steps.iter().enumerate() {
            now = now.saturating_add(gap_ticks(&spec, step.gap)).min(trace.end.ticks());
            let (_, wanted, _) = ask(&spec, step, now);
            let wanted = shared.clamp(wanted);
            let nodes = [1, 2, 3, 64][step_number % 4];
            let is_lease = step_number % 3 != 2;
            let ask = if is_lease { (Verb::Lease, wanted, nodes) } else { (Verb::Take, wanted, 0) };
            let counter =
                Counter { key: key.as_bytes(), limit: &shared, key_hash: 0, around: at(now), asks: &[ask] };
            let numbers = caller.call(Some(now), &[counter])[0];
            let (expected, expected_units) = if is_lease {
                limit.lease(&mut state, wanted, nodes, at(now))
            } else {
                (limit.decide(&mut state, Ask::take(Cost::new(wanted), at(now))), 0)
            };
            let (answer, units) = if is_lease {
                shared.lease_answer(numbers).unwrap()
            } else {
                (shared.answer(numbers).unwrap(), 0)
            };
            let tollgate_core::Answer::Decided { decision, .. } = answer else { panic!("no window") };
            let what =
                format!("{spec:?}: step {step_number}, {ask:?} at {now}: {numbers:?} for {expected:?}");
            assert_eq!(units, expected_units, "{what}");
            assert_eq!(decision.remaining, expected.remaining, "{what}");
            assert_eq!(decision.is_allowed(), expected.is_allowed(), "{what}");
            let retry_ns = expected.retry_after().map(|span| span.ticks() * TICK.length_ns());
            assert_eq!(decision.retry_after().map(Span::ticks), retry_ns, "{what}");
            granted_in_all += units;
        }
    }
    assert!(granted_in_all > 10_000, "blocks are granted: {granted_in_all}");
}

/// A limit of ten of every kind that can be leased.
fn leasable() -> impl Iterator<Item = SharedLimit> {
    let limits: [Limit; 5] = [
        TokenBucket::new(rate(1, 1_000_000), 10).unwrap().into(),
        FixedWindow::new(rate(10, 60_000_000)).into(),
        SlidingWindow::new(rate(10, 60_000_000)).into(),
        SubWindows::new(rate(10, 60_000_000), 6, OldestCounts::Whole).unwrap().into(),
        SlidingLog::new(rate(10, 60_000_000)).unwrap().into(),
    ];
    limits.into_iter().map(|limit| SharedLimit::in_ticks(limit, TICK).unwrap())
}

/// What is left of a lease comes back once, and not after its deadline.
#[test]
fn a_lease_is_returned_once_and_in_time() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    for shared in leasable() {
        let name = shared.limit().algorithm();
        let mut remaining_after = |now: u64, ask: Result<(Verb, u64, u64), LeaseRest>| {
            caller.call_mixed((now, now), name.as_bytes(), &shared, ask)
        };
        assert_eq!(remaining_after(NOON, Ok((Verb::Lease, 8, 1)))[1..3], [8, 2], "{name}");
        let rest =
            |units, number| LeaseRest { units, counted_at: at(NOON), deadline: at(NOON + 5_000), number };
        assert_eq!(remaining_after(NOON + 10, Err(rest(3, 7)))[..3], [0, 0, 5], "{name}");
        assert_eq!(remaining_after(NOON + 20, Err(rest(3, 7)))[..3], [2, 0, 5], "{name}: a second time");
        assert_eq!(remaining_after(NOON + 30, Err(rest(2, 8)))[..3], [0, 0, 7], "{name}: another one");
        assert_eq!(remaining_after(NOON + 5_001, Err(rest(1, 9)))[..3], [2, 0, 7], "{name}: too late");
        assert_eq!(remaining_after(NOON + 5_000, Err(rest(1, 9)))[..3], [0, 0, 8], "{name}: just in time");
    }
}

/// Of a log, only what is still its newest entry is undone, in the script as in `core`.
#[test]
fn a_log_undoes_its_newest_entry_alone() {
    let server = RedisServer::start();
    let caller = Rc::new(RefCell::new(ScriptCaller::new(server.client())));
    let limit = Limit::from(SlidingLog::new(rate(10, 60_000_000)).unwrap());
    let check = |others_take: bool, remaining: u64| {
        let mut scripts = Scripts::new(&caller, TICK);
        let mut ask = |ask: Ask| {
            let [got, expected] = scripts.decide_beside_core(b"key", &limit, ask);
            assert_eq!(got, expected, "{ask:?}");
            got.remaining
        };
        assert_eq!(ask(Ask::take(Cost::new(4), at(NOON))), 6);
        if others_take {
            assert_eq!(ask(Ask::take(Cost::new(3), at(NOON + 10))), 3);
        }
        scripts.give_back(b"key", &limit, Refund::undo(4, at(NOON), at(NOON + 20)));
        let peek = Ask::peek(Cost::ZERO, at(NOON + 30));
        let [got, expected] = scripts.decide_beside_core(b"key", &limit, peek);
        assert_eq!((got, got.remaining), (expected, remaining));
    };
    check(false, 10);
    check(true, 3);
}

/// Who gives back may still know an older limit: smaller, or one that looks less far back. Nothing that was counted under the new one is lost, as in `core`.
#[test]
fn giving_back_under_an_older_limit_forgets_nothing() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    let sub_windows = |units, count: u64| -> Limit {
        SubWindows::new(rate(units, 10_000 * count), u32::try_from(count).unwrap(), OldestCounts::Whole)
            .unwrap()
            .into()
    };
    let bucket = |burst| -> Limit { TokenBucket::new(rate(1, 1_000_000), burst).unwrap().into() };
    let leaky = |size| -> Limit { LeakyBucket::new(rate(1, 1_000_000), size).unwrap().into() };
    let log = |units, period| -> Limit { SlidingLog::new(rate(units, period)).unwrap().into() };
    let pairs: [(Limit, Limit); 8] = [
        (bucket(5), bucket(100)),
        (leaky(5), leaky(100)),
        (FixedWindow::new(rate(5, 60_000)).into(), FixedWindow::new(rate(100, 60_000)).into()),
        (SlidingWindow::new(rate(5, 60_000)).into(), SlidingWindow::new(rate(100, 60_000)).into()),
        (sub_windows(5, 6), sub_windows(100, 6)),
        (sub_windows(5, 2), sub_windows(100, 6)),
        (log(5, 60_000), log(100, 60_000)),
        (log(5, 20_000), log(100, 60_000)),
    ];
    for (number, (old, new)) in pairs.into_iter().enumerate() {
        let [old, new] = [old, new].map(|limit| SharedLimit::in_ticks(limit, TICK).unwrap());
        let (key, noon) = (format!("{number}"), NOON - NOON % 60_000);
        let mut call = |limit: &SharedLimit, now: u64, ask: (Verb, u64, u64)| {
            let asks = [ask];
            let counter = Counter { key: key.as_bytes(), limit, key_hash: 0, around: at(now), asks: &asks };
            caller.call(Some(now), &[counter])[0]
        };
        assert_eq!(call(&new, noon, (Verb::Take, 50, 0))[0], 0);
        let later = noon + 31_000; // So old that who looks less far back does not count it.
        let before = call(&new, later, (Verb::Peek, 0, 0))[2];
        assert_eq!(call(&new, later, (Verb::Take, 40, 0))[0], 0);
        let counted_at = old.refund_moment(at(later), false);
        assert_eq!(call(&old, later, (Verb::GiveBack, 3, counted_at))[0], 0);
        let after = call(&new, later, (Verb::Peek, 0, 0))[2];
        assert_eq!(after, before - 37, "{:?}: of {before}, 40 were taken and 3 given back", new.limit());
    }
}

/// What was counted before a key was reset does not come back to what others have counted since; and it is known all the same that it came. A queue is
/// not leased, but what was reserved of it comes back in the same way.
#[test]
fn nothing_comes_back_to_a_count_that_has_forgotten_it() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    let queue = LeakyQueue::new(rate(10, 10_000_000), Span::from_ticks(60_000_000)).unwrap();
    let queue = SharedLimit::in_ticks(queue.into(), TICK).unwrap();
    for shared in leasable().chain([queue]) {
        let name = shared.limit().algorithm();
        let mut ask = |now: u64, ask: Result<(Verb, u64, u64), LeaseRest>| {
            caller.call_mixed((now, now), name.as_bytes(), &shared, ask)
        };
        let fresh = ask(NOON, Ok((Verb::Peek, 0, 0)))[2];
        assert_eq!(ask(NOON, Ok((Verb::Take, 4, 0)))[0], 0, "{name}");
        assert_eq!(ask(NOON + 10, Ok((Verb::Reset, 0, 0)))[2], fresh, "{name}");
        assert_eq!(ask(NOON + 20, Ok((Verb::Take, 8, 0)))[0], 0, "{name}");
        let rest = |number, counted_at| LeaseRest {
            units: 3,
            counted_at: at(counted_at),
            deadline: at(NOON + 5_000),
            number,
        };
        let left = ask(NOON + 30, Ok((Verb::Peek, 0, 0)))[2];
        assert_eq!(ask(NOON + 30, Err(rest(7, NOON)))[..3], [0, 0, left], "{name}: from before");
        assert_eq!(ask(NOON + 30, Err(rest(7, NOON)))[..3], [2, 0, left], "{name}: a second time");
        assert_eq!(ask(NOON + 30, Err(rest(8, NOON + 20)))[..3], [0, 0, left + 3], "{name}: from after");
    }
}
