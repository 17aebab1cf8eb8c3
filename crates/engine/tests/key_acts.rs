//! What operators do to single keys: bans, boosts and resets.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::authority::{Authority, acquire, decide};
use common::{START, ask, engine, engine_with, install, later, summary, with_request};
use tollgate::authority::Act;
use tollgate::core::{Outcome, Span, Time};
use tollgate::{
    DecidedBy, Engine, EngineSettings, KEY_ACTS_MAX, Keeper, KeyAct, KeyActKind, KeySubject, LedgerSettings,
    Request, Switched, TooManyKeyActs, Verdict, read_terms,
};

const RULES: &str = "
domain: d
tenant_key: t
descriptors:
- {key: a, rate_limit: {unit: hour, requests_per_unit: 10, algorithm: fixed_window}}
- {key: b, rate_limit: {unit: hour, requests_per_unit: 10, algorithm: fixed_window, overshoot: book}}
- {key: t, rate_limit: {unit: hour, requests_per_unit: 10, algorithm: fixed_window, tiers: {gold: {requests: 20}}}}
- {key: large, rate_limit: {unit: hour, requests_per_unit: 500000, algorithm: sliding_window}}
- {key: held, rate_limit: {algorithm: concurrency, requests: 2, period: 1h}}
- {key: blocked, rate_limit: {unit: hour, requests_per_unit: 0}}
- {key: two, rate_limits: [{unit: minute, requests_per_unit: 5}, {unit: hour, requests_per_unit: 10}]}
policies:
  bucket: {requests: 60, period: 1m, burst: 10}
";

fn subject(text: &str) -> KeySubject {
    if let Some((name, key)) = text.split_once('/') {
        return KeySubject::Policy { name: name.into(), key: key.into() };
    }
    let entries = text.split(',').map(|entry| entry.split_once('=').unwrap());
    let entries = entries.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    KeySubject::Descriptor { domain: "d".into(), entries }
}

fn ban(text: &str, until: Time) -> KeyAct {
    KeyAct { subject: subject(text), until, what: KeyActKind::Ban }
}

fn boost(text: &str, until: Time, percent: u32) -> KeyAct {
    KeyAct { subject: subject(text), until, what: KeyActKind::Boost { percent } }
}

fn minute() -> Time {
    later(Duration::from_mins(1))
}

fn retry_after(verdict: &Verdict) -> Option<Span> {
    assert_eq!((verdict.allowed(), verdict.decided_by()), (false, DecidedBy::Ban));
    assert_eq!(verdict.decided_by().name(), "ban");
    verdict.retry_after()
}

#[test]
fn a_ban_denies_until_its_tick_and_takes_nothing() {
    let engine = engine(RULES);
    engine.set_key_acts(vec![ban("a=1", minute()), ban("bucket/x", minute())]).unwrap();
    let last = Time::from_ticks(minute().ticks() - 1);
    for now in [START, last] {
        let left = minute().since(now);
        assert_eq!(retry_after(&ask(&engine, now, &["a=1"])), Some(left));
        assert_eq!(retry_after(&ask(&engine, now, &["a=2", "a=1", "b=1@3"])), Some(left));
        assert_eq!(retry_after(&engine.decide(&Request::policy("bucket", b"x"), now).unwrap()), Some(left));
        assert_eq!(
            retry_after(&engine.decide(&Request::policy("bucket", b"x").peek(), now).unwrap()),
            Some(left)
        );
    }
    let verdict = ask(&engine, START, &["a=2", "a=1"]);
    assert_eq!(summary(&verdict), "deny - banned");
    assert_eq!((verdict.banned_until(), verdict.rulings()), (Some(minute()), &[][..]), "no limit denies it");
    assert_eq!(
        summary(&ask(&engine, START, &["a=2@1", "b=1@1"])),
        "pass 9 9",
        "a ban takes nothing, nor does it book"
    );
    assert_eq!(summary(&ask(&engine, minute(), &["a=1"])), "pass 9");
}

#[test]
fn a_ban_is_for_one_key_whatever_rule_it_meets() {
    let engine = engine(RULES);
    engine
        .set_key_acts(vec![ban("a=1", minute()), ban("unknown=1", minute()), ban("held=x", minute())])
        .unwrap();
    assert!(ask(&engine, START, &["a=11"]).allowed());
    assert!(ask(&engine, START, &["b=1"]).allowed());
    assert_eq!(retry_after(&ask(&engine, START, &["unknown=1"])), Some(minute().since(START)));
    let (verdict, lease) = with_request(&["held=x"], |request| engine.acquire(request, START).unwrap());
    retry_after(&verdict);
    assert!(lease.is_none());
    engine.switch(Switched { all: Some(Time::MAX), ..Switched::default() });
    assert!(ask(&engine, START, &["a=1"]).allowed(), "a kill switch lets everything pass");
    engine.switch(Switched::default());
    engine.set_key_acts(Vec::new()).unwrap();
    assert!(ask(&engine, START, &["a=1"]).allowed());
    let shadow = engine_with(RULES, EngineSettings { shadow_mode: true, ..EngineSettings::default() });
    shadow.set_key_acts(vec![ban("a=1", minute())]).unwrap();
    let verdict = ask(&shadow, START, &["a=1"]);
    assert_eq!((verdict.allowed(), verdict.decided_by()), (true, DecidedBy::Ban));
}

