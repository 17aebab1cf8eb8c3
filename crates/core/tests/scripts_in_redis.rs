//! What the scripts do to a Redis: its time is used, what they write expires, and what is wrong changes nothing.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use tollgate_core::{
    Ask, Calendar, CalendarUnit, Concurrency, Cost, FixedWindow, LeakyBucket, LeakyQueue, LeaseRest, Limit,
    OldestCounts, Outcome, Script, SettleChange, SettleOnce, SharedLimit, SlidingLog, SlidingWindow, Span,
    SubWindows, Tick, Time, TokenBucket, Verb, Windows,
};
use tollgate_testkit::real::redis::{Counter, RedisLaunch, RedisServer, Reply, ScriptCaller};
use tollgate_testkit::real::until;

mod common;
use common::{at, rate};

const TICK: Tick = Tick::MICROSECOND;
const NOON: u64 = 1_700_000_000_000_000;

/// Where the one among them stands whose windows are days.
const CALENDAR: usize = 4;

/// A limit of 5 units in so many microseconds, of every algorithm that has a script.
fn limits(period_ticks: u64) -> Vec<SharedLimit> {
    let rate = rate(5, period_ticks);
    let day = Windows::Calendar(Calendar::utc(CalendarUnit::Day, TICK));
    let limits: Vec<Limit> = vec![
        TokenBucket::new(rate, 5).unwrap().into(),
        LeakyBucket::new(rate, 5).unwrap().into(),
        LeakyQueue::new(rate, Span::from_ticks(period_ticks)).unwrap().into(),
        FixedWindow::new(rate).into(),
        FixedWindow::in_windows(5, day).unwrap().into(),
        SlidingWindow::new(rate).into(),
        SubWindows::new(rate, 4, OldestCounts::Whole).unwrap().into(),
        SlidingLog::new(rate).unwrap().into(),
        Concurrency::new(5, Span::from_ticks(period_ticks)).unwrap().into(),
    ];
    limits.into_iter().map(|limit| SharedLimit::in_ticks(limit, TICK).unwrap()).collect()
}

fn call(caller: &mut ScriptCaller, limit: &SharedLimit, now: u64, ask: (Verb, u64, u64)) -> [i64; 4] {
    let counter = Counter { key: b"key", limit, key_hash: 0, around: at(now), asks: &[ask] };
    caller.call(Some(now), &[counter])[0]
}

/// How many keys there are.
fn keys(caller: &mut ScriptCaller) -> usize {
    caller.client().run("DBSIZE").integer().try_into().unwrap()
}

/// How many keys tell that another one was reset: what may come back must not come to a count that has forgotten it.
fn remembered_resets(caller: &mut ScriptCaller) -> usize {
    caller.client().run("EXISTS key:reset").integer().try_into().unwrap()
}

#[test]
fn every_algorithm_has_one_script_whatever_its_numbers() {
    let scripts = Script::all();
    let [small, large] = [limits(1_000), limits(60_000_000)];
    for (small, large) in small.iter().zip(&large) {
        let script = small.script().unwrap();
        assert!(std::ptr::eq(script, large.script().unwrap()), "{} has two scripts", script.name);
        assert!(scripts.contains(&script), "{} is not among all", script.name);
    }
    let blocked = SharedLimit::new(&tollgate_core::Blocked.into()).unwrap();
    assert_eq!(blocked.script(), None, "a blocked limit asks nobody");
    let mut names: Vec<&str> = scripts.iter().map(|script| script.name).collect();
    names.dedup();
    // A leaky bucket is a token bucket, and nothing is asked about a blocked limit.
    assert_eq!(names.len(), Limit::ALGORITHMS.len() - 2, "{names:?}");
    assert_eq!(small[0].script(), small[1].script());
}

/// The suite looks at every expiry while time is made up. Here it passes by itself.
#[test]
fn keys_are_gone_after_a_while() {
    for launch in [RedisLaunch::redis(), RedisLaunch::valkey()] {
        let server = launch.start();
        let mut caller = ScriptCaller::new(server.client());
        for (number, limit) in limits(50_000).iter().enumerate().filter(|(number, _)| *number != CALENDAR) {
            let (key, asks) = (number.to_string(), [(Verb::Take, 1, 0)]);
            let counter =
                Counter { key: key.as_bytes(), limit, key_hash: 0, around: Time::default(), asks: &asks };
            let answer = caller.call(None, &[counter])[0];
            assert_eq!(answer[0], 0, "{limit:?} admits the first: {answer:?}");
        }
        until("idle keys are gone", || (keys(&mut caller) == 0).then_some(()));
    }
}

