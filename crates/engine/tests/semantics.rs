//! What a request gets: each case one table of questions and answers, all at one moment unless the time is what matters.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{START, TWO, ask, check, check_on, engine, engine_with, install, later, summary, with_request};
use tollgate::core::{Outcome, Rate, Span, Time, TokenBucket};
use tollgate::policy::Unit;
use tollgate::{
    DecidedBy, Descriptor, Engine, EngineSettings, LedgerSettings, OwnLimit, Request, RequestError, Subject,
    Switched, Unmatched,
};

#[test]
fn all_limits_must_admit_and_a_denied_request_takes_nothing() {
    check(
        TWO,
        &[
            (&["a=1", "b=1"], "pass 1 2"),
            (&["a=1", "b=1"], "pass 0 1"),
            (&["a=1", "b=1"], "deny 0! 1"),
            (&["b=1"], "pass 0"),
            (&["b=1"], "deny 0!"),
            (&["a=2", "b=1"], "deny 2 0!"),
            (&["a=2"], "pass 1"),
        ],
    );
}

#[test]
fn what_no_rule_knows_passes() {
    check(TWO, &[(&["c=1"], "pass -"), (&["a=1,b=1"], "pass -"), (&["c=1", "a=1"], "pass - 1")]);
    let other = engine(TWO).decide(&Request::new("other", &[Descriptor::new(&[("a", "1")])]), START);
    assert_eq!(summary(&other.unwrap()), "pass -");
}

#[test]
fn several_windows_on_one_descriptor() {
    let rules = "
domain: d
descriptors:
- key: a
  rate_limits:
  - {requests: 2, period: 1s, name: fast}
  - {requests: 3, period: 1h, name: slow}
";
    let engine = engine(rules);
    check_on(&engine, &[(&["a=1"], "pass 1"), (&["a=1"], "pass 0"), (&["a=1"], "deny 0!")]);
    let verdict = ask(&engine, later(Duration::from_secs(5)), &["a=1"]);
    assert_eq!(summary(&verdict), "pass 0");
    let verdict = ask(&engine, later(Duration::from_secs(10)), &["a=1"]);
    assert_eq!(summary(&verdict), "deny 0!");
    assert_eq!(verdict.title(verdict.tightest().unwrap()), "slow");
    assert_eq!(verdict.rulings().len(), 2);
}

#[test]
fn shadow_rules_count_and_never_deny() {
    let rules = "
domain: d
descriptors:
- {key: a, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: b, rate_limit: {unit: hour, requests_per_unit: 9}}
";
    check(
        rules,
        &[
            (&["a=1"], "pass 0"),
            (&["a=1"], "pass 0!"),
            (&["a=1", "b=1"], "pass 0! 8"),
            (&["a=2", "b=1"], "pass 0 7"),
        ],
    );
}

#[test]
fn unlimited_is_told_and_not_counted_and_zero_blocks() {
    let rules = "
domain: d
descriptors:
- {key: a, rate_limit: {unlimited: true}}
- {key: b, rate_limit: {unit: hour, requests_per_unit: 0}}
";
    check(rules, &[(&["a=1"], "pass *"), (&["b=1"], "deny 0!"), (&["a=1", "b=1"], "deny * 0!")]);
    let verdict = ask(&engine(rules), START, &["b=1"]);
    assert_eq!(verdict.rulings()[0].decision.outcome, Outcome::Never);
    assert_eq!(verdict.retry_after(), None);
}

#[test]
fn a_limit_takes_the_place_of_those_it_replaces() {
    let rules = "
domain: d
descriptors:
- {key: a, rate_limit: {unit: hour, requests_per_unit: 1, name: base}}
- {key: b, rate_limit: {unit: hour, requests_per_unit: 5, name: more, replaces: [{name: base}]}}
- {key: c, rate_limit: {unlimited: true, replaces: [{name: base}]}}
- {key: e, enabled: false, rate_limit: {unit: hour, requests_per_unit: 5, replaces: [{name: base}]}}
";
    check(
        rules,
        &[
            (&["a=1"], "pass 0"),
            (&["a=1"], "deny 0!"),
            (&["a=1", "b=1"], "pass - 4"),
            (&["c=1", "a=1"], "pass * -"),
            (&["e=1", "a=1"], "deny - 0!"),
        ],
    );
}

