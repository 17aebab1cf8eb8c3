//! Mistakes in `forward_auth`, and what is said of them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{dedent, said};
use insta::assert_snapshot;

/// What is said of one action with these lines, the first of which begins with its name.
fn said_of_action(lines: &str) -> String {
    let lines = dedent(lines).trim_end().replace('\n', "\n    ");
    said(&format!("domain: shop\nforward_auth:\n- actions:\n  - {lines}\n"))
}

/// What is said of a matcher of a header.
fn said_of_matcher(matcher: &str) -> String {
    said_of_action(&format!("header_value_match: {{descriptor_value: a, headers: [{matcher}]}}"))
}

#[test]
fn no_domain() {
    assert_snapshot!(said("
        policies: {a: {requests: 1, period: 1s}}
        forward_auth:
        - actions: [{remote_address: {}}]
    "), @r"
    rules.yaml:2:1: `forward_auth` needs a `domain`
       |
     2 | forward_auth:
       | ^^^^^^^^^^^^
       = write `domain: NAME` above it: the name that the proxy asks for
    ");
}

#[test]
fn not_a_list() {
    assert_snapshot!(said("
        domain: shop
        forward_auth: {actions: []}
    "), @r"
    rules.yaml:2:15: `forward_auth` must be a list, not a mapping
       |
     2 | forward_auth: {actions: []}
       |               ^
       = begin each of its entries with `- `
    ");
}

#[test]
fn no_actions() {
    assert_snapshot!(said("
        domain: shop
        forward_auth:
        - {}
        - actions: []
        - actions:
        - actions: [{}]
    "), @r"
    rules.yaml:3:3: an entry of `forward_auth` lacks `actions`
       |
     3 | - {}
       |   ^
       = write `- actions:`, with its actions as a list below it

    rules.yaml:4:3: `actions` is empty
       |
     4 | - actions: []
       |   ^^^^^^^
       = give it at least one, such as `- remote_address: {}`

    rules.yaml:5:3: `actions` has no value
       |
     5 | - actions:
       |   ^^^^^^^
       = give it one, or remove the key

    rules.yaml:6:13: an action says nothing
       |
     6 | - actions: [{}]
       |             ^
       = write `- remote_address: {}`, or another of the actions
    ");
}

#[test]
fn actions_beside_each_other() {
    assert_snapshot!(said_of_action("
        remote_address: {}
        generic_key: {descriptor_value: a}
    "), @r"
    rules.yaml:5:5: both `remote_address` and `generic_key` are given
       |
     5 |     generic_key: {descriptor_value: a}
       |     ^^^^^^^^^^^
      ::: rules.yaml:4:5: the other one
       |
     4 |   - remote_address: {}
       |     ^^^^^^^^^^^^^^
       = begin each action with a `- ` of its own
    ");
}

#[test]
fn action_as_a_word() {
    assert_snapshot!(said_of_action("remote_address"), @r"
    rules.yaml:4:5: an action must be a mapping, not text
       |
     4 |   - remote_address
       |     ^^^^^^^^^^^^^^
       = write `- remote_address: {}`, or another of the actions
    ");
}

#[test]
fn action_without_value() {
    assert_snapshot!(said_of_action("remote_address:"), @r"
    rules.yaml:4:5: `remote_address` says nothing
       |
     4 |   - remote_address:
       |     ^^^^^^^^^^^^^^
       = write `remote_address: {}`
    ");
}

#[test]
fn misspelled_action() {
    assert_snapshot!(said_of_action("remote_adress: {}"), @r"
    rules.yaml:4:5: unknown key `remote_adress`
       |
     4 |   - remote_adress: {}
       |     ^^^^^^^^^^^^^
       = did you mean `remote_address`?
    ");
}

#[test]
fn action_of_envoy_alone() {
    assert_snapshot!(said_of_action("source_cluster: {}"), @r"
    rules.yaml:4:5: unknown key `source_cluster`
       |
     4 |   - source_cluster: {}
       |     ^^^^^^^^^^^^^^
       = only Envoy itself knows that: use request_headers, query_parameters, remote_address, masked_remote_address, generic_key, header_value_match or query_parameter_value_match
    ");
}

#[test]
fn stage_of_envoy() {
    assert_snapshot!(said("
        domain: shop
        forward_auth:
        - stage: 1
          actions: [{remote_address: {}}]
    "), @r"
    rules.yaml:3:3: unknown key `stage`
       |
     3 | - stage: 1
       |   ^^^^^
       = that is for Envoy's filter; here, an entry has `actions` alone
    ");
}

#[test]
fn what_is_required() {
    assert_snapshot!(said_of_action("request_headers: {skip_if_absent: true}"), @r"
    rules.yaml:4:5: `request_headers` lacks `descriptor_key`
       |
     4 |   - request_headers: {skip_if_absent: true}
       |     ^^^^^^^^^^^^^^^
       = write `{header_name: x-user, descriptor_key: user}`

    rules.yaml:4:5: `request_headers` lacks `header_name`
       |
     4 |   - request_headers: {skip_if_absent: true}
       |     ^^^^^^^^^^^^^^^
       = write `{header_name: x-user, descriptor_key: user}`
    ");
    assert_snapshot!(said_of_action("query_parameters: {}"), @r"
    rules.yaml:4:5: `query_parameters` lacks `descriptor_key`
       |
     4 |   - query_parameters: {}
       |     ^^^^^^^^^^^^^^^^
       = write `{query_parameter_name: user, descriptor_key: user}`

    rules.yaml:4:5: `query_parameters` lacks `query_parameter_name`
       |
     4 |   - query_parameters: {}
       |     ^^^^^^^^^^^^^^^^
       = write `{query_parameter_name: user, descriptor_key: user}`
    ");
    assert_snapshot!(said_of_action("generic_key: {}"), @r"
    rules.yaml:4:5: `generic_key` lacks `descriptor_value`
       |
     4 |   - generic_key: {}
       |     ^^^^^^^^^^^
       = write `generic_key: {descriptor_value: NAME}`
    ");
    assert_snapshot!(said_of_action("header_value_match: {}"), @r"
    rules.yaml:4:5: `header_value_match` lacks `descriptor_value`
       |
     4 |   - header_value_match: {}
       |     ^^^^^^^^^^^^^^^^^^
       = write `descriptor_value: NAME`, and `headers` as a list, indented below it

    rules.yaml:4:5: `header_value_match` lacks `headers`
       |
     4 |   - header_value_match: {}
       |     ^^^^^^^^^^^^^^^^^^
       = write `descriptor_value: NAME`, and `headers` as a list, indented below it
    ");
}

#[test]
fn empty_keys_and_values() {
    assert_snapshot!(said_of_action(r#"generic_key: {descriptor_key: "", descriptor_value: ""}"#), @r#"
    rules.yaml:4:35: `descriptor_key` is empty
       |
     4 |   - generic_key: {descriptor_key: "", descriptor_value: ""}
       |                                   ^^
       = give it a value

    rules.yaml:4:57: `descriptor_value` is empty
       |
     4 |   - generic_key: {descriptor_key: "", descriptor_value: ""}
       |                                                         ^^
       = give it a value
    "#);
    assert_snapshot!(said_of_action(r#"request_headers: {header_name: "", descriptor_key: ""}"#), @r#"
    rules.yaml:4:36: `header_name` is empty
       |
     4 |   - request_headers: {header_name: "", descriptor_key: ""}
       |                                    ^^
       = give it a value

    rules.yaml:4:56: `descriptor_key` is empty
       |
     4 |   - request_headers: {header_name: "", descriptor_key: ""}
       |                                                        ^^
       = give it a value
    "#);
}

#[test]
fn names_that_no_header_has() {
    assert_snapshot!(said_of_action("request_headers: {header_name: x user, descriptor_key: user}"), @r"
    rules.yaml:4:36: no header can be called `x user`
       |
     4 |   - request_headers: {header_name: x user, descriptor_key: user}
       |                                    ^^^^^^
       = names of headers are letters, digits and dashes, such as `x-api-key`
    ");
    assert_snapshot!(said_of_action(r#"request_headers: {header_name: ":paht", descriptor_key: path}"#), @r#"
    rules.yaml:4:36: no request has a header `:paht`
       |
     4 |   - request_headers: {header_name: ":paht", descriptor_key: path}
       |                                    ^^^^^^^
       = of those that begin with a colon there are :path, :method, :authority, :scheme
    "#);
}

#[test]
fn masks_that_are_too_long() {
    assert_snapshot!(said_of_action("masked_remote_address: {v4_prefix_mask_len: 33, v6_prefix_mask_len: 129}"), @r"
    rules.yaml:4:49: `v4_prefix_mask_len` is 33, and may be at most 32
       |
     4 |   - masked_remote_address: {v4_prefix_mask_len: 33, v6_prefix_mask_len: 129}
       |                                                 ^^
       = write a number up to 32

    rules.yaml:4:73: `v6_prefix_mask_len` is 129, and may be at most 128
       |
     4 | ..._len: 33, v6_prefix_mask_len: 129}
       |                                  ^^^
       = write a number up to 128
    ");
}

#[test]
fn no_matchers() {
    assert_snapshot!(said_of_action("header_value_match: {descriptor_value: a, headers: []}"), @r"
    rules.yaml:4:47: `headers` is empty
       |
     4 |   - header_value_match: {descriptor_value: a, headers: []}
       |                                               ^^^^^^^
       = give it at least one entry, such as `- name: NAME`; for an entry that is always the same there is `generic_key`
    ");
}

#[test]
fn matcher_without_name() {
    assert_snapshot!(said_of_matcher("{exact_match: a}"), @r"
    rules.yaml:4:57: an entry of `headers` lacks `name`
       |
     4 |   - header_value_match: {descriptor_value: a, headers: [{exact_match: a}]}
       |                                                         ^
       = write `- name: NAME`, with what it must be below it
    ");
}

#[test]
fn two_tests_in_one() {
    assert_snapshot!(said_of_matcher("{name: a, exact_match: b, prefix_match: c}"), @r"
    rules.yaml:4:83: both `exact_match` and `prefix_match` are given
       |
     4 | ...s: [{name: a, exact_match: b, prefix_match: c}]}
       |                                  ^^^^^^^^^^^^
      ::: rules.yaml:4:67: the other one
       |
     4 |   - header_value_match: {descriptor_value: a, headers: [{name: a, exact_match: b, prefix_match: c}]}
       |                                                                   ^^^^^^^^^^^
       = keep one of them; a request that must pass both needs two entries of the list
    ");
    assert_snapshot!(said_of_matcher("{name: a, string_match: {exact: b, suffix: c}}"), @r"
    rules.yaml:4:92: both `exact` and `suffix` are given
       |
     4 | ...: a, string_match: {exact: b, suffix: c}}]}
       |                                  ^^^^^^
      ::: rules.yaml:4:82: the other one
       |
     4 | ...rs: [{name: a, string_match: {exact: b, suffix: c}}]}
       |                                  ^^^^^
       = keep one of them; a request that must pass both needs two entries of the list
    ");
}

#[test]
fn regular_expressions() {
    assert_snapshot!(said_of_matcher("{name: a, safe_regex_match: {regex: b}}"), @r"
    rules.yaml:4:67: unknown key `safe_regex_match`
       |
     4 |   - header_value_match: {descriptor_value: a, headers: [{name: a, safe_regex_match: {regex: b}}]}
       |                                                                   ^^^^^^^^^^^^^^^^
       = regular expressions are not supported: use exact, prefix, suffix or contains
    ");
    assert_snapshot!(said_of_matcher("{name: a, string_match: {safe_regex: {regex: b}}}"), @r"
    rules.yaml:4:82: unknown key `safe_regex`
       |
     4 | ...rs: [{name: a, string_match: {safe_regex: {regex: b}}}]}
       |                                  ^^^^^^^^^^
       = regular expressions are not supported: use exact, prefix, suffix or contains
    ");
}

#[test]
fn tests_of_nothing() {
    assert_snapshot!(said_of_matcher("{name: a, string_match: {}}"), @r"
    rules.yaml:4:67: a `string_match` does not say what to look for
       |
     4 |   - header_value_match: {descriptor_value: a, headers: [{name: a, string_match: {}}]}
       |                                                                   ^^^^^^^^^^^^
       = write `string_match: {exact: TEXT}`; or prefix, suffix, contains
    ");
    assert_snapshot!(said_of_matcher(r#"{name: a, prefix_match: ""}"#), @r#"
    rules.yaml:4:81: `prefix_match` is empty
       |
     4 | ...ers: [{name: a, prefix_match: ""}]}
       |                                  ^^
       = give it a value
    "#);
    assert_snapshot!(said_of_matcher("{name: a, range_match: {start: 5, end: 5}}"), @r"
    rules.yaml:4:67: no number is from 5 to before 5
       |
     4 |   - header_value_match: {descriptor_value: a, headers: [{name: a, range_match: {start: 5, end: 5}}]}
       |                                                                   ^^^^^^^^^^^
       = the `end` is not meant itself: make it larger than the `start`
    ");
}

#[test]
fn a_misspelled_test_is_told_once() {
    assert_snapshot!(said_of_matcher("{name: a, string_match: {exakt: b}}"), @r"
    rules.yaml:4:82: unknown key `exakt`
       |
     4 | ...rs: [{name: a, string_match: {exakt: b}}]}
       |                                  ^^^^^
       = did you mean `exact`?
    ");
    assert_snapshot!(said_of_matcher("{name: a, exact: b}"), @r"
    rules.yaml:4:67: `exact` does not belong here
       |
     4 |   - header_value_match: {descriptor_value: a, headers: [{name: a, exact: b}]}
       |                                                                   ^^^^^
       = `exact` belongs inside `string_match`
    ");
}

/// What is said of an entry with these actions, beside these rules.
fn said_of_way(actions: &str) -> String {
    said(&format!(
        "domain: shop
descriptors:
- {{key: path, value: /login, descriptors: [{{key: remote_address, rate_limit: {{unit: day, requests_per_unit: 1}}}}]}}
- {{key: path, value: '/files/*', rate_limit: {{unit: day, requests_per_unit: 1}}}}
- {{key: user, rate_limit: {{unit: day, requests_per_unit: 1}}}}
forward_auth:
- actions: [{actions}]
"
    ))
}

#[test]
fn ways_that_lead_to_no_rule() {
    let path = "{request_headers: {header_name: ':path', descriptor_key: path}}";
    let user = "{request_headers: {header_name: x-user, descriptor_key: user, skip_if_absent: true}}";
    let fixed = |value: &str| format!("{{generic_key: {{descriptor_key: path, descriptor_value: {value}}}}}");
    let address = "{remote_address: {}}";
    for actions in [
        path.to_owned(),
        format!("{path}, {address}"),
        format!("{}, {address}", fixed("/login")),
        fixed("/files/x"),
        user.to_owned(),
        format!("{user}, {path}"),
        format!("{path}, {user}"),
    ] {
        assert_eq!(said_of_way(&actions), "(nothing is wrong)", "{actions}");
    }
    for actions in [
        fixed("/login"),
        fixed("/other"),
        format!("{address}, {path}"),
        format!("{path}, {address}, {user}, {address}"),
        format!("{}, {address}", fixed("/files/x")),
    ] {
        assert!(said_of_way(&actions).contains("no rule is met by the descriptor"), "{actions}");
    }
    assert_snapshot!(said_of_way(&format!("{address}, {path}")), @r"
    rules.yaml:7:3: no rule is met by the descriptor `remote_address > path`
       |
     7 | - actions: [{remote_address: {}}, {request_headers: {header_name: ':path', descriptor_key: path}}]
       |   ^
       = its entries must lead, level by level, to a descriptor with a `rate_limit`; the first level has `path, user`
    ");
}

/// Every level may be reached in very many ways; each is looked at once.
#[test]
fn ways_without_end() {
    let level = "{key: a, rate_limit: {unit: day, requests_per_unit: 1}, descriptors: [";
    let tree = format!("{}{}", level.repeat(31), "]}".repeat(31));
    let action = "{request_headers: {header_name: a, descriptor_key: a, skip_if_absent: true}}";
    let actions = vec![action; 31].join(", ");
    let other = "{generic_key: {descriptor_value: x}}";
    let said = said(&format!(
        "domain: shop\ndescriptors: [{tree}]\nforward_auth: [{{actions: [{actions}, {other}]}}]"
    ));
    assert!(said.contains("no rule is met"), "{said}");
}

#[test]
fn as_many_as_there_may_be() {
    let recipes = |count: usize| {
        let recipes = "\n- actions: [{remote_address: {}}]".repeat(count);
        said(&format!("domain: shop\nforward_auth:{recipes}\n"))
    };
    assert_eq!(recipes(128), "(nothing is wrong)");
    assert_snapshot!(recipes(129), @r"
    rules.yaml:2:1: `forward_auth` may have at most 128 entries, not 129
       |
     2 | forward_auth:
       | ^^^^^^^^^^^^
       = remove some: every request pays for all of them
    ");
    let actions = |count: usize| {
        let actions = "\n  - remote_address: {}".repeat(count);
        said(&format!("domain: shop\nforward_auth:\n- actions:{actions}\n"))
    };
    assert_eq!(actions(32), "(nothing is wrong)");
    assert_snapshot!(actions(33), @r"
    rules.yaml:3:3: `actions` may have at most 32 entries, not 33
       |
     3 | - actions:
       |   ^^^^^^^
       = remove some: every request pays for all of them
    ");
    let matchers = |count: usize| said_of_matcher(&vec!["{name: a}"; count].join(", "));
    assert_eq!(matchers(32), "(nothing is wrong)");
    assert!(matchers(33).contains("`headers` may have at most 32 entries, not 33"));
}
