//! CL.THROTTLE against redis-cell: its own table of cases, and its arithmetic written down again.
#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;
use tollgate::core::{Ask, Cost, State, Time};

use super::super::super::frame::Parser;
use super::*;

const MILLISECOND: u64 = 1_000_000;
const START: u64 = 1_700_000_000_000_000_000;

/// The answer to a line.
fn read(line: &str) -> Result<(Vec<u8>, Limit, u64), String> {
    let (mut parser, line) = (Parser::default(), format!("{line}\n"));
    parser.parse(line.as_bytes()).unwrap().unwrap();
    let call = Call::read(parser.arguments(line.as_bytes()));
    let call = call.and_then(|call| {
        let (max_burst, count, period) = call.numbers;
        Ok((call.key.to_vec(), limit(max_burst, count, period)?, call.quantity))
    });
    call.map_err(|error| error.to_string())
}

fn ask(limit: &Limit, state: &mut State, quantity: u64, after_ns: u64) -> [i64; 5] {
    answer(&limit.decide(state, Ask::take(Cost::new(quantity), Time::from_ticks(START + after_ns))))
}

#[test]
fn answers_the_cases_that_redis_cell_is_tested_with() {
    // Milliseconds, quantity; limited, limit, remaining, retry_after, reset_after. Burst 4, one per second.
    let cases = [
        (0, 6, [1, 5, 5, -1, 0]),
        (0, 1, [0, 5, 4, -1, 1]),
        (0, 1, [0, 5, 3, -1, 2]),
        (0, 1, [0, 5, 2, -1, 3]),
        (0, 1, [0, 5, 1, -1, 4]),
        (0, 1, [0, 5, 0, -1, 5]),
        (0, 1, [1, 5, 0, 1, 5]),
        (3_000, 1, [0, 5, 2, -1, 3]),
        (3_100, 1, [0, 5, 1, -1, 4]), // 3.9
        (4_000, 1, [0, 5, 1, -1, 4]),
        (8_000, 1, [0, 5, 4, -1, 1]),
        (9_500, 1, [0, 5, 4, -1, 1]),
        (9_500, 0, [0, 5, 4, -1, 1]),
        (9_500, 2, [0, 5, 2, -1, 3]),
        (9_500, 5, [1, 5, 2, 3, 3]),
    ];
    let limit = limit(4, 1, 1).unwrap();
    let mut state = limit.fresh();
    for (index, (at_ms, quantity, expected)) in cases.into_iter().enumerate() {
        assert_eq!(ask(&limit, &mut state, quantity, at_ms * MILLISECOND), expected, "case {index}");
    }
}

#[test]
fn seconds_are_rounded_as_redis_cell_rounds_them() {
    let cases = [
        (0, 0),
        (MILLISECOND - 1, 0),
        (MILLISECOND, 1),
        (999_999_999, 1),
        (1_000_000_000, 1),
        (1_000_999_999, 1),
        (1_001_000_000, 2),
        (u64::MAX, 18_446_744_074),
    ];
    for (ns, expected) in cases {
        assert_eq!(seconds(Span::from_ticks(ns)), expected, "{ns} ns");
    }
}

#[test]
fn a_call_that_no_memory_is_left_for_waits_a_second() {
    let decision = Decision { outcome: Outcome::Busy, limit: 16, remaining: 0, reset_after: None };
    assert_eq!(answer(&decision), [1, 16, 0, 1, -1]);
}

#[test]
fn large_numbers_are_cut() {
    let decision =
        Decision { outcome: Outcome::ALLOWED, limit: u64::MAX, remaining: u64::MAX, reset_after: None };
    assert_eq!(answer(&decision), [0, i64::MAX, i64::MAX, -1, -1]);
}

