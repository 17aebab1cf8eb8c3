//! Mistakes in how a limit behaves, and what is said of them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{said, said_of_limit};
use insta::assert_snapshot;

#[test]
fn unlimited_with_unit() {
    assert_snapshot!(said_of_limit("
        unlimited: true
        unit: day
    "), @r"
    rules.yaml:6:5: `unit` has no meaning where `unlimited` is true
       |
     6 |     unit: day
       |     ^^^^
      ::: rules.yaml:5:5: unlimited by this
       |
     5 |     unlimited: true
       |     ^^^^^^^^^
       = remove `unit`, or remove `unlimited`
    ");
}

#[test]
fn unlimited_with_requests() {
    assert_snapshot!(said_of_limit("
        unlimited: true
        requests: 5
    "), @r"
    rules.yaml:6:5: `requests` has no meaning where `unlimited` is true
       |
     6 |     requests: 5
       |     ^^^^^^^^
      ::: rules.yaml:5:5: unlimited by this
       |
     5 |     unlimited: true
       |     ^^^^^^^^^
       = remove `requests`, or remove `unlimited`
    ");
}

#[test]
fn overshoot_unknown() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        overshoot: allow
    "), @r"
    rules.yaml:7:16: unknown overshoot `allow`
       |
     7 |     overshoot: allow
       |                ^^^^^
       = it can be deny, book
    ");
}

#[test]
fn percent_too_large() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        enforce_percent: 101
    "), @r"
    rules.yaml:7:22: `enforce_percent` is 101, and may be at most 100
       |
     7 |     enforce_percent: 101
       |                      ^^^
       = write a number up to 100
    ");
}

#[test]
fn percent_with_its_sign() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        enforce_percent: 50%
    "), @r"
    rules.yaml:7:22: `enforce_percent` must be a whole number, not `50%`
       |
     7 |     enforce_percent: 50%
       |                      ^^^
       = write the number alone: `50`
    ");
}

#[test]
fn consistency_unknown() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        consistency: strict
    "), @r"
    rules.yaml:7:18: unknown consistency `strict`
       |
     7 |     consistency: strict
       |                  ^^^^^^
       = it can be local, exact, leased
    ");
}

#[test]
fn fail_mode_unknown() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        fail_mode: opened
    "), @r"
    rules.yaml:7:16: unknown fail_mode `opened`
       |
     7 |     fail_mode: opened
       |                ^^^^^^
       = did you mean `open`? It can be open, closed, local
    ");
}

#[test]
fn fraction_too_large() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        local_fraction: 50
    "), @r"
    rules.yaml:7:21: `local_fraction` must be from 0 to 1 in hundredths, not `50`
       |
     7 |     local_fraction: 50
       |                     ^^
       = a quarter is `0.25`
    ");
}

#[test]
fn fraction_without_use() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        fail_mode: open
        local_fraction: 0.5
    "), @r"
    rules.yaml:8:5: `local_fraction` has no meaning unless `fail_mode` is `local`
       |
     8 |     local_fraction: 0.5
       |     ^^^^^^^^^^^^^^
      ::: rules.yaml:7:16: it is this
       |
     7 |     fail_mode: open
       |                ^^^^
       = remove it, or write `fail_mode: local`
    ");
}

#[test]
fn strict_without_leases() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        consistency: exact
        strict: true
    "), @r"
    rules.yaml:8:5: `strict` has no meaning unless units are leased
       |
     8 |     strict: true
       |     ^^^^^^
       = write `consistency: leased` or `lease_when_hot: true`, or remove it
    ");
}

#[test]
fn leases_of_hot_keys_that_cannot_be() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        consistency: local
        lease_when_hot: true
    "), @r"
    rules.yaml:8:5: `lease_when_hot` has no meaning for a count that is not shared
       |
     8 |     lease_when_hot: true
       |     ^^^^^^^^^^^^^^
      ::: rules.yaml:7:18: it is this
       |
     7 |     consistency: local
       |                  ^^^^^
       = remove it, or write `consistency: exact`
    ");
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        consistency: leased
        lease_when_hot: true
    "), @r"
    rules.yaml:8:5: a limit that is always leased needs no `lease_when_hot`
       |
     8 |     lease_when_hot: true
       |     ^^^^^^^^^^^^^^
      ::: rules.yaml:7:18: it is this
       |
     7 |     consistency: leased
       |                  ^^^^^^
       = keep one of the two
    ");
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        algorithm: concurrency
        lease_when_hot: true
    "), @r"
    rules.yaml:8:5: this limit cannot be leased
       |
     8 |     lease_when_hot: true
       |     ^^^^^^^^^^^^^^
       = remove it: queues and limits on concurrency are always exact, and of a few units none is to spare
    ");
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        local_fraction: 0
        lease_when_hot: true
    "), @r"
    rules.yaml:8:5: this limit cannot be leased
       |
     8 |     lease_when_hot: true
       |     ^^^^^^^^^^^^^^
       = remove it, or write a larger `local_fraction`: of nothing, nothing is leased
    ");
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 0
        lease_when_hot: true
        strict: true
    "), @r"
    (nothing is wrong)
    ");
}

