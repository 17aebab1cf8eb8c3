//! Requests that come with an id are charged once, however often they are sent.

use std::time::Duration;

use tollgate::authority::{Act, Failure, OnceAct};
use tollgate::core::Time;
use tollgate::{
    DecidedBy, Engine, EngineSettings, Request, RequestError, RequestId, RequestIdSettings, Reservation,
    SettleError, Step, Verdict,
};

use super::common::authority::{Authority, decide};
use super::common::{START, engine, engine_with, later, summary, with_request};
use super::sharing;

/// Three limits: of this process, shared, and shared with one unit.
const RULES: &str = "
domain: d
descriptors:
- {key: here, rate_limit: {unit: hour, requests_per_unit: 10, consistency: local}}
- {key: a, rate_limit: {unit: hour, requests_per_unit: 10}}
- {key: b, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: all, value: x, rate_limit: {unit: hour, requests_per_unit: 10}}
- {key: closed, rate_limit: {unit: hour, requests_per_unit: 10, fail_mode: closed}}
";

fn with_id<R>(id: &str, descriptors: &[&str], ask: impl FnOnce(&Request<'_>) -> R) -> R {
    with_request(descriptors, |request| ask(&request.id(RequestId::new(id).unwrap())))
}

/// A request with an id at a moment.
fn repeat(
    engine: &Engine,
    authority: &mut Authority,
    (id, now): (&str, Time),
    descriptors: &[&str],
) -> Result<Verdict, RequestError> {
    with_id(id, descriptors, |request| decide(engine, authority, request, now))
}

/// What a request comes to: its summary, and whether it is a repeat.
fn told(verdict: &Verdict) -> (String, bool) {
    (summary(verdict), verdict.is_repeated())
}

/// Six requests with one id, at a process without a store and at two with one.
#[test]
fn six_tries_with_one_id_are_charged_once() {
    let local = engine(RULES);
    let [one, other] = [(); 2].map(|()| sharing(RULES, b"secret"));
    let authority = &mut Authority::default();
    for (engines, descriptor) in
        [([&local, &local], "a=1"), ([&one, &other], "a=1"), ([&one, &one], "here=1")]
    {
        for number in 0..6 {
            let verdict = repeat(engines[number % 2], authority, ("x", START), &[descriptor]).unwrap();
            assert_eq!(told(&verdict), ("pass 9".to_owned(), number > 0), "{descriptor} {number}");
        }
        let another = repeat(engines[0], authority, ("y", START), &[descriptor]).unwrap();
        assert_eq!(told(&another), ("pass 8".to_owned(), false));
    }
    assert_eq!(one.request_id_stats().repeated + other.request_id_stats().repeated, 10);
}

#[test]
fn several_charges_of_one_request_on_one_counter_all_count() {
    let (local, shared) = (engine(RULES), sharing(RULES, b""));
    let authority = &mut Authority::default();
    for engine in [&local, &shared] {
        for number in 0..3 {
            let verdict = repeat(engine, authority, ("x", START), &["a=1", "a=1", "a=1"]).unwrap();
            assert!(verdict.allowed());
            assert_eq!(verdict.is_repeated(), number > 0);
        }
        let look =
            with_request(&["a=1"], |request| decide(engine, authority, &request.peek(), START)).unwrap();
        assert_eq!(summary(&look), "pass 7");
    }
}

#[test]
fn the_same_id_with_another_cost_or_key_is_an_error_and_charges_nothing() {
    let (local, shared) = (engine(RULES), sharing(RULES, b""));
    let other = sharing(RULES, b"");
    let authority = &mut Authority::default();
    for engines in [[&local, &local], [&shared, &shared], [&shared, &other]] {
        repeat(engines[0], authority, ("x", START), &["all=x", "a=1"]).unwrap();
        for descriptors in [&["all=x", "a=2"][..], &["all=x@3", "a=1"], &["all=x"], &["all=x@-1", "a=1"]] {
            let error = repeat(engines[1], authority, ("x", START), descriptors).unwrap_err();
            assert_eq!(error, RequestError::IdConflict, "{descriptors:?}");
        }
        let look = |descriptors: &[&str], authority: &mut Authority| {
            let verdict = with_request(descriptors, |request| {
                decide(engines[0], authority, &request.peek(), START).unwrap()
            });
            summary(&verdict)
        };
        assert_eq!(look(&["all=x", "a=1", "a=2"], authority), "pass 9 9 10");
    }
    assert!(local.request_id_stats().conflicts >= 4);
}

#[test]
fn ids_of_different_counters_do_not_meet() {
    let engine = engine(RULES);
    let authority = &mut Authority::default();
    for key in ["a=1", "a=2", "here=1"] {
        assert!(!repeat(&engine, authority, ("x", START), &[key]).unwrap().is_repeated());
    }
}

#[test]
fn a_denied_request_is_not_remembered() {
    let (local, shared) = (engine(RULES), sharing(RULES, b""));
    let authority = &mut Authority::default();
    for engine in [&local, &shared] {
        with_request(&["b=1"], |request| decide(engine, authority, request, START)).unwrap();
        for _ in 0..2 {
            let denied = repeat(engine, authority, ("x", START), &["b=1"]).unwrap();
            assert_eq!(told(&denied), ("deny 0!".to_owned(), false));
        }
        let later = later(Duration::from_hours(2));
        assert_eq!(told(&repeat(engine, authority, ("x", later), &["b=1"]).unwrap()).0, "pass 0");
        assert!(repeat(engine, authority, ("x", later), &["b=1"]).unwrap().is_repeated());
        assert_eq!(engine.request_id_stats().held, 1);
    }
}

#[test]
fn what_is_undone_is_forgotten() {
    let engine = sharing(RULES, b"");
    let authority = &mut Authority::default();
    with_request(&["b=1"], |request| decide(&engine, authority, request, START)).unwrap();
    for _ in 0..2 {
        let denied = repeat(&engine, authority, ("x", START), &["here=1", "a=1", "b=1"]).unwrap();
        assert_eq!(told(&denied), ("deny 10 10 0!".to_owned(), false));
    }
    assert_eq!((engine.request_id_stats().held, authority.ids()), (0, 0));
    let passes = repeat(&engine, authority, ("x", START), &["here=1", "a=1"]).unwrap();
    assert_eq!(told(&passes), ("pass 9 9".to_owned(), false));
}

#[test]
fn of_two_with_one_id_that_are_denied_and_admitted_one_charge_stays() {
    let engine = sharing(RULES, b"");
    let authority = &mut Authority::default();
    let descriptors = ["here=1", "closed=1", "a=1"];
    let begin = || {
        let step = with_id("x", &descriptors, |request| engine.begin(request, START).unwrap());
        let Step::Pending(pending) = step else { panic!("it was not asked") };
        pending
    };
    for denied_first in [true, false] {
        let (denied, admitted) = (begin(), begin());
        let granted = authority.ask(admitted.questions(), START);
        let mut answers = authority.ask(denied.questions(), START);
        answers[0] = Err(Failure::Refused);
        let mut pendings = [(denied, answers), (admitted, granted)];
        if !denied_first {
            pendings.reverse();
        }
        for (pending, answers) in pendings {
            let resumed = engine.resume(pending, &answers, START);
            authority.ask(&resumed.tell, START);
        }
        let after = repeat(&engine, authority, ("x", START), &descriptors).unwrap();
        assert_eq!(told(&after), ("pass 9 9 9".to_owned(), true), "denied first: {denied_first}");
    }
}

#[test]
fn an_abandoned_request_leaves_nothing_remembered_here() {
    let engine = sharing(RULES, b"");
    let step = with_id("x", &["here=1", "a=1"], |request| engine.begin(request, START).unwrap());
    let Step::Pending(pending) = step else { panic!("it was not asked") };
    engine.abandon(pending, START);
    assert_eq!(engine.request_id_stats().held, 0);
    let again = repeat(&engine, &mut Authority::default(), ("x", START), &["here=1", "a=1"]).unwrap();
    assert_eq!(told(&again), ("pass 9 9".to_owned(), false));
}

#[test]
fn an_id_is_forgotten_after_ten_minutes() {
    let engine = engine(RULES);
    let authority = &mut Authority::default();
    let at = |seconds| later(Duration::from_secs(seconds));
    assert!(!repeat(&engine, authority, ("x", START), &["a=1"]).unwrap().is_repeated());
    assert!(repeat(&engine, authority, ("x", at(599)), &["a=1"]).unwrap().is_repeated());
    assert!(
        !repeat(&engine, authority, ("x", at(600)), &["a=1"]).unwrap().is_repeated(),
        "a repeat is no reason to go on"
    );
    assert!(repeat(&engine, authority, ("x", at(1_199)), &["a=1"]).unwrap().is_repeated());
    engine.tend(at(1_199));
    assert_eq!(engine.request_id_stats().held, 1);
    engine.tend(at(1_200));
    assert_eq!((engine.request_id_stats().held, engine.request_id_stats().bytes), (0, 0));
}

#[test]
fn a_full_table_refuses_new_ids_and_charges_nothing() {
    let request_ids = RequestIdSettings { bytes_max: 8 * RequestIdSettings::ID_BYTES, tenant_parts: 2 };
    let settings = EngineSettings { request_ids, ..EngineSettings::default() };
    let (local, shared) = (engine_with(RULES, settings), engine_with(RULES, settings).sharing(b""));
    let authority = &mut Authority::default();
    for engine in [&local, &shared] {
        let ask = |authority: &mut Authority, id: &str, key: &str| {
            repeat(engine, authority, (id, START), &[key]).map(|verdict| told(&verdict).0)
        };
        for number in 0..4 {
            ask(authority, &format!("x{number}"), "a=1").unwrap();
        }
        assert_eq!(ask(authority, "one-too-many", "a=1"), Err(RequestError::TooManyIds), "of one counter");
        assert_eq!(ask(authority, "x3", "a=1").unwrap(), "pass 6", "a repeat needs no room");
        for number in 0..4 {
            ask(authority, &format!("x{number}"), "a=2").unwrap();
        }
        assert_eq!(ask(authority, "x", "a=3"), Err(RequestError::TooManyIds), "of all");
        let plain =
            with_request(&["a=1", "a=3"], |request| decide(engine, authority, request, START)).unwrap();
        assert_eq!(summary(&plain), "pass 5 9", "nothing was charged, and requests without an id still are");
        assert_eq!(engine.request_id_stats().refused, 2);
    }
}

#[test]
fn a_booking_over_the_limit_is_booked_once_and_stays_over() {
    let (local, shared) = (engine(RULES), sharing(RULES, b""));
    let authority = &mut Authority::default();
    for engine in [&local, &shared] {
        for number in 0..3 {
            let booked = repeat(engine, authority, ("x", START), &["a=1@14"]).unwrap();
            assert_eq!(told(&booked), ("deny 0!".to_owned(), number > 0));
        }
        let refunded = repeat(engine, authority, ("y", START), &["a=1@-5"]).unwrap();
        assert!(refunded.allowed());
        let repeated = repeat(engine, authority, ("y", START), &["a=1@-5"]).unwrap();
        assert!(repeated.is_repeated());
        let look =
            with_request(&["a=1"], |request| decide(engine, authority, &request.peek(), START)).unwrap();
        assert_eq!(summary(&look), "pass 1", "14 were booked and 5 came back");
    }
}

#[test]
fn a_pending_booking_is_retried_under_its_id() {
    let engine = sharing(RULES, b"");
    for failure in [Failure::TimedOut, Failure::Unreachable, Failure::Lost] {
        let step = with_id("x", &["closed=1@3"], |request| engine.begin(request, START).unwrap());
        let Step::Pending(pending) = step else { panic!("it was not asked") };
        let act = pending.questions()[0].0.act;
        assert!(matches!(act, Act::Once(_, OnceAct::Book(_))));
        let verdict = engine.resume(pending, &[Err(failure)], START).verdict;
        assert_eq!(
            (verdict.allowed(), verdict.is_pending(), verdict.decided_by()),
            (true, true, DecidedBy::Pending)
        );
        let errands = engine.take_errands(tollgate::Keeper::Store, 9);
        assert_eq!(errands.len(), 1, "{failure}");
        assert_eq!(errands[0].question.0.act, act);
    }
}

#[test]
fn a_share_that_was_charged_under_an_id_is_charged_once() {
    let engine = sharing(RULES, b"");
    let ask_in_vain = || {
        let step = with_id("x", &["a=1"], |request| engine.begin(request, START).unwrap());
        match step {
            Step::Ready(verdict) => verdict,
            Step::Pending(pending) => engine.resume(pending, &[Err(Failure::TimedOut)], START).verdict,
        }
    };
    assert_eq!(told(&ask_in_vain()), ("pass 9".to_owned(), false));
    let repeated = ask_in_vain();
    assert_eq!((told(&repeated), repeated.decided_by()), (("pass 9".to_owned(), true), DecidedBy::FailLocal));
}

#[test]
fn a_request_without_an_id_is_asked_as_before() {
    let engine = sharing(RULES, b"");
    let step = with_request(&["a=1"], |request| engine.begin(request, START).unwrap());
    let Step::Pending(pending) = step else { panic!("it was not asked") };
    assert!(matches!(pending.questions()[0].0.act, Act::Take(_)));
    engine.abandon(pending, START);
    assert_eq!(engine.request_id_stats().held, 0);
}

#[test]
fn a_settlement_that_is_repeated_under_its_id_is_answered_as_before() {
    let engine = engine(RULES);
    let reserve = || {
        let request =
            |request: &Request<'_>| engine.reserve(&request.cost(6), Reservation::LIFE_USUAL, START);
        with_request(&["a=1"], request).unwrap().1.unwrap().reservation
    };
    let reservation = reserve();
    let settle = |id: Option<&str>, cost| {
        let id = id.map(|id| RequestId::new(id).unwrap());
        engine.begin_settle_once(&reservation, cost, id, START).map(|(step, settlement)| {
            let Step::Ready(verdict) = step else { panic!("nobody has to be asked") };
            (settlement.returned, verdict.is_repeated())
        })
    };
    assert_eq!(settle(Some("x"), 2), Ok((4, false)));
    assert_eq!(settle(Some("x"), 2), Ok((4, true)));
    assert_eq!(settle(Some("x"), 3), Err(SettleError::IdConflict));
    assert_eq!(settle(Some("y"), 2), Err(SettleError::Settled));
    assert_eq!(settle(None, 2), Err(SettleError::Settled));
    let look = with_request(&["a=1"], |request| engine.decide(&request.peek(), START)).unwrap();
    assert_eq!(summary(&look), "pass 8");
}
