//! Mistakes in YAML itself, and what is said of them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::said;
use insta::assert_snapshot;

#[test]
fn tab_indentation() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
        \trate_limit:
        \t\tunit: day
    "), @r"
    rules.yaml:4:1: a tab is used for indentation
       |
     4 |     rate_limit:
       | ^^^^
       = YAML is indented by spaces only: replace every tab by spaces
    ");
}

#[test]
fn uneven_indentation() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
          - key: user
            rate_limit:
              unit: day
             requests_per_unit: 4
    "), @r"
    rules.yaml:6:6: this line is indented unlike those above it
       |
     6 |      requests_per_unit: 4
       |      ^
       = give all keys of a mapping the same indentation, and all `-` of a list
    ");
}

#[test]
fn key_beside_its_dash() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
          - key: user
          value: bob
    "), @r"
    rules.yaml:4:3: this line is indented unlike those above it
       |
     4 |   value: bob
       |   ^
       = give all keys of a mapping the same indentation, and all `-` of a list
    ");
}

#[test]
fn colon_missing() {
    assert_snapshot!(said("
        domain: shop
        descriptors
          - key: user
    "), @r"
    rules.yaml:3:8: a key lacks its `:`
       |
     3 |   - key: user
       |        ^
       = write `key: value`; look at this line and the one above
    ");
}

#[test]
fn colon_in_a_value() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
          - key: path
            value: a: b
    "), @r"
    rules.yaml:4:13: a `:` stands where no key can
       |
     4 |     value: a: b
       |             ^
       = indent the line like its neighbours, see whether the line above lacks its `:`, or put a value that has `: ` in it in quotes
    ");
}

#[test]
fn star_without_quotes() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
          - key: path
            value: */cart
    "), @r#"
    rules.yaml:4:12: to YAML, this is an alias, and nothing before has its name
       |
     4 |     value: */cart
       |            ^^^^^^
       = put a value that begins so in quotes: `"*/cart"`
    "#);
}

#[test]
fn lone_star_without_quotes() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
          - key: path
            value: *
    "), @r#"
    rules.yaml:4:12: to YAML, this is an alias, and nothing before has its name
       |
     4 |     value: *
       |            ^
       = put a value that begins so in quotes: `"*"`
    "#);
}

