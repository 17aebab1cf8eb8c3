//! What the keys of a limit mean: each algorithm, each spelling, each default.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::time::Duration;

use tollgate_core::{
    Blocked, Calendar, CalendarUnit, Concurrency, FixedWindow, LeakyBucket, LeakyQueue, Limit, OldestCounts,
    Rate, SlidingLog, SlidingWindow, Span, SubWindows, Tick, TokenBucket, Windows,
};
use tollgate_policy::{
    Allowance, Consistency, DefaultAlgorithm, FailMode, LeaseTerms, Overshoot, Period, RuleLimit, Source,
    Unit, read_all,
};

fn limit_by(lines: &str, default_algorithm: DefaultAlgorithm) -> RuleLimit {
    let text = format!("policies:\n  p:\n    {}", lines.replace("; ", "\n    "));
    let files =
        read_all(&[Source::new("rules.yaml", text)], default_algorithm).unwrap_or_else(|e| panic!("{e}"));
    files[0].policies[0].rule.limits[0].clone()
}

fn limit(lines: &str) -> RuleLimit {
    limit_by(lines, DefaultAlgorithm::SlidingWindow)
}

/// Checks what decides under these keys.
fn check(lines: &str, expected: impl Into<Limit>) {
    let Allowance::Quota(quota) = limit(lines).allowance else { panic!("{lines}: unlimited") };
    assert_eq!(quota.limit, expected.into(), "{lines}");
}

fn span(ms: u64) -> Span {
    Tick::NANOSECOND.span(Duration::from_millis(ms)).unwrap()
}

fn rate(units: u64, period_ms: u64) -> Rate {
    Rate::new(units, span(period_ms)).unwrap()
}

fn calendar(units: u64, calendar: Calendar) -> FixedWindow {
    FixedWindow::in_windows(units, Windows::Calendar(calendar)).unwrap()
}

#[test]
fn algorithms() {
    check("unit: minute; requests_per_unit: 10", SlidingWindow::new(rate(10, 60_000)));
    check("unit: minute; requests_per_unit: 10; burst: 3", TokenBucket::new(rate(10, 60_000), 3).unwrap());
    check(
        "requests: 10; period: 1m; algorithm: token_bucket",
        TokenBucket::new(rate(10, 60_000), 10).unwrap(),
    );
    check(
        "requests: 10; period: 1s; algorithm: leaky_bucket",
        LeakyBucket::new(rate(10, 1_000), 10).unwrap(),
    );
    check(
        "requests: 10; period: 1s; algorithm: leaky_bucket; burst: 4",
        LeakyBucket::new(rate(10, 1_000), 4).unwrap(),
    );
    check(
        "requests: 10; period: 1s; algorithm: leaky_bucket; max_wait: 500ms",
        LeakyQueue::new(rate(10, 1_000), span(500)).unwrap(),
    );
    check("requests: 10; period: 1s; algorithm: fixed_window", FixedWindow::new(rate(10, 1_000)));
    check("requests: 10; period: 1s; algorithm: FIXED_WINDOW", FixedWindow::new(rate(10, 1_000)));
    check("requests: 10; period: 1s; algorithm: sliding_log", SlidingLog::new(rate(10, 1_000)).unwrap());
    check("requests: 10; period: 30s; algorithm: concurrency", Concurrency::new(10, span(30_000)).unwrap());
    check(
        "requests: 10; period: 1s; sub_windows: 8",
        SubWindows::new(rate(10, 1_000), 8, OldestCounts::Whole).unwrap(),
    );
}

#[test]
fn jitter() {
    check("requests: 9; period: 1s; jitter: true", SlidingWindow::new(rate(9, 1_000)).jittered());
    check("requests: 9; period: 1s; jitter: false", SlidingWindow::new(rate(9, 1_000)));
    check(
        "requests: 9; period: 1s; algorithm: fixed_window; jitter: true",
        FixedWindow::new(rate(9, 1_000)).jittered(),
    );
    check(
        "requests: 9; period: 1s; sub_windows: 3; jitter: true",
        SubWindows::new(rate(9, 1_000), 3, OldestCounts::Whole).unwrap().jittered(),
    );
}