#[test]
fn quota_rules_deny_only_together() {
    let rules = "
domain: d
descriptors:
- {key: a, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: b, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
- {key: c, rate_limit: {unit: hour, requests_per_unit: 9}}
";
    check(
        rules,
        &[
            (&["a=1", "b=1"], "pass 0 1"),
            (&["a=1", "b=1"], "pass 0! 0"),
            (&["a=1", "b=1", "c=1"], "deny 0! 0! 9"),
            (&["a=1", "c=1"], "deny 0! 9"),
            (&["a=2", "b=1", "c=1"], "pass 0 0! 8"),
        ],
    );
}

#[test]
fn matches_of_a_pattern_share_a_counter_where_told() {
    let rules = "
domain: d
descriptors:
- {key: a, value: 's*', share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 2}}
- {key: a, value: 'p*', rate_limit: {unit: hour, requests_per_unit: 2}}
";
    check(
        rules,
        &[
            (&["a=s1"], "pass 1"),
            (&["a=s2"], "pass 0"),
            (&["a=s3"], "deny 0!"),
            (&["a=p1"], "pass 1"),
            (&["a=p2"], "pass 1"),
        ],
    );
}

#[test]
fn a_descriptor_has_a_cost_of_its_own() {
    check(
        TWO,
        &[
            (&["a=1@2", "b=1"], "pass 0 2"),
            (&["a=1@0"], "pass 0"),
            (&["a=1"], "deny 0!"),
            (&["a=1@-1"], "pass 1"),
            (&["a=1@-9"], "pass 2"),
            (&["a=1", "b=1@-9"], "pass 1 3"),
        ],
    );
}

#[test]
fn a_cost_that_its_descriptor_carries_is_booked_and_denies_until_paid_off() {
    let engine = engine(TWO);
    check_on(
        &engine,
        &[
            (&["a=1@0"], "pass 2"),
            (&["a=1@3"], "deny 0!"),
            (&["a=1@0"], "deny 0!"),
            (&["a=1@-1"], "pass 0"),
            (&["a=1@0"], "pass 0"),
        ],
    );
    // A booking stands even where another limit denies.
    check_on(&engine, &[(&["b=1@3"], "pass 0"), (&["b=1", "a=2@1"], "deny 0! 1"), (&["a=2@0"], "pass 1")]);
}

#[test]
fn a_rule_says_what_becomes_of_an_overshoot() {
    let rules = "
domain: d
descriptors:
- {key: a, rate_limit: {unit: hour, requests_per_unit: 2, overshoot: deny}}
- {key: b, rate_limit: {unit: hour, requests_per_unit: 2, overshoot: book}}
";
    let engine = engine(rules);
    check_on(&engine, &[(&["a=1@3"], "deny 2!"), (&["a=1"], "pass 1"), (&["a=1@1"], "pass 0")]);
    let entries = [("b", "1")];
    let request = Request::new("d", &[]).cost(3);
    let descriptors = [Descriptor::new(&entries)];
    let request =
        Request { subject: Subject::Descriptors { domain: "d", descriptors: &descriptors }, ..request };
    assert_eq!(summary(&engine.decide(&request, START).unwrap()), "deny 0!");
    check_on(&engine, &[(&["b=1@0"], "deny 0!")]);
}

#[test]
fn a_request_brings_its_own_limit() {
    let engine = engine(TWO);
    let entries = [("z", "1")];
    let own = |requests_per_unit, unit| {
        let limit = Some(OwnLimit { requests_per_unit, unit });
        let descriptors = [Descriptor { limit, ..Descriptor::new(&entries) }];
        engine.decide(&Request::new("d", &descriptors), START).map(|verdict| summary(&verdict))
    };
    assert_eq!(own(2, Some(Unit::Hour)).unwrap(), "pass 1");
    assert_eq!(own(2, Some(Unit::Hour)).unwrap(), "pass 0");
    assert_eq!(own(2, Some(Unit::Hour)).unwrap(), "deny 0!");
    assert_eq!(own(5, Some(Unit::Hour)).unwrap(), "pass 2");
    assert_eq!(own(0, Some(Unit::Hour)).unwrap(), "deny 0!");
    assert_eq!(own(2, None).unwrap_err(), RequestError::UnknownUnit { index: 0 });
    // In a domain that nobody knows, nothing is limited.
    for unit in [Some(Unit::Hour), None] {
        let limit = Some(OwnLimit { requests_per_unit: 0, unit });
        let descriptors = [Descriptor { limit, ..Descriptor::new(&entries) }];
        let elsewhere = engine.decide(&Request::new("nowhere", &descriptors), START).unwrap();
        assert_eq!(summary(&elsewhere), "pass -");
    }
}

