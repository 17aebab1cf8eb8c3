//! Header fields: what each verdict says, that it can be parsed, and that no client is ever sent back too early.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;
use std::time::Duration;

use insta::assert_snapshot;
use proptest::prelude::*;
use sfv::{BareItem, Item, List, ListEntry, Parser};
use tollgate::core::{CalendarUnit, FixedWindow, Span, Tick, Time, Windows};
use tollgate::policy::{Overshoot, Period, RuleLimit};
use tollgate::{Engine, Verdict};

use super::samples::{
    NOW, ask, ask_at, at_once, blocked, bucket, engine, limit, named, per, per_minute, policy, queue, shadow,
};
use super::structured::{POLICIES_BYTES_MAX, TITLE_CHARACTERS_MAX};
use super::{Wanted, fields};

const ALL: Wanted = Wanted { x_ratelimit: true, older: true };
const STRUCTURED: Wanted = Wanted { x_ratelimit: false, older: false };

fn text(verdict: &Verdict, wanted: Wanted) -> String {
    fields(verdict, wanted).into_iter().fold(String::new(), |mut text, (name, value)| {
        writeln!(text, "{name}: {value}").unwrap();
        text
    })
}

fn field(verdict: &Verdict, name: &str) -> Option<String> {
    fields(verdict, ALL).into_iter().find(|(other, _)| *other == name).map(|(_, value)| value)
}

fn spend(engine: &Engine, policy: &str, times: usize) {
    for _ in 0..times {
        ask(engine, policy);
    }
}