#[test]
fn time_is_that_of_redis() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    let now = |caller: &mut ScriptCaller| {
        let Reply::Array(time) = caller.client().run("TIME") else { panic!("no time") };
        let [seconds, micros] = [&time[0], &time[1]].map(|part| part.text().parse::<i64>().unwrap());
        seconds * 1_000_000 + micros
    };
    for limit in limits(60_000_000) {
        let around = at(now(&mut caller).cast_unsigned());
        let key = limit.limit().algorithm().as_bytes();
        let counter = Counter { key, limit: &limit, key_hash: 0, around, asks: &[(Verb::Take, 1, 0)] };
        let arguments = caller.arguments(None, &[counter]);
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        let before = now(&mut caller);
        let Reply::Array(reply) = caller.client().command(&arguments) else { panic!("no answer") };
        let after = now(&mut caller);
        let [seconds, micros] = [reply[0].integer(), reply[1].integer()];
        let used = seconds * 1_000_000 + micros;
        assert!((before..=after).contains(&used), "{limit:?}: {used} is not in {before}..={after}");
        assert_eq!(limit.replied_at(seconds, micros), Some(at(used.cast_unsigned())));
        assert_eq!(reply[2].integer(), 0, "{limit:?}: {reply:?}");
    }
}

/// Half of a call would charge some keys and not others.
#[test]
fn a_wrong_number_of_arguments_charges_nobody() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    for limit in limits(60_000_000) {
        let asks = [(Verb::Take, 1, 0), (Verb::Take, 1, 0)];
        let counters = [&b"one"[..], b"two"].map(|key| Counter {
            key,
            limit: &limit,
            key_hash: 0,
            around: at(NOON),
            asks: &asks,
        });
        let right = caller.arguments(Some(NOON), &counters);
        let missing = |count: usize| right[..right.len() - count].to_vec();
        let more = [right.clone(), vec![b"0".to_vec()]].concat();
        let wrong = (1..right.len() - 6).map(missing).chain([more]);
        for arguments in wrong {
            let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
            let reply = caller.client().command(&arguments);
            assert!(matches!(reply, Reply::Error(_)), "{limit:?}: {reply:?}");
            assert_eq!(keys(&mut caller), 0, "{limit:?} was charged by {arguments:?}");
        }
        let right: Vec<&[u8]> = right.iter().map(Vec::as_slice).collect();
        assert!(matches!(caller.client().command(&right), Reply::Array(parts) if parts.len() == 2 + 4 * 4));
        assert_eq!(keys(&mut caller), 2);
        caller.client().run("FLUSHALL");
    }
}

/// Costs are cut to what a script can count with, and that makes no difference to any answer.
#[test]
fn the_largest_costs_are_answered_like_all_large_ones() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    for limit in limits(60_000_000) {
        for verb in [Verb::Peek, Verb::Take, Verb::Book] {
            assert_eq!(call(&mut caller, &limit, NOON, (verb, u64::MAX, 0))[0], 3, "{limit:?}: {verb:?}");
        }
        // Debt is one whole limit, however much was booked; a queue has another one waiting. Being many at once leaves no debt.
        let answer = call(&mut caller, &limit, NOON, (Verb::Take, 1, 0));
        let denied = !matches!(limit.limit(), Limit::Concurrency(_));
        assert_eq!(answer[0], i64::from(denied), "{limit:?}: {answer:?}");
        assert_eq!(call(&mut caller, &limit, NOON, (Verb::GiveBack, u64::MAX, NOON))[0], 0);
        let fresh = limit.limit().decide(&mut limit.limit().fresh(), Ask::peek(Cost::ZERO, at(NOON)));
        let answer = call(&mut caller, &limit, NOON, (Verb::Peek, 0, u64::MAX));
        assert_eq!(answer[2].cast_unsigned(), fresh.remaining, "{limit:?} is not as good as new");
        caller.client().run("FLUSHALL");
    }
}