#[test]
fn calendars() {
    let tick = Tick::NANOSECOND;
    check("requests: 9; calendar: day", calendar(9, Calendar::utc(CalendarUnit::Day, tick)));
    check(
        "requests: 9; calendar: week; zone: UTC",
        calendar(9, Calendar::new(CalendarUnit::Week, "UTC", tick).unwrap()),
    );
    check(
        "requests_per_unit: 9; calendar: month; zone: Europe/Berlin; algorithm: fixed_window",
        calendar(9, Calendar::new(CalendarUnit::Month, "Europe/Berlin", tick).unwrap()),
    );
    check(
        "requests: 9; calendar: month; anchor_day: 31",
        calendar(9, Calendar::utc(CalendarUnit::Month, tick).anchored(31)),
    );
    check(
        "requests: 9; calendar: month; durable: true",
        calendar(9, Calendar::utc(CalendarUnit::Month, tick)),
    );
}

#[test]
fn default_algorithm() {
    let windowed = |lines: &str| match limit_by(lines, DefaultAlgorithm::FixedWindow).allowance {
        Allowance::Quota(quota) => quota.limit.algorithm(),
        Allowance::Unlimited => "none",
    };
    assert_eq!(windowed("requests: 9; period: 1s"), "FixedWindow");
    assert_eq!(windowed("requests: 9; period: 1s; burst: 2"), "TokenBucket");
    assert_eq!(windowed("requests: 9; period: 1s; sub_windows: 2"), "SubWindows");
    assert_eq!(windowed("requests: 9; period: 1s; algorithm: sliding_window"), "SlidingWindow");
}

#[test]
fn nothing_passes() {
    check("requests: 0; unit: year", Blocked);
    check("requests_per_unit: 0; period: 5s; algorithm: token_bucket", Blocked);
}

#[test]
fn everything_passes() {
    assert_eq!(limit("unlimited: true").allowance, Allowance::Unlimited);
    // As envoyproxy/ratelimit has it, the number is passed over.
    assert_eq!(limit("unlimited: true; requests_per_unit: 5").allowance, Allowance::Unlimited);
    assert_eq!(limit("unlimited: true; name: free").name.as_deref(), Some("free"));
    check("unlimited: false; requests: 9; period: 1s", SlidingWindow::new(rate(9, 1_000)));
}

#[test]
fn periods() {
    let period = |lines: &str| match limit(lines).allowance {
        Allowance::Quota(quota) => quota.period,
        Allowance::Unlimited => panic!("unlimited"),
    };
    for unit in Unit::ALL {
        assert_eq!(period(&format!("requests: 9; unit: {}", unit.name())), Period::Unit(unit));
        assert_eq!(period(&format!("requests: 9; unit: {}", unit.name().to_uppercase())), Period::Unit(unit));
    }
    let lengths = [
        ("1ns", Duration::from_nanos(1)),
        ("70us", Duration::from_micros(70)),
        ("250ms", Duration::from_millis(250)),
        ("90s", Duration::from_secs(90)),
        ("1m30s", Duration::from_secs(90)),
        ("12h", Duration::from_hours(12)),
        ("1d", Duration::from_hours(24)),
        ("2w1d", Duration::from_hours(15 * 24)),
        ("7600w", Duration::from_hours(7_600 * 7 * 24)),
    ];
    for (text, length) in lengths {
        assert_eq!(
            period(&format!("requests_per_unit: 9; period: {text}")),
            Period::Length(length),
            "{text}"
        );
    }
    assert_eq!(period("requests: 9; calendar: day"), Period::Calendar(CalendarUnit::Day));
}

