//! Algorithms that do not go with what is asked of them, and what is said of that.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::said_of_limit;
use insta::assert_snapshot;

#[test]
fn unlimited_with_algorithm() {
    assert_snapshot!(said_of_limit("
        unlimited: true
        algorithm: token_bucket
    "), @r"
    rules.yaml:6:5: `algorithm` has no meaning where `unlimited` is true
       |
     6 |     algorithm: token_bucket
       |     ^^^^^^^^^
       = remove `algorithm`, or remove `unlimited`
    ");
}

#[test]
fn unknown_algorithm() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        algorithm: tokenbucket2
    "), @r"
    rules.yaml:7:16: unknown algorithm `tokenbucket2`
       |
     7 |     algorithm: tokenbucket2
       |                ^^^^^^^^^^^^
       = did you mean `token_bucket`? It can be token_bucket, leaky_bucket, fixed_window, sliding_window, sliding_log, concurrency
    ");
}

#[test]
fn unknown_algorithm_far_off() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        algorithm: magic
    "), @r"
    rules.yaml:7:16: unknown algorithm `magic`
       |
     7 |     algorithm: magic
       |                ^^^^^
       = it can be token_bucket, leaky_bucket, fixed_window, sliding_window, sliding_log, concurrency
    ");
}

#[test]
fn burst_with_a_window() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        algorithm: fixed_window
        burst: 5
    "), @r"
    rules.yaml:8:5: `burst` has no meaning for a `fixed_window`
       |
     8 |     burst: 5
       |     ^^^^^
       = remove it, or write `algorithm: token_bucket` in the `rate_limit`
    ");
}

