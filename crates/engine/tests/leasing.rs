//! Limits whose units are leased: most requests are decided here, and what is spent stays within the bound.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use tollgate::authority::{Act, Failure};
use tollgate::core::Time;
use tollgate::{DecidedBy, Engine, EngineSettings, Request, Source, Step};

mod common;
use common::authority::{Authority, decide};

const SECOND: u64 = 1_000_000_000;
const RULES: &str = "
policies:
  search: {requests: 6000, period: 1m, burst: 1000, algorithm: token_bucket, consistency: leased}
  strict: {requests: 6000, period: 1m, burst: 1000, algorithm: token_bucket, consistency: leased, strict: true}
  none: {requests: 6000, period: 1m, burst: 1000, algorithm: token_bucket, consistency: leased, local_fraction: 0}
  queue: {requests: 6000, period: 1m, algorithm: leaky_bucket, max_wait: 1s, consistency: leased}
";

fn at(ns: u64) -> Time {
    Time::from_ticks(1_700_000_000 * SECOND + ns)
}

fn engine() -> Engine {
    let engine = Engine::new(EngineSettings::default()).unwrap().sharing(b"secret");
    engine.load(&[Source::new("rules", RULES)], at(0)).unwrap();
    engine
}

/// Carries all errands there are.
fn run_errands(engine: &Engine, authority: &mut Authority, now: Time) {
    for errand in engine.take_errands(100) {
        let grants = authority.ask(std::slice::from_ref(&errand.question), now);
        engine.settle(&errand, grants[0], now);
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

#[test]
fn what_nobody_waits_for_any_more_is_put_back() {
    let (engine, mut authority) = (engine(), Authority::default());
    play(&engine, &mut authority, "search", 100, 0);
    let now = at(SECOND);
    let look = |engine: &Engine| {
        let request = Request::policy("search", b"key").peek();
        match engine.begin(&request, now).unwrap() {
            Step::Ready(verdict) => verdict.rulings()[0].decision.remaining,
            Step::Pending(_) => panic!("there is enough here"),
        }
    };
    let before = look(&engine);
    let Step::Ready(verdict) = engine.begin(&Request::policy("search", b"key"), now).unwrap() else {
        panic!("there is enough here")
    };
    assert!(verdict.allowed());
    assert_eq!(look(&engine), before - 1);
}

#[test]
fn leases_outlive_an_authority_that_is_away_and_end_at_their_deadline() {
    let (engine, mut authority) = (engine(), Authority::default());
    play(&engine, &mut authority, "search", 100, 0);
    for errand in engine.take_errands(100) {
        engine.settle(&errand, Err(Failure::Unreachable), at(SECOND));
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
    engine.take_errands(100);
    for _ in 0..1_000 {
        engine.tend(at(7 * SECOND));
    }
    let errands = engine.take_errands(100);
    assert!(!errands.is_empty());
    assert!(
        errands.iter().all(|errand| matches!(errand.question.0.act, Act::Return(rest) if rest.units > 0))
    );
}
