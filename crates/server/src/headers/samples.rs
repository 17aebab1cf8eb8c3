//! Rules for tests, written in a line each.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use tollgate::core::{Blocked, Concurrency, FixedWindow, LeakyQueue, Limit, Rate, Tick, Time, TokenBucket};
use tollgate::policy::{
    Allowance, Counting, DescriptorSpec, DomainSpec, FailMode, FileSpec, Overshoot, Period, PolicySpec,
    Quota, Rule, RuleLimit, Unit,
};
use tollgate::{Engine, EngineSettings, LedgerSettings, Request, Verdict};

/// A moment in the middle of a minute: Unix time 1,700,000,010.
pub(crate) const NOW: Time = Time::from_ticks(1_700_000_010_000_000_000);

/// A table that is as small as can be.
pub(crate) fn engine_settings() -> EngineSettings {
    EngineSettings { ledger: LedgerSettings::with_cap(1 << 20), ..EngineSettings::default() }
}

/// An engine with these policies.
pub(crate) fn engine(policies: Vec<PolicySpec>) -> Engine {
    let engine = Engine::new(engine_settings()).unwrap();
    engine.install(vec![FileSpec { domain: None, policies }], NOW);
    engine
}

/// What comes of asking for one unit.
pub(crate) fn ask(engine: &Engine, policy: &str) -> Verdict {
    ask_at(engine, policy, 1, NOW)
}

/// What comes of asking for so many units at a moment.
pub(crate) fn ask_at(engine: &Engine, policy: &str, cost: u64, now: Time) -> Verdict {
    engine.decide(&Request::policy(policy, b"key").cost(cost), now).unwrap()
}

/// A policy of these limits.
pub(crate) fn policy(name: &str, limits: Vec<RuleLimit>) -> PolicySpec {
    PolicySpec { name: name.into(), rule: rule(limits) }
}

pub(crate) fn rule(limits: Vec<RuleLimit>) -> Rule {
    Rule {
        enabled: true,
        shadow_mode: false,
        quota_mode: false,
        detailed_metric: false,
        metadata: None,
        limits,
    }
}

/// The same rule, counted and reported only.
pub(crate) fn shadow(rule: Rule) -> Rule {
    Rule { shadow_mode: true, ..rule }
}

/// A limit without a name.
pub(crate) fn limit(limit: Limit, units: u64, period: Period) -> RuleLimit {
    RuleLimit {
        name: None,
        replaces: Vec::new(),
        allowance: Allowance::Quota(Quota::new(limit, units, period)),
        tiers: Vec::new(),
        overshoot: Overshoot::ByCaller,
        enforce_percent: 100,
        consistency: None,
        fail_mode: FailMode::Local,
        local_percent: None,
        strict: false,
        counting: Counting::default(),
    }
}

/// The same limit under a name.
pub(crate) fn named(name: &str, limit: RuleLimit) -> RuleLimit {
    RuleLimit { name: Some(name.into()), ..limit }
}

pub(crate) fn rate(units: u64, period: Duration) -> Rate {
    Rate::new(units, Tick::NANOSECOND.span(period).unwrap()).unwrap()
}

/// Windows of any length.
pub(crate) fn per(units: u64, period: Duration) -> RuleLimit {
    limit(FixedWindow::new(rate(units, period)).into(), units, Period::Length(period))
}

/// Windows of a minute.
pub(crate) fn per_minute(units: u64) -> RuleLimit {
    let period = Period::Unit(Unit::Minute);
    limit(FixedWindow::new(rate(units, period.length().unwrap())).into(), units, period)
}

/// Windows of which the next begins in 2052: for tests at the time of day.
pub(crate) fn per_age(units: u64) -> RuleLimit {
    per(units, Duration::from_hours(240_000))
}

/// A bucket that is filled within a minute.
pub(crate) fn bucket(units: u64, burst: u64) -> RuleLimit {
    let minute = Duration::from_mins(1);
    let bucket = TokenBucket::new(rate(units, minute), burst).unwrap();
    limit(bucket.into(), units, Period::Unit(Unit::Minute))
}

/// So many at once, each for an hour at most.
pub(crate) fn at_once(units: u64) -> RuleLimit {
    let hold_max = Duration::from_hours(1);
    let span = Tick::NANOSECOND.span(hold_max).unwrap();
    limit(Concurrency::new(units, span).unwrap().into(), units, Period::Length(hold_max))
}

/// A queue that moves on once an hour, in which nobody waits longer than two.
pub(crate) fn queue() -> RuleLimit {
    let wait_max = Tick::NANOSECOND.span(Duration::from_hours(2)).unwrap();
    let queue = LeakyQueue::new(rate(1, Duration::from_hours(1)), wait_max).unwrap();
    limit(queue.into(), 1, Period::Unit(Unit::Hour))
}

/// Nothing.
pub(crate) fn blocked(period: Period) -> RuleLimit {
    limit(Blocked.into(), 0, period)
}

/// A domain with one level.
pub(crate) fn domain(name: &str, descriptors: Vec<(&str, Option<&str>, Rule)>) -> DomainSpec {
    let descriptor = |(key, value, rule): (&str, Option<&str>, Rule)| DescriptorSpec {
        key: key.into(),
        value: value.map(Into::into),
        share_threshold: false,
        value_to_metric: false,
        rule: Some(rule),
        descriptors: Vec::new(),
    };
    DomainSpec {
        name: name.into(),
        enabled: true,
        tenant_key: None,
        tenants: Vec::new(),
        descriptors: descriptors.into_iter().map(descriptor).collect(),
        forward_auth: Vec::new(),
    }
}