#[test]
fn sign_without_quotes() {
    assert_snapshot!(said("domain: @shop"), @r"
    rules.yaml:1:9: a value cannot begin with `@`
       |
     1 | domain: @shop
       |         ^
       = put it in quotes
    ");
}

#[test]
fn quotation_without_end() {
    assert_snapshot!(said(r#"
        domain: "shop
        descriptors:
          - key: user
    "#), @r#"
    rules.yaml:1:9: the quotation that begins here is not closed on its line
       |
     1 | domain: "shop
       |         ^
       = close it with the same quote
    "#);
}

#[test]
fn quotation_never_closed() {
    assert_snapshot!(said(r#"domain: "shop"#), @r#"
    rules.yaml:1:9: the quotation that begins here has no end
       |
     1 | domain: "shop
       |         ^
       = close it with the same quote; inside single quotes, write `''` for a quote
    "#);
}

#[test]
fn text_after_a_quotation() {
    assert_snapshot!(said("domain: 'shop's'"), @r"
    rules.yaml:1:15: text stands behind a quotation that has ended
       |
     1 | domain: 'shop's'
       |               ^
       = put all of the value in quotes; inside single quotes, write `''` for a quote
    ");
}

#[test]
fn unknown_escape() {
    assert_snapshot!(said(r#"domain: "a\d""#), @r#"
    rules.yaml:1:9: a backslash in double quotes begins an escape, and this one is unknown
       |
     1 | domain: "a\d"
       |         ^
       = write `\\` for a backslash, or use single quotes
    "#);
}

#[test]
fn bracket_missing() {
    assert_snapshot!(said("
        domain: shop
        descriptors: [{key: user}
    "), @r"
    rules.yaml:2:26: a `,` or `]` is missing
       |
     2 | descriptors: [{key: user}
       |                          ^
       = put a `,` between entries, and close every `[` with a `]`
    ");
}

#[test]
fn brace_missing() {
    assert_snapshot!(said("
        domain: shop
        descriptors: [{key: user]
    "), @r"
    rules.yaml:2:25: a `,` or `}` is missing
       |
     2 | descriptors: [{key: user]
       |                         ^
       = put a `,` between entries, and close every `{` with a `}`
    ");
}

#[test]
fn comma_missing() {
    assert_snapshot!(said("
        domain: shop
        descriptors: [{key: user value: bob}]
    "), @r"
    rules.yaml:2:31: a `,` or `}` is missing
       |
     2 | descriptors: [{key: user value: bob}]
       |                               ^
       = put a `,` between entries, and close every `{` with a `}`
    ");
}

#[test]
fn template() {
    assert_snapshot!(said("
        domain: shop
        {{- if .Values.limits }}
        descriptors:
        {{- end }}
    "), @r"
    rules.yaml:2:3: this is not YAML but a template
       |
     2 | {{- if .Values.limits }}
       |   ^
       = render it first, by `helm template` say
    ");
}

#[test]
fn template_as_a_value() {
    assert_snapshot!(said("domain: {{ .Values.domain }}"), @r"
    rules.yaml:1:9: `domain` must be text, not a mapping
       |
     1 | domain: {{ .Values.domain }}
       |         ^
       = write `domain:` and the value on one line

    rules.yaml:1:10: a key must be text
       |
     1 | domain: {{ .Values.domain }}
       |          ^^
       = write `key: value`; a value that begins with `{` goes in quotes
    ");
}

#[test]
fn unknown_tag() {
    assert_snapshot!(said("domain: !secret shop"), @r"
    rules.yaml:1:9: the tag `!secret` has no meaning here
       |
     1 | domain: !secret shop
       |         ^^^^^^^^^^^^
       = remove it
    ");
}

#[test]
fn duplicate_key() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          rate_limit:
            unit: minute
            requests_per_unit: 10
            unit: hour
    "), @r"
    rules.yaml:7:5: the key `unit` is given twice
       |
     7 |     unit: hour
       |     ^^^^
      ::: rules.yaml:5:5: first given here
       |
     5 |     unit: minute
       |     ^^^^
       = keep one of the two
    ");
}

#[test]
fn two_documents() {
    assert_snapshot!(said("
        ---
        domain: shop
        ---
        domain: bank
    "), @r"
    rules.yaml:3:1: a second document begins here
       |
     3 | ---
       | ^^^
       = a file holds one domain; put the rest into a file of its own
    ");
}

#[test]
fn empty_file() {
    assert_snapshot!(said(""), @r"
    rules.yaml: the file says nothing
       = write at least `domain: NAME`, and its rules under `descriptors:`; or `policies:`
    ");
}

#[test]
fn only_comments() {
    assert_snapshot!(said("
        # domain: shop

        # nothing yet
    "), @r"
    rules.yaml: the file says nothing
       = write at least `domain: NAME`, and its rules under `descriptors:`; or `policies:`
    ");
}

#[test]
fn empty_document() {
    assert_snapshot!(said("---"), @r"
    rules.yaml: the file says nothing
       = write at least `domain: NAME`, and its rules under `descriptors:`; or `policies:`
    ");
}

#[test]
fn no_document() {
    assert_snapshot!(said("..."), @r"
    rules.yaml: the file says nothing
       = write at least `domain: NAME`, and its rules under `descriptors:`; or `policies:`
    ");
}

#[test]
fn a_list() {
    assert_snapshot!(said("- domain: shop"), @r"
    rules.yaml:1:1: a file of rules must be a mapping, not a list
       |
     1 | - domain: shop
       | ^
       = write `domain: NAME`, and its rules under `descriptors:`
    ");
}

#[test]
fn a_word() {
    assert_snapshot!(said("shop"), @r"
    rules.yaml:1:1: a file of rules must be a mapping, not text
       |
     1 | shop
       | ^^^^
       = write `domain: NAME`, and its rules under `descriptors:`
    ");
}

#[test]
fn a_list_as_a_key() {
    assert_snapshot!(said("
        domain: shop
        ? [a, b]
        : c
    "), @r"
    rules.yaml:2:3: a key must be text
       |
     2 | ? [a, b]
       |   ^
       = write `key: value`; a value that begins with `{` goes in quotes
    ");
}

#[test]
fn alias_inside_its_anchor() {
    assert_snapshot!(said("
        domain: shop
        descriptors: &all
        - key: user
          descriptors: *all
    "), @r"
    rules.yaml:4:16: this alias stands inside of what it names
       |
     4 |   descriptors: *all
       |                ^^^^
       = repeat the text instead
    ");
}

#[test]
fn merge_of_a_number() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          rate_limit: {<<: 5, unit: minute, requests_per_unit: 10}
    "), @r"
    rules.yaml:4:20: `<<` cannot merge a number
       |
     4 |   rate_limit: {<<: 5, unit: minute, requests_per_unit: 10}
       |                    ^
       = give it an alias of a mapping, `<<: *name`, or a list of such
    ");
}

#[test]
fn windows_line_ends() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          valu: bob
    "), @r"
    rules.yaml:4:3: unknown key `valu`
       |
     4 |   valu: bob
       |   ^^^^
       = did you mean `value`?
    ");
}

#[test]
fn control_characters() {
    assert_snapshot!(said("
        domain: shop
        fo[31mo: 1
    "), @r"
    rules.yaml:2:1: unknown key `fo\u{1b}[31mo`
       |
     2 | fo\u{1b}[31mo: 1
       | ^^^^^^^^^^^^^
       = a file of rules has the keys domain, descriptors, policies, tenant_key, tenants, enabled, forward_auth
    ");
    assert_snapshot!(said("
        domain: shop
        tenant_key: user
        tenants: {a\u{1b}b: {}}
    "), @r"
    rules.yaml:3:16: `a\u{1b}b` must be text, not a mapping
       |
     3 | tenants: {a\u{1b}b: {}}
       |                     ^
       = write `a\u{1b}b:` and the value on one line
    ");
}