#[test]
fn a_peek_takes_nothing_and_gives_nothing_back() {
    let engine = engine(TWO);
    ask(&engine, START, &["a=1"]);
    let entries = [("a", "1")];
    for (descriptor, cost, expected) in [
        (Descriptor::new(&entries), 1, "pass 1"),
        (Descriptor::new(&entries), 2, "deny 1!"),
        (Descriptor { refund: true, ..Descriptor::new(&entries) }, 1, "pass 1"),
        (Descriptor { cost: Some(5), ..Descriptor::new(&entries) }, 1, "deny 1!"),
    ] {
        let descriptors = [descriptor];
        let request = Request::new("d", &descriptors).cost(cost).peek();
        assert_eq!(summary(&engine.decide(&request, START).unwrap()), expected, "{descriptor:?}");
    }
    check_on(&engine, &[(&["a=1"], "pass 0")]);
}

#[test]
fn a_rollout_takes_the_same_keys_and_only_adds_to_them() {
    let denied_at = |percent: u8| enforced_keys(percent, Some(b"secret of the fleet"));
    let (none, some, more, all) = (denied_at(0), denied_at(20), denied_at(60), denied_at(100));
    assert!(none.is_empty());
    assert!((150..250).contains(&some.len()), "{} of 1000 at 20 percent", some.len());
    assert!((550..650).contains(&more.len()), "{} of 1000 at 60 percent", more.len());
    assert!(some.iter().all(|key| more.contains(key)));
    assert_eq!(all.len(), 1_000);
    assert_eq!(denied_at(20), some);
}

#[test]
fn without_the_secret_a_client_cannot_tell_which_keys_are_enforced() {
    let (ours, theirs) = (enforced_keys(50, Some(b"ours")), enforced_keys(50, Some(b"theirs")));
    let in_both = ours.iter().filter(|key| theirs.contains(key)).count();
    // Half of the half, were one to know nothing of the other.
    assert!((200..300).contains(&in_both), "{in_both} of {} keys", ours.len());
    assert_ne!(enforced_keys(50, None), enforced_keys(50, None), "two processes without a secret");
}

/// Which of a thousand keys are denied a second request where one may pass, at this percentage.
fn enforced_keys(percent: u8, secret: Option<&[u8]>) -> Vec<usize> {
    let engine = engine(&format!(
        "
domain: d
descriptors: [{{key: a, rate_limit: {{unit: hour, requests_per_unit: 1, enforce_percent: {percent}}}}}]
"
    ));
    if let Some(secret) = secret {
        engine.set_rollout_secret(secret);
    }
    let mut denied = Vec::new();
    for key in 0..1_000 {
        let descriptor = format!("a={key}");
        ask(&engine, START, &[&descriptor]);
        if !ask(&engine, START, &[&descriptor]).allowed() {
            denied.push(key);
        }
    }
    denied
}

#[test]
fn what_is_switched_off_passes_at_once() {
    let engine = engine(TWO);
    check_on(&engine, &[(&["a=1"], "pass 1"), (&["a=1"], "pass 0"), (&["a=1"], "deny 0!")]);
    let rule = engine.snapshot().unwrap().places().next().unwrap().id();
    for (switched, expected, by) in [
        (Switched { all: Some(Time::MAX), ..Switched::default() }, "pass -", DecidedBy::KillSwitch),
        (
            Switched { domains: [("d".into(), Time::MAX)].into(), ..Switched::default() },
            "pass -",
            DecidedBy::KillSwitch,
        ),
        (
            Switched { domains: [("e".into(), Time::MAX)].into(), ..Switched::default() },
            "deny 0!",
            DecidedBy::Ledger,
        ),
        (
            Switched { rules: [(rule, Time::MAX)].into(), ..Switched::default() },
            "pass -",
            DecidedBy::KillSwitch,
        ),
        (Switched::default(), "deny 0!", DecidedBy::Ledger),
    ] {
        engine.switch(switched.clone());
        assert_eq!(engine.switched(), switched);
        let verdict = ask(&engine, START, &["a=1"]);
        assert_eq!((summary(&verdict).as_str(), verdict.decided_by()), (expected, by), "{switched:?}");
    }
    install(&engine, &TWO.replace("domain: d", "domain: d\nenabled: false"), START);
    check_on(&engine, &[(&["a=1"], "pass -")]);
}

