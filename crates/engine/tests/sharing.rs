//! Limits that others share: with an authority that answers they say what local ones say; without, what their rules say.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
#[path = "sharing/repeats.rs"]
mod repeats;

use std::time::Duration;

use common::authority::{Authority, acquire, decide};
use common::{START, engine, install, later, summary, with_request};
use proptest::prelude::*;
use tollgate::authority::{Act, Failure};
use tollgate::core::{Outcome, Span};
use tollgate::{
    DecidedBy, Engine, EngineSettings, Force, LedgerSettings, ReleaseError, Request, Step, Verdict,
};

fn sharing(rules: &str, secret: &[u8]) -> Engine {
    let settings = EngineSettings { ledger: LedgerSettings::with_cap(8 << 20), ..EngineSettings::default() };
    let engine = Engine::new(settings).unwrap().sharing(secret);
    install(&engine, rules, START);
    engine
}

fn ask(engine: &Engine, authority: &mut Authority, descriptors: &[&str]) -> Verdict {
    with_request(descriptors, |request| decide(engine, authority, request, START).unwrap())
}

/// What is asked of the authority about a request, which it then does not answer.
fn ask_in_vain(engine: &Engine, descriptors: &[&str]) -> Verdict {
    let step = with_request(descriptors, |request| engine.begin(request, START).unwrap());
    let Step::Pending(pending) = step else { panic!("it was not asked") };
    let failures = vec![Err(Failure::TimedOut); pending.questions().len()];
    engine.resume(pending, &failures, START).verdict
}

const THREE: &str = "
domain: d
descriptors:
- {key: here, rate_limit: {unit: hour, requests_per_unit: 2, consistency: local}}
- {key: a, rate_limit: {unit: hour, requests_per_unit: 2}}
- {key: b, rate_limit: {unit: hour, requests_per_unit: 1, consistency: exact}}
";

#[test]
fn processes_that_share_count_together() {
    let [one, other] = [(); 2].map(|()| sharing(THREE, b"secret"));
    let authority = &mut Authority::default();
    for (engine, expected) in [(&one, "pass 1"), (&other, "pass 0"), (&one, "deny 0!"), (&other, "deny 0!")] {
        let verdict = ask(engine, authority, &["a=1"]);
        assert_eq!(summary(&verdict), expected);
        assert_eq!(verdict.decided_by(), DecidedBy::Authority);
    }
    assert_eq!(summary(&ask(&sharing(THREE, b"another"), authority, &["a=1"])), "pass 1", "another fleet");
}

#[test]
fn answers_say_when_the_authority_decided() {
    let rules = "
domain: d
descriptors:
- {key: here, rate_limit: {unit: hour, requests_per_unit: 2, consistency: local}}
- {key: us, rate_limit: {unit: hour, requests_per_unit: 2}}
- {key: ms, rate_limit: {requests: 1000000, period: 30d, algorithm: sliding_window}}
";
    let engine = sharing(rules, b"");
    let at = |descriptor: &str, later_ns: u64| {
        let now = START.plus(Span::from_ticks(later_ns));
        let verdict = with_request(&[descriptor], |request| {
            decide(&engine, &mut Authority::default(), request, now).unwrap()
        });
        verdict.rulings()[0].decided_at
    };
    let after = |ns: u64| Some(START.plus(Span::from_ticks(ns)));
    assert_eq!(START.ticks() % 1_000_000, 0);
    assert_eq!(at("us=1", 7_654_321), after(7_654_000));
    assert_eq!(at("ms=1", 7_654_321), after(7_000_000), "the beginning of the tick");
    assert_eq!(at("here=1", 7_654_321), None);
    assert_eq!(ask_in_vain(&engine, &["us=1"]).rulings()[0].decided_at, None);
}

#[test]
fn limits_of_the_process_are_asked_first() {
    let engine = sharing(THREE, b"");
    let authority = &mut Authority::default();
    for expected in ["pass 1 1", "pass 0 0"] {
        assert_eq!(summary(&ask(&engine, authority, &["here=1", "a=1"])), expected);
    }
    let asked = authority.asked;
    let denied = ask(&engine, authority, &["here=1", "a=2"]);
    assert_eq!(
        (summary(&denied).as_str(), authority.asked),
        ("deny 0! 2", asked),
        "nobody else need be asked"
    );
    assert_eq!(denied.decided_by(), DecidedBy::Ledger);
    assert_eq!(denied.rulings()[1].decided_by, DecidedBy::Nobody);
}

