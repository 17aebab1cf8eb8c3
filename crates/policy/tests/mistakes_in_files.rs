//! Several problems at once, several files, and files that are too much.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fmt::Write;

use common::{said, said_of};
use insta::assert_snapshot;
use tollgate_policy::{DefaultAlgorithm, Problems, Source, read, read_all};

#[test]
fn several_problems_in_two_files() {
    let shop = "
        domain: shop
        descriptors:
        - key: user
          rate_limit: {unit: minuet, requests_per_unit: -5}
        - value: bob
    ";
    let bank = "
        domain: bank
        policies:
          search: {requests: 10, period: 1x}
    ";
    assert_snapshot!(said_of(&[("rules/shop.yaml", shop), ("rules/bank.yaml", bank)]), @r"
    rules/bank.yaml:3:34: `period` must be a length of time, not `1x`
       |
     3 |   search: {requests: 10, period: 1x}
       |                                  ^^
       = write a number and a unit, such as `250ms`, `90s`, `1m30s`, `12h`, `1d` or `2w`

    rules/shop.yaml:4:22: unknown unit `minuet`
       |
     4 |   rate_limit: {unit: minuet, requests_per_unit: -5}
       |                      ^^^^^^
       = did you mean `minute`? It can be second, minute, hour, day, week, month, year

    rules/shop.yaml:4:49: `requests_per_unit` cannot be negative: `-5`
       |
     4 |   rate_limit: {unit: minuet, requests_per_unit: -5}
       |                                                 ^^
       = write a number from 0 to 18446744073709551615

    rules/shop.yaml:5:3: a descriptor lacks `key`
       |
     5 | - value: bob
       |   ^
       = write `key: NAME`, the key that an entry of the request has
    ");
}

#[test]
fn domain_in_two_files() {
    let files = [("rules/a.yaml", "domain: shop"), ("rules/b.yaml", "# The second shop.\ndomain: shop")];
    assert_snapshot!(said_of(&files), @r"
    rules/b.yaml:2:9: the domain `shop` is in two files
       |
     2 | domain: shop
       |         ^^^^
      ::: rules/a.yaml:1:9: the first is here
       |
     1 | domain: shop
       |         ^^^^
       = put all its rules into one file
    ");
}

#[test]
fn policy_in_two_files() {
    let policy = "policies:\n  search: {requests: 10, period: 1m}";
    assert_snapshot!(said_of(&[("rules/a.yaml", policy), ("rules/b.yaml", policy)]), @r"
    rules/b.yaml:2:3: the policy `search` is in two files
       |
     2 |   search: {requests: 10, period: 1m}
       |   ^^^^^^
      ::: rules/a.yaml:2:3: the first is here
       |
     2 |   search: {requests: 10, period: 1m}
       |   ^^^^^^
       = give one of them another name
    ");
}

#[test]
fn mistake_behind_an_alias_is_told_once() {
    assert_snapshot!(said("
        domain: shop
        descriptors:
        - key: user
          rate_limit: &limit {unit: minuet, requests_per_unit: 5}
        - key: path
          rate_limit: *limit
    "), @r"
    rules.yaml:4:29: unknown unit `minuet`
       |
     4 |   rate_limit: &limit {unit: minuet, requests_per_unit: 5}
       |                             ^^^^^^
       = did you mean `minute`? It can be second, minute, hour, day, week, month, year
    ");
}

#[test]
fn alias_bomb() {
    let mut text = String::from(
        "domain: shop\ndescriptors:\n- key: user\n  metadata:\n    a: &a [1, 1, 1, 1, 1, 1, 1, 1]\n",
    );
    for (was, now) in "abcdefgh".chars().zip("bcdefghi".chars()) {
        let aliases = vec![format!("*{was}"); 8].join(", ");
        writeln!(text, "    {now}: &{now} [{aliases}]").unwrap();
    }
    assert_snapshot!(said(&text), @r"
    rules.yaml:11:20: the file has more than 1000000 values, counted with what its aliases stand for
        |
     11 |     g: &g [*f, *f, *f, *f, *f, *f, *f, *f]
        |                    ^^
        = use fewer aliases (`*name`), or put the rules into several files, one domain each
    ");
}

#[test]
fn nested_too_deep() {
    let text = format!(
        "domain: shop\ndescriptors:\n- key: user\n  metadata: {{a: {}{}}}\n",
        "[".repeat(97),
        "]".repeat(97)
    );
    assert_snapshot!(said(&text), @r"
    rules.yaml:4:113: lists and mappings are nested more than 100 deep
       |
     4 | ...[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]...
       |                                  ^
       = no rule needs that; look for a bracket that was not closed
    ");
    let fits = text.replacen('[', "", 1).replacen(']', "", 1);
    assert_eq!(said(&fits), "(nothing is wrong)");
}

#[test]
fn aliases_nested_too_deep() {
    let text = format!(
        "domain: shop\ndescriptors:\n- key: user\n  metadata: {{a: &a {}{}, b: {}*a{}}}\n",
        "[".repeat(50),
        "]".repeat(50),
        "[".repeat(50),
        "]".repeat(50),
    );
    assert_snapshot!(said(&text), @r"
    rules.yaml:4:175: lists and mappings are nested more than 100 deep
       |
     4 | ...[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[*a]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}
       |                                  ^^
       = no rule needs that; look for a bracket that was not closed
    ");
}

#[test]
fn descriptors_nested_too_deep() {
    let nested = |depth: usize| {
        let mut text = String::from("domain: shop\n");
        for level in 0..depth {
            let indentation = "  ".repeat(level);
            writeln!(text, "{indentation}descriptors:\n{indentation}- key: k{level}").unwrap();
        }
        text
    };
    assert_eq!(said(&nested(32)), "(nothing is wrong)");
    assert_snapshot!(said(&nested(33)), @r"
    rules.yaml:66:65: descriptors are nested more than 32 deep
        |
     66 |                                                                 descriptors:
        |                                                                 ^^^^^^^^^^^
        = no request has as many entries; remove the levels below
    ");
}

#[test]
fn too_many_nodes() {
    let lists = vec!["[]"; 1_000_000].join(",");
    assert_snapshot!(said(&format!("domain: shop\ndescriptors: [{lists}]")), @r"
    rules.yaml:2:3000006: the file has more than 1000000 values, counted with what its aliases stand for
       |
     2 | ...[],[],[],[],[],[],[],[],[],[],[],[],[]]
       |                                  ^
       = use fewer aliases (`*name`), or put the rules into several files, one domain each
    ");
}

#[test]
fn too_large() {
    let text = format!("domain: shop\n{}", "#".repeat(Source::TEXT_BYTES_MAX));
    assert_snapshot!(said(&text), @r"
    rules.yaml: the file is larger than 4 MiB
       = put the rules into several files of one directory, one domain each
    ");
}

#[test]
fn of_many_problems_the_first_are_told() {
    let text = (0..250).map(|i| format!("wrong{i}: 1")).collect::<Vec<_>>().join("\n");
    let problems = read_all(&[Source::new("rules.yaml", text)], DefaultAlgorithm::default()).unwrap_err();
    assert_eq!(problems.iter().count(), Problems::KEPT_MAX);
    assert_eq!(problems.len(), 251);
    assert_eq!(problems.iter().last().unwrap().position.line, 99);
    assert!(problems.to_string().ends_with("\n\nand 151 more problems"), "{problems}");
}

#[test]
fn the_rest_of_a_broken_file_is_still_read() {
    let text = "domain: shop\ndescriptors:\n- key: user\n- {value: lost}\n- key: path\n";
    let mut problems = Problems::new();
    let file = read(&Source::new("rules.yaml", text), DefaultAlgorithm::default(), &mut problems).unwrap();
    let keys: Vec<_> =
        file.domain.unwrap().descriptors.into_iter().map(|descriptor| descriptor.key).collect();
    assert_eq!((problems.len(), keys), (1, vec!["user".to_owned(), "path".to_owned()]));
}