#[test]
fn allowed() {
    let engine = engine(vec![policy("search", vec![per_minute(100)])]);
    assert_snapshot!(text(&ask(&engine, "search"), ALL), @r#"
    x-ratelimit-limit: 100
    x-ratelimit-remaining: 99
    x-ratelimit-reset: 1700000040
    ratelimit-policy: "search";q=100;w=60
    ratelimit: "search";r=99;t=30
    ratelimit-limit: 100
    ratelimit-remaining: 99
    ratelimit-reset: 30
    "#);
}

#[test]
fn denied() {
    let engine = engine(vec![policy("search", vec![bucket(90, 2)])]);
    spend(&engine, "search", 2);
    assert_snapshot!(text(&ask(&engine, "search"), ALL), @r#"
    x-ratelimit-limit: 2
    x-ratelimit-remaining: 0
    x-ratelimit-reset: 1700000011
    ratelimit-policy: "search";q=90;w=60
    ratelimit: "search";r=0;t=1
    ratelimit-limit: 2
    ratelimit-remaining: 0
    ratelimit-reset: 1
    retry-after: 1
    "#);
}

#[test]
fn only_what_is_wanted() {
    let engine = engine(vec![policy("search", vec![per_minute(1)])]);
    assert_snapshot!(text(&ask(&engine, "search"), STRUCTURED), @r#"
    ratelimit-policy: "search";q=1;w=60
    ratelimit: "search";r=0;t=30
    "#);
    let x_ratelimit = Wanted { x_ratelimit: true, older: false };
    assert_snapshot!(text(&ask(&engine, "search"), x_ratelimit), @r#"
    x-ratelimit-limit: 1
    x-ratelimit-remaining: 0
    x-ratelimit-reset: 1700000040
    ratelimit-policy: "search";q=1;w=60
    ratelimit: "search";r=0;t=30
    retry-after: 30
    "#);
}

#[test]
fn several_limits() {
    let limits = vec![named("burst", bucket(600, 10)), named("daily", per(1_000, Duration::from_hours(24)))];
    let engine = engine(vec![policy("search", limits)]);
    assert_snapshot!(text(&ask(&engine, "search"), STRUCTURED), @r#"
    ratelimit-policy: "burst";q=600;w=60, "daily";q=1000;w=86400
    ratelimit: "burst";r=9;t=1
    "#);
}

#[test]
fn periods_without_whole_seconds() {
    let limits = vec![
        named("short", per(5, Duration::from_millis(250))),
        named("long", per(5, Duration::from_millis(1_500))),
        named("huge", per(u64::MAX >> 1, Duration::from_secs(10))),
    ];
    let engine = engine(vec![policy("search", limits)]);
    assert_snapshot!(text(&ask(&engine, "search"), STRUCTURED), @r#"
    ratelimit-policy: "short";q=5, "long";q=5;w=2, "huge";q=999999999999999;w=10
    ratelimit: "short";r=4;t=1
    "#);
}

#[test]
fn calendars_have_no_window() {
    let calendar = tollgate::core::Calendar::utc(CalendarUnit::Day, Tick::NANOSECOND);
    let daily = FixedWindow::in_windows(5, Windows::Calendar(calendar)).unwrap();
    let daily = limit(daily.into(), 5, Period::Calendar(CalendarUnit::Day));
    let engine = engine(vec![policy("daily", vec![daily])]);
    assert_snapshot!(text(&ask(&engine, "daily"), ALL), @r#"
    x-ratelimit-limit: 5
    x-ratelimit-remaining: 4
    x-ratelimit-reset: 1700006400
    ratelimit-policy: "daily";q=5
    ratelimit: "daily";r=4;t=6390
    ratelimit-limit: 5
    ratelimit-remaining: 4
    ratelimit-reset: 6390
    "#);
}

#[test]
fn how_many_at_once() {
    let engine = engine(vec![policy("uploads", vec![at_once(1)])]);
    assert_snapshot!(text(&ask(&engine, "uploads"), ALL), @r#"
    x-ratelimit-limit: 1
    x-ratelimit-remaining: 0
    ratelimit-policy: "uploads";q=1;qu="concurrent-requests"
    ratelimit: "uploads";r=0
    ratelimit-limit: 1
    ratelimit-remaining: 0
    "#);
    assert_snapshot!(text(&ask(&engine, "uploads"), ALL), @r#"
    x-ratelimit-limit: 1
    x-ratelimit-remaining: 0
    x-ratelimit-reset: 1700000011
    ratelimit-policy: "uploads";q=1;qu="concurrent-requests"
    ratelimit: "uploads";r=0;t=1
    ratelimit-limit: 1
    ratelimit-remaining: 0
    ratelimit-reset: 1
    retry-after: 1
    "#);
    // More than there are: not before somebody changes the rule.
    assert_snapshot!(text(&ask_at(&engine, "uploads", 2, NOW), STRUCTURED), @r#"
    ratelimit-policy: "uploads";q=1;qu="concurrent-requests"
    ratelimit: "uploads";r=0;t=3600
    retry-after: 3600
    "#);
}

#[test]
fn never() {
    let unused = engine(vec![policy("search", vec![bucket(90, 2)])]);
    assert_snapshot!(text(&ask_at(&unused, "search", 3, NOW), ALL), @r#"
    x-ratelimit-limit: 2
    x-ratelimit-remaining: 2
    x-ratelimit-reset: 1700000070
    ratelimit-policy: "search";q=90;w=60
    ratelimit: "search";r=2;t=60
    ratelimit-limit: 2
    ratelimit-remaining: 2
    ratelimit-reset: 60
    retry-after: 60
    "#);
    let closed = engine(vec![
        policy("closed", vec![blocked(Period::Length(Duration::from_mins(5)))]),
        policy("closed-monthly", vec![blocked(Period::Calendar(CalendarUnit::Month))]),
    ]);
    assert_snapshot!(text(&ask(&closed, "closed"), ALL), @r#"
    x-ratelimit-limit: 0
    x-ratelimit-remaining: 0
    x-ratelimit-reset: 1700000310
    ratelimit-policy: "closed";q=0;w=300
    ratelimit: "closed";r=0;t=300
    ratelimit-limit: 0
    ratelimit-remaining: 0
    ratelimit-reset: 300
    retry-after: 300
    "#);
    assert_eq!(field(&ask(&closed, "closed-monthly"), "retry-after").unwrap(), "2592000");
}

/// Asks so often and for so much, and then once more.
fn retry_after(limits: Vec<RuleLimit>, asked: &[u64]) -> u64 {
    let engine = engine(vec![policy("search", limits)]);
    let verdicts: Vec<_> = asked.iter().map(|cost| ask_at(&engine, "search", *cost, NOW)).collect();
    field(verdicts.last().unwrap(), "retry-after").unwrap().parse().unwrap()
}

#[test]
fn of_several_limits_the_longest_wait_is_told() {
    let hour = per(1, Duration::from_hours(1));
    // NOW is 13 minutes and 30 seconds past an hour, and 22:13:30.
    assert_eq!(retry_after(vec![hour.clone(), at_once(1)], &[1, 1]), 2_790);
    assert_eq!(retry_after(vec![at_once(1), hour], &[1, 1]), 2_790);
    let day = Duration::from_hours(24);
    for limits in [[Duration::from_secs(1), day], [day, Duration::from_secs(1)]] {
        let limits = limits.into_iter().map(|period| per(2, period)).collect();
        assert_eq!(retry_after(limits, &[2, 3]), 86_400);
    }
}

#[test]
fn who_is_in_debt_waits_until_it_is_paid() {
    let booked = RuleLimit { overshoot: Overshoot::Book, ..bucket(1, 10) };
    assert_eq!(retry_after(vec![booked], &[20]), 20 * 60);
}

#[test]
fn a_queue_admits_and_delays() {
    let engine = engine(vec![policy("mail", vec![queue()])]);
    spend(&engine, "mail", 1);
    assert_snapshot!(text(&ask(&engine, "mail"), ALL), @r#"
    x-ratelimit-limit: 3
    x-ratelimit-remaining: 1
    x-ratelimit-reset: 1700007210
    ratelimit-policy: "mail";q=1;w=3600
    ratelimit: "mail";r=1;t=7200
    ratelimit-limit: 3
    ratelimit-remaining: 1
    ratelimit-reset: 7200
    "#);
}

#[test]
fn rules_in_shadow_mode_are_not_told() {
    let mut spec = policy("trial", vec![per_minute(1)]);
    spec.rule = shadow(spec.rule);
    let engine = engine(vec![spec]);
    spend(&engine, "trial", 1);
    let verdict = ask(&engine, "trial");
    assert!(verdict.allowed() && verdict.rulings()[0].is_over());
    assert_eq!(text(&verdict, ALL), "");
}

#[test]
fn long_titles_and_lists_are_cut() {
    let limits = (0..60).map(|at| named(&format!("{at}{}", "x".repeat(300)), per_minute(1))).collect();
    let engine = engine(vec![policy("many", limits)]);
    let verdict = ask(&engine, "many");
    let list = field(&verdict, "ratelimit-policy").unwrap();
    assert!(list.len() <= POLICIES_BYTES_MAX);
    let list: List = Parser::new(&list).parse().unwrap();
    assert_eq!(list.len(), POLICIES_BYTES_MAX / (TITLE_CHARACTERS_MAX + r#""";q=1;w=60, "#.len()));
}

#[test]
fn limits_in_shadow_mode_crowd_nobody_out() {
    let trials =
        (0..64).map(|at| RuleLimit { enforce_percent: 0, ..named(&format!("trial-{at}"), per_minute(1)) });
    let limits = trials.chain([named("real", per_minute(9))]).collect();
    let engine = engine(vec![policy("search", limits)]);
    assert_snapshot!(text(&ask(&engine, "search"), STRUCTURED), @r#"
    ratelimit-policy: "real";q=9;w=60
    ratelimit: "real";r=8;t=30
    "#);
}

#[test]
fn the_limit_that_is_told_is_among_the_policies() {
    let long = |at| format!("{at}{}", "x".repeat(300));
    for (many, name) in [(70, "short".to_owned()), (60, long(999))] {
        let loose =
            (0..many).map(|at| named(&if many > 64 { at.to_string() } else { long(at) }, per_minute(9)));
        let limits = loose.chain([named(&name, per_minute(1))]).collect();
        let engine = engine(vec![policy("search", limits)]);
        let verdict = ask(&engine, "search");
        let policies: List = Parser::new(&field(&verdict, "ratelimit-policy").unwrap()).parse().unwrap();
        let told: List = Parser::new(&field(&verdict, "ratelimit").unwrap()).parse().unwrap();
        let told = title(item(&told[0]));
        assert!(name.starts_with(told), "{told}");
        assert_eq!(policies.iter().filter(|entry| title(item(entry)) == told).count(), 1, "{told}");
    }
}

fn integer(item: &Item, name: &str) -> Option<i64> {
    item.params.get(name).map(|value| match value {
        BareItem::Integer(number) => i64::from(*number),
        other => panic!("{name} is {other:?}"),
    })
}

fn item(entry: &ListEntry) -> &Item {
    match entry {
        ListEntry::Item(item) => item,
        ListEntry::InnerList(_) => panic!("an inner list"),
    }
}

fn title(item: &Item) -> &str {
    match &item.bare_item {
        BareItem::String(title) => title.as_str(),
        other => panic!("{other:?} is no string"),
    }
}

prop_compose! {
    fn limits()(
        name in "[ -~]{1,40}",
        units in 1_u64..1_000,
        burst in 1_u64..50,
        period_ms in 1_u64..200_000,
        windows in any::<bool>(),
    ) -> RuleLimit {
        let period = Duration::from_millis(period_ms);
        if windows {
            return named(&name, per(units, period));
        }
        let bucket = tollgate::core::TokenBucket::new(super::samples::rate(units, period), burst).unwrap();
        named(&name, limit(bucket.into(), units, Period::Length(period)))
    }
}

proptest! {
    /// What the writer has written, the reference parser reads.
    #[test]
    fn structured_fields_say_what_the_verdict_says(
        limits in prop::collection::vec(limits(), 1..4),
        cost in 0_u64..60,
        times in 1_usize..5,
    ) {
        let engine = engine(vec![policy("any", limits)]);
        let verdicts = (0..times).map(|_| ask_at(&engine, "any", cost, NOW));
        for verdict in verdicts {
            let policies: List = Parser::new(&field(&verdict, "ratelimit-policy").unwrap()).parse().unwrap();
            for (at, entry) in policies.iter().enumerate() {
                let item = item(entry);
                let same = |ruling: &&tollgate::Ruling| {
                    let length = ruling.period.length().unwrap();
                    let window = (length >= Duration::from_secs(1)).then(|| length.as_millis().div_ceil(1_000));
                    verdict.title(ruling) == title(item)
                        && integer(item, "q").unwrap() == i64::try_from(ruling.units).unwrap()
                        && integer(item, "w").map(|w| u128::try_from(w).unwrap()) == window
                };
                prop_assert!(verdict.rulings().iter().any(|ruling| same(&ruling)), "{entry:?}");
                prop_assert!(!policies[..at].contains(entry), "{entry:?} is told twice");
            }
            let ratelimit: List = Parser::new(&field(&verdict, "ratelimit").unwrap()).parse().unwrap();
            let item = item(&ratelimit[0]);
            let tightest = verdict.tightest().unwrap();
            prop_assert_eq!(ratelimit.len(), 1);
            prop_assert_eq!(title(item), verdict.title(tightest));
            prop_assert_eq!(integer(item, "r").unwrap(), i64::try_from(tightest.decision.remaining).unwrap());
            prop_assert!(integer(item, "t").is_some());
        }
    }

    /// Whoever comes back when it was told is let in, and less than a second earlier that may be too early.
    #[test]
    fn never_earlier_than_promised(limit in limits(), cost in 1_u64..20, since_ns in 0_u64..5_000_000_000) {
        let engine = engine(vec![policy("any", vec![limit])]);
        let now = NOW.plus(Span::from_ticks(since_ns));
        let denied = (0..1_000).map(|_| ask_at(&engine, "any", cost, now)).find(|verdict| !verdict.allowed());
        let Some(denied) = denied.filter(|verdict| verdict.retry_after().is_some()) else { return Ok(()) };
        let number = |name| field(&denied, name).unwrap().parse::<u64>().unwrap();
        let ratelimit: List = Parser::new(&field(&denied, "ratelimit").unwrap()).parse().unwrap();
        let t = integer(item(&ratelimit[0]), "t").unwrap();
        prop_assert!(i64::try_from(number("retry-after")).unwrap() >= t);

        let exact = now.plus(denied.retry_after().unwrap());
        let told = now.plus(Span::from_ticks(number("retry-after") * 1_000_000_000));
        let reset = Time::from_ticks(number("x-ratelimit-reset") * 1_000_000_000);
        for moment in [told, reset] {
            prop_assert!(moment >= exact && moment.since(exact).ticks() < 1_000_000_000);
        }
        prop_assert!(ask_at(&engine, "any", cost, reset.max(now)).allowed());
    }
}