#[test]
fn a_cost_that_one_limit_never_admits_is_never_whatever_another_says() {
    let rules = "
domain: d
descriptors:
- key: a
  rate_limits:
  - {name: short, requests: 10, period: 1s, algorithm: fixed_window}
  - {name: long, requests: 100, period: 1h, algorithm: fixed_window}
";
    let engine = engine(rules);
    for second in 0..10 {
        assert!(ask(&engine, later(Duration::from_secs(second)), &["a=1"; 1]).allowed());
        let nine = |request: &Request<'_>| {
            engine.decide(&request.cost(9), later(Duration::from_secs(second))).unwrap()
        };
        assert!(with_request(&["a=1"], nine).allowed());
    }
    let now = later(Duration::from_secs(10));
    let denied = with_request(&["a=1"], |request| engine.decide(&request.cost(50), now).unwrap());
    let told = denied.tightest().unwrap();
    assert_eq!((denied.title(told), told.decision.outcome), ("short", Outcome::Never));
    assert_eq!(denied.retry_after(), None, "the long one alone would say when it is unused again");
    assert!(
        ask(&engine, now, &["a=1"]).retry_after().is_some_and(|wait| wait > Span::from_ticks(60_000_000_000))
    );
}

#[test]
fn a_switch_ends_at_its_tick_by_itself() {
    let engine = engine(TWO);
    let (rule, end) =
        (engine.snapshot().unwrap().places().next().unwrap().id(), later(Duration::from_mins(1)));
    for switched in [
        Switched { all: Some(end), ..Switched::default() },
        Switched { domains: [("d".into(), end)].into(), ..Switched::default() },
        Switched { rules: [(rule, end)].into(), ..Switched::default() },
    ] {
        engine.switch(switched.clone());
        let last = Time::from_ticks(end.ticks() - 1);
        let decided_by = |now| ask(&engine, now, &["a=1@0"]).decided_by();
        assert_eq!(decided_by(last), DecidedBy::KillSwitch, "{switched:?}");
        assert_eq!(decided_by(end), DecidedBy::Ledger, "{switched:?}");
    }
}

#[test]
fn a_verdict_says_why_no_rule_was_met() {
    let engine = engine(TWO);
    let unmatched = |domain: &str, entries: &[(&str, &str)]| {
        let descriptors = [Descriptor::new(entries)];
        engine.decide(&Request::new(domain, &descriptors), START).unwrap().unmatched()
    };
    assert_eq!(unmatched("nowhere", &[("a", "1")]), Some(Unmatched::Domain));
    assert_eq!(unmatched("d", &[("c", "1")]), Some(Unmatched::Rule));
    assert_eq!(unmatched("d", &[("a", "1")]), None);
    assert_eq!(ask(&engine, START, &["a=1", "c=1"]).unmatched(), None, "one of them met a rule");
    engine.switch(Switched { all: Some(Time::MAX), ..Switched::default() });
    assert_eq!(unmatched("d", &[("c", "1")]), None, "nothing was looked up");
}

#[test]
fn callers_with_their_own_numbers_are_let_through_too() {
    let limit =
        TokenBucket::new(Rate::new(1, Span::from_ticks(3_600_000_000_000)).unwrap(), 1).unwrap().into();
    let admitted =
        |engine: &Engine| (0..2).filter(|_| engine.throttle(b"k", &limit, 1, START).is_allowed()).count();
    assert_eq!(admitted(&engine(TWO)), 1);
    assert_eq!(
        admitted(&engine_with(TWO, EngineSettings { shadow_mode: true, ..EngineSettings::default() })),
        2
    );
    let engine = engine(TWO);
    engine.switch(Switched { all: Some(Time::MAX), ..Switched::default() });
    assert_eq!(admitted(&engine), 2);
    engine.switch(Switched::default());
    assert_eq!(admitted(&engine), 1, "nothing was taken meanwhile");
}

#[test]
fn shadow_mode_of_the_whole_turns_the_verdict_alone() {
    let engine = engine_with(TWO, EngineSettings { shadow_mode: true, ..EngineSettings::default() });
    check_on(&engine, &[(&["a=1"], "pass 1"), (&["a=1"], "pass 0"), (&["a=1"], "pass 0!")]);
}

#[test]
fn tenants_have_the_numbers_of_their_tier() {
    let rules = "
domain: d
tenant_key: t
tenants: {acme: pro, vip: max}
descriptors:
- {key: t, rate_limit: {unit: hour, requests_per_unit: 1, tiers: {pro: {requests_per_unit: 3}, max: {unlimited: true}}}}
policies:
  p: {requests: 1, period: 1h, tiers: {pro: {requests: 3}}}
";
    let engine = engine(rules);
    check_on(&engine, &[(&["t=nobody"], "pass 0"), (&["t=acme"], "pass 2"), (&["t=vip"], "pass *")]);
    let policy = |tier| {
        let subject = Subject::Policy { name: "p", key: b"k", tier };
        engine
            .decide(&Request { subject, cost: 1, peek: false, id: None }, START)
            .map(|verdict| summary(&verdict))
    };
    assert_eq!(policy(Some("pro")).unwrap(), "pass 2");
    assert_eq!(policy(None).unwrap(), "deny 0!");
    let unknown = policy(Some("gold")).unwrap_err().to_string();
    assert_eq!(unknown, "policy \"p\" has no tier \"gold\"; its tiers are pro");
}