#[test]
fn replaces_itself() {
    assert_snapshot!(said_of_limit("
        name: a
        replaces: [{name: a}]
        unit: minute
        requests_per_unit: 10
    "), @r"
    rules.yaml:6:23: a limit cannot replace itself: `a` is its own name
       |
     6 |     replaces: [{name: a}]
       |                       ^
       = name another limit, or remove the entry
    ");
}

#[test]
fn replaces_nothing() {
    assert_snapshot!(said_of_limit("
        replaces: [{name: }]
        unit: minute
        requests_per_unit: 10
    "), @r"
    rules.yaml:5:17: `name` has no value
       |
     5 |     replaces: [{name: }]
       |                 ^^^^
       = name the limit that is dropped: `- name: NAME`
    ");
}

#[test]
fn replaces_an_empty_name() {
    assert_snapshot!(said_of_limit(r#"
        replaces: [{name: ""}]
        unit: minute
        requests_per_unit: 10
    "#), @r#"
    rules.yaml:5:23: the name of a replaced limit is empty
       |
     5 |     replaces: [{name: ""}]
       |                       ^^
       = name the limit that is dropped: `- name: NAME`
    "#);
}

#[test]
fn replaces_without_name() {
    assert_snapshot!(said_of_limit("
        replaces: [{}]
        unit: minute
        requests_per_unit: 10
    "), @r"
    rules.yaml:5:16: an entry of `replaces` lacks `name`
       |
     5 |     replaces: [{}]
       |                ^
       = name the limit that is dropped: `- name: NAME`
    ");
}

#[test]
fn replaces_words() {
    assert_snapshot!(said_of_limit("
        replaces: [a]
        unit: minute
        requests_per_unit: 10
    "), @r"
    rules.yaml:5:16: an entry of `replaces` must be a mapping, not text
       |
     5 |     replaces: [a]
       |                ^
       = write `- name: NAME`
    ");
}

#[test]
fn name_no_header_takes() {
    assert_snapshot!(said_of_limit(r#"
        name: "a\nb"
        unit: minute
        requests_per_unit: 10
    "#), @r#"
    rules.yaml:5:11: a name may not have the character `\n`
       |
     5 |     name: "a\nb"
       |           ^^^^^^
       = names are sent in headers: use letters, digits and signs of ASCII
    "#);
}

#[test]
fn name_too_long() {
    assert_snapshot!(said_of_limit("
        name: nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn
        unit: minute
        requests_per_unit: 10
    "), @r"
    rules.yaml:5:11: a name may have at most 128 characters, not 129
       |
     5 |     name: nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...
       |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       = names are sent in headers: choose a shorter one
    ");
}

#[test]
fn two_limits_of_one_name() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          rate_limits:
          - {name: a, unit: minute, requests_per_unit: 10}
          - {name: b, unit: hour, requests_per_unit: 100}
          - {name: a, unit: day, requests_per_unit: 1000}
    "), @r"
    rules.yaml:7:12: two limits of one list have the name `a`
       |
     7 |   - {name: a, unit: day, requests_per_unit: 1000}
       |            ^
      ::: rules.yaml:5:12: the first is here
       |
     5 |   - {name: a, unit: minute, requests_per_unit: 10}
       |            ^
       = they would share one counter: give each a name of its own
    ");
    assert_snapshot!(said("
        policies:
          search:
            rate_limits:
            - name: a
              unit: minute
              requests_per_unit: 10
            - name: 'a'
              unit: day
    "), @r"
    rules.yaml:7:7: a `rate_limit` lacks `requests_per_unit`
       |
     7 |     - name: 'a'
       |       ^
       = write `requests_per_unit: 100`; 0 lets nothing pass

    rules.yaml:7:13: two limits of one list have the name `a`
       |
     7 |     - name: 'a'
       |             ^^^
      ::: rules.yaml:4:13: the first is here
       |
     4 |     - name: a
       |             ^
       = they would share one counter: give each a name of its own
    ");
}

#[test]
fn two_limits_of_one_name_by_alias() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          rate_limits:
          - &base {name: a, unit: minute, requests_per_unit: 10}
          - {<<: *base, unit: hour}
    "), @r"
    rules.yaml:6:5: two limits of one list have the name `a`
       |
     6 |   - {<<: *base, unit: hour}
       |     ^
      ::: rules.yaml:5:5: the first is here
       |
     5 |   - &base {name: a, unit: minute, requests_per_unit: 10}
       |     ^^^^^^^
       = they would share one counter: give each a name of its own
    ");
}

#[test]
fn limits_without_a_name_and_in_other_lists_are_told_apart() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          rate_limits:
          - {name: '', unit: minute, requests_per_unit: 10}
          - {name: '', unit: hour, requests_per_unit: 10}
          - {name: , unit: day, requests_per_unit: 10}
          - {name: a, unit: week, requests_per_unit: 10}
        - key: path
          rate_limit: {name: a, unit: minute, requests_per_unit: 10}
    "), @"(nothing is wrong)");
}

#[test]
fn too_large_to_be_shared() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: a
          rate_limit: {requests: 9007199254740993, period: 30d, consistency: exact}
        - key: b
          rate_limit: {requests: 9007199254740993, period: 30d, consistency: local}
        - key: c
          rate_limit: {requests: 9007199254740993, period: 30d}
    "), @r"
    rules.yaml:4:70: these numbers are too large for a count that is shared
       |
     4 |   rate_limit: {requests: 9007199254740993, period: 30d, consistency: exact}
       |                                                                      ^^^^^
       = write `consistency: local`, or smaller numbers: a shared count can tell apart 2^53 (about 9 quadrillion) unit-seconds
    ");
}

#[test]
fn durable_by_another_algorithm() {
    assert_snapshot!(said_of_limit("
        unit: day
        requests_per_unit: 10
        algorithm: token_bucket
        durable: true
    "), @r"
    rules.yaml:7:16: the database counts by windows, not by a `token_bucket`
       |
     7 |     algorithm: token_bucket
       |                ^^^^^^^^^^^^
      ::: rules.yaml:8:5: it is kept there because of this
       |
     8 |     durable: true
       |     ^^^^^^^
       = remove `algorithm`, or write `algorithm: fixed_window`; or remove `durable`
    ");
}

#[test]
fn durable_and_shared_otherwise() {
    assert_snapshot!(said_of_limit("
        unit: day
        requests_per_unit: 10
        durable: true
        consistency: leased
        strict: true
    "), @r"
    rules.yaml:8:5: `consistency` has no meaning for a limit that is `durable`
       |
     8 |     consistency: leased
       |     ^^^^^^^^^^^
      ::: rules.yaml:7:5: it is this
       |
     7 |     durable: true
       |     ^^^^^^^
       = remove `consistency`: the database decides, and is never exceeded

    rules.yaml:9:5: `strict` has no meaning for a limit that is `durable`
       |
     9 |     strict: true
       |     ^^^^^^
      ::: rules.yaml:7:5: it is this
       |
     7 |     durable: true
       |     ^^^^^^^
       = remove `strict`: the database decides, and is never exceeded
    ");
}

#[test]
fn durable_and_too_large() {
    assert_snapshot!(said_of_limit("
        unit: day
        requests_per_unit: 9007199254740993
        durable: true
    "), @r"
    rules.yaml:7:14: these numbers are too large for a count that is shared
       |
     7 |     durable: true
       |              ^^^^
       = write smaller numbers: a window may have 2^45 units (about 35 trillion)
    ");
}

#[test]
fn anchor_day_without_a_month() {
    assert_snapshot!(said_of_limit("
        calendar: week
        requests: 10
        anchor_day: 15
    "), @r"
    rules.yaml:7:5: `anchor_day` has no meaning without `calendar: month`
       |
     7 |     anchor_day: 15
       |     ^^^^^^^^^^
       = write `calendar: month` instead of `unit` or `period`, or remove it
    ");
}

#[test]
fn anchor_day_of_no_month() {
    assert_snapshot!(said_of_limit("
        calendar: month
        requests: 10
        anchor_day: 0
    "), @r"
    rules.yaml:7:17: `anchor_day` is 0, and months begin with day 1
       |
     7 |     anchor_day: 0
       |                 ^
       = write a number from 1 to 31
    ");
    assert_snapshot!(said_of_limit("
        calendar: month
        requests: 10
        anchor_day: 32
    "), @r"
    rules.yaml:7:17: `anchor_day` is 32, and may be at most 31
       |
     7 |     anchor_day: 32
       |                 ^^
       = write a number up to 31
    ");
}

#[test]
fn durable_where_nothing_is_counted() {
    assert_snapshot!(said_of_limit("
        unlimited: true
        durable: true
    "), @r"
    rules.yaml:6:5: `durable` has no meaning where `unlimited` is true
       |
     6 |     durable: true
       |     ^^^^^^^
       = remove `durable`, or remove `unlimited`
    ");
}
