//! Limits whose counts are kept in a database: what it is asked, for whom, and what happens without it.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use tollgate::authority::{Failure, Pin};
use tollgate::core::Time;
use tollgate::{
    DecidedBy, Descriptor, Engine, EngineSettings, Keeper, Request, Source, Step, TenantTerms, read_terms,
};

mod common;
use common::authority::{Authority, decide};

const SECOND: u64 = 1_000_000_000;
const RULES: &str = "
policies:
  monthly: {requests: 10000, calendar: month, durable: true}
  few: {requests: 5, period: 1h, durable: true}
  open: {requests: 5, period: 1h, durable: true, fail_mode: open}
  local: {requests: 5, period: 1h, durable: true, fail_mode: local}
  plain: {requests: 5, period: 1h}
domain: d
tenant_key: tenant
descriptors:
- key: tenant
  descriptors:
  - {key: model, rate_limits: [{name: day, requests: 9, calendar: day, durable: true}, {name: hour, requests: 9, unit: hour}]}
- {key: path, rate_limit: {requests: 9, calendar: day, durable: true}}
";

fn at(ns: u64) -> Time {
    Time::from_ticks(1_700_000_000 * SECOND + ns)
}

fn engine() -> Engine {
    let engine = Engine::new(EngineSettings::default()).unwrap().with_database();
    engine.load(&[Source::new("rules", RULES)], at(0)).unwrap();
    engine.set_database_nodes(1);
    engine
}

/// What the database is asked about a request: for whom, and under which rule.
fn asked(engine: &Engine, request: &Request<'_>) -> Vec<(String, String)> {
    let Step::Pending(pending) = engine.begin(request, at(0)).unwrap() else { panic!("nobody is asked") };
    let told = |(question, pin): &tollgate::authority::Directed| {
        assert_eq!(*pin, Some(Pin::DATABASE));
        let account = question.account.as_ref().expect("an account");
        (account.subject.to_string(), account.rule.to_string())
    };
    let told = pending.questions().iter().map(told).collect();
    engine.abandon(pending, at(0));
    told
}

#[test]
fn the_database_is_told_for_whom() {
    let engine = engine();
    assert!(engine.is_sharing());
    let pair = |subject: &str, rule: &str| vec![(subject.to_owned(), rule.to_owned())];
    assert_eq!(asked(&engine, &Request::policy("few", b"acme")), pair("acme", "policy few"));
    let of_tenant = [Descriptor::new(&[("tenant", "acme"), ("model", "large")])];
    assert_eq!(asked(&engine, &Request::new("d", &of_tenant)), pair("acme", "d: tenant > model / day"));
    let of_path = [Descriptor::new(&[("path", "/a")])];
    assert_eq!(asked(&engine, &Request::new("d", &of_path)), pair("path=/a", "d: path"));
    let plain = engine.begin(&Request::policy("plain", b"acme"), at(0)).unwrap();
    assert!(matches!(plain, Step::Ready(verdict) if verdict.decided_by() == DecidedBy::Ledger));
}

#[test]
fn most_requests_are_decided_of_a_block() {
    let (engine, mut authority) = (engine(), Authority::default());
    let mut of_block = 0;
    for number in 0..2_000 {
        let now = at(number * SECOND / 100);
        let verdict = decide(&engine, &mut authority, &Request::policy("monthly", b"acme"), now).unwrap();
        assert!(verdict.allowed());
        of_block += u32::from(verdict.decided_by() == DecidedBy::Lease);
        assert!(!engine.has_errands(Keeper::Store), "nothing goes to a store that is not there");
        for errand in engine.take_errands(Keeper::Database, 100) {
            let grants = authority.ask(std::slice::from_ref(&errand.question), now);
            engine.settle(errand, grants[0], now);
        }
        let in_hand = engine.lease_stats(Keeper::Database, now).units;
        assert!(in_hand <= 100, "{in_hand} are more than a hundredth of the quota");
    }
    assert!(of_block >= 1_950, "{of_block}");
    assert!(authority.asked <= 80, "{}", authority.asked);
}

#[test]
fn without_the_database_the_rule_decides() {
    let engine = engine();
    let pass = |policy: &str| {
        let Step::Pending(pending) = engine.begin(&Request::policy(policy, b"acme"), at(0)).unwrap() else {
            panic!("nobody is asked")
        };
        let verdict = engine.resume(pending, &[Err(Failure::Unreachable)], at(0)).verdict;
        (verdict.allowed(), verdict.decided_by())
    };
    assert_eq!(pass("few"), (false, DecidedBy::FailClosed), "nothing passes that nobody counts");
    assert_eq!(pass("open"), (true, DecidedBy::FailOpen));
    assert_eq!(pass("local"), (true, DecidedBy::FailLocal));
}

#[test]
fn without_a_database_this_process_counts() {
    let engine = Engine::new(EngineSettings::default()).unwrap();
    engine.load(&[Source::new("rules", RULES)], at(0)).unwrap();
    assert!(!engine.is_sharing() && !engine.has_database());
    let passed = (0..9).filter(|_| engine.decide(&Request::policy("few", b"a"), at(0)).unwrap().allowed());
    assert_eq!(passed.count(), 5);
}

fn terms(json: &str) -> TenantTerms {
    read_terms("terms", json).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn tenants_have_durable_numbers_of_their_own_unless_they_are_too_large() {
    let (engine, mut authority) = (engine(), Authority::default());
    let own = |requests: u64| {
        terms(&format!(r#"{{"overrides": [{{"policy": "few", "requests": {requests}, "period": "1h"}}]}}"#))
    };
    engine.set_tenant("acme", Some(own(2)), at(0)).unwrap();
    let mut passed = |key: &[u8]| {
        let mut ask = || decide(&engine, &mut authority, &Request::policy("few", key), at(0)).unwrap();
        (0..9).filter(|_| ask().allowed()).count()
    };
    assert_eq!(passed(b"acme"), 2);
    assert_eq!(passed(b"somebody else"), 5);
    let warnings = engine.check_terms(&own(1 << 46));
    assert!(!warnings.is_empty(), "counted in memory, it would be forgotten");
    engine.set_tenant("large", Some(own(1 << 46)), at(0)).unwrap();
    assert_eq!(asked(&engine, &Request::policy("few", b"large")).len(), 1, "the database still counts");
}
