//! Limits whose units are leased: most requests are decided here, and what is spent stays within the bound.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use tollgate::authority::{Act, Failure};
use tollgate::core::{Cost, Time};
use tollgate::{DecidedBy, Engine, EngineSettings, Keeper, Request, Source, Step, Verdict};

mod common;
use common::authority::{Authority, decide};
use common::with_request;

const SECOND: u64 = 1_000_000_000;
const RULES: &str = "
policies:
  search: {requests: 6000, period: 1m, burst: 1000, algorithm: token_bucket, consistency: leased}
  strict: {requests: 6000, period: 1m, burst: 1000, algorithm: token_bucket, consistency: leased, strict: true}
  none: {requests: 6000, period: 1m, burst: 1000, algorithm: token_bucket, consistency: leased, local_fraction: 0}
  shadow: {requests: 6000, period: 1m, burst: 1000, algorithm: token_bucket, consistency: leased, shadow_mode: true}
  queue: {requests: 6000, period: 1m, algorithm: leaky_bucket, max_wait: 1s, consistency: leased}
domain: d
descriptors:
- {key: all, rate_limit: {requests: 6000, period: 1m, burst: 1000, consistency: leased}}
- {key: own, rate_limit: {requests: 1, period: 1h, consistency: exact}}
";

fn at(ns: u64) -> Time {
    Time::from_ticks(1_700_000_000 * SECOND + ns)
}

fn engine() -> Engine {
    let engine = Engine::new(EngineSettings::default()).unwrap().sharing(b"secret");
    engine.load(&[Source::new("rules", RULES)], at(0)).unwrap();
    engine.set_nodes(1);
    engine
}

/// Carries all errands there are.
fn run_errands(engine: &Engine, authority: &mut Authority, now: Time) {
    for errand in engine.take_errands(Keeper::Store, 100) {
        let grants = authority.ask(std::slice::from_ref(&errand.question), now);
        engine.settle(errand, grants[0], now);
    }
}

/// So many requests, a millisecond apart: how many passed, and how many were decided here.
fn play(engine: &Engine, authority: &mut Authority, policy: &str, requests: u64, from: u64) -> (u64, u64) {
    let (mut passed, mut here) = (0, 0);
    for number in 0..requests {
        let now = at(from + number * SECOND / 1_000);
        let verdict = decide(engine, authority, &Request::policy(policy, b"key"), now).unwrap();
        passed += u64::from(verdict.allowed());
        here += u64::from(verdict.decided_by() == DecidedBy::Lease);
        run_errands(engine, authority, now);
    }
    (passed, here)
}

#[test]
fn most_requests_are_decided_here() {
    let (engine, mut authority) = (engine(), Authority::default());
    let (passed, here) = play(&engine, &mut authority, "search", 500, 0);
    assert_eq!(passed, 500);
    assert!(here >= 490, "{here}");
    assert!(authority.asked <= 20, "{}", authority.asked);
}

#[test]
fn no_more_passes_than_the_limit_and_what_is_out() {
    // In two seconds 200 come back. Of the strict one, a quarter is reserved for what is out, and with a single node not all of that is.
    for (policy, least, most) in [("search", 1_150, 1_000 + 500 + 200), ("strict", 900, 1_000 + 200)] {
        let (engine, mut authority) = (engine(), Authority::default());
        // A thousand a second of a hundred a second.
        let (passed, _) = play(&engine, &mut authority, policy, 2_000, 0);
        assert!((least..=most).contains(&passed), "{policy}: {passed}");
    }
}

#[test]
fn what_cannot_be_leased_is_exact() {
    for policy in ["none", "queue"] {
        let (engine, mut authority) = (engine(), Authority::default());
        let (passed, here) = play(&engine, &mut authority, policy, 50, 0);
        assert_eq!((passed, here), (50, 0), "{policy}");
        assert_eq!(authority.asked, 50, "{policy}");
    }
}

/// An engine with units in hand of the limit on `all`, and an authority that admits nobody any more under the one on `own`.
fn with_units_in_hand() -> (Engine, Authority) {
    let (engine, mut authority) = (engine(), Authority::default());
    for step in 0..100 {
        let now = at(step * SECOND / 1_000);
        with_request(&["all=1"], |request| decide(&engine, &mut authority, request, now).unwrap());
        run_errands(&engine, &mut authority, now);
    }
    with_request(&["own=1"], |request| decide(&engine, &mut authority, request, at(SECOND)).unwrap());
    (engine, authority)
}

/// How many units are in hand.
fn look(engine: &Engine) -> u64 {
    engine.lease_stats(Keeper::Store, at(SECOND)).units
}