#[test]
fn what_was_taken_is_given_back_if_another_limit_denies() {
    let engine = sharing(THREE, b"");
    let authority = &mut Authority::default();
    assert_eq!(summary(&ask(&engine, authority, &["b=1"])), "pass 0");
    for _ in 0..3 {
        assert_eq!(summary(&ask(&engine, authority, &["here=1", "a=1", "b=1"])), "deny 2 2 0!");
    }
    assert_eq!(summary(&ask(&engine, authority, &["here=1", "a=1"])), "pass 1 1", "nothing was taken");
}

#[test]
fn what_nobody_waits_for_is_given_back() {
    let engine = sharing(THREE, b"");
    for _ in 0..3 {
        let step = with_request(&["here=1", "a=1"], |request| engine.begin(request, START).unwrap());
        let Step::Pending(pending) = step else { panic!("it was not asked") };
        engine.abandon(pending, START);
    }
    assert_eq!(summary(&ask(&engine, &mut Authority::default(), &["here=1", "a=1"])), "pass 1 1");
}

/// How a request ends that nobody has answered.
type End = fn(&Engine, tollgate::Pending, tollgate::core::Time);

#[test]
fn a_window_gets_back_only_what_it_counted_itself() {
    let rules = "
domain: d
descriptors:
- {key: here, rate_limit: {unit: hour, requests_per_unit: 1, algorithm: fixed_window, consistency: local}}
- {key: b, rate_limit: {unit: day, requests_per_unit: 1, fail_mode: closed}}
";
    let (last_hour, next_hour) = (later(Duration::from_millis(3_599_999)), later(Duration::from_hours(1)));
    let ends: [(&str, End); 2] = [
        ("denied", |engine, pending, now| drop(engine.resume(pending, &[Err(Failure::TimedOut)], now))),
        ("abandoned", |engine, pending, now| engine.abandon(pending, now)),
    ];
    for (what, end) in ends {
        let engine = sharing(rules, b"");
        let step = with_request(&["here=1", "b=1"], |request| engine.begin(request, last_hour).unwrap());
        let Step::Pending(pending) = step else { panic!("it was not asked") };
        let ask =
            || with_request(&["here=1"], |request| summary(&engine.decide(request, next_hour).unwrap()));
        assert_eq!(ask(), "pass 0", "{what}");
        end(&engine, pending, next_hour);
        assert_eq!(ask(), "deny 0!", "{what}: somebody else's unit was given back");
    }
}

#[test]
fn bookings_and_refunds_reach_the_authority_whatever_the_process_says() {
    let engine = sharing(THREE, b"");
    let authority = &mut Authority::default();
    for _ in 0..2 {
        ask(&engine, authority, &["here=1"]);
    }
    assert_eq!(summary(&ask(&engine, authority, &["here=1", "a=1@1"])), "deny 0! 1");
    assert_eq!(summary(&ask(&engine, authority, &["here=1", "a=1@-1"])), "deny 0! 2");
    assert_eq!(summary(&ask(&engine, authority, &["a=1@5"])), "deny 0!", "booked");
    assert_eq!(summary(&ask(&engine, authority, &["a=1"])), "deny 0!", "in debt");
}

#[test]
fn without_an_answer_the_rule_decides() {
    let rules = "
domain: d
descriptors:
- {key: open, rate_limit: {unit: hour, requests_per_unit: 1, fail_mode: open}}
- {key: closed, rate_limit: {unit: hour, requests_per_unit: 9, fail_mode: closed}}
- {key: local, rate_limit: {unit: hour, requests_per_unit: 4, fail_mode: local}}
- {key: part, rate_limit: {unit: hour, requests_per_unit: 4, fail_mode: local, local_fraction: 0.25}}
- {key: plain, rate_limit: {unit: hour, requests_per_unit: 4}}
- {key: here, rate_limit: {unit: hour, requests_per_unit: 1, consistency: local}}
";
    let engine = sharing(rules, b"");
    engine.set_nodes(2);
    let cases = [
        ("open=1", ["pass 1", "pass 1", "pass 1"], DecidedBy::FailOpen),
        ("closed=1", ["deny 0!", "deny 0!", "deny 0!"], DecidedBy::FailClosed),
        ("local=1", ["pass 1", "pass 0", "deny 0!"], DecidedBy::FailLocal),
        ("part=1", ["pass 0", "deny 0!", "deny 0!"], DecidedBy::FailLocal),
        ("plain=1", ["pass 1", "pass 0", "deny 0!"], DecidedBy::FailLocal),
    ];
    for (descriptor, expected, decided_by) in cases {
        for expected in expected {
            let verdict = ask_in_vain(&engine, &[descriptor]);
            assert_eq!(
                (summary(&verdict).as_str(), verdict.decided_by()),
                (expected, decided_by),
                "{descriptor}"
            );
            assert_eq!(verdict.failure(), Some(Failure::TimedOut));
        }
    }
    let closed = ask_in_vain(&engine, &["closed=1"]);
    let Outcome::NotNow { retry_after } = closed.rulings()[0].decision.outcome else { panic!("{closed:?}") };
    assert_eq!(retry_after.ticks(), 1_000_000_000);
    // A request that nobody decides takes nothing from those who do.
    for _ in 0..2 {
        assert!(!ask_in_vain(&engine, &["here=1", "closed=1"]).allowed());
    }
    assert!(ask_in_vain(&engine, &["here=1", "open=1"]).allowed());
    // Who cannot wait is answered the same way.
    with_request(&["closed=1"], |request| {
        assert_eq!(engine.decide(request, START).unwrap().decided_by(), DecidedBy::FailClosed);
    });
}