#[test]
fn burst_with_a_calendar() {
    assert_snapshot!(said_of_limit("
        requests: 10
        calendar: day
        burst: 5
    "), @r"
    rules.yaml:7:5: `burst` has no meaning for a `fixed_window`
       |
     7 |     burst: 5
       |     ^^^^^
       = remove it: all requests of a calendar's day, week or month may come at once
    ");
}

#[test]
fn burst_with_concurrency() {
    assert_snapshot!(said_of_limit("
        requests: 10
        period: 30s
        algorithm: concurrency
        burst: 5
    "), @r"
    rules.yaml:8:5: `burst` has no meaning for a `concurrency`
       |
     8 |     burst: 5
       |     ^^^^^
       = remove it: `requests` says how many may be at it at once
    ");
}

#[test]
fn burst_with_a_queue() {
    assert_snapshot!(said_of_limit("
        requests: 10
        period: 1s
        algorithm: leaky_bucket
        max_wait: 2s
        burst: 5
    "), @r"
    rules.yaml:9:5: a queue is bounded by `max_wait`, not by `burst`
       |
     9 |     burst: 5
       |     ^^^^^
      ::: rules.yaml:8:5: this makes it a queue
       |
     8 |     max_wait: 2s
       |     ^^^^^^^^
       = keep one of the two
    ");
}

#[test]
fn burst_of_nothing() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        burst: 0
    "), @r"
    rules.yaml:7:12: `burst` must be at least 1
       |
     7 |     burst: 0
       |            ^
       = remove it for a burst of 10; to let nothing pass, write `requests_per_unit: 0`
    ");
}

#[test]
fn burst_too_large() {
    assert_snapshot!(said_of_limit("
        unit: year
        requests_per_unit: 1
        burst: 1000
    "), @r"
    rules.yaml:7:12: a `burst` of 1000 would take more than 146 years to come back
       |
     7 |     burst: 1000
       |            ^^^^
       = lower the burst, or allow more per period
    ");
}

#[test]
fn bucket_too_fast() {
    assert_snapshot!(said_of_limit("
        unit: second
        requests_per_unit: 2000000000
        burst: 10
    "), @r"
    rules.yaml:6:24: 2000000000 per period are more than one in a nanosecond, which no `token_bucket` can tell apart
       |
     6 |     requests_per_unit: 2000000000
       |                        ^^^^^^^^^^
       = use `algorithm: sliding_window`, without `burst`: it counts them
    ");
}

#[test]
fn log_too_large() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 65537
        algorithm: sliding_log
    "), @r"
    rules.yaml:6:24: a `sliding_log` remembers every request, 65536 at most, not 65537
       |
     6 |     requests_per_unit: 65537
       |                        ^^^^^
       = use `algorithm: sliding_window` with `sub_windows: 10`
    ");
}

#[test]
fn too_many_at_once() {
    assert_snapshot!(said_of_limit("
        requests: 65537
        period: 30s
        algorithm: concurrency
    "), @r"
    rules.yaml:5:15: a `concurrency` limit keeps account of 65536 at once at most, not 65537
       |
     5 |     requests: 65537
       |               ^^^^^
       = write a number up to 65536
    ");
}

#[test]
fn concurrency_without_period() {
    assert_snapshot!(said_of_limit("
        requests: 10
        algorithm: concurrency
    "), @r"
    rules.yaml:4:3: a `rate_limit` lacks `period`: how long one request may take
       |
     4 |   rate_limit:
       |   ^^^^^^^^^^
       = write `period: 30s`, say; whoever does not release its place loses it then
    ");
}

#[test]
fn sub_windows_out_of_range() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        sub_windows: 65
    "), @r"
    rules.yaml:7:18: a window may have 1 to 64 `sub_windows`, each of at least a nanosecond
       |
     7 |     sub_windows: 65
       |                  ^^
       = 10 are enough for most
    ");
}

#[test]
fn sub_windows_of_nothing() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        sub_windows: 0
    "), @r"
    rules.yaml:7:18: a window may have 1 to 64 `sub_windows`, each of at least a nanosecond
       |
     7 |     sub_windows: 0
       |                  ^
       = 10 are enough for most
    ");
}

#[test]
fn sub_windows_of_a_bucket() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        burst: 5
        sub_windows: 10
    "), @r"
    rules.yaml:8:5: `sub_windows` has no meaning for a `token_bucket`
       |
     8 |     sub_windows: 10
       |     ^^^^^^^^^^^
       = write `algorithm: sliding_window`, or remove it
    ");
}

#[test]
fn max_wait_without_a_queue() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        max_wait: 1s
    "), @r"
    rules.yaml:7:5: `max_wait` has no meaning for a `sliding_window`
       |
     7 |     max_wait: 1s
       |     ^^^^^^^^
       = write `algorithm: leaky_bucket` for a queue, or remove it
    ");
}

#[test]
fn max_wait_too_long() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        algorithm: leaky_bucket
        max_wait: 10000w
    "), @r"
    rules.yaml:8:15: `max_wait` and two periods together are longer than 146 years
       |
     8 |     max_wait: 10000w
       |               ^^^^^^
       = write a shorter one
    ");
}

#[test]
fn jitter_without_windows() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        algorithm: sliding_log
        jitter: true
    "), @r"
    rules.yaml:8:5: `jitter` has no meaning for a `sliding_log`
       |
     8 |     jitter: true
       |     ^^^^^^
       = it moves where windows begin; remove it
    ");
}

#[test]
fn jitter_of_a_calendar() {
    assert_snapshot!(said_of_limit("
        requests: 10
        calendar: day
        jitter: true
    "), @r"
    rules.yaml:7:5: `jitter` cannot move the days of a calendar
       |
     7 |     jitter: true
       |     ^^^^^^
       = remove it, or count by `unit` or `period`
    ");
}

#[test]
fn unknown_zone() {
    assert_snapshot!(said_of_limit("
        requests: 10
        calendar: day
        zone: Europe/Berlim
    "), @r"
    rules.yaml:7:11: unknown time zone `Europe/Berlim`
       |
     7 |     zone: Europe/Berlim
       |           ^^^^^^^^^^^^^
       = use a name of the IANA database, such as `Europe/Berlin`, `America/New_York` or `UTC`
    ");
}

#[test]
fn zone_without_calendar() {
    assert_snapshot!(said_of_limit("
        requests: 10
        unit: day
        zone: Europe/Berlin
    "), @r"
    rules.yaml:7:5: `zone` has no meaning without a `calendar`
       |
     7 |     zone: Europe/Berlin
       |     ^^^^
       = write `calendar: day` (or week, month) instead of `unit` or `period`
    ");
}

#[test]
fn calendar_of_years() {
    assert_snapshot!(said_of_limit("
        requests: 10
        calendar: year
    "), @r"
    rules.yaml:6:15: unknown calendar `year`
       |
     6 |     calendar: year
       |               ^^^^
       = it can be day, week, month
    ");
}

#[test]
fn calendar_with_a_bucket() {
    assert_snapshot!(said_of_limit("
        requests: 10
        calendar: day
        algorithm: token_bucket
    "), @r"
    rules.yaml:7:16: a `calendar` is counted by a `fixed_window`, not by a `token_bucket`
       |
     7 |     algorithm: token_bucket
       |                ^^^^^^^^^^^^
      ::: rules.yaml:6:5: the calendar
       |
     6 |     calendar: day
       |     ^^^^^^^^
       = remove `algorithm`; or count by a length of time, such as `period: 30d`
    ");
}
