//! What single tenants may: tiers and numbers of their own, from when and until when, beside the rules.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::authority::{Authority, decide};
use common::{START, ask, engine, install, later, summary, with_request};
use tollgate::core::{Span, Time};
use tollgate::{
    DecidedBy, Descriptor, Engine, EngineSettings, Keeper, LedgerSettings, Request, TenantSubject,
    TenantTerms, read_terms,
};

const RULES: &str = "
domain: d
tenant_key: t
tenants: {gil: gold}
descriptors:
- {key: t, rate_limit: {unit: hour, requests_per_unit: 2, algorithm: fixed_window, tiers: {gold: {requests: 5}}}}
- key: path
  value: /a
  descriptors:
  - {key: t, rate_limit: {unit: hour, requests_per_unit: 3, algorithm: fixed_window}}
- key: path
  descriptors:
  - {key: t, rate_limit: {unit: hour, requests_per_unit: 4, algorithm: fixed_window}}
- key: several
  descriptors:
  - key: t
    rate_limits:
    - {unit: minute, requests_per_unit: 2, name: m, algorithm: fixed_window}
    - {unit: hour, requests_per_unit: 3, name: h, algorithm: fixed_window}
policies:
  search: {requests: 6, period: 1h, algorithm: fixed_window, tiers: {gold: {requests: 9}}}
  bucket: {requests: 60, period: 1m, burst: 10}
";

fn terms(json: &str) -> TenantTerms {
    read_terms("terms", json).unwrap_or_else(|problems| panic!("{problems}"))
}

fn set(engine: &Engine, tenant: &str, json: &str) {
    engine.set_tenant(tenant, Some(terms(json)), START).unwrap();
}

/// What a descriptor could have, unused.
fn limit(engine: &Engine, now: Time, descriptor: &str) -> u64 {
    let peek = with_request(&[descriptor], |request| engine.decide(&request.peek(), now).unwrap());
    peek.rulings()[0].decision.limit
}

fn policy_limit(engine: &Engine, name: &str, key: &str) -> u64 {
    let verdict = engine.decide(&Request::policy(name, key.as_bytes()).peek(), START).unwrap();
    verdict.rulings()[0].decision.limit
}