#[test]
fn what_is_given_back_in_full_leaves_nothing_behind() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    for limit in limits(60_000_000) {
        for (verb, units) in [(Verb::GiveBack, 3), (Verb::Reset, 0)] {
            assert_eq!(call(&mut caller, &limit, NOON, (Verb::Take, 3, 0))[0], 0);
            assert_eq!(keys(&mut caller), 1);
            // A moment later: a concurrency limit remembers a number until then.
            let answer = call(&mut caller, &limit, NOON + 1, (verb, units, NOON));
            assert_eq!(answer[0], 0, "{limit:?}: {answer:?}");
            if !matches!(limit.limit(), Limit::TokenBucket(_) | Limit::LeakyBucket(_) | Limit::LeakyQueue(_))
            {
                let kept = remembered_resets(&mut caller);
                assert_eq!(keys(&mut caller), kept, "{limit:?} keeps what was given back by {verb:?}");
            }
            let fresh = limit.limit().decide(&mut limit.limit().fresh(), Ask::peek(Cost::ZERO, at(NOON)));
            assert_eq!(answer[2].cast_unsigned(), fresh.remaining, "{limit:?} after {verb:?}");
            call(&mut caller, &limit, NOON + 1, (Verb::Reset, 0, 0));
            assert_eq!(keys(&mut caller), remembered_resets(&mut caller), "{limit:?} is kept after a reset");
            caller.client().run("DEL key:reset");
        }
    }
}

#[test]
fn a_denial_and_a_look_write_nothing() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    let dirty = |caller: &mut ScriptCaller| {
        let info = caller.client().run("INFO persistence").text();
        let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
        line.expect("a count of changes").parse::<u64>().unwrap()
    };
    for limit in limits(60_000_000) {
        call(&mut caller, &limit, NOON, (Verb::Take, 5, 0));
        while call(&mut caller, &limit, NOON, (Verb::Take, 1, 0))[0] == 0 {}
        let before = dirty(&mut caller);
        for ask in [(Verb::Take, 1, 0), (Verb::Peek, 1, 0), (Verb::Peek, 9, 0), (Verb::Release, 0, 7)] {
            call(&mut caller, &limit, NOON, ask);
        }
        assert_eq!(dirty(&mut caller), before, "{limit:?} wrote");
        caller.client().run("FLUSHALL");
    }
}

#[test]
fn a_hold_is_released_once_and_by_its_name() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    let limit = Concurrency::new(5, Span::from_ticks(1_000)).unwrap();
    let limit = SharedLimit::in_ticks(limit.into(), TICK).unwrap();
    let mut ask = |now, verb, units, holder| call(&mut caller, &limit, now, (verb, units, holder));
    let number = |answer: [i64; 4]| answer[1].cast_unsigned();
    let three = ask(NOON, Verb::Take, 3, 0);
    assert_eq!(three, [0, NOON.cast_signed(), 2, -1]);
    let one = ask(NOON, Verb::Take, 1, 0);
    assert_eq!((one[0], number(one), one[2]), (0, NOON + 1, 1), "two at once have two names");
    assert_eq!(ask(NOON, Verb::Take, 2, 0), [2, 0, 1, -1]);
    assert_eq!(ask(NOON + 9, Verb::Release, 0, number(three)), [0, 0, 4, -1]);
    assert_eq!(ask(NOON + 9, Verb::Release, 0, number(three)), [2, 0, 4, -1], "released twice");
    assert_eq!(ask(NOON + 9, Verb::Release, 0, u64::MAX), [2, 0, 4, -1], "nobody's");
    let two = ask(NOON + 10, Verb::Take, 2, 0);
    assert_eq!(two[2], 2);
    // The first hold ends by itself; the second is still there.
    assert_eq!(ask(NOON + 1_000, Verb::Release, 0, number(one)), [2, 0, 3, -1], "past its deadline");
    assert_eq!(ask(NOON + 1_009, Verb::Release, 0, number(two)), [0, 0, 5, -1]);
    assert_eq!(ask(NOON + 1_010, Verb::Release, 0, number(two)), [2, 0, 5, -1]);
}

#[test]
fn what_is_given_back_by_somebody_who_is_wrong_about_the_day_can_be_given_back_again() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    let limit = &limits(1_000_000)[CALENDAR];
    assert_eq!(call(&mut caller, limit, NOON, (Verb::Take, 5, 0))[0], 0);
    let (counted_at, deadline) = (at(NOON), at(NOON + 60_000_000));
    let rest = LeaseRest { units: 3, counted_at, deadline, number: 7 };
    let weeks_later = NOON + 14 * 86_400_000_000;
    let mut give_back = |believed| caller.call_mixed((NOON, believed), b"key", limit, Err(rest));
    assert_eq!(give_back(weeks_later)[0], 4, "these are not the boundaries of that day");
    assert_eq!(give_back(NOON)[..3], [0, 0, 3]);
    assert_eq!(give_back(NOON)[..3], [2, 0, 3], "once");
}

