//! Mistakes in policies, tenants and tiers, and what is said of them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{said, said_of_limit};
use insta::assert_snapshot;

#[test]
fn tenants_without_tenant_key() {
    assert_snapshot!(said("
        domain: shop
        tenants: {acme: pro}
        descriptors:
        - key: user
          rate_limit: {unit: day, requests_per_unit: 5, tiers: {pro: {requests: 50}}}
    "), @r"
    rules.yaml:2:1: `tenants` needs a `tenant_key`
       |
     2 | tenants: {acme: pro}
       | ^^^^^^^
       = write `tenant_key: NAME`, the key of the descriptor entry whose value is the tenant
    ");
}

#[test]
fn unknown_tier() {
    assert_snapshot!(said("
        domain: shop
        tenant_key: user
        tenants: {acme: porfessional}
        descriptors:
        - key: user
          rate_limit: {unit: day, requests_per_unit: 5, tiers: {professional: {requests: 50}}}
    "), @r"
    rules.yaml:3:17: unknown tier `porfessional`
       |
     3 | tenants: {acme: porfessional}
       |                 ^^^^^^^^^^^^
       = did you mean `professional`?
    ");
}

#[test]
fn unknown_tier_among_others() {
    assert_snapshot!(said("
        domain: shop
        tenant_key: user
        tenants: {acme: gold}
        descriptors:
        - key: user
          rate_limit: {unit: day, requests_per_unit: 5, tiers: {free: {requests: 1}, pro: {requests: 50}}}
    "), @r"
    rules.yaml:3:17: unknown tier `gold`
       |
     3 | tenants: {acme: gold}
       |                 ^^^^
       = the domain's rules name the tiers `free`, `pro`
    ");
}

#[test]
fn tier_where_there_are_none() {
    assert_snapshot!(said("
        domain: shop
        tenant_key: user
        tenants: {acme: gold}
        descriptors:
        - key: user
    "), @r"
    rules.yaml:3:17: unknown tier `gold`
       |
     3 | tenants: {acme: gold}
       |                 ^^^^
       = no rule of the domain has `tiers`; write `tiers:` into a `rate_limit`
    ");
}

#[test]
fn tenant_without_tier() {
    assert_snapshot!(said("
        domain: shop
        tenant_key: user
        tenants: {acme: }
    "), @r"
    rules.yaml:3:11: the tenant `acme` has no tier
       |
     3 | tenants: {acme: }
       |           ^^^^
       = write the name of a tier behind it
    ");
}

#[test]
fn tiers_without_tenant_key() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          rate_limit: {unit: day, requests_per_unit: 5, tiers: {pro: {requests: 50}}}
    "), @r"
    rules.yaml:4:57: nobody has a tier: the domain has no `tenant_key`
       |
     4 |   rate_limit: {unit: day, requests_per_unit: 5, tiers: {pro: {requests: 50}}}
       |                                                         ^^^
       = write `tenant_key: NAME` at the top of the file: the key of the entry whose value is the tenant
    ");
}

#[test]
fn tenant_key_of_no_descriptor() {
    assert_snapshot!(said("
        domain: shop
        tenant_key: usr
        descriptors:
        - key: user
          rate_limit: {unit: day, requests_per_unit: 5}
    "), @r"
    rules.yaml:2:13: the `tenant_key` `usr` is the key of no descriptor
       |
     2 | tenant_key: usr
       |             ^^^
       = did you mean `user`?
    ");
}

#[test]
fn policies_are_a_list() {
    assert_snapshot!(said("
        policies:
        - requests: 10
    "), @r"
    rules.yaml:2:3: `policies` must be a mapping, not a list
       |
     2 | - requests: 10
       |   ^
       = write it as `policies: {search: {requests: 100, period: 1m}}`
    ");
}

#[test]
fn policy_without_numbers() {
    assert_snapshot!(said("
        policies:
          search: {burst: 10}
    "), @r"
    rules.yaml:2:3: a policy says neither how many nor per what time
       |
     2 |   search: {burst: 10}
       |   ^^^^^^
       = write `unit: minute` and `requests_per_unit: 100`; or `unlimited: true`
    ");
}

#[test]
fn policy_says_nothing() {
    assert_snapshot!(said("
        policies:
          search:
    "), @r"
    rules.yaml:2:3: a policy says nothing
       |
     2 |   search:
       |   ^^^^^^
       = write `unit: minute` and `requests_per_unit: 100`, indented below it
    ");
}

#[test]
fn policy_with_limits_beside_its_list() {
    assert_snapshot!(said("
        policies:
          search:
            requests: 10
            rate_limits:
            - {requests: 1, period: 1s}
    "), @r"
    rules.yaml:3:5: `requests` stands beside `rate_limits`
       |
     3 |     requests: 10
       |     ^^^^^^^^
      ::: rules.yaml:4:5: the list of limits
       |
     4 |     rate_limits:
       |     ^^^^^^^^^^^
       = move it into an entry of the list
    ");
}

#[test]
fn policy_of_a_name_no_header_takes() {
    assert_snapshot!(said("
        policies:
          süß: {requests: 10, period: 1m}
    "), @r"
    rules.yaml:2:3: a name may not have the character `ü`
       |
     2 |   süß: {requests: 10, period: 1m}
       |   ^^^
       = names are sent in headers: use letters, digits and signs of ASCII
    ");
}

#[test]
fn enabled_beside_policies() {
    assert_snapshot!(said("
        enabled: false
        policies:
          search: {requests: 10, period: 1m}
    "), @r"
    rules.yaml:1:1: `enabled` needs a `domain`
       |
     1 | enabled: false
       | ^^^^^^^
       = a policy has its own `enabled`: write it inside the policy
    ");
}

#[test]
fn tier_says_nothing() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        tiers: {free: {}}
    "), @r"
    rules.yaml:7:13: the tier `free` says nothing
       |
     7 |     tiers: {free: {}}
       |             ^^^^
       = give it numbers of its own, such as `requests: 100`, or `unlimited: true`
    ");
}

#[test]
fn tier_with_an_algorithm() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        tiers: {free: {requests: 5, algorithm: token_bucket}}
    "), @r"
    rules.yaml:7:33: `algorithm` does not belong here
       |
     7 |     tiers: {free: {requests: 5, algorithm: token_bucket}}
       |                                 ^^^^^^^^^
       = `algorithm` belongs inside `rate_limit`, for all tiers alike
    ");
}

#[test]
fn tier_with_a_burst_for_a_window() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        tiers: {free: {burst: 5}}
    "), @r"
    rules.yaml:7:20: `burst` has no meaning for a `sliding_window`
       |
     7 |     tiers: {free: {burst: 5}}
       |                    ^^^^^
       = remove it, or write `algorithm: token_bucket` in the `rate_limit`
    ");
}

#[test]
fn tier_without_time() {
    assert_snapshot!(said_of_limit("
        unlimited: true
        tiers: {free: {requests: 5}}
    "), @r"
    rules.yaml:6:13: the tier `free` lacks `unit`
       |
     6 |     tiers: {free: {requests: 5}}
       |             ^^^^
       = write `unit: minute`, or second, hour, day, week, month, year; or any length as `period: 90s`
    ");
}

#[test]
fn tier_is_a_number() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        tiers: {free: 5}
    "), @r"
    rules.yaml:7:19: a tier must be a mapping, not a number
       |
     7 |     tiers: {free: 5}
       |                   ^
       = write `NAME: {requests: 100}`
    ");
}

#[test]
fn tier_beyond_a_log() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        algorithm: sliding_log
        tiers: {pro: {requests: 100000}}
    "), @r"
    rules.yaml:8:29: a `sliding_log` remembers every request, 65536 at most, not 100000
       |
     8 |     tiers: {pro: {requests: 100000}}
       |                             ^^^^^^
       = use `algorithm: sliding_window` with `sub_windows: 10`
    ");
}

#[test]
fn tiers_are_a_list() {
    assert_snapshot!(said_of_limit("
        unit: minute
        requests_per_unit: 10
        tiers: [free, pro]
    "), @r"
    rules.yaml:7:12: `tiers` must be a mapping, not a list
       |
     7 |     tiers: [free, pro]
       |            ^
       = write it as `tiers: {free: {requests: 100}, pro: {requests: 1000}}`
    ");
}