#[test]
fn a_part_of_an_answer_is_enough_for_what_it_is_about() {
    let engine = sharing(THREE, b"");
    let authority = &mut Authority::default();
    let step = with_request(&["a=1", "b=1"], |request| engine.begin(request, START).unwrap());
    let Step::Pending(pending) = step else { panic!("it was not asked") };
    let mut grants = authority.ask(pending.questions(), START);
    grants[1] = Err(Failure::Unreachable);
    let resumed = engine.resume(pending, &grants, START);
    assert_eq!(summary(&resumed.verdict), "pass 1 0");
    assert_eq!(resumed.verdict.decided_by(), DecidedBy::FailLocal);
    assert!(resumed.tell.is_empty());
}

#[test]
fn a_denial_elsewhere_undoes_what_the_share_has_given() {
    let engine = sharing(THREE, b"");
    let authority = &mut Authority::default();
    ask(&engine, authority, &["b=1"]);
    for _ in 0..3 {
        let step = with_request(&["a=1", "b=1"], |request| engine.begin(request, START).unwrap());
        let Step::Pending(pending) = step else { panic!("it was not asked") };
        let mut grants = authority.ask(pending.questions(), START);
        assert!(matches!(pending.questions()[0].0.act, Act::Take(_)));
        grants[0] = Err(Failure::TimedOut);
        assert_eq!(summary(&engine.resume(pending, &grants, START).verdict), "deny 2 0!");
    }
}

#[test]
fn what_is_held_elsewhere_is_released_by_anybody_of_the_fleet() {
    let rules = "policies: {p: {requests: 1, period: 30s, algorithm: concurrency}}";
    let [one, other] = [(); 2].map(|()| sharing(rules, b"secret"));
    let authority = &mut Authority::default();
    let request = Request::policy("p", b"k");
    let (verdict, lease) = acquire(&one, authority, &request, START);
    assert!(verdict.allowed());
    assert!(!acquire(&other, authority, &request, START).0.allowed());
    let lease: tollgate::Lease = lease.unwrap().to_string().parse().unwrap();
    for expected in [true, false] {
        let released = other.release(&lease, START).unwrap();
        assert!(!released.here);
        let grants = authority.ask(&released.questions, START);
        assert_eq!(grants[0].unwrap().decision.is_allowed(), expected);
    }
    assert!(acquire(&other, authority, &request, START).0.allowed());
    assert!(
        acquire(&one, authority, &request, later(Duration::from_secs(31))).0.allowed(),
        "past the deadline"
    );
}

#[test]
fn a_lease_that_somebody_made_up_asks_for_nothing() {
    let rules = "policies: {p: {requests: 1, period: 30s, algorithm: concurrency}}";
    let (engine, authority) = (sharing(rules, b"secret"), &mut Authority::default());
    let questions = |lease: &str| {
        let released = engine.release(&lease.parse().unwrap(), START);
        released.map(|released| released.questions.len())
    };
    let given = |secret: &[u8]| {
        let lease = acquire(&sharing(rules, secret), authority, &Request::policy("p", b"k"), START).1;
        lease.unwrap().to_string()
    };
    let [own, foreign] = [&b"secret"[..], b"another"].map(given);
    assert_eq!((questions(&own), questions(&foreign)), (Ok(1), Err(ReleaseError::Unsealed)));
    assert_eq!(questions(&format!("{own}00")), Err(ReleaseError::Unsealed));
    assert_eq!(questions(&own[..own.len() - 32]), Err(ReleaseError::Unsealed), "without its seal");
}