#[test]
fn of_several_acts_on_a_key_the_longest_ban_and_the_largest_boost_count() {
    let engine = engine(RULES);
    let acts = [boost("a=1", minute(), 150), boost("a=1", minute(), 300), boost("a=1", START, 900)];
    engine.set_key_acts(acts.to_vec()).unwrap();
    assert_eq!(summary(&ask(&engine, START, &["a=1@0"])), "pass 30");
    let hour = later(Duration::from_hours(1));
    let bans = [ban("a=1", minute()), ban("a=1", hour), ban("a=1", minute())];
    engine.set_key_acts(acts.into_iter().chain(bans).collect()).unwrap();
    assert_eq!(retry_after(&ask(&engine, START, &["a=1"])), Some(hour.since(START)));
}

#[test]
fn a_boost_multiplies_until_its_tick() {
    let engine = engine(RULES);
    let boosted = ["a=1", "t=x", "held=x", "blocked=x", "two=x"].map(|key| boost(key, minute(), 250));
    engine.set_key_acts(boosted.into_iter().chain([boost("bucket/x", minute(), 250)]).collect()).unwrap();
    let at = |key: &str, now: Time| summary(&ask(&engine, now, &[key]));
    assert_eq!((at("a=1@0", START).as_str(), at("a=2@0", START).as_str()), ("pass 25", "pass 10"));
    assert_eq!(at("a=1@12", START), "pass 13");
    assert_eq!(at("a=1", minute()), "deny 0!", "what it used is counted, and trimmed");
    assert_eq!(at("held=x@0", START), "pass 5");
    assert_eq!(at("blocked=x", START), "deny 0!");
    assert_eq!(at("two=x@0", START), "pass 12", "two and a half times five");
    let limit = |now| {
        engine.decide(&Request::policy("bucket", b"x").peek(), now).unwrap().rulings()[0].decision.limit
    };
    assert_eq!((limit(START), limit(minute())), (25, 10));
    // Of what the tenant may.
    let terms = |json| Some(read_terms("t", json).unwrap());
    engine.set_tenant("x", terms(r#"{"tier": "gold"}"#), START).unwrap();
    assert_eq!(at("t=x@0", START), "pass 50");
    engine.set_tenant("x", terms(r#"{"overrides": [{"descriptor": [], "requests": 100}]}"#), START).unwrap();
    assert_eq!((at("t=x@0", START).as_str(), at("t=x@0", minute()).as_str()), ("pass 250", "pass 100"));
}

#[test]
fn counts_outlive_a_boost_that_is_kept_in_another_way() {
    let engine = engine(RULES);
    assert_eq!(summary(&ask(&engine, START, &["large=x@100"])), "pass 499900");
    engine.set_key_acts(vec![boost("large=x", minute(), 200)]).unwrap();
    assert_eq!(summary(&ask(&engine, START, &["large=x@100"])), "pass 999800");
    assert_eq!(summary(&ask(&engine, minute(), &["large=x@0"])), "pass 499800");
}

#[test]
fn there_are_so_many_acts_at_most() {
    let engine = engine(RULES);
    let acts = |count: usize| (0..count).map(|key| ban(&format!("a={key}"), minute())).collect::<Vec<_>>();
    engine.set_key_acts(acts(KEY_ACTS_MAX)).unwrap();
    assert_eq!(engine.set_key_acts(acts(KEY_ACTS_MAX + 1)), Err(TooManyKeyActs));
    retry_after(&ask(&engine, START, &["a=99999"]));
    assert!(ask(&engine, START, &["a=100000"]).allowed());
}

#[test]
fn a_reset_forgets_what_was_counted_however_that_was() {
    let engine = engine(RULES);
    let reset = |descriptors: &[&str]| {
        assert!(with_request(descriptors, |request| engine.reset(request, START).unwrap()).is_empty());
    };
    for descriptor in ["a=1", "b=1", "two=1", "large=1"] {
        assert!(ask(&engine, START, &[&format!("{descriptor}@4")]).allowed());
    }
    reset(&["a=1", "two=1", "large=1"]);
    assert_eq!(
        summary(&ask(&engine, START, &["a=1@0", "b=1@0", "two=1@0", "large=1@0"])),
        "pass 10 6 5 500000"
    );
    // Banned or not.
    ask(&engine, START, &["a=1@4"]);
    engine.set_key_acts(vec![ban("a=1", minute())]).unwrap();
    reset(&["a=1"]);
    engine.set_key_acts(Vec::new()).unwrap();
    assert_eq!(summary(&ask(&engine, START, &["a=1@0"])), "pass 10");
    // What was counted under numbers that were the tenant's own for a while.
    let terms =
        read_terms("t", r#"{"overrides": [{"descriptor": [], "requests": 50, "period": "2h"}]}"#).unwrap();
    engine.set_tenant("x", Some(terms), START).unwrap();
    assert_eq!(summary(&ask(&engine, START, &["t=x@9"])), "pass 41");
    engine.set_tenant("x", None, START).unwrap();
    reset(&["t=x"]);
    assert_eq!(summary(&ask(&engine, START, &["t=x@0"])), "pass 10");
    // And those of rules that have changed since.
    ask(&engine, START, &["a=1@4"]);
    install(&engine, &RULES.replace("algorithm: fixed_window", "algorithm: sliding_log"), START);
    reset(&["a=1"]);
    assert_eq!(summary(&ask(&engine, START, &["a=1@0"])), "pass 10");
    // Holds, and policies.
    let (_, lease) = with_request(&["held=x"], |request| engine.acquire(request, START).unwrap());
    reset(&["held=x"]);
    assert!(!engine.release(&lease.unwrap(), START).unwrap().here);
    engine.decide(&Request::policy("bucket", b"x").cost(10), START).unwrap();
    assert!(engine.reset(&Request::policy("bucket", b"x"), START).unwrap().is_empty());
    assert!(engine.decide(&Request::policy("bucket", b"x").cost(10), START).unwrap().allowed());
    assert!(engine.reset(&Request::policy("none", b"x"), START).is_err());
}

fn sharing(rules: &str) -> Engine {
    let settings = EngineSettings { ledger: LedgerSettings::with_cap(8 << 20), ..EngineSettings::default() };
    let engine = Engine::new(settings).unwrap().sharing(b"secret");
    engine.set_nodes(1);
    install(&engine, rules, START);
    engine
}

#[test]
fn a_reset_of_shared_counters_is_for_the_authority_too() {
    let rules = &RULES.replace("key: b, rate_limit: {", "key: b, rate_limit: {consistency: local, ");
    let (engine, other) = (sharing(rules), sharing(rules));
    let authority = &mut Authority::default();
    let mut ask = |engine: &Engine, descriptors: &[&str]| {
        summary(&with_request(descriptors, |request| decide(engine, authority, request, START).unwrap()))
    };
    assert_eq!(ask(&engine, &["a=1@4", "b=1@4"]), "pass 6 6");
    assert_eq!(ask(&other, &["a=1@4"]), "pass 2");
    let questions = with_request(&["a=1", "b=1"], |request| engine.reset(request, START).unwrap());
    assert!(!questions.is_empty() && questions.iter().all(|(question, _)| question.act == Act::Reset));
    assert_eq!(ask(&engine, &["a=1@0", "b=1@0"]), "pass 2 10", "nobody has told the authority yet");
    authority.ask(&questions, START);
    let mut ask = |engine: &Engine, descriptors: &[&str]| {
        summary(&with_request(descriptors, |request| decide(engine, authority, request, START).unwrap()))
    };
    assert_eq!((ask(&engine, &["a=1@0"]), ask(&other, &["a=1@0"])), ("pass 10".into(), "pass 10".into()));
    let (verdict, lease) = with_request(&["held=1"], |request| acquire(&engine, authority, request, START));
    assert!(verdict.allowed() && lease.is_some());
}

#[test]
fn a_reset_gives_up_what_is_leased() {
    let engine =
        sharing("policies: {leased: {requests: 6000, period: 1m, burst: 1000, consistency: leased}}");
    let authority = &mut Authority::default();
    let request = Request::policy("leased", b"key");
    for number in 0..300 {
        let now = START.plus(Span::from_ticks(number * 1_000_000));
        assert!(decide(&engine, authority, &request, now).unwrap().allowed());
        for errand in engine.take_errands(Keeper::Store, 100) {
            let grants = authority.ask(std::slice::from_ref(&errand.question), now);
            engine.settle(errand, grants[0], now);
        }
    }
    let now = START.plus(Span::from_ticks(300_000_000));
    assert!(engine.lease_stats(Keeper::Store, now).units > 0);
    let questions = engine.reset(&request, now).unwrap();
    assert_eq!(questions.len(), 1);
    assert_eq!(engine.lease_stats(Keeper::Store, now).units, 0);
    assert!(
        engine
            .take_errands(Keeper::Store, 100)
            .iter()
            .all(|errand| matches!(errand.question.0.act, Act::Return(_)))
    );
    authority.ask(&questions, now);
    let verdict = decide(&engine, authority, &request.cost(0), now).unwrap();
    assert_eq!(verdict.rulings()[0].decision.remaining, 1_000);
}

#[test]
fn a_ban_asks_nobody() {
    let engine = sharing(RULES);
    engine.set_key_acts(vec![ban("a=1", minute()), boost("a=2", minute(), 300)]).unwrap();
    let authority = &mut Authority::default();
    let verdict =
        with_request(&["a=1", "b=1"], |request| decide(&engine, authority, request, START).unwrap());
    assert_eq!(retry_after(&verdict), Some(minute().since(START)));
    assert_eq!(authority.asked, 0);
    let verdict = with_request(&["a=2@25"], |request| decide(&engine, authority, request, START).unwrap());
    assert_eq!(
        (summary(&verdict).as_str(), verdict.rulings()[0].decision.outcome),
        ("pass 5", Outcome::ALLOWED)
    );
    assert_eq!(authority.asked, 1);
}