#[test]
fn numbers_of_64_bits() {
    check("requests: 18446744073709551615; unit: second", SlidingWindow::new(rate(u64::MAX, 1_000)));
    check("requests: 0x10; unit: second", SlidingWindow::new(rate(16, 1_000)));
    check("requests: +7; unit: second", SlidingWindow::new(rate(7, 1_000)));
    check(
        "requests: 65536; unit: second; algorithm: sliding_log",
        SlidingLog::new(rate(65_536, 1_000)).unwrap(),
    );
    check(
        "requests: 9; unit: second; sub_windows: 64",
        SubWindows::new(rate(9, 1_000), 64, OldestCounts::Whole).unwrap(),
    );
}

#[test]
fn behaviour() {
    let plain = limit("requests: 9; unit: second");
    assert_eq!((plain.overshoot, plain.enforce_percent), (Overshoot::ByCaller, 100));
    assert_eq!((plain.consistency, plain.fail_mode, plain.local_percent), (None, FailMode::Local, None));
    let told = limit(
        "requests: 9; unit: second; name: per second; replaces: [{name: a}, {name: b}]; overshoot: book; \
         enforce_percent: 0; consistency: leased; fail_mode: local; local_fraction: 0.29",
    );
    assert_eq!(told.name.as_deref(), Some("per second"));
    assert_eq!(told.replaces, ["a", "b"]);
    assert_eq!((told.overshoot, told.enforce_percent), (Overshoot::Book, 0));
    assert_eq!((told.consistency, told.local_percent), (Some(Consistency::Leased), Some(29)));
    for (text, percent) in [("0", 0), ("1", 100), ("1.0", 100), (".5", 50), ("0.01", 1)] {
        let told = limit(&format!("requests: 9; unit: second; local_fraction: {text}"));
        assert_eq!(told.local_percent, Some(percent), "{text}");
    }
    assert_eq!(limit("requests: 9; unit: second; fail_mode: closed").fail_mode, FailMode::Closed);
    assert_eq!(limit("requests: 9; unit: second; consistency: exact").consistency, Some(Consistency::Exact));
}

#[test]
fn leases() {
    let terms = |text: &str| match limit(text).allowance {
        Allowance::Quota(quota) => {
            let shared = quota.shared.unwrap().units();
            (quota.leased.map(|leased| (leased.budget, leased.node_max)), shared)
        }
        Allowance::Unlimited => panic!("{text}"),
    };
    let bucket = "requests: 100; unit: second; burst: 40; consistency";
    assert_eq!(terms(&format!("{bucket}: exact")), (None, 40));
    assert_eq!(terms(&format!("{bucket}: leased")), (Some((20, u64::MAX)), 40));
    assert_eq!(terms(&format!("{bucket}: leased; local_fraction: 0.1")), (Some((20, 4)), 40));
    assert_eq!(
        terms(&format!("{bucket}: leased; local_fraction: 0.1; fail_mode: open")),
        (Some((20, 4)), 40)
    );
    assert_eq!(terms(&format!("{bucket}: leased; local_fraction: 0")), (None, 40));
    assert_eq!(terms(&format!("{bucket}: leased; strict: true")), (Some((10, u64::MAX)), 30));
    let window = "requests: 100; unit: second; consistency: leased; strict: true";
    assert_eq!(terms(window), (Some((25, u64::MAX)), 100), "a lease ends with its window");
    assert_eq!(terms("requests: 1; unit: second; consistency: leased"), (None, 1));
    let queue = "requests: 9; unit: second; algorithm: leaky_bucket; max_wait: 1s; consistency: leased";
    assert_eq!(terms(queue).0, None);
}

#[test]
fn leases_of_hot_keys() {
    let terms = |text: &str| match limit(text).allowance {
        Allowance::Quota(quota) => (quota.leased, quota.shared.unwrap().units()),
        Allowance::Unlimited => panic!("{text}"),
    };
    let hot = |budget, node_max| Some(LeaseTerms { budget, node_max, when_hot: true });
    let bucket = "requests: 100; unit: second; burst: 40; lease_when_hot: true";
    assert_eq!(terms(bucket), (hot(20, u64::MAX), 40));
    assert_eq!(terms(&format!("{bucket}; consistency: exact; strict: true")), (hot(10, u64::MAX), 30));
    assert_eq!(terms(&format!("{bucket}; local_fraction: 0.1; fail_mode: open")), (hot(20, 4), 40));
    assert_eq!(terms("requests: 100; unit: second; lease_when_hot: false").0, None);
    let always = terms("requests: 100; unit: second; consistency: leased; lease_when_hot: false").0;
    assert_eq!(always.map(|terms| terms.when_hot), Some(false));
    assert_eq!(limit(bucket).consistency, None, "who decides follows the store");
}