#[test]
fn questions_without_an_answer_say_why() {
    let engine = engine(TWO);
    let error = |request: Request<'_>| engine.decide(&request, START).unwrap_err().to_string();
    let descriptors = [Descriptor::new(&[("a", "1")])];
    assert_eq!(error(Request::new("", &descriptors)), "rate limit domain must not be empty");
    assert_eq!(error(Request::new("d", &[])), "rate limit descriptor list must not be empty");
    assert_eq!(error(Request::policy("p", b"k")), "unknown policy \"p\"");
    let empty = Engine::new(EngineSettings {
        ledger: LedgerSettings::with_cap(8 << 20),
        ..EngineSettings::default()
    })
    .unwrap();
    let answer = empty.decide(&Request::new("d", &descriptors), START).unwrap_err();
    assert_eq!(answer.to_string(), "no rate limit configuration loaded");
}

#[test]
fn the_tightest_ruling_is_reported() {
    let rules = "
domain: d
descriptors:
- {key: a, rate_limit: {requests: 1, period: 10s, algorithm: token_bucket}}
- {key: b, rate_limit: {requests: 1, period: 60s, algorithm: token_bucket}}
- {key: c, rate_limit: {requests: 9, period: 60s}}
";
    let engine = engine(rules);
    let verdict = ask(&engine, START, &["c=1", "a=1"]);
    assert_eq!(verdict.title(verdict.tightest().unwrap()), "a");
    ask(&engine, START, &["b=1"]);
    let verdict = ask(&engine, START, &["c=1", "a=1", "b=1"]);
    assert_eq!(verdict.title(verdict.tightest().unwrap()), "b");
    assert_eq!(verdict.retry_after().map(tollgate::core::Span::ticks), Some(60_000_000_000));
}

#[test]
fn counters_outlive_a_change_of_numbers_and_of_algorithm() {
    let engine = engine(TWO);
    check_on(&engine, &[(&["a=1"], "pass 1"), (&["b=1@2"], "pass 1")]);
    install(&engine, &TWO.replace("requests_per_unit: 2", "requests_per_unit: 5"), START);
    check_on(&engine, &[(&["a=1"], "pass 3")]);
    install(&engine, &TWO.replace("requests_per_unit: 3", "requests_per_unit: 3, burst: 3"), START);
    check_on(&engine, &[(&["b=1"], "pass 0"), (&["b=1"], "deny 0!"), (&["a=1"], "deny 0!")]);
}

#[test]
fn leases_are_held_until_released_once_or_until_their_deadline() {
    let rules = "
domain: d
descriptors:
- {key: a, rate_limit: {requests: 2, period: 30s, algorithm: concurrency}}
policies:
  p: {requests: 1, period: 30s, algorithm: concurrency}
  q: {requests: 1, period: 30s}
";
    let engine = engine(rules);
    let descriptors = [Descriptor::new(&[("a", "1")])];
    for request in [Request::policy("p", b"k"), Request::new("d", &descriptors).cost(2)] {
        let (verdict, lease) = engine.acquire(&request, START).unwrap();
        assert!(verdict.allowed());
        let (verdict, none) = engine.acquire(&request, START).unwrap();
        assert!(!verdict.allowed() && none.is_none());
        let lease: tollgate::Lease = lease.unwrap().to_string().parse().unwrap();
        assert!(engine.release(&lease, START).unwrap().here);
        assert!(!engine.release(&lease, START).unwrap().here, "twice");
        let (verdict, again) = engine.acquire(&request, START).unwrap();
        assert!(verdict.allowed() && again.is_some());
        let (verdict, _) = engine.acquire(&request, later(Duration::from_secs(31))).unwrap();
        assert!(verdict.allowed(), "past the deadline");
        assert!(!engine.release(&again.unwrap(), later(Duration::from_secs(31))).unwrap().here);
    }
    let nothing = engine.acquire(&Request::policy("q", b"k"), START).unwrap_err();
    assert_eq!(nothing, RequestError::NothingToHold);
    assert_eq!(
        summary(&engine.decide(&Request::policy("q", b"k"), START).unwrap()),
        "pass 0",
        "nothing was taken"
    );
    assert!("xyz".parse::<tollgate::Lease>().is_err());
    let foreign: tollgate::Lease = "00".repeat(40).parse().unwrap();
    assert_eq!(engine.release(&foreign, START).unwrap_err(), tollgate::ReleaseError::Unsealed);
}
