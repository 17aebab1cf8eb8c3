//! The terms of a tenant: what is read of a document, and what is said of mistakes in it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::Time;
use tollgate_policy::{
    OVERRIDE_ENTRIES_MAX, OVERRIDES_MAX, Override, OverrideNumbers, Period, Target, TenantTerms, Unit,
    read_terms,
};

fn terms(json: &str) -> TenantTerms {
    read_terms("acme", json).unwrap_or_else(|problems| panic!("{json}\n{problems}"))
}

/// What is wrong, without where.
fn said(json: &str) -> String {
    match read_terms("acme", json) {
        Ok(_) => "nothing".to_owned(),
        Err(problems) => problems.iter().map(|problem| problem.what.as_str()).collect::<Vec<_>>().join("; "),
    }
}

fn only(json: &str) -> Override {
    let terms = terms(&format!(r#"{{"overrides": [{json}]}}"#));
    assert_eq!((terms.phases.len(), terms.phases[0].overrides.len()), (1, 1));
    terms.phases[0].overrides[0].clone()
}

#[test]
fn the_example_of_the_issue() {
    let terms = terms(
        r#"{"tier": "enterprise", "overrides": [{"descriptor": "endpoint:POST /v1/orders", "requests_per_unit": 500, "unit": "minute"}],
            "effective_at": "2026-02-01T00:00:00Z", "expires_at": null}"#,
    );
    let [phase] = terms.phases.as_slice() else { panic!("{terms:?}") };
    assert_eq!(phase.tier.as_deref(), Some("enterprise"));
    assert_eq!((phase.from, phase.until), (Some(Time::from_ticks(1_769_904_000_000_000_000)), None));
    let [wanted] = phase.overrides.as_slice() else { panic!("{phase:?}") };
    let entries = vec![("endpoint".into(), Some("POST /v1/orders".into()))];
    assert_eq!(*wanted.target, Target::Descriptor { domain: None, entries });
    let period = Some(Period::Unit(Unit::Minute));
    assert_eq!(wanted.numbers, OverrideNumbers::Per { units: 500, period, burst: None });
}

#[test]
fn targets() {
    let check = |target: &str, domain: Option<&str>, expected: &[(&str, Option<&str>)]| {
        let found = only(&format!(r#"{{{target}, "requests": 1}}"#)).target;
        let entries = expected.iter().map(|(key, value)| ((*key).into(), value.map(Into::into))).collect();
        assert_eq!(*found, Target::Descriptor { domain: domain.map(Into::into), entries }, "{target}");
    };
    check(r#""descriptor": "path""#, None, &[("path", None)]);
    check(r#""descriptor": "path:""#, None, &[("path", Some(""))]);
    check(r#""descriptor": "path:a:b", "domain": "shop""#, Some("shop"), &[("path", Some("a:b"))]);
    check(r#""descriptor": ["path:/a", "method"]"#, None, &[("path", Some("/a")), ("method", None)]);
    check(r#""descriptor": [], "domain": null"#, None, &[]);
    let policy = only(r#"{"policy": "search", "limit": "hourly", "unlimited": true}"#);
    assert_eq!(*policy.target, Target::Policy { name: "search".into() });
    assert_eq!((policy.limit.as_deref(), policy.numbers), (Some("hourly"), OverrideNumbers::Unlimited));
}

#[test]
fn numbers() {
    let check = |numbers: &str, units, period, burst| {
        let found = only(&format!(r#"{{"descriptor": "a", {numbers}}}"#)).numbers;
        assert_eq!(found, OverrideNumbers::Per { units, period, burst }, "{numbers}");
    };
    check(r#""requests": 0"#, 0, None, None);
    let length = Some(Period::Length(Duration::from_secs(90)));
    check(r#""requests": 9, "period": "90s", "burst": 3"#, 9, length, Some(3));
    check(
        r#""requests_per_unit": 18446744073709551615, "unit": "HOUR""#,
        u64::MAX,
        Some(Period::Unit(Unit::Hour)),
        None,
    );
}

#[test]
fn phases() {
    let check = |json: &str, expected: &[(Option<&str>, Option<u64>, Option<u64>)]| {
        let seconds = |time: Option<Time>| time.map(|time| time.ticks() / 1_000_000_000);
        let terms = terms(json);
        let found: Vec<_> = terms
            .phases
            .iter()
            .map(|phase| (phase.tier.as_deref(), seconds(phase.from), seconds(phase.until)))
            .collect();
        assert_eq!(found, expected, "{json}");
    };
    let at = |second: u64| format!(r#""1970-01-01T00:00:{second:02}Z""#);
    check(r#"{"tier": null}"#, &[(None, None, None)]);
    check(r#"{"tier": "a", "before": {"tier": "b"}}"#, &[(Some("a"), None, None)]);
    let json = |before: &str| {
        format!(r#"{{"tier": "a", "effective_at": {}, "before": {{"tier": "b"{before}}}}}"#, at(20))
    };
    check(&json(""), &[(Some("b"), None, Some(20)), (Some("a"), Some(20), None)]);
    let early = format!(r#", "effective_at": {}, "expires_at": {}"#, at(5), at(10));
    check(&json(&early), &[(Some("b"), Some(5), Some(10)), (Some("a"), Some(20), None)]);
    let late = format!(r#", "effective_at": {}"#, at(30));
    check(&json(&late), &[(Some("a"), Some(20), None)]);
    check(r#"{"tier": "a", "effective_at": "1969-01-01T00:00:00Z"}"#, &[(Some("a"), Some(0), None)]);
}

#[test]
fn mistakes() {
    let check = |json: &str, expected: &str| assert_eq!(said(json), expected, "{json}");
    check("", "the text says nothing");
    check("[]", "a quota must be a mapping, not a list");
    check(r#"{"teir": "gold"}"#, "unknown key `teir`");
    check(r#"{"tier": ""}"#, "the `tier` is empty");
    check(r#"{"tier": "go\u0000ld"}"#, "the `tier` has a control character in it");
    check(r#"{"effective_at": "tomorrow"}"#, "`effective_at` must be a moment, not `tomorrow`");
    check(r#"{"effective_at": "2026-02-01"}"#, "`effective_at` must be a moment, not `2026-02-01`");
    let json = r#"{"effective_at": "2026-02-01T00:00:00Z", "expires_at": "2026-02-01T00:00:00Z"}"#;
    check(json, "`expires_at` is not after `effective_at`");
    let one = |json: &str, expected: &str| check(&format!(r#"{{"overrides": [{json}]}}"#), expected);
    one("{}", "the override does not say which rule it is for; the override lacks `requests_per_unit`");
    one(r#"{"descriptor": ":x", "requests": 1}"#, "`:x` names no key");
    one(r#"{"descriptor": "x", "policy": "y", "requests": 1}"#, "both `descriptor` and `policy` are given");
    one(r#"{"policy": "y", "domain": "d", "requests": 1}"#, "a policy has no `domain`");
    one(r#"{"descriptor": "x", "requests": -1}"#, "`requests` cannot be negative: `-1`");
    one(r#"{"descriptor": "x", "requests": 1, "burst": 0}"#, "`burst` must be at least 1");
    one(
        r#"{"descriptor": "x", "requests": 1, "unlimited": true}"#,
        "`requests` has no meaning where `unlimited` is true",
    );
    one(
        r#"{"descriptor": "x", "algorithm": "token_bucket", "requests": 1}"#,
        "`algorithm` does not belong here",
    );
    one(r#"{"descriptor": {"x": 1}, "requests": 1}"#, "`descriptor` must be text, not a mapping");
    check(r#"{"before": {"before": {}}}"#, "unknown key `before`");
}

#[test]
fn mistakes_are_told_with_their_place_and_advice() {
    let problems =
        read_terms("acme", "{\"overrides\": [\n  {\"descriptor\": \"x\", \"requsts\": 5}]}").unwrap_err();
    let problem = problems.iter().next().unwrap();
    assert_eq!((problem.position.line, problem.position.column), (2, 23));
    assert_eq!(problem.hint.as_deref(), Some("did you mean `requests`?"));
}

#[test]
fn bounds() {
    let overrides = |count: usize| {
        let all = vec![r#"{"descriptor": "a", "requests": 1}"#; count].join(",");
        said(&format!(r#"{{"overrides": [{all}]}}"#))
    };
    assert_eq!(overrides(OVERRIDES_MAX), "nothing");
    assert_eq!(overrides(OVERRIDES_MAX + 1), "`overrides` may have at most 64 entries, not 65");
    let entries = |count: usize| {
        let all = vec![r#""a:b""#; count].join(",");
        said(&format!(r#"{{"overrides": [{{"descriptor": [{all}], "requests": 1}}]}}"#))
    };
    assert_eq!(entries(OVERRIDE_ENTRIES_MAX), "nothing");
    assert_eq!(entries(OVERRIDE_ENTRIES_MAX + 1), "`descriptor` may have at most 32 entries, not 33");
    let value = |chars: usize| {
        said(&format!(r#"{{"overrides": [{{"descriptor": "a:{}", "requests": 1}}]}}"#, "x".repeat(chars)))
    };
    assert_eq!(value(1_024), "nothing");
    assert_eq!(value(1_025), "the value may have at most 1024 characters, not 1025");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        let _ = read_terms("any", &text);
    }

    #[test]
    fn any_values_are_read_or_refused(words in prop::collection::vec(prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"tier\"", "\"overrides\"", "\"descriptor\"", "\"a:b\"", "1", "-1", "null", "true",
        "\"requests\"", "\"period\"", "\"1h\"", "\"before\"", "\"effective_at\"", "\"2026-02-01T00:00:00Z\"", "\"unlimited\"",
    ]), 0..40)) {
        let _ = read_terms("any", &words.concat());
    }
}
