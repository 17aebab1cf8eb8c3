//! Mistakes in domains and descriptors, and what is said of them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{said, said_of_limit};
use insta::assert_snapshot;

#[test]
fn misspelled_key() {
    assert_snapshot!(said_of_limit("
        unit: minute
        request_per_unit: 10
    "), @r"
    rules.yaml:6:5: unknown key `request_per_unit`
       |
     6 |     request_per_unit: 10
       |     ^^^^^^^^^^^^^^^^
       = did you mean `requests_per_unit`?
    ");
}

#[test]
fn key_of_another_case() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requestsPerUnit: 10
    "), @r"
    rules.yaml:6:5: unknown key `requestsPerUnit`
       |
     6 |     requestsPerUnit: 10
       |     ^^^^^^^^^^^^^^^
       = did you mean `requests_per_unit`?
    ");
}

#[test]
fn word_of_another_limiter() {
    assert_snapshot!(said_of_limit("
        limit: 10
        window: 60s
    "), @r"
    rules.yaml:5:5: unknown key `limit`
       |
     5 |     limit: 10
       |     ^^^^^
       = did you mean `requests`?

    rules.yaml:6:5: unknown key `window`
       |
     6 |     window: 60s
       |     ^^^^^^
       = did you mean `period`?
    ");
}

#[test]
fn unknown_key() {
    assert_snapshot!(said("
        domain: shop
        foobar: 1
    "), @r"
    rules.yaml:2:1: unknown key `foobar`
       |
     2 | foobar: 1
       | ^^^^^^
       = a file of rules has the keys domain, descriptors, policies, tenant_key, tenants, enabled, forward_auth
    ");
}

#[test]
fn limit_keys_in_a_descriptor() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          rate_limit:
          unit: minute
          requests_per_unit: 10
    "), @r"
    rules.yaml:4:3: `rate_limit` is empty
       |
     4 |   rate_limit:
       |   ^^^^^^^^^^
       = write `unit` and `requests_per_unit` indented below it; to let all pass, remove it

    rules.yaml:5:3: `unit` does not belong here
       |
     5 |   unit: minute
       |   ^^^^
       = `unit` belongs inside `rate_limit`

    rules.yaml:6:3: `requests_per_unit` does not belong here
       |
     6 |   requests_per_unit: 10
       |   ^^^^^^^^^^^^^^^^^
       = `requests_per_unit` belongs inside `rate_limit`
    ");
}

#[test]
fn shadow_mode_in_a_limit() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        shadow_mode: true
    "), @r"
    rules.yaml:7:5: `shadow_mode` does not belong here
       |
     7 |     shadow_mode: true
       |     ^^^^^^^^^^^
       = `shadow_mode` belongs to the descriptor: move it one level out, beside `rate_limit`
    ");
}

#[test]
fn descriptor_at_the_top() {
    assert_snapshot!(said("
        domain: shop
        key: user
    "), @r"
    rules.yaml:2:1: `key` does not belong here
       |
     2 | key: user
       | ^^^
       = `key` belongs inside an entry of `descriptors`
    ");
}

#[test]
fn misspelled_domain() {
    assert_snapshot!(said("
        domian: shop
        descriptors:
        - key: user
    "), @r"
    rules.yaml:1:1: unknown key `domian`
       |
     1 | domian: shop
       | ^^^^^^
       = did you mean `domain`?
    ");
}

#[test]
fn no_domain() {
    assert_snapshot!(said("
        descriptors:
        - key: user
    "), @r"
    rules.yaml:1:1: `descriptors` needs a `domain`
       |
     1 | descriptors:
       | ^^^^^^^^^^^
       = write `domain: NAME` above it: the name that the proxy asks for
    ");
}

#[test]
fn neither_domain_nor_policies() {
    assert_snapshot!(said("enabled: true"), @r"
    rules.yaml:1:1: the file has neither a `domain` nor `policies`
       |
     1 | enabled: true
       | ^
       = write `domain: NAME`, and its rules under `descriptors:`; or `policies:`
    ");
}

#[test]
fn empty_domain() {
    assert_snapshot!(said(r#"
        domain: ""
        descriptors: []
    "#), @r#"
    rules.yaml:1:9: the `domain` is empty
       |
     1 | domain: ""
       |         ^^
       = write the name that the proxy asks for, `domain: NAME`
    "#);
}

#[test]
fn domain_without_value() {
    assert_snapshot!(said("
        domain:
        descriptors: []
    "), @r"
    rules.yaml:1:1: `domain` has no value
       |
     1 | domain:
       | ^^^^^^
       = give it one, or remove the key
    ");
}

#[test]
fn domain_is_a_list() {
    assert_snapshot!(said("domain: [shop]"), @r"
    rules.yaml:1:9: `domain` must be text, not a list
       |
     1 | domain: [shop]
       |         ^
       = write `domain:` and the value on one line
    ");
}

#[test]
fn descriptors_are_a_mapping() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
          key: user
    "), @r"
    rules.yaml:3:3: `descriptors` must be a list, not a mapping
       |
     3 |   key: user
       |   ^
       = begin each of its entries with `- `
    ");
}

#[test]
fn descriptor_is_text() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - user
    "), @r"
    rules.yaml:3:3: a descriptor must be a mapping, not text
       |
     3 | - user
       |   ^^^^
       = write `- key: NAME`, with its other keys indented below it
    ");
}

#[test]
fn descriptor_without_key() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - value: bob
    "), @r"
    rules.yaml:3:3: a descriptor lacks `key`
       |
     3 | - value: bob
       |   ^
       = write `key: NAME`, the key that an entry of the request has
    ");
}

#[test]
fn descriptor_with_empty_key() {
    assert_snapshot!(said(r#"
        domain: shop
        descriptors:
        - key: ""
    "#), @r#"
    rules.yaml:3:8: the `key` of a descriptor is empty
       |
     3 | - key: ""
       |        ^^
       = write `key: NAME`, the key that an entry of the request has
    "#);
}

#[test]
fn duplicate_descriptor() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          value: bob
        - key: path
        - key: user
          value: bob
    "), @r"
    rules.yaml:7:10: the descriptor `user` with the value `bob` is listed twice
       |
     7 |   value: bob
       |          ^^^
      ::: rules.yaml:4:10: first listed here
       |
     4 |   value: bob
       |          ^^^
       = join the two: limits go into `rate_limits`, what follows into one `descriptors`
    ");
}

#[test]
fn duplicate_descriptor_without_value() {
    assert_snapshot!(said(r#"
        domain: shop
        descriptors:
        - key: user
        - {key: user, value: ""}
    "#), @r#"
    rules.yaml:4:9: the descriptor `user` without a value is listed twice
       |
     4 | - {key: user, value: ""}
       |         ^^^^
      ::: rules.yaml:3:8: first listed here
       |
     3 | - key: user
       |        ^^^^
       = join the two: limits go into `rate_limits`, what follows into one `descriptors`
    "#);
}

#[test]
fn share_threshold_without_star() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: path
          value: files
          share_threshold: true
    "), @r"
    rules.yaml:5:3: `share_threshold` needs a `*` in the `value`
       |
     5 |   share_threshold: true
       |   ^^^^^^^^^^^^^^^
       = it makes all values that match, such as `value: files/*`, share one counter; else remove it
    ");
}

#[test]
fn share_threshold_without_value() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: path
          share_threshold: true
    "), @r"
    rules.yaml:4:3: `share_threshold` needs a `value` with a `*`
       |
     4 |   share_threshold: true
       |   ^^^^^^^^^^^^^^^
       = it makes all values that match, such as `value: files/*`, share one counter; else remove it
    ");
}

#[test]
fn empty_rate_limit() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          rate_limit:
    "), @r"
    rules.yaml:4:3: `rate_limit` is empty
       |
     4 |   rate_limit:
       |   ^^^^^^^^^^
       = write `unit` and `requests_per_unit` indented below it; to let all pass, remove it
    ");
}

#[test]
fn rate_limit_is_a_number() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          rate_limit: 100
    "), @r"
    rules.yaml:4:15: a `rate_limit` must be a mapping, not a number
       |
     4 |   rate_limit: 100
       |               ^^^
       = write `unit: minute` and `requests_per_unit: 100`, indented below it
    ");
}

#[test]
fn rate_limit_is_a_list() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          rate_limit:
          - unit: minute
            requests_per_unit: 10
    "), @r"
    rules.yaml:5:5: a `rate_limit` is one limit, not a list
       |
     5 |   - unit: minute
       |     ^
       = for several, write `rate_limits:`
    ");
}

#[test]
fn both_rate_limit_and_rate_limits() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          rate_limit: {unit: minute, requests_per_unit: 10}
          rate_limits:
          - {unit: hour, requests_per_unit: 100}
    "), @r"
    rules.yaml:5:3: both `rate_limit` and `rate_limits` are given
       |
     5 |   rate_limits:
       |   ^^^^^^^^^^^
      ::: rules.yaml:4:3: the other one
       |
     4 |   rate_limit: {unit: minute, requests_per_unit: 10}
       |   ^^^^^^^^^^
       = put all of them into the list `rate_limits`
    ");
}

#[test]
fn rate_limits_without_entries() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          rate_limits: []
    "), @r"
    rules.yaml:4:3: `rate_limits` is empty
       |
     4 |   rate_limits: []
       |   ^^^^^^^^^^^
       = give it at least one limit, or remove it
    ");
}

#[test]
fn enabled_without_a_limit() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          enabled: false
    "), @r"
    rules.yaml:4:3: `enabled` has no meaning without a `rate_limit`
       |
     4 |   enabled: false
       |   ^^^^^^^
       = write it beside the `rate_limit` that it switches; the levels below have their own
    ");
}

#[test]
fn a_number_is_no_boolean() {
    assert_snapshot!(said("
        domain: shop
        enabled: 0
    "), @r"
    rules.yaml:2:10: `enabled` must be `true` or `false`, not `0`
       |
     2 | enabled: 0
       |          ^
       = write `false`
    ");
}

#[test]
fn quoted_boolean() {
    assert_snapshot!(said(r#"
        domain: shop
        descriptors:
        - key: user
          shadow_mode: "true"
    "#), @r#"
    rules.yaml:4:16: `shadow_mode` must be `true` or `false`, not `"true"`
       |
     4 |   shadow_mode: "true"
       |                ^^^^^^
       = write `true`
    "#);
}

#[test]
fn flag_without_value() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          shadow_mode:
    "), @r"
    rules.yaml:4:3: `shadow_mode` has no value
       |
     4 |   shadow_mode:
       |   ^^^^^^^^^^^
       = give it one, or remove the key
    ");
}

#[test]
fn metadata_is_text() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          metadata: gold
    "), @r"
    rules.yaml:4:13: `metadata` must be a mapping, not text
       |
     4 |   metadata: gold
       |             ^^^^
       = write it as `metadata: {owner: shop}`
    ");
}

#[test]
fn metadata_without_a_number() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          metadata: {weight: .nan}
    "), @r"
    rules.yaml:4:22: metadata cannot carry `.nan`
       |
     4 |   metadata: {weight: .nan}
       |                      ^^^^
       = JSON has no such number; write it as text, in quotes
    ");
}