/// How many units of `all` are left, as a peek says.
fn peek(engine: &Engine, authority: &mut Authority) -> u64 {
    let verdict =
        with_request(&["all=1"], |request| decide(engine, authority, &request.peek(), at(SECOND)).unwrap());
    assert!(verdict.allowed() || look(engine) == 0, "what is in hand is spent, whatever is left elsewhere");
    verdict.rulings()[0].decision.remaining
}

#[test]
fn a_peek_counts_what_other_servers_have_booked() {
    let (first, mut authority) = with_units_in_hand();
    let second = engine();
    let in_hand = look(&first);
    assert!(in_hand > 10, "{in_hand}");
    let left = peek(&first, &mut authority);
    assert_eq!(left, peek(&second, &mut authority) + in_hand, "what the first has and what it could ask for");
    with_request(&["all=1@300"], |request| decide(&second, &mut authority, request, at(SECOND)).unwrap());
    assert_eq!(peek(&first, &mut authority), left - 300);
    with_request(&["all=1@5000"], |request| decide(&second, &mut authority, request, at(SECOND)).unwrap());
    assert_eq!(peek(&first, &mut authority), in_hand, "the shared count is in debt");
    assert_eq!(look(&first), in_hand, "nothing was taken");
}

#[test]
fn a_peek_is_answered_by_what_is_in_hand_while_the_authority_is_away() {
    let (engine, _) = with_units_in_hand();
    let in_hand = look(&engine);
    let verdict = with_request(&["all=1"], |request| engine.decide(&request.peek(), at(SECOND)).unwrap());
    let ruling = verdict.rulings()[0];
    assert_eq!((verdict.allowed(), ruling.decided_by), (true, DecidedBy::Lease));
    assert_eq!(ruling.decision.remaining, in_hand);
}

#[test]
fn what_nobody_waits_for_any_more_is_put_back() {
    let (engine, _) = with_units_in_hand();
    let before = look(&engine);
    let step = with_request(&["all=1", "own=1"], |request| engine.begin(request, at(SECOND)).unwrap());
    let Step::Pending(pending) = step else { panic!("the other limit has to be asked") };
    assert_eq!(look(&engine), before - 1, "lent meanwhile");
    engine.abandon(pending, at(SECOND));
    assert_eq!(look(&engine), before);
}

#[test]
fn a_request_that_another_limit_denies_takes_nothing_of_a_lease() {
    let (engine, mut authority) = with_units_in_hand();
    let before = look(&engine);
    let ask = |authority: &mut Authority, descriptors: &[&str]| {
        with_request(descriptors, |request| decide(&engine, authority, request, at(SECOND)).unwrap())
    };
    assert!(!ask(&mut authority, &["all=1", "own=1"]).allowed());
    assert_eq!(look(&engine), before);
    assert!(ask(&mut authority, &["all=1", "own=2"]).allowed());
    assert_eq!(look(&engine), before - 1);
}

#[test]
fn what_is_booked_stays_spent_of_a_lease_whoever_denies_the_request() {
    let (engine, mut authority) = with_units_in_hand();
    let before = look(&engine);
    let both = ["all=1@5", "own=1"];
    let verdict =
        with_request(&both, |request| decide(&engine, &mut authority, request, at(SECOND)).unwrap());
    assert!(!verdict.allowed());
    assert_eq!(look(&engine), before - 5);
    let step = with_request(&both, |request| engine.begin(request, at(SECOND)).unwrap());
    let Step::Pending(pending) = step else { panic!("the other limit has to be asked") };
    engine.abandon(pending, at(SECOND));
    assert_eq!(look(&engine), before - 10);
}

#[test]
fn a_node_that_may_lease_nothing_has_its_part_while_the_authority_is_away() {
    let engine = engine();
    let ask = || match engine.begin(&Request::policy("none", b"key"), at(0)).unwrap() {
        Step::Pending(pending) => engine.resume(pending, &[Err(Failure::Unreachable)], at(0)).verdict,
        Step::Ready(verdict) => verdict,
    };
    assert!(ask().allowed());
    assert_eq!(ask().decided_by(), DecidedBy::FailLocal);
}

