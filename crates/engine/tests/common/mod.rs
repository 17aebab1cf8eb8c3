//! Questions and answers in short, for tables of them.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)] // Each test uses some of it.

pub(crate) mod authority;

use std::time::Duration;

use tollgate::core::Time;
use tollgate::policy::{DefaultAlgorithm, Source, read_all};
use tollgate::{Descriptor, Engine, EngineSettings, LedgerSettings, Request, Status, Verdict};

pub(crate) const START: Time = Time::from_ticks(1_800_000_000_000_000_000);

pub(crate) fn engine(rules: &str) -> Engine {
    engine_with(rules, EngineSettings::default())
}

pub(crate) fn engine_with(rules: &str, settings: EngineSettings) -> Engine {
    let engine =
        Engine::new(EngineSettings { ledger: LedgerSettings::with_cap(8 << 20), ..settings }).unwrap();
    install(&engine, rules, START);
    engine
}

pub(crate) fn install(engine: &Engine, rules: &str, now: Time) {
    let specs = read_all(&[Source::new("rules.yaml", rules)], DefaultAlgorithm::default());
    engine.install(specs.unwrap_or_else(|problems| panic!("{problems}")), now);
}

pub(crate) fn later(by: Duration) -> Time {
    Time::from_ticks(START.ticks() + u64::try_from(by.as_nanos()).unwrap())
}

/// A descriptor written as `a=1,b=2`, perhaps with a cost as `a=1@2`, or a refund as `a=1@-2`.
struct Written<'a> {
    entries: Vec<(&'a str, &'a str)>,
    cost: Option<i64>,
}

impl<'a> Written<'a> {
    fn new(text: &'a str) -> Written<'a> {
        let (entries, cost) = match text.split_once('@') {
            Some((entries, cost)) => (entries, Some(cost.parse().unwrap())),
            None => (text, None),
        };
        Written { entries: entries.split(',').map(|entry| entry.split_once('=').unwrap()).collect(), cost }
    }
}

pub(crate) fn ask(engine: &Engine, now: Time, descriptors: &[&str]) -> Verdict {
    with_request(descriptors, |request| engine.decide(request, now).unwrap())
}

/// Shows the request about descriptors of the domain `d`.
pub(crate) fn with_request<R>(descriptors: &[&str], ask: impl FnOnce(&Request<'_>) -> R) -> R {
    let written: Vec<_> = descriptors.iter().map(|text| Written::new(text)).collect();
    let descriptors: Vec<Descriptor<'_>> = written
        .iter()
        .map(|Written { entries, cost }| Descriptor {
            cost: cost.map(i64::unsigned_abs),
            refund: cost.is_some_and(|cost| cost < 0),
            ..Descriptor::new(entries)
        })
        .collect();
    ask(&Request::new("d", &descriptors))
}

/// What became of each descriptor: `-` no limit, `*` unlimited, `banned`, else what remains, with `!` if it is over.
pub(crate) fn summary(verdict: &Verdict) -> String {
    let of = |status: &Status| match status {
        Status::Unmatched(_) | Status::NoLimit | Status::SwitchedOff => "-".to_owned(),
        Status::Banned { .. } => "banned".to_owned(),
        Status::Unlimited => "*".to_owned(),
        Status::Limited(_) => {
            let ruling = verdict.tightest_of(status).unwrap();
            format!("{}{}", ruling.decision.remaining, if ruling.is_over() { "!" } else { "" })
        }
    };
    let statuses: Vec<_> = verdict.statuses().iter().map(of).collect();
    format!("{} {}", if verdict.allowed() { "pass" } else { "deny" }, statuses.join(" "))
}

pub(crate) fn check(rules: &str, questions: &[(&[&str], &str)]) {
    check_on(&engine(rules), questions);
}

pub(crate) fn check_on(engine: &Engine, questions: &[(&[&str], &str)]) {
    for (number, (descriptors, expected)) in questions.iter().enumerate() {
        assert_eq!(
            summary(&ask(engine, START, descriptors)),
            *expected,
            "question {number}: {descriptors:?}"
        );
    }
}

/// Two rules.
pub(crate) const TWO: &str = "
domain: d
descriptors:
- {key: a, rate_limit: {unit: hour, requests_per_unit: 2}}
- {key: b, rate_limit: {unit: hour, requests_per_unit: 3}}
";