#[test]
fn of_settlements_of_one_reservation_the_first_counts_and_its_sender_may_repeat_it() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    let is_held = |limit: &SharedLimit| matches!(limit.limit(), Limit::Concurrency(_));
    for limit in limits(60_000_000).into_iter().filter(|limit| !is_held(limit)) {
        for (change, used) in [(SettleChange::Book(1), 4), (SettleChange::Return(2), 1)] {
            let left = (limit.units() - used).cast_signed();
            caller.client().run("FLUSHALL");
            assert_eq!(call(&mut caller, &limit, NOON, (Verb::Take, 3, 0))[0], 0, "{limit:?}");
            let (counted_at, deadline) = (at(NOON), at(NOON + 1_000));
            let first = SettleOnce { change, counted_at, deadline, number: 7, sender: 1 };
            let other = SettleOnce { change: SettleChange::Book(2), sender: 2, ..first };
            let late = SettleOnce { number: 8, ..first };
            let mut settle = |now, settle| {
                let [outcome, _, left, _] = caller.settle(now, b"key", &limit, settle);
                (outcome, left)
            };
            assert_eq!(settle(NOON, first), (0, left), "{limit:?}");
            assert_eq!(settle(NOON, other), (2, left), "{limit:?}: another is refused");
            let repeated = (Script::REPEATED, left);
            assert_eq!(settle(NOON, first), repeated, "{limit:?}: it is repeated, and counts once");
            assert_eq!(settle(NOON + 1_001, late).0, 2, "{limit:?}: after the deadline");
        }
    }
}

/// The limits that a request with an id may meet: places that are held have names of their own.
fn counting_limits(period_ticks: u64) -> impl Iterator<Item = SharedLimit> {
    let is_held = |limit: &SharedLimit| matches!(limit.limit(), Limit::Concurrency(_));
    limits(period_ticks).into_iter().filter(move |limit| !is_held(limit))
}

#[test]
fn what_has_an_id_counts_once_and_is_undone_after_the_last_of_its_users() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    let any_moment = (1 << 53) - 1;
    for limit in counting_limits(60_000_000) {
        caller.client().run("FLUSHALL");
        let all = limit.units().cast_signed();
        let mut once = |(verb, units, third), id| {
            let [outcome, _, left, _] = caller.once(NOON, &limit, (verb, units, third), id);
            (outcome, left)
        };
        let (take, book) = ((Verb::TakeOnce, 2, 0), (Verb::BookOnce, 1, 0));
        let undo = (Verb::UndoOnce, 2, limit.refund_moment(at(0), false));
        assert!(undo.2 == 0 || undo.2 == any_moment);
        assert_eq!(once(undo, [1, 7]), (0, all), "{limit:?}: nothing is to be undone");
        assert_eq!(once(take, [1, 7]), (0, all - 2), "{limit:?}");
        assert_eq!(once(take, [1, 7]), (8, all - 2), "{limit:?}: a repeat");
        assert_eq!(once(take, [1, 8]), (10, all - 2), "{limit:?}: another request");
        assert_eq!(once(undo, [1, 8]).1, all - 2, "{limit:?}: another request");
        assert_eq!(once(book, [2, 9]), (0, all - 3), "{limit:?}");
        assert_eq!(once(book, [2, 9]), (8, all - 3), "{limit:?}");
        assert_eq!(once(undo, [1, 7]).1, all - 3, "{limit:?}: one of two was denied elsewhere");
        assert_eq!(once(undo, [1, 7]).1, all - 1, "{limit:?}: both were");
        assert_eq!(once(undo, [1, 7]).1, all - 1, "{limit:?}");
        assert_eq!(once((Verb::TakeOnce, limit.units(), 0), [3, 7]).0 & 8, 0, "{limit:?}");
        let denied = once((Verb::TakeOnce, limit.units(), 0), [4, 7]);
        assert_ne!(denied.0, 0, "{limit:?}");
        assert_eq!(
            once((Verb::TakeOnce, limit.units(), 0), [4, 7]),
            denied,
            "{limit:?}: it is not remembered"
        );
        let back = (Verb::GiveBackOnce, 1, limit.refund_moment(at(NOON), false));
        assert_eq!(once(back, [5, 7]), (0, all), "{limit:?}");
        assert_eq!(once(back, [5, 7]), (8, all), "{limit:?}");
    }
}