#[test]
fn leases_outlive_an_authority_that_is_away_and_end_at_their_deadline() {
    let (engine, mut authority) = (engine(), Authority::default());
    play(&engine, &mut authority, "search", 100, 0);
    for errand in engine.take_errands(Keeper::Store, 100) {
        engine.settle(errand, Err(Failure::Unreachable), at(SECOND));
    }
    let decided_by = |now: Time| match engine.begin(&Request::policy("search", b"key"), now).unwrap() {
        Step::Ready(verdict) => verdict.decided_by(),
        Step::Pending(pending) => {
            engine.resume(pending, &[Err(Failure::Unreachable)], now).verdict.decided_by()
        }
    };
    assert_eq!(decided_by(at(SECOND)), DecidedBy::Lease);
    assert_eq!(decided_by(at(60 * SECOND)), DecidedBy::FailLocal);
}

#[test]
fn what_is_idle_goes_back() {
    let (engine, mut authority) = (engine(), Authority::default());
    play(&engine, &mut authority, "search", 100, 0);
    engine.take_errands(Keeper::Store, 100);
    for _ in 0..1_000 {
        engine.tend(at(7 * SECOND));
    }
    let errands = engine.take_errands(Keeper::Store, 100);
    assert!(!errands.is_empty());
    assert!(
        errands.iter().all(|errand| matches!(errand.question.0.act, Act::Return(rest) if rest.units > 0))
    );
}

/// An engine that has units in hand, and how many are left in all.
fn with_a_rest() -> (Engine, Authority, Time, u64) {
    let (engine, mut authority) = (engine(), Authority::default());
    play(&engine, &mut authority, "search", 500, 0);
    let now = at(SECOND / 2);
    let verdict = ask_for(&engine, &mut authority, 1_000, now);
    assert!(!verdict.allowed());
    let rest = verdict.rulings()[0].decision.remaining;
    let in_hand = engine.lease_stats(Keeper::Store, now).units;
    assert!(in_hand > 10 && rest > in_hand, "{in_hand} of {rest} are in hand");
    (engine, authority, now, rest)
}

fn ask_for(engine: &Engine, authority: &mut Authority, cost: u64, now: Time) -> Verdict {
    decide(engine, authority, &Request::policy("search", b"key").cost(cost), now).unwrap()
}

#[test]
fn what_is_in_hand_counts_where_a_request_wants_more() {
    let (engine, mut authority, now, rest) = with_a_rest();
    let denied = ask_for(&engine, &mut authority, rest + 1, now);
    let decision = denied.rulings()[0].decision;
    assert!(!denied.allowed());
    assert_eq!(decision.remaining, rest, "who is denied takes nothing");
    let retry_after = decision.retry_after().unwrap();
    assert!(retry_after.ticks() <= SECOND / 100, "a hundred a second come back: {retry_after:?}");
    let peek = Request::policy("search", b"key").cost(rest).peek();
    let looked = decide(&engine, &mut authority, &peek, now).unwrap();
    assert!(looked.allowed() && looked.rulings()[0].decision.remaining == rest, "{:?}", looked.rulings());
    let all = ask_for(&engine, &mut authority, rest, now);
    assert!(all.allowed(), "{:?}", all.rulings());
    assert_eq!(all.rulings()[0].decision.remaining, 0);
    assert_eq!(engine.lease_stats(Keeper::Store, now).units, 0);
    assert!(!ask_for(&engine, &mut authority, 1, now).allowed());
}

#[test]
fn what_is_in_hand_is_put_back_where_nobody_waits_for_the_others() {
    let (engine, mut authority, now, rest) = with_a_rest();
    let in_hand = engine.lease_stats(Keeper::Store, now).units;
    let request = Request::policy("search", b"key").cost(rest);
    let Step::Pending(pending) = engine.begin(&request, now).unwrap() else {
        panic!("there is too little here")
    };
    assert_eq!(pending.questions()[0].0.act, Act::Take(Cost::new(rest - in_hand)));
    assert_eq!(engine.lease_stats(Keeper::Store, now).units, 0);
    engine.abandon(pending, now);
    assert_eq!(engine.lease_stats(Keeper::Store, now).units, in_hand);
    assert!(ask_for(&engine, &mut authority, rest, now).allowed());
}

#[test]
fn a_denial_in_shadow_takes_nothing_of_what_is_in_hand() {
    let (engine, mut authority) = (engine(), Authority::default());
    play(&engine, &mut authority, "shadow", 500, 0);
    let now = at(SECOND / 2);
    let in_hand = engine.lease_stats(Keeper::Store, now).units;
    assert!(in_hand > 10, "{in_hand}");
    let request = Request::policy("shadow", b"key").cost(1_000);
    let verdict = decide(&engine, &mut authority, &request, now).unwrap();
    assert!(verdict.allowed() && !verdict.rulings()[0].decision.is_allowed());
    assert_eq!(engine.lease_stats(Keeper::Store, now).units, in_hand);
}