#[test]
fn what_is_held_of_a_share_is_released_where_it_is_held() {
    let rules = "policies: {p: {requests: 1, period: 30s, algorithm: concurrency}}";
    let engine = sharing(rules, b"");
    let request = Request::policy("p", b"k");
    let (verdict, lease) = engine.acquire(&request, START).unwrap();
    assert_eq!((verdict.allowed(), verdict.decided_by()), (true, DecidedBy::FailLocal));
    assert!(!engine.acquire(&request, START).unwrap().0.allowed());
    assert!(engine.release(&lease.unwrap(), START).unwrap().here);
    assert!(engine.acquire(&request, START).unwrap().0.allowed());
}

#[test]
fn quota_rules_of_both_kinds_excuse_each_other() {
    let rules = "
domain: d
descriptors:
- {key: here, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1, consistency: local}}
- {key: there, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
";
    let engine = sharing(rules, b"");
    let authority = &mut Authority::default();
    let mut both = |expected: &str, forces: [Force; 2]| {
        let verdict = ask(&engine, authority, &["here=1", "there=1"]);
        assert_eq!(summary(&verdict), expected);
        assert_eq!([0, 1].map(|index| verdict.rulings()[index].force), forces, "{expected}");
    };
    both("pass 0 1", [Force::Quota; 2]);
    both("pass 0! 0", [Force::Excused, Force::Quota]);
    both("deny 0! 0!", [Force::Quota; 2]);
    assert_eq!(summary(&ask(&engine, authority, &["here=2", "there=1"])), "pass 0 0!");
    assert_eq!(summary(&ask(&engine, authority, &["here=2", "there=2"])), "pass 0! 1");
}

#[test]
fn what_is_booked_stays_booked_whoever_denies_the_request() {
    let rules = |consistency: &str| {
        let limit =
            |units: u32| format!("{{unit: hour, requests_per_unit: {units}, consistency: {consistency}}}");
        let (quota, other) = (limit(5), limit(1));
        format!(
            "
domain: d
descriptors:
- {{key: quota, quota_mode: true, rate_limit: {quota}}}
- {{key: other, rate_limit: {other}}}
"
        )
    };
    let check = |who: &str, ask: &mut dyn FnMut(&[&str]) -> Verdict| {
        let expected = [
            ("pass 0", &["other=1"][..]),
            ("deny 3 0!", &["quota=1@2", "other=1"]),
            ("pass 2", &["quota=1"]),
        ];
        for (expected, descriptors) in expected {
            assert_eq!(summary(&ask(descriptors)), expected, "{who}: {descriptors:?}");
        }
    };
    let here = engine(&rules("local"));
    check("the process", &mut |descriptors| common::ask(&here, START, descriptors));
    let there = sharing(&rules("exact"), b"");
    let authority = &mut Authority::default();
    check("the authority", &mut |descriptors| ask(&there, authority, descriptors));
    let left = sharing(&rules("exact"), b"");
    check("its share", &mut |descriptors| ask_in_vain(&left, descriptors));
}

/// Rules with each limit either local or shared, by the bits of a number.
fn rules(shared: u32) -> String {
    let limits = [
        ("a", "requests_per_unit: 3, unit: hour", ""),
        ("b", "requests: 60, period: 1m, burst: 2", ""),
        ("c", "requests_per_unit: 2, unit: hour", "quota_mode: true, "),
        ("d", "requests_per_unit: 4, unit: hour, algorithm: fixed_window", "quota_mode: true, "),
        ("e", "requests_per_unit: 2, unit: hour", "shadow_mode: true, "),
        ("f", "requests: 3, period: 1m, algorithm: sliding_log", ""),
    ];
    let lines = limits.iter().enumerate().map(|(bit, (key, numbers, mode))| {
        let consistency = if shared & 1 << bit == 0 { "local" } else { "exact" };
        format!("- {{key: {key}, {mode}rate_limit: {{{numbers}, consistency: {consistency}}}}}\n")
    });
    format!("domain: d\ndescriptors:\n{}", lines.collect::<String>())
}