#[test]
fn an_id_is_kept_for_ten_minutes_and_undone_where_it_was_counted() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    for limit in counting_limits(60_000_000) {
        caller.client().run("FLUSHALL");
        assert_eq!(caller.once(NOON, &limit, (Verb::TakeOnce, 2, 0), [1, 7])[0], 0);
        let left_ms = caller.client().run("PTTL key:id:1").integer();
        assert!((595_000..=600_000).contains(&left_ms), "{left_ms}");
        caller.client().run("PEXPIRE key:id:1 5000");
        assert_eq!(caller.once(NOON, &limit, (Verb::TakeOnce, 2, 0), [1, 7])[0], 8);
        assert!(caller.client().run("PTTL key:id:1").integer() <= 5_000, "a repeat keeps it no longer");
        // In a later window, what this one has counted does not come back to that one.
        let later = NOON + 2 * 86_400_000_000;
        assert_eq!(call(&mut caller, &limit, later, (Verb::Take, 3, 0))[0], 0);
        let undo = (Verb::UndoOnce, 2, limit.refund_moment(at(0), true));
        let used =
            [(); 2].map(|()| limit.units().cast_signed() - caller.once(later, &limit, undo, [1, 7])[2]);
        assert_eq!(used, [3, 3], "{limit:?}");
        assert_eq!(caller.client().run("EXISTS key:id:1").integer(), 0);
    }
}

#[test]
fn a_booking_over_the_limit_is_repeated_as_a_denial_until_there_is_room() {
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    for limit in counting_limits(60_000_000) {
        caller.client().run("FLUSHALL");
        let book = (Verb::BookOnce, 5, 0);
        assert_eq!(caller.once(NOON, &limit, book, [1, 7])[0], 0, "{limit:?}");
        call(&mut caller, &limit, NOON, (Verb::Book, 3, 0)); // A queue lets one more wait.
        let over = (Verb::BookOnce, 3, 0);
        assert_eq!(caller.once(NOON, &limit, over, [2, 7])[0], 1, "{limit:?}");
        assert_eq!(caller.once(NOON, &limit, over, [2, 7])[0], 9, "{limit:?}");
        assert_eq!(caller.once(NOON, &limit, book, [1, 7])[0], 8, "{limit:?}: this one was not over");
        let reset = (Verb::Reset, 0, 0);
        call(&mut caller, &limit, NOON, reset);
        assert_eq!(caller.once(NOON, &limit, over, [2, 7])[0], 8, "{limit:?}");
    }
}

/// What a decision costs does not grow with the log.
#[test]
fn a_long_log_is_never_read_as_a_whole() {
    const UNITS: u64 = 5_000;
    const LOOKS_MAX: u64 = 40;
    let server = RedisServer::start();
    let mut caller = ScriptCaller::new(server.client());
    let limit = SharedLimit::in_ticks(SlidingLog::new(rate(UNITS, 10_000)).unwrap().into(), TICK).unwrap();
    let mut state = limit.limit().fresh();
    let mut ask = |caller: &mut ScriptCaller, now: u64, verb: Verb, units: u64| {
        let answer = limit.answer(call(caller, &limit, now, (verb, units, 0))).expect("an answer");
        let ask = if verb == Verb::Peek { Ask::peek } else { Ask::take };
        let expected = limit.limit().decide(&mut state, ask(Cost::new(units), at(now)));
        let tollgate_core::Answer::Decided { decision, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(decision.remaining, expected.remaining, "{verb:?} {units} at {now}");
        let ns = |outcome: Outcome| match outcome {
            Outcome::NotNow { retry_after } => retry_after.ticks(),
            _ => 0,
        };
        assert_eq!(ns(decision.outcome), ns(expected.outcome) * 1_000, "{verb:?} {units} at {now}");
    };
    for moment in 0..UNITS {
        ask(&mut caller, NOON + moment, Verb::Take, 1);
    }
    for (now, units) in
        [(5_000, 1), (5_000, 2_500), (5_000, 5_000), (12_345, 1), (12_345, 4_000), (14_998, 1)]
    {
        for verb in [Verb::Peek, Verb::Take] {
            caller.client().run("CONFIG RESETSTAT");
            ask(&mut caller, NOON + now, verb, units);
            let info = caller.client().run("INFO commandstats").text();
            let looks =
                info.lines().find_map(|line| line.strip_prefix("cmdstat_lindex:calls=")?.split(',').next());
            let looks: u64 = looks.expect("a log is looked at").parse().unwrap();
            assert!(looks <= LOOKS_MAX, "{looks} entries were looked at for {units} at {now}");
            assert!(!info.contains("cmdstat_lrange"), "a range was read:\n{info}");
        }
    }
}