#[test]
fn tiers_take_the_rest_from_around_them() {
    let limits = |lines: &str| -> Vec<(String, Option<Limit>)> {
        let told = limit(lines);
        let quota = |allowance: &Allowance| match allowance {
            Allowance::Quota(quota) => Some(quota.limit.clone()),
            Allowance::Unlimited => None,
        };
        told.tiers.iter().map(|(name, allowance)| (name.clone(), quota(allowance))).collect()
    };
    let bucket =
        |units, period_ms, burst| Some(TokenBucket::new(rate(units, period_ms), burst).unwrap().into());
    assert_eq!(
        limits(
            "requests: 10; period: 1s; burst: 5; tiers: {a: {requests: 20}, b: {unit: minute, burst: 9}, c: {unlimited: true}}"
        ),
        [
            ("a".to_owned(), bucket(20, 1_000, 5)),
            ("b".to_owned(), bucket(10, 60_000, 9)),
            ("c".to_owned(), None)
        ],
    );
    assert_eq!(
        limits("requests: 10; period: 1s; algorithm: token_bucket; tiers: {a: {requests: 20}}"),
        [("a".to_owned(), bucket(20, 1_000, 20))],
    );
    let window = Some(SlidingWindow::new(rate(5, 60_000)).into());
    assert_eq!(
        limits("unlimited: true; tiers: {a: {requests: 5, unit: minute}}"),
        [("a".to_owned(), window)]
    );
    assert_eq!(
        limits("requests: 0; unit: second; tiers: {a: {requests: 20, burst: 3}}"),
        [("a".to_owned(), bucket(20, 1_000, 3))]
    );
    assert_eq!(
        limits("requests: 5; unit: second; tiers: {a: {requests: 0}}"),
        [("a".to_owned(), Some(Blocked.into()))]
    );
}

#[test]
fn durable() {
    let plain = limit("requests: 1000; period: 1d; durable: true");
    assert_eq!(plain.consistency, Some(Consistency::Durable));
    assert_eq!(plain.fail_mode, FailMode::Closed, "nothing passes that nobody counts");
    let Allowance::Quota(quota) = &plain.allowance else { panic!("no quota") };
    assert!(matches!(quota.limit, Limit::FixedWindow(_)), "the database counts by windows");
    assert_eq!(quota.leased.map(|terms| terms.node_max), Some(10), "a hundredth");

    let chosen = limit("requests: 1000; period: 1d; durable: true; fail_mode: open; local_fraction: 0.2");
    assert_eq!(chosen.fail_mode, FailMode::Open);
    let Allowance::Quota(quota) = &chosen.allowance else { panic!("no quota") };
    assert_eq!(quota.leased.map(|terms| terms.node_max), Some(200));

    for exact in [
        "requests: 99; period: 1d; durable: true",
        "requests: 9999; period: 1d; durable: true; local_fraction: 0",
    ] {
        let Allowance::Quota(quota) = limit(exact).allowance else { panic!("no quota") };
        assert_eq!(quota.leased, None, "{exact}: each unit is asked for");
        assert!(quota.shared.is_some());
    }
    assert_eq!(limit("requests: 9; period: 1d; durable: false").consistency, None);
    for counts_nothing in ["requests: 0; unit: day", "unlimited: true"] {
        let lines =
            format!("{counts_nothing}; durable: true; tiers: {{pro: {{requests: 1000, period: 1d}}}}");
        let Allowance::Quota(quota) = &limit(&lines).tiers[0].1 else { panic!("no quota") };
        assert!(matches!(quota.limit, Limit::FixedWindow(_)), "{lines}: a tier counts by windows too");
    }
}
