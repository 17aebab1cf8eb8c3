//! What is longer, or more, than a file of rules may hold: a small text must not need gigabytes, nor minutes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fmt::Write;

use common::said;
use insta::assert_snapshot;

/// What is said, but for the lines that show the text.
fn said_briefly(text: &str) -> String {
    let said = said(text);
    let lines: Vec<_> = said.lines().filter(|line| !line.contains(" |")).collect();
    lines.join("\n")
}

#[test]
fn long_text_behind_many_aliases() {
    let text = |aliases: usize| {
        let aliases = vec!["*b"; aliases].join(", ");
        let long = "x".repeat(1 << 20);
        format!(
            "domain: shop\ndescriptors:\n- key: a\n  metadata:\n    b: &b \"{long}\"\n    c: [{aliases}]\n"
        )
    };
    assert_eq!(said(&text(14)), "(nothing is wrong)");
    assert_snapshot!(said_briefly(&text(6_000)), @r"
    rules.yaml:6:65: the file has more than 16 MiB of text, counted with what its aliases stand for
       = use fewer aliases (`*name`), or put the rules into several files, one domain each
    ");
}

#[test]
fn long_keys_behind_many_aliases() {
    let long = "x".repeat(1 << 20);
    let aliases = vec!["*b"; 6_000].join(", ");
    let map = format!("&b {{\"{long}\": 1}}");
    let text =
        format!("domain: shop\ndescriptors:\n- key: a\n  metadata:\n    b: {map}\n    c: [{aliases}]\n");
    assert_snapshot!(said_briefly(&text), @r"
    rules.yaml:6:65: the file has more than 16 MiB of text, counted with what its aliases stand for
       = use fewer aliases (`*name`), or put the rules into several files, one domain each
    ");
    let merges = "    - <<: *b\n".repeat(6_000);
    let text = format!("domain: shop\ndescriptors:\n- key: a\n  metadata:\n    b: {map}\n    c:\n{merges}");
    assert_snapshot!(said_briefly(&text), @r"
    rules.yaml:14:11: the file has more than 16 MiB of text, counted with what its aliases stand for
        = use fewer aliases (`*name`), or put the rules into several files, one domain each
    ");
}

#[test]
fn long_domain() {
    assert_eq!(said(&format!("domain: {}", "\u{e9}".repeat(256))), "(nothing is wrong)");
    assert_snapshot!(said_briefly(&format!("domain: {}", "d".repeat(257))), @r"
    rules.yaml:1:9: `domain` may have at most 256 characters, not 257
       = the key of every counter below carries it: choose a shorter one
    ");
}

#[test]
fn long_key_and_value() {
    let text = |key: usize, value: usize| {
        let (key, value) = ("k".repeat(key), "v".repeat(value));
        format!("domain: shop\ndescriptors:\n- key: {key}\n  value: {value}\n")
    };
    assert_eq!(said(&text(256, 1_024)), "(nothing is wrong)");
    assert_snapshot!(said_briefly(&text(257, 1_025)), @r"
    rules.yaml:3:8: `key` may have at most 256 characters, not 257
       = the key of every counter below carries it: choose a shorter one

    rules.yaml:4:10: `value` may have at most 1024 characters, not 1025
       = the key of every counter below carries it: choose a shorter one
    ");
    assert_snapshot!(said_briefly(&text(200_000, 1)), @r"
    rules.yaml:3:8: `key` may have at most 256 characters, not 200000
       = the key of every counter below carries it: choose a shorter one
    ");
}

#[test]
fn long_policy_name() {
    let text = |chars: usize| format!("policies:\n  {}: {{unlimited: true}}\n", "p".repeat(chars));
    assert_eq!(said(&text(128)), "(nothing is wrong)");
    assert_snapshot!(said_briefly(&text(129)), @r"
    rules.yaml:2:3: a name may have at most 128 characters, not 129
       = names are sent in headers: choose a shorter one
    ");
}

/// A domain whose last level, below `levels` of the longest keys, has so many rules.
fn below_long_keys(levels: usize, last_level: &str) -> String {
    let mut text = "domain: shop\ndescriptors: ".to_owned();
    for _ in 0..levels {
        write!(text, "[{{key: {}, descriptors: ", "k".repeat(256)).unwrap();
    }
    text.push_str(last_level);
    text + &"}]".repeat(levels)
}

#[test]
fn many_rules_below_long_keys() {
    let text = |rules: usize| {
        let rules: Vec<_> = (0..rules).map(|i| format!("{{key: a, value: {i:05}}}")).collect();
        below_long_keys(31, &format!("[\n{}\n]", rules.join(",\n")))
    };
    assert_eq!(said(&text(8_000)), "(nothing is wrong)");
    assert_snapshot!(said(&text(30_000)), @r"
    rules.yaml:8432:1: from here on, the rules are too large: each carries the keys and values above it, 64 MiB in sum at most
          |
     8432 | {key: a, value: 08429},
          | ^
          = shorten the keys and values of the upper levels, or put the rules into several files, one domain each
    ");
}

#[test]
fn many_limits_below_long_keys() {
    let limits = vec!["{unlimited: true}"; 30_000].join(",\n");
    assert_snapshot!(said(&below_long_keys(31, &format!("[{{key: a, rate_limits: [\n{limits}\n]}}]"))), @r"
    rules.yaml:2:8633: from here on, the rules are too large: each carries the keys and values above it, 64 MiB in sum at most
       |
     2 | ...kkkkkkkkkkkkkk, descriptors: [{key: a, rate_limits: [
       |                                  ^
       = shorten the keys and values of the upper levels, or put the rules into several files, one domain each
    ");
}

/// Without a bound, this takes minutes: every unknown tier is compared with every known one.
#[test]
fn many_unknown_tiers_among_many() {
    let tiers: Vec<_> = (0..30_000).map(|i| format!("tier_{i}: {{requests: 1}}")).collect();
    let tenants: Vec<_> = (0..30_000).map(|i| format!("  t{i}: teir_{i}\n")).collect();
    let text = format!(
        "domain: shop\ntenant_key: user\ndescriptors:\n- key: user\n  rate_limit:\n    unit: day\n    requests_per_unit: 9\n    tiers: {{{}}}\ntenants:\n{}",
        tiers.join(", "),
        tenants.concat()
    );
    let said = said_briefly(&text);
    assert_snapshot!(said.lines().take(2).collect::<Vec<_>>().join("\n"), @r"
    rules.yaml:10:7: unknown tier `teir_0`
        = did you mean `tier_0`?
    ");
    assert_snapshot!(said.lines().last().unwrap(), @"and 29900 more problems");
}

/// One mistake behind very many aliases is looked at once.
#[test]
fn unknown_key_behind_many_aliases() {
    let aliases = vec!["*a"; 200_000].join(", ");
    assert_snapshot!(said(&format!("domain: shop\ndescriptors:\n- &a {{kye: {{}}}}\n- descriptors: [{aliases}]\n")), @r"
    rules.yaml:3:7: unknown key `kye`
       |
     3 | - &a {kye: {}}
       |       ^^^
       = did you mean `key`?

    rules.yaml:4:3: a descriptor lacks `key`
       |
     4 | - descriptors: [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, ...
       |   ^
       = write `key: NAME`, the key that an entry of the request has
    ");
}
