//! Whatever the text is, nothing panics, and every problem points into it.

#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;
use tollgate_policy::{DefaultAlgorithm, Position, Source, read_all};

const RULES: &str = "\
# Everything that the format knows.
domain: shop
tenant_key: tenant
tenants: {acme: pro}
descriptors:
- key: tenant
  rate_limit: &base
    unit: day
    requests_per_unit: 5
    tiers: {free: {requests: 1}, pro: {unlimited: true}}
  metadata: {owner: \"sh\\top\", list: [1, 0.5, ~, 'x']}
  descriptors:
  - {key: path, value: '/files/*', share_threshold: true, rate_limit: {<<: *base, unit: hour}}
- key: limits
  rate_limits:
  - {requests: 10, period: 1m30s, burst: 3, name: a, replaces: [{name: b}]}
  - {requests: 10, calendar: month, zone: Europe/Berlin}
  - {requests: 10, period: 1s, algorithm: leaky_bucket, max_wait: 2s}
  - {requests: 10, period: 1s, sub_windows: 8, jitter: true, local_fraction: 0.25}
- key: masked_remote_address
  descriptors: [{key: header_match, rate_limit: {unit: day, requests_per_unit: 5}}]
forward_auth:
- actions:
  - request_headers: {header_name: ':path', descriptor_key: path, skip_if_absent: true}
  - masked_remote_address: {v4_prefix_mask_len: 24}
  - header_value_match: {descriptor_value: x, headers: [{name: a, string_match: {prefix: b}}]}
policies:
  search: {requests: 100, period: 250ms, algorithm: concurrency, enforce_percent: 50}
";

/// What a mistake is made of.
const PIECES: [&str; 24] = [
    "",
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\r",
    ": ",
    "- ",
    "*",
    "&a ",
    "*a",
    "<<: ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "|",
    "!t ",
    "---\n",
    "é\u{202e}",
    "\u{0}",
];

fn check(text: &str) -> Result<(), TestCaseError> {
    let source = Source::new("rules.yaml", text);
    let Err(problems) = read_all(std::slice::from_ref(&source), DefaultAlgorithm::default()) else {
        return Ok(());
    };
    prop_assert!(!problems.is_empty());
    for problem in &problems {
        check_position(&problem.position, text)?;
        if let Some((position, _)) = &problem.also {
            check_position(position, text)?;
        }
        prop_assert!(problem.hint.is_some(), "{}", problem);
        let shown = problem.to_string();
        prop_assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", shown);
        prop_assert!(shown.lines().all(|line| line.chars().count() < 320), "{}", shown);
    }
    Ok(())
}

fn check_position(position: &Position, text: &str) -> Result<(), TestCaseError> {
    if position.line == 0 {
        return Ok(());
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let line = text.split('\n').nth(position.line as usize - 1);
    prop_assert!(line.is_some(), "line {} of {:?}", position.line, text);
    let length = u32::try_from(line.unwrap().chars().count()).unwrap();
    prop_assert!((1..=length + 1).contains(&position.column), "{:?} in {:?}", position, text);
    prop_assert!(position.width == 1 || position.column + position.width <= length + 1, "{:?}", position);
    Ok(())
}

#[test]
fn the_rules_that_are_mutated_are_right() {
    let read = read_all(&[Source::new("rules.yaml", RULES)], DefaultAlgorithm::default());
    assert!(read.is_ok(), "{}", read.unwrap_err());
}

proptest! {
    #[test]
    fn any_characters(text in "\\PC{0,80}") {
        check(&text)?;
    }

    #[test]
    fn any_text_of_yaml_signs(text in "[ \\t\\r\\na-c0-9:\\-{}\\[\\],&*#!|>'\"%@`?<~.\\\\\u{feff}]{0,120}") {
        check(&text)?;
    }

    #[test]
    fn rules_with_pieces_put_in_or_taken_out(
        changes in prop::collection::vec((0..RULES.len(), 0..6_usize, 0..PIECES.len()), 1..6)
    ) {
        let mut text: Vec<char> = RULES.chars().collect();
        for (at, removed, piece) in changes {
            let at = at.min(text.len());
            let end = (at + removed).min(text.len());
            text.splice(at..end, PIECES[piece].chars());
        }
        check(&text.into_iter().collect::<String>())?;
    }

    #[test]
    fn rules_with_lines_moved(from in 0..29_usize, to in 0..29_usize, indentation in 0..4_usize) {
        let mut lines: Vec<String> = RULES.lines().map(str::to_owned).collect();
        let (from, to) = (from.min(lines.len() - 1), to.min(lines.len() - 1));
        let line = lines.remove(from);
        lines.insert(to.min(lines.len()), format!("{}{}", " ".repeat(indentation), line.trim_start()));
        check(&lines.join("\n"))?;
    }
}
