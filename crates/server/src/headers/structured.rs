//! `RateLimit-Policy` and `RateLimit` as structured fields (RFC 9651), written by hand: they are part of every answer.

use std::iter;
use std::time::Duration;

use tollgate::{Ruling, Verdict};

use super::advice::{self, Advice};

/// Integers of structured fields have at most 15 digits.
const INTEGER_MAX: u64 = 999_999_999_999_999;

/// The most that a list of policies may take: proxies refuse answers with long header fields. What does not fit is left out.
pub(super) const POLICIES_BYTES_MAX: usize = 4 << 10;

/// More limits than this are not told of: finding out which of them are the same would take too long.
const POLICIES_MAX: usize = 64;

/// A longer title is cut.
pub(super) const TITLE_CHARACTERS_MAX: usize = 256;

/// Puts `"name";q=100;w=60` for every limit that was met, each once. That which [`put_service_limit`] is about comes first, and so is never
/// left out.
pub(super) fn put_policies(list: &mut String, verdict: &Verdict, advice: &Advice<'_>) {
    let met = verdict.rulings().iter().filter(|ruling| advice::counts(ruling)).take(POLICIES_MAX);
    let all = iter::once(advice.ruling()).chain(met);
    for (at, ruling) in all.clone().enumerate() {
        // Several descriptors may have met the same limit.
        if all.clone().take(at).any(|earlier| is_same_policy(verdict, earlier, ruling)) {
            continue;
        }
        let end = list.len();
        if end > 0 {
            list.push_str(", ");
        }
        put_policy(list, verdict.title(ruling), ruling);
        if list.len() > POLICIES_BYTES_MAX {
            list.truncate(end);
            break;
        }
    }
}

/// Puts `"name";r=47;t=42` for the most restrictive limit.
pub(super) fn put_service_limit(item: &mut String, advice: &Advice<'_>) {
    put_string(item, advice.title());
    put_parameter(item, ";r=", advice.ruling().decision.remaining);
    if let Some(delay_s) = advice.delay_s() {
        put_parameter(item, ";t=", delay_s);
    }
}

fn is_same_policy(verdict: &Verdict, one: &Ruling, other: &Ruling) -> bool {
    (one.units, one.period) == (other.units, other.period) && verdict.title(one) == verdict.title(other)
}

fn put_policy(list: &mut String, title: &str, ruling: &Ruling) {
    put_string(list, title);
    put_parameter(list, ";q=", ruling.units);
    if advice::is_held(ruling) {
        list.push_str(";qu=\"concurrent-requests\"");
    } else if let Some(window) = advice::window(ruling).filter(|window| *window >= Duration::from_secs(1)) {
        // Rounded up: who spreads the quota over the window then never asks too often.
        put_parameter(list, ";w=", window.as_secs() + u64::from(window.subsec_nanos() > 0));
    }
}

fn put_parameter(item: &mut String, name: &str, value: u64) {
    item.push_str(name);
    item.push_str(itoa::Buffer::new().format(value.min(INTEGER_MAX)));
}

/// A string of structured fields: printable ASCII, as titles are, with two characters escaped.
fn put_string(item: &mut String, text: &str) {
    item.push('"');
    for character in text.chars().take(TITLE_CHARACTERS_MAX) {
        match character {
            '"' | '\\' => item.extend(['\\', character]),
            ' '..='~' => item.push(character),
            _ => item.push('?'),
        }
    }
    item.push('"');
}
