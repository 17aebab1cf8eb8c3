//! Mistakes in how many and per what time, and what is said of them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::said_of_limit;
use insta::assert_snapshot;

#[test]
fn unknown_unit() {
    assert_snapshot!(said_of_limit("
        unit: minutes
        requests_per_unit: 10
    "), @r"
    rules.yaml:5:11: unknown unit `minutes`
       |
     5 |     unit: minutes
       |           ^^^^^^^
       = did you mean `minute`? It can be second, minute, hour, day, week, month, year
    ");
}

#[test]
fn unit_of_nothing() {
    assert_snapshot!(said_of_limit("
        unit: fortnight
        requests_per_unit: 10
    "), @r"
    rules.yaml:5:11: unknown unit `fortnight`
       |
     5 |     unit: fortnight
       |           ^^^^^^^^^
       = it can be second, minute, hour, day, week, month, year
    ");
}

#[test]
fn unit_without_value() {
    assert_snapshot!(said_of_limit("
        unit:
        requests_per_unit: 10
    "), @r"
    rules.yaml:5:5: `unit` has no value
       |
     5 |     unit:
       |     ^^^^
       = give it one, or remove the key
    ");
}

#[test]
fn unit_missing() {
    assert_snapshot!(said_of_limit("requests_per_unit: 10"), @r"
    rules.yaml:4:3: a `rate_limit` lacks `unit`
       |
     4 |   rate_limit:
       |   ^^^^^^^^^^
       = write `unit: minute`, or second, hour, day, week, month, year; or any length as `period: 90s`
    ");
}

#[test]
fn number_missing() {
    assert_snapshot!(said_of_limit("unit: minute"), @r"
    rules.yaml:4:3: a `rate_limit` lacks `requests_per_unit`
       |
     4 |   rate_limit:
       |   ^^^^^^^^^^
       = write `requests_per_unit: 100`; 0 lets nothing pass
    ");
}

#[test]
fn everything_missing() {
    assert_snapshot!(said_of_limit("name: x"), @r"
    rules.yaml:4:3: a `rate_limit` says neither how many nor per what time
       |
     4 |   rate_limit:
       |   ^^^^^^^^^^
       = write `unit: minute` and `requests_per_unit: 100`; or `unlimited: true`
    ");
}

#[test]
fn negative_number() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: -1
    "), @r"
    rules.yaml:6:24: `requests_per_unit` cannot be negative: `-1`
       |
     6 |     requests_per_unit: -1
       |                        ^^
       = write a number from 0 to 18446744073709551615
    ");
}

#[test]
fn fraction() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 0.5
    "), @r"
    rules.yaml:6:24: `requests_per_unit` must be a whole number, not `0.5`
       |
     6 |     requests_per_unit: 0.5
       |                        ^^^
       = leave out the fraction; for less than one per unit, use a longer period
    ");
}

#[test]
fn quoted_number() {
    assert_snapshot!(said_of_limit(r#"
        unit: minute
        requests_per_unit: "10"
    "#), @r#"
    rules.yaml:6:24: `requests_per_unit` must be a whole number, not `"10"`
       |
     6 |     requests_per_unit: "10"
       |                        ^^^^
       = remove the quotes: `10`
    "#);
}

#[test]
fn rate_in_one_word() {
    assert_snapshot!(said_of_limit("
        requests_per_unit: 10/min
        unit: minute
    "), @r"
    rules.yaml:5:24: `requests_per_unit` must be a whole number, not `10/min`
       |
     5 |     requests_per_unit: 10/min
       |                        ^^^^^^
       = write the number alone, `10`, and the time as `unit: minute`
    ");
}

#[test]
fn separators() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 1_000
    "), @r"
    rules.yaml:6:24: `requests_per_unit` must be a whole number, not `1_000`
       |
     6 |     requests_per_unit: 1_000
       |                        ^^^^^
       = write it without separators: `1000`
    ");
}

#[test]
fn thousands() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10k
    "), @r"
    rules.yaml:6:24: `requests_per_unit` must be a whole number, not `10k`
       |
     6 |     requests_per_unit: 10k
       |                        ^^^
       = write it in full: `10000`
    ");
}

#[test]
fn leading_zero() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 010
    "), @r"
    rules.yaml:6:24: `requests_per_unit` must be a whole number, not `010`
       |
     6 |     requests_per_unit: 010
       |                        ^^^
       = a number that begins with 0 is read as octal by some: leave the 0 out
    ");
}

#[test]
fn beyond_64_bits() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 18446744073709551616
    "), @r"
    rules.yaml:6:24: `requests_per_unit` is too large: `18446744073709551616`
       |
     6 |     requests_per_unit: 18446744073709551616
       |                        ^^^^^^^^^^^^^^^^^^^^
       = write a number from 0 to 18446744073709551615
    ");
}

#[test]
fn far_beyond_64_bits() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 99999999999999999999999999999999999999999999
    "), @r"
    rules.yaml:6:24: `requests_per_unit` is too large: `99999999999999999999999999999999999999999999`
       |
     6 |     requests_per_unit: 99999999999999999999999999999999999999999999
       |                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       = write a number from 0 to 18446744073709551615
    ");
}

#[test]
fn number_is_a_word() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: ten
    "), @r"
    rules.yaml:6:24: `requests_per_unit` must be a whole number, not `ten`
       |
     6 |     requests_per_unit: ten
       |                        ^^^
       = write digits only, such as `100`
    ");
}

#[test]
fn number_is_a_list() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: [10]
    "), @r"
    rules.yaml:6:24: `requests_per_unit` must be a whole number, not a list
       |
     6 |     requests_per_unit: [10]
       |                        ^
       = write `requests_per_unit:` and the value on one line
    ");
}

#[test]
fn number_is_a_boolean() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: true
    "), @r"
    rules.yaml:6:24: `requests_per_unit` must be a whole number, not `true`
       |
     6 |     requests_per_unit: true
       |                        ^^^^
       = write digits only, such as `100`
    ");
}

#[test]
fn two_numbers() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        requests: 20
    "), @r"
    rules.yaml:7:5: both `requests_per_unit` and `requests` are given
       |
     7 |     requests: 20
       |     ^^^^^^^^
      ::: rules.yaml:6:5: the other one
       |
     6 |     requests_per_unit: 10
       |     ^^^^^^^^^^^^^^^^^
       = they mean the same: keep one, such as `requests_per_unit: 100` with `unit: minute`
    ");
}

#[test]
fn unit_and_period() {
    assert_snapshot!(said_of_limit("
        requests: 10
        unit: minute
        period: 90s
    "), @r"
    rules.yaml:7:5: both `unit` and `period` are given
       |
     7 |     period: 90s
       |     ^^^^^^
      ::: rules.yaml:6:5: the other one
       |
     6 |     unit: minute
       |     ^^^^
       = keep one: `unit: minute`, or any length as `period: 90s`, or `calendar: month`
    ");
}

#[test]
fn unit_and_calendar() {
    assert_snapshot!(said_of_limit("
        requests: 10
        unit: month
        calendar: month
    "), @r"
    rules.yaml:7:5: both `unit` and `calendar` are given
       |
     7 |     calendar: month
       |     ^^^^^^^^
      ::: rules.yaml:6:5: the other one
       |
     6 |     unit: month
       |     ^^^^
       = keep one: `unit: minute`, or any length as `period: 90s`, or `calendar: month`
    ");
}

#[test]
fn period_without_unit() {
    assert_snapshot!(said_of_limit("
        requests: 10
        period: 90
    "), @r"
    rules.yaml:6:13: `period` must be a length of time, not `90`
       |
     6 |     period: 90
       |             ^^
       = it needs a unit: `90s` are seconds, `90ms` milliseconds
    ");
}

#[test]
fn period_in_words() {
    assert_snapshot!(said_of_limit("
        requests: 10
        period: 5 minutes
    "), @r"
    rules.yaml:6:13: `period` must be a length of time, not `5 minutes`
       |
     6 |     period: 5 minutes
       |             ^^^^^^^^^
       = write `5m`
    ");
}

#[test]
fn period_is_a_unit() {
    assert_snapshot!(said_of_limit("
        requests: 10
        period: minute
    "), @r"
    rules.yaml:6:13: `period` must be a length of time, not `minute`
       |
     6 |     period: minute
       |             ^^^^^^
       = for one minute, write `unit: minute` instead, or a number before it
    ");
}

#[test]
fn period_with_fraction() {
    assert_snapshot!(said_of_limit("
        requests: 10
        period: 1.5h
    "), @r"
    rules.yaml:6:13: `period` must be a length of time, not `1.5h`
       |
     6 |     period: 1.5h
       |             ^^^^
       = write it without a fraction: `1h30m` instead of `1.5h`
    ");
}

#[test]
fn period_of_months() {
    assert_snapshot!(said_of_limit("
        requests: 10
        period: 1mo
    "), @r"
    rules.yaml:6:13: `period` must be a length of time, not `1mo`
       |
     6 |     period: 1mo
       |             ^^^
       = `unit: month` has fixed days, `calendar: month` those of the calendar; or count in `d`
    ");
}

#[test]
fn period_of_nothing() {
    assert_snapshot!(said_of_limit("
        requests: 10
        period: 0s
    "), @r"
    rules.yaml:6:13: a `period` of no length has no rate
       |
     6 |     period: 0s
       |             ^^
       = write one such as `1s`
    ");
}

#[test]
fn period_is_nonsense() {
    assert_snapshot!(said_of_limit("
        requests: 10
        period: soon
    "), @r"
    rules.yaml:6:13: `period` must be a length of time, not `soon`
       |
     6 |     period: soon
       |             ^^^^
       = write a number and a unit, such as `250ms`, `90s`, `1m30s`, `12h`, `1d` or `2w`
    ");
}

#[test]
fn period_too_long() {
    assert_snapshot!(said_of_limit("
        requests: 10
        period: 100000w
    "), @r"
    rules.yaml:6:13: `period` is longer than 146 years
       |
     6 |     period: 100000w
       |             ^^^^^^^
       = the longest is 4611686018 seconds
    ");
}

#[test]
fn period_of_absurd_length() {
    assert_snapshot!(said_of_limit("
        requests: 10
        period: 99999999999999999999999999999999999999999w
    "), @r"
    rules.yaml:6:13: `period` is longer than 146 years
       |
     6 |     period: 99999999999999999999999999999999999999999w
       |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       = the longest is 4611686018 seconds
    ");
}