#[test]
fn overrides_are_for_the_rules_that_they_name() {
    let check = |json: &str, expected: [u64; 6]| {
        let engine = engine(RULES);
        set(&engine, "acme", json);
        let descriptors = ["t=acme", "path=/a,t=acme", "path=/b,t=acme", "path=/c,t=acme", "t=other"];
        let limits = descriptors.map(|descriptor| limit(&engine, START, descriptor));
        assert_eq!(limits, expected[..5], "{json}");
        assert_eq!(policy_limit(&engine, "search", "acme"), expected[5], "{json}");
    };
    let per_hour =
        |target: &str| format!(r#"{{"overrides": [{{{target}, "requests_per_unit": 50, "unit": "hour"}}]}}"#);
    check(r#"{"tier": "none"}"#, [2, 3, 4, 4, 2, 6]);
    check(r#"{"tier": "gold"}"#, [5, 3, 4, 4, 2, 9]);
    check(&per_hour(r#""descriptor": []"#), [50, 3, 4, 4, 2, 6]);
    check(&per_hour(r#""descriptor": "path""#), [2, 50, 50, 50, 2, 6]);
    check(&per_hour(r#""descriptor": "path:/a""#), [2, 50, 4, 4, 2, 6]);
    check(&per_hour(r#""descriptor": ["path:/b"]"#), [2, 3, 50, 4, 2, 6]);
    check(&per_hour(r#""descriptor": "path:/b", "domain": "d""#), [2, 3, 50, 4, 2, 6]);
    check(&per_hour(r#""descriptor": "path:/b", "domain": "e""#), [2, 3, 4, 4, 2, 6]);
    check(&per_hour(r#""descriptor": "other:/b""#), [2, 3, 4, 4, 2, 6]);
    check(&per_hour(r#""descriptor": ["path:/b", "more"]"#), [2, 3, 4, 4, 2, 6]);
    check(&per_hour(r#""policy": "search""#), [2, 3, 4, 4, 2, 50]);
    check(&per_hour(r#""policy": "none""#), [2, 3, 4, 4, 2, 6]);
    // Of several, the one that names most; numbers of its own before a tier's.
    check(
        r#"{"tier": "gold", "overrides": [
            {"descriptor": "path", "requests": 10, "period": "1h"},
            {"descriptor": "path:/b", "requests": 11, "period": "1h"},
            {"descriptor": "path:/b", "requests": 12, "period": "1h"},
            {"descriptor": [], "requests": 13}]}"#,
        [13, 10, 11, 10, 2, 9],
    );
}

#[test]
fn of_several_limits_one_is_meant() {
    let check = |numbers: &str, expected: &str| {
        let engine = engine(RULES);
        set(&engine, "acme", &format!(r#"{{"overrides": [{{"descriptor": "several", {numbers}}}]}}"#));
        let verdict = ask(&engine, START, &["several=x,t=acme"]);
        let limits: Vec<_> = verdict.rulings().iter().map(|ruling| ruling.decision.limit).collect();
        assert_eq!(format!("{limits:?}"), expected, "{numbers}");
    };
    check(r#""requests": 9, "period": "1m""#, "[9, 3]");
    check(r#""requests": 9, "unit": "hour""#, "[2, 9]");
    check(r#""requests": 9, "unit": "day""#, "[2, 3]");
    check(r#""requests": 9"#, "[2, 3]");
    check(r#""requests": 9, "unit": "day", "limit": "m""#, "[9, 3]");
    check(r#""requests": 9, "limit": "none""#, "[2, 3]");
    check(r#""unlimited": true"#, "[]");
    check(r#""unlimited": true, "limit": "h""#, "[2]");
    check(r#""requests": 0, "limit": "h""#, "[2, 0]");
}

#[test]
fn a_tier_that_was_told_wins_over_that_of_the_rules() {
    let engine = engine(RULES);
    assert_eq!(limit(&engine, START, "t=gil"), 5);
    set(&engine, "gil", r#"{"tier": "silver"}"#);
    assert_eq!(limit(&engine, START, "t=gil"), 2, "a tier that the rule does not have");
    set(&engine, "gil", r#"{"tier": null, "overrides": [{"descriptor": "path", "requests": 7}]}"#);
    assert_eq!((limit(&engine, START, "t=gil"), limit(&engine, START, "path=/a,t=gil")), (5, 7));
    engine.set_tenant("gil", None, START).unwrap();
    assert_eq!((limit(&engine, START, "t=gil"), limit(&engine, START, "path=/a,t=gil")), (5, 3));
    // Whoever asks about a policy may know better.
    set(&engine, "key", r#"{"tier": "gold"}"#);
    assert_eq!(policy_limit(&engine, "search", "key"), 9);
    assert!(engine.decide(&Request::policy("search", b"key").tier("silver"), START).is_err());
}

#[test]
fn phases_begin_and_end_at_their_tick() {
    let engine = engine(RULES);
    // START is 2027-01-15T08:00:00Z.
    let json = r#"{"overrides": [{"descriptor": [], "requests": 9}],
        "effective_at": "2027-01-15T09:00:00Z", "expires_at": "2027-01-15T10:00:00Z",
        "before": {"tier": "gold", "expires_at": "2027-01-15T11:00:00Z"}}"#;
    set(&engine, "acme", json);
    let hour = |hours| later(Duration::from_hours(hours));
    let just_before = |time: Time| Time::from_ticks(time.ticks() - 1);
    let cases = [
        (START, 5),
        (just_before(hour(1)), 5),
        (hour(1), 9),
        (just_before(hour(2)), 9),
        (hour(2), 2),
        (Time::MAX, 2),
    ];
    for (now, expected) in cases {
        assert_eq!(limit(&engine, now, "t=acme"), expected, "{now:?}");
    }
    let json = r#"{"tier": "gold", "expires_at": "2027-01-15T09:00:00Z"}"#;
    engine.set_tenant("acme", Some(terms(json)), hour(1)).unwrap();
    assert_eq!(engine.tenants_len(), 0, "what is over is not kept");
    set(&engine, "acme", r#"{"tier": "gold"}"#);
    assert_eq!(limit(&engine, Time::MAX, "t=acme"), 5);
}

#[test]
fn counts_stay_and_are_trimmed() {
    let engine = engine(RULES);
    assert_eq!(summary(&ask(&engine, START, &["t=acme@2"])), "pass 0");
    set(&engine, "acme", r#"{"overrides": [{"descriptor": [], "requests": 9}]}"#);
    assert_eq!(summary(&ask(&engine, START, &["t=acme@6"])), "pass 1");
    set(&engine, "acme", r#"{"overrides": [{"descriptor": [], "requests": 7}]}"#);
    assert_eq!(summary(&ask(&engine, START, &["t=acme"])), "deny 0!");
    set(&engine, "acme", r#"{"overrides": [{"descriptor": [], "requests": 10}]}"#);
    assert_eq!(
        summary(&ask(&engine, START, &["t=acme@0"])),
        "pass 2",
        "what was counted beyond seven is still counted"
    );
    engine.set_tenant("acme", None, START).unwrap();
    assert_eq!(summary(&ask(&engine, START, &["t=acme"])), "deny 0!");
}

/// Numbers of another period are counted elsewhere: what was used is carried there and back.
#[test]
fn counts_outlive_other_periods() {
    let cases = [("t", "[]"), ("path=/a,t", r#""path""#), ("path=/z,t", r#""path:/z""#)];
    for (descriptor, target) in cases {
        let engine = engine(RULES);
        let asked = |cost: u64| format!("{descriptor}=acme@{cost}");
        let told = |period: &str, requests: u64| {
            format!(
                r#"{{"overrides": [{{"descriptor": {target}, "requests": {requests}, "period": "{period}"}}]}}"#
            )
        };
        assert!(ask(&engine, START, &[&asked(2)]).allowed());
        set(&engine, "acme", &told("2h", 10));
        assert_eq!(summary(&ask(&engine, START, &[&asked(3)])), "pass 5", "{target}");
        set(&engine, "acme", &told("3h", 10));
        assert_eq!(summary(&ask(&engine, START, &[&asked(1)])), "pass 4", "{target}");
        // New rules, the same tenants.
        install(&engine, &RULES.replace("requests_per_unit: 3", "requests_per_unit: 8"), START);
        assert_eq!(summary(&ask(&engine, START, &[&asked(1)])), "pass 3", "{target}");
        // The algorithm of the rule changes, so that of the override does.
        install(&engine, &RULES.replace("algorithm: fixed_window", "algorithm: sliding_log"), START);
        assert_eq!(summary(&ask(&engine, START, &[&asked(1)])), "pass 2", "{target}");
        install(&engine, RULES, START);
        engine.set_tenant("acme", None, START).unwrap();
        assert_eq!(summary(&ask(&engine, START, &[&asked(1)])), "deny 0!", "{target}");
        // Somebody else is not concerned.
        assert!(ask(&engine, START, &[&asked(1).replace("acme", "other")]).allowed());
    }
}

#[test]
fn counts_outlive_the_end_of_a_phase() {
    let engine = engine(RULES);
    let json = r#"{"overrides": [{"descriptor": [], "requests": 9, "period": "1d"}], "expires_at": "2027-01-15T08:30:00Z"}"#;
    set(&engine, "acme", json);
    assert_eq!(summary(&ask(&engine, START, &["t=acme@2"])), "pass 7");
    assert_eq!(summary(&ask(&engine, later(Duration::from_mins(30)), &["t=acme"])), "deny 0!");
}

#[test]
fn counts_outlive_numbers_that_do_not_fit_a_word() {
    let engine = engine(RULES);
    assert_eq!(summary(&ask(&engine, START, &["t=acme@2"])), "pass 0");
    set(&engine, "acme", r#"{"overrides": [{"descriptor": [], "requests": 100000000000}]}"#);
    assert_eq!(summary(&ask(&engine, START, &["t=acme"])), "pass 99999999997");
    engine.set_tenant("acme", None, START).unwrap();
    assert_eq!(summary(&ask(&engine, START, &["t=acme"])), "deny 0!");
}

#[test]
fn bursts_are_inherited_and_overridden() {
    let engine = engine(RULES);
    let check = |numbers: &str, expected: u64| {
        set(&engine, "acme", &format!(r#"{{"overrides": [{{"policy": "bucket", {numbers}}}]}}"#));
        assert_eq!(policy_limit(&engine, "bucket", "acme"), expected, "{numbers}");
    };
    check(r#""requests": 600"#, 10);
    check(r#""requests": 600, "burst": 100"#, 100);
    check(r#""requests": 600, "unit": "second""#, 10);
}

#[test]
fn what_cannot_be_is_said_and_has_no_effect() {
    let engine = engine(RULES);
    let check = |wanted: &str, expected: &str| {
        let terms = terms(&format!(r#"{{"overrides": [{wanted}]}}"#));
        assert_eq!(engine.check_terms(&terms).join("; "), expected);
        engine.set_tenant("acme", Some(terms), START).unwrap();
    };
    check(r#"{"descriptor": [], "requests": 5}"#, "");
    check(
        r#"{"descriptor": [], "requests": 5, "burst": 7}"#,
        "the tenant alone: the limit \"t\" cannot have these numbers: `burst` has no meaning for a `fixed_window`",
    );
    assert_eq!(limit(&engine, START, "t=acme"), 2);
    check(r#"{"descriptor": "nothing:x", "requests": 5}"#, "nothing:x: it matches no rule at present");
    check(
        r#"{"policy": "nothing", "requests": 5}"#,
        "policy \"nothing\": there is no policy of this name at present",
    );
    check(
        r#"{"descriptor": "several", "requests": 5}"#,
        "several: the rule \"d: several > t\" has several limits, and none of this period: name one as `limit`",
    );
    let terms = terms(r#"{"tier": "platinum"}"#);
    assert_eq!(engine.check_terms(&terms), ["tier \"platinum\": no rule has such a tier at present"]);
}

#[test]
fn tenants_outlive_rules_and_may_come_before_them() {
    let engine = Engine::new(EngineSettings {
        ledger: LedgerSettings::with_cap(8 << 20),
        ..EngineSettings::default()
    })
    .unwrap();
    set(&engine, "acme", r#"{"overrides": [{"descriptor": [], "requests": 9}]}"#);
    install(&engine, RULES, START);
    assert_eq!(limit(&engine, START, "t=acme"), 9);
    install(&engine, "domain: d\n", START);
    install(&engine, &RULES.replace("key: t,", "key: t, shadow_mode: true,"), START);
    assert_eq!((limit(&engine, START, "t=acme"), engine.tenants_len()), (9, 1));
    let all = [("b".to_owned(), terms(r#"{"tier": "gold"}"#))];
    engine.set_tenants(all, START).unwrap();
    assert_eq!(
        (limit(&engine, START, "t=acme"), limit(&engine, START, "t=b"), engine.tenants_len()),
        (2, 5, 1)
    );
}

/// So many tenants that the table has to grow, and so many changes that what nobody has must be swept out.
#[test]
fn many_tenants_come_change_and_go() {
    let engine = engine(RULES);
    let told = |requests: usize| {
        terms(&format!(r#"{{"overrides": [{{"descriptor": [], "requests": {requests}}}]}}"#))
    };
    let check = |round: usize, tenants: usize| {
        for tenant in (0..tenants).step_by(97) {
            assert_eq!(
                limit(&engine, START, &format!("t=tenant{tenant}")),
                (round * 10_000 + tenant + 10) as u64
            );
        }
        assert_eq!((engine.tenants_len(), limit(&engine, START, "t=nobody")), (tenants, 2));
    };
    for round in 0..4 {
        for tenant in 0..2_000 {
            engine
                .set_tenant(&format!("tenant{tenant}"), Some(told(round * 10_000 + tenant + 10)), START)
                .unwrap();
        }
        check(round, 2_000);
    }
    for tenant in 1_000..2_000 {
        engine.set_tenant(&format!("tenant{tenant}"), None, START).unwrap();
    }
    check(3, 1_000);
    engine
        .set_tenants((0..3_000).map(|tenant| (format!("tenant{tenant}"), told(tenant + 10))), START)
        .unwrap();
    check(0, 3_000);
    install(&engine, RULES, START);
    check(0, 3_000);
}

#[test]
fn terms_change_while_others_are_decided() {
    let engine = engine(RULES);
    let (started, done) = (Barrier::new(3), AtomicBool::new(false));
    let [low, high] = [100, 200].map(|requests| {
        terms(&format!(r#"{{"overrides": [{{"descriptor": [], "requests": {requests}}}]}}"#))
    });
    engine.set_tenant("steady", Some(low.clone()), START).unwrap();
    engine.set_tenant("moving", Some(low.clone()), START).unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                started.wait();
                let mut seen = [0_u32; 2];
                while !done.load(Ordering::Relaxed) || seen[0] == 0 {
                    assert_eq!(limit(&engine, START, "t=steady"), 100);
                    let moving = limit(&engine, START, "t=moving");
                    assert!(moving == 100 || moving == 200, "{moving}");
                    seen[usize::from(moving == 200)] += 1;
                    assert_eq!(limit(&engine, START, "t=nobody"), 2);
                }
            });
        }
        started.wait();
        for turn in 0..3_000_u32 {
            let terms = if turn % 2 == 0 { &high } else { &low };
            engine.set_tenant("moving", Some(terms.clone()), START).unwrap();
            // The table grows meanwhile, and rules are reloaded.
            engine.set_tenant(&format!("new{turn}"), Some(high.clone()), START).unwrap();
            if turn % 500 == 0 {
                install(&engine, RULES, START);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn shared_counters_and_leases_go_by_terms() {
    let rules = "
domain: d
tenant_key: t
descriptors:
- {key: t, rate_limit: {unit: hour, requests_per_unit: 2, algorithm: fixed_window}}
policies:
  leased: {requests: 6000, period: 1m, burst: 1000, algorithm: token_bucket, consistency: leased}
  strict: {requests: 6000, period: 1m, burst: 1000, algorithm: token_bucket, consistency: leased, strict: true}
";
    let engines = [(); 2].map(|()| {
        let settings = EngineSettings { ledger: LedgerSettings::with_cap(8 << 20), ..EngineSettings::default() };
        let engine = Engine::new(settings).unwrap().sharing(b"secret");
        engine.set_nodes(1);
        install(&engine, rules, START);
        set(&engine, "acme", r#"{"overrides": [{"descriptor": [], "requests": 4},
            {"policy": "leased", "requests": 600000, "burst": 4000}, {"policy": "strict", "requests": 600000, "burst": 4000}]}"#);
        engine
    });
    let authority = &mut Authority::default();
    for (turn, expected) in ["pass 3", "pass 2", "pass 1", "pass 0", "deny 0!"].into_iter().enumerate() {
        let verdict = with_request(&["t=acme"], |request| {
            decide(&engines[turn % 2], authority, request, START).unwrap()
        });
        assert_eq!((summary(&verdict).as_str(), verdict.decided_by()), (expected, DecidedBy::Authority));
    }
    // With an authority away, it is the part of the tenant's own numbers.
    engines[0].set_nodes(2);
    assert_eq!(limit(&engines[0], START, "t=acme"), 2);
    for policy in ["leased", "strict"] {
        let mut here = 0;
        for number in 0..500 {
            let now = START.plus(Span::from_ticks(number * 1_000_000));
            let verdict = decide(&engines[1], authority, &Request::policy(policy, b"acme"), now).unwrap();
            assert!(verdict.allowed());
            here += u32::from(verdict.decided_by() == DecidedBy::Lease);
            for errand in engines[1].take_errands(Keeper::Store, 100) {
                let grants = authority.ask(std::slice::from_ref(&errand.question), now);
                engines[1].settle(errand, grants[0], now);
            }
        }
        assert!(here > 450, "{policy}: {here}");
        let limit = decide(&engines[1], authority, &Request::policy(policy, b"acme").cost(0), START).unwrap();
        let expected = if policy == "strict" { 3_000 } else { 4_000 };
        assert_eq!(limit.rulings()[0].decision.limit, expected, "a quarter of a strict one is reserved");
    }
}

#[test]
fn all_limits_of_a_tenant_can_be_asked_about() {
    let engine = engine(RULES);
    set(
        &engine,
        "acme",
        r#"{"overrides": [{"descriptor": "path:/b", "requests": 4}, {"descriptor": "several", "requests": 4}]}"#,
    );
    let told = |subject: TenantSubject| {
        let entries: Vec<_> = subject.entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
        subject.policy.unwrap_or_else(|| format!("{}: {}", subject.domain, entries.join(",")))
    };
    let subjects: Vec<_> = engine.limits_of("acme").into_iter().map(told).collect();
    assert_eq!(subjects, ["d: path=/a,t=acme", "d: path=/b,t=acme", "d: t=acme", "bucket", "search"]);
    let subjects: Vec<_> = engine.limits_of("other").into_iter().map(told).collect();
    assert_eq!(subjects, ["d: path=/a,t=other", "d: t=other", "bucket", "search"]);
}

#[test]
fn descriptors_of_several_tenants_have_each_their_own() {
    let engine = engine(RULES);
    set(&engine, "acme", r#"{"overrides": [{"descriptor": [], "requests": 9}]}"#);
    let (acme, other) = ([("t", "acme")], [("t", "other")]);
    let descriptors = [Descriptor::new(&acme), Descriptor::new(&other)];
    let verdict = engine.decide(&Request::new("d", &descriptors), START).unwrap();
    assert_eq!(summary(&verdict), "pass 8 1");
}