#[test]
fn reads_a_call() {
    let (key, limit, quantity) = read("cl.throttle 'a b' 15 30 60").unwrap();
    assert_eq!((key.as_slice(), quantity), (b"a b".as_slice(), 1));
    assert_eq!(ask(&limit, &mut limit.fresh(), 1, 0), [0, 16, 15, -1, 2]);
    assert_eq!(read("cl.throttle a 15 30 60 9223372036854775807").unwrap().2, i64::MAX.unsigned_abs());
    assert_eq!(read("cl.throttle a 15 30 60 0").unwrap().2, 0);
    // The largest bucket, the fastest rate and the longest period.
    assert!(read("cl.throttle a 4611686018427387903 1000000000 1").is_ok());
    assert!(read("cl.throttle a 0 4611686018000000000 4611686018").is_ok());
}

#[test]
fn says_what_is_wrong_with_a_call() {
    let check = |line: &str, expected: &str| assert_eq!(read(line).unwrap_err(), expected, "{line}");
    for bad in ["-1", "x", "1.5", "''", "' 1'", "9223372036854775808", "'\u{ff}'"] {
        check(
            &format!("cl.throttle a {bad} 1 1"),
            "max_burst must be a whole number from 0 to 9223372036854775807",
        );
    }
    for bad in ["0", "-1", "x", "1e9", "9223372036854775808"] {
        check(
            &format!("cl.throttle a 1 {bad} 1"),
            "count must be a whole number from 1 to 9223372036854775807",
        );
    }
    for bad in ["0", "-1", "60s", "4611686019"] {
        check(&format!("cl.throttle a 1 1 {bad}"), "period must be a whole number from 1 to 4611686018");
    }
    for bad in ["-1", "x", "9223372036854775808"] {
        check(
            &format!("cl.throttle a 1 1 1 {bad}"),
            "quantity must be a whole number from 0 to 9223372036854775807",
        );
    }
    check(
        "cl.throttle a 1 1000000001 1",
        "count must be at most 1000000000 for every second of period, not 1000000001 in 1 s",
    );
    let too_long =
        "max_burst is too large for this rate: max_burst + 1 units must come back within 4611686018 seconds";
    check("cl.throttle a 9223372036854775807 1 1", too_long);
    check("cl.throttle a 1 1 4611686018", too_long);
}

/// What redis-cell calculates, with numbers that cannot overflow. The moment is the key's theoretical arrival time.
fn redis_cell(
    tat: &mut Option<i128>,
    [max_burst, count, period, quantity]: [i128; 4],
    now: i128,
) -> [i64; 5] {
    let emission = period * 1_000_000_000 / count;
    let (tolerance, increment) = (emission * (max_burst + 1), emission * quantity);
    let before = tat.unwrap_or(now);
    let after = before.max(now) + increment;
    let ahead = now - (after - tolerance);
    let (limited, retry_after, left) = if ahead < 0 {
        let retry_after = if increment <= tolerance { -ahead } else { -1_000_000_000 };
        (1, retry_after, (before - now).max(0))
    } else {
        *tat = Some(after);
        (0, -1_000_000_000, after - now)
    };
    let remaining = if tolerance - left > -emission { (tolerance - left) / emission } else { 0 };
    let seconds = |ns: i128| ns / 1_000_000_000 + i128::from(ns % 1_000_000_000 >= 1_000_000);
    [limited, max_burst + 1, remaining, seconds(retry_after), seconds(left)]
        .map(|n| i64::try_from(n).unwrap())
}

proptest! {
    /// Callers that change their numbers from call to call, with rates whose interval is a whole number of nanoseconds: others
    /// are rounded up here and down there.
    #[test]
    fn answers_as_redis_cell_does(
        calls in prop::collection::vec(
            (0_u64..20, prop::sample::select(vec![1_u64, 2, 5, 10, 250, 1000]), 1_u64..100, 0_u64..25, 0_u64..5_000_000_000),
            1..40,
        ),
    ) {
        let (mut now, mut tat) = (0, None);
        let mut state = limit(0, 1, 1).unwrap().fresh();
        for (max_burst, count, period, quantity, passed) in calls {
            now += passed;
            let numbers = [max_burst, count, period, quantity].map(i128::from);
            let expected = redis_cell(&mut tat, numbers, i128::from(START + now));
            let limit = limit(max_burst, count, period).unwrap();
            prop_assert_eq!(ask(&limit, &mut state, quantity, now), expected);
        }
    }
}