/// Which counters a request is about, each with a cost of its own or none. No counter twice: what is asked elsewhere is asked at once.
fn request(costs_min: i64) -> impl Strategy<Value = Vec<String>> {
    let cost = (costs_min..3).prop_filter("a cost", |cost| *cost != 0);
    let descriptor = prop_oneof![2 => Just(String::new()), 1 => cost.prop_map(|cost| format!("@{cost}"))];
    prop::sample::subsequence(vec!["a", "b", "c", "d", "e", "f"], 1..4).prop_flat_map(move |keys| {
        prop::collection::vec(descriptor.clone(), keys.len()).prop_map(move |costs| {
            keys.iter().zip(costs).map(|(key, cost)| format!("{key}=1{cost}")).collect()
        })
    })
}

proptest! {
    /// One process and an authority that always answers decide as the process alone does, whichever limits are shared.
    #[test]
    fn shared_or_not_the_answers_are_the_same(
        shared in 0..64_u32,
        requests in prop::collection::vec((request(-2), 0..40_u64), 1..20),
    ) {
        let (alone, together) = (engine(&rules(0)), sharing(&rules(shared), b""));
        let authority = &mut Authority::default();
        let mut now = START;
        for (descriptors, seconds) in &requests {
            now = now.plus(tollgate::core::Span::from_ticks(seconds * 1_000_000_000));
            let descriptors: Vec<&str> = descriptors.iter().map(String::as_str).collect();
            let expected = with_request(&descriptors, |request| alone.decide(request, now).unwrap());
            let got = with_request(&descriptors, |request| decide(&together, authority, request, now).unwrap());
            prop_assert_eq!(got.allowed(), expected.allowed(), "{:?} of {:?}", descriptors, requests);
            // And leave the same behind.
            for key in ["a=1", "b=1", "c=1", "d=1", "e=1", "f=1"] {
                let look = |engine: &Engine, authority: &mut Authority| with_request(&[key], |request| {
                    summary(&decide(engine, authority, &request.peek(), now).unwrap())
                });
                let expected = look(&alone, &mut Authority::default());
                prop_assert_eq!(look(&together, authority), expected, "{} after {:?} of {:?}", key, descriptors, requests);
            }
        }
    }

    /// And while it is away, so does the share of the only process there is. What comes back then stays where it was taken, elsewhere.
    #[test]
    fn the_only_process_decides_as_if_nothing_were_shared(
        shared in 0..64_u32,
        requests in prop::collection::vec((request(1), 0..40_u64), 1..20),
    ) {
        let (alone, left) = (engine(&rules(0)), sharing(&rules(shared), b""));
        let mut now = START;
        for (descriptors, seconds) in &requests {
            now = now.plus(Span::from_ticks(seconds * 1_000_000_000));
            let descriptors: Vec<&str> = descriptors.iter().map(String::as_str).collect();
            let [expected, got] = [&alone, &left].map(|engine| {
                with_request(&descriptors, |request| engine.decide(request, now).unwrap().allowed())
            });
            prop_assert_eq!(got, expected, "{:?} of {:?}", descriptors, requests);
            for key in ["a=1", "b=1", "c=1", "d=1", "e=1", "f=1"] {
                let [expected, got] = [&alone, &left].map(|engine| {
                    with_request(&[key], |request| summary(&engine.decide(&request.peek(), now).unwrap()))
                });
                prop_assert_eq!(got, expected, "{} after {:?} of {:?}", key, descriptors, requests);
            }
        }
    }
}

#[test]
fn a_cost_that_a_shared_limit_never_admits_is_never_without_asking() {
    let rules = "
domain: d
descriptors:
- {key: own, rate_limit: {unit: hour, requests_per_unit: 100, algorithm: fixed_window, consistency: local}}
- {key: all, rate_limit: {name: all, unit: hour, requests_per_unit: 5, algorithm: fixed_window, consistency: exact}}
";
    let (engine, mut authority) = (sharing(rules, b"secret"), Authority::default());
    let mut ask = |descriptors: &[&str], cost: u64| {
        with_request(descriptors, |request| {
            decide(&engine, &mut authority, &request.cost(cost), START).unwrap()
        })
    };
    assert!(ask(&["own=1"], 95).allowed());
    let denied = ask(&["own=1", "all=1"], 10);
    let told = denied.tightest().unwrap();
    assert_eq!((denied.title(told), told.decision.outcome), ("all", Outcome::Never));
    assert_eq!(denied.retry_after(), None);
    let denied = ask(&["own=1", "all=1"], 6);
    assert_eq!(denied.tightest().unwrap().decision.outcome, Outcome::Never);
    assert!(ask(&["own=1", "all=1"], 5).allowed());
    assert_eq!(authority.asked, 1, "only for what could pass");
}
