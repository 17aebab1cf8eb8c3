//! Why a descriptor meets the rule that it meets: every level, what was taken there, and why the others were not.

use std::fmt;

use tollgate_core::{Ask, Cost, Limit, Time};

use crate::rule::{Allowance, Overshoot, Period, Quota};
use crate::snapshot::{Domain, Place, PlacedLimit, Snapshot};
use crate::tree::{Child, Entry, Level, Values};

/// At most so many nodes of a level are listed: thousands of values are not an explanation.
const LISTED_MAX: usize = 20;

/// The way of one descriptor through the rules, told to a person by [`fmt::Display`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    lines: Vec<String>,
    meets_a_limit: bool,
}

impl Explanation {
    /// Whether the descriptor meets a limit.
    pub fn meets_a_limit(&self) -> bool {
        self.meets_a_limit
    }

    /// It, line by line.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    fn say(&mut self, indent: usize, line: impl fmt::Display) {
        self.lines.push(format!("{:indent$}{line}", "", indent = indent * 2));
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines.join("\n"))
    }
}

impl Snapshot {
    /// Explains what a descriptor of a domain meets.
    pub fn explain(&self, domain: &str, entries: &[Entry<'_>]) -> Explanation {
        let mut told = Explanation { lines: Vec::new(), meets_a_limit: false };
        let Some(domain) = self.domain(domain) else {
            told.say(
                0,
                format_args!("domain \"{domain}\" is unknown: every request of it passes, uncounted"),
            );
            told.say(0, format_args!("known domains: {}", list(self.domain_names().into_iter())));
            return told;
        };
        told.say(0, format_args!("domain \"{}\"", domain.name()));
        if !domain.enabled() {
            told.say(1, "is switched off (`enabled: false`): every request of it passes, uncounted");
            return told;
        }
        let Some(child) = walk(&mut told, domain.root(), entries) else { return told };
        if let Some(index) = child.place {
            tell_place(&mut told, self.place(index), domain, entries);
        } else {
            told.say(
                0,
                "result: no limit. The rule that matches has no `rate_limit`, and no other is tried instead",
            );
            tell_depth(&mut told, &child.below);
        }
        told
    }
}

impl Snapshot {
    /// Explains what a named policy asks of every key.
    pub fn explain_policy(&self, name: &str) -> Explanation {
        let mut told = Explanation { lines: Vec::new(), meets_a_limit: false };
        let Some(index) = self.policy(name) else {
            told.say(0, format_args!("policy \"{name}\" is unknown: requests that name it are refused"));
            told.say(
                0,
                format_args!("known policies: {}", list(self.policy_names().iter().map(|name| &**name))),
            );
            return told;
        };
        let place = self.place(index);
        told.say(0, format_args!("policy \"{name}\""));
        if !place.rule().enabled {
            told.say(1, "is switched off (`enabled: false`): the request passes, uncounted");
            return told;
        }
        told.meets_a_limit = !place.limits().is_empty();
        tell_limits(&mut told, place, None);
        told.say(1, "a counter of its own for each key");
        tell_modes(&mut told, place);
        told
    }
}

/// Tells every step; gives the last, if the descriptor gets that far.
fn walk<'a>(told: &mut Explanation, root: &'a Level, entries: &[Entry<'_>]) -> Option<&'a Child> {
    let mut level = root;
    let mut reached = None;
    for (depth, &(key, value)) in entries.iter().enumerate() {
        told.say(1, format_args!("entry {}: {key}={value}", depth + 1));
        if level.children().is_empty() {
            told.say(2, "the rules end here: one for fewer entries does not apply to a longer descriptor");
            told.say(0, "result: no limit");
            return None;
        }
        let taken = level.step((key, value));
        tell_level(told, level, (key, value), taken);
        let Some(child) = taken else {
            told.say(0, "result: no limit");
            return None;
        };
        reached = Some(child);
        level = &child.below;
    }
    if reached.is_none() {
        told.say(0, "result: no limit. The descriptor has no entries");
    }
    reached
}

fn tell_level(told: &mut Explanation, level: &Level, (key, value): Entry<'_>, taken: Option<&Child>) {
    let mut unlisted = 0;
    for (number, child) in level.children().iter().enumerate() {
        let is_taken = taken.is_some_and(|taken| std::ptr::eq(taken, child));
        if number >= LISTED_MAX && !is_taken {
            unlisted += 1;
            continue;
        }
        let mark = if is_taken { "->" } else { "  " };
        told.say(2, format_args!("{mark} {}: {}", name(child), verdict(child, key, value, taken, is_taken)));
    }
    if unlisted > 0 {
        told.say(2, format_args!("   and {unlisted} more, which do not match or come too late"));
    }
    if taken.is_none() {
        told.say(2, format_args!("nothing on this level takes {key}={value}"));
    }
}

fn verdict(child: &Child, key: &str, value: &str, taken: Option<&Child>, is_taken: bool) -> String {
    if *child.key != *key {
        return format!("no, the key is not \"{key}\"");
    }
    match (&child.values, is_taken) {
        (Values::Exact(_), true) => "taken, the value is exactly this".to_owned(),
        (Values::Matching { .. }, true) => "taken, the first pattern that matches".to_owned(),
        (Values::Any, true) => "taken, any value of the key".to_owned(),
        (_, false) if !child.takes(value) => "no, the value differs".to_owned(),
        (_, false) => match taken.map(|taken| &taken.values) {
            Some(Values::Exact(_)) => "would match, but an exact value comes first".to_owned(),
            Some(_) => "would match, but a pattern before it does too".to_owned(),
            None => "no".to_owned(),
        },
    }
}

fn name(child: &Child) -> String {
    match &child.values {
        Values::Exact(value) => format!("{}={value}", child.key),
        Values::Matching { pattern, shared: false } => format!("{}={}", child.key, pattern.as_str()),
        Values::Matching { pattern, shared: true } => {
            format!("{}={} (one counter for all)", child.key, pattern.as_str())
        }
        Values::Any => format!("{} (any value)", child.key),
    }
}

fn tell_place(told: &mut Explanation, place: &Place, domain: &Domain, entries: &[Entry<'_>]) {
    let rule = place.rule();
    told.say(0, format_args!("result: rule \"{}\"", place.path()));
    if !rule.enabled {
        told.say(1, "is switched off (`enabled: false`): the request passes, uncounted");
        return;
    }
    told.meets_a_limit = !place.limits().is_empty();
    let tier = domain.tier_of(entries);
    if let Some(tier) = tier {
        told.say(1, format_args!("tier \"{tier}\""));
    }
    tell_limits(told, place, tier);
    let counted: Vec<_> = place.counted(entries).collect();
    match counted.as_slice() {
        [] => told.say(1, "one counter for all that match"),
        values => told.say(1, format_args!("a counter of its own for each of: {}", values.join(", "))),
    }
    tell_modes(told, place);
}

fn tell_limits(told: &mut Explanation, place: &Place, tier: Option<&str>) {
    for limit in place.limits() {
        told.say(1, format_args!("limit \"{}\": {}", limit.title(), describe(limit.allowance(tier))));
        tell_manners(told, limit);
    }
}

fn tell_modes(told: &mut Explanation, place: &Place) {
    let rule = place.rule();
    if rule.shadow_mode {
        told.say(1, "shadow mode: counted and reported, never denied");
    }
    if rule.quota_mode {
        told.say(1, "quota mode: denied only if all quota rules of the request are over");
    }
}

fn tell_manners(told: &mut Explanation, limit: &PlacedLimit) {
    if limit.enforce_percent() < 100 {
        told.say(
            2,
            format_args!("enforced for {} of 100 keys, the others are counted only", limit.enforce_percent()),
        );
    }
    match limit.overshoot() {
        Overshoot::ByCaller => {}
        Overshoot::Deny => told.say(2, "a cost beyond what is left is denied"),
        Overshoot::Book => told.say(2, "a cost beyond what is left is booked as debt"),
    }
    if !limit.replaces().is_empty() {
        told.say(2, format_args!("takes the place of: {}", limit.replaces().join(", ")));
    }
}

fn tell_depth(told: &mut Explanation, below: &Level) {
    if !below.children().is_empty() {
        let more = list(below.children().iter().take(LISTED_MAX).map(|child| &*child.key));
        told.say(1, format_args!("rules below it ask for one more entry: {more}"));
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.collect();
    names.dedup();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn describe(allowance: &Allowance) -> String {
    match allowance {
        Allowance::Unlimited => "unlimited".to_owned(),
        Allowance::Quota(quota) => quota.to_string(),
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_once = match &self.limit {
            Limit::Blocked(_) => return f.write_str("blocked"),
            Limit::Concurrency(_) => {
                return write!(f, "{} at the same time, each for at most {}", self.units, self.period);
            }
            limit => limit.decide(&mut limit.fresh(), Ask::peek(Cost::ZERO, Time::default())).limit,
        };
        write!(f, "{} per {}", self.units, self.period)?;
        if at_once != self.units {
            write!(f, ", {at_once} at once")?;
        }
        write!(f, " ({})", as_written(&self.limit))
    }
}

/// A limit's algorithm as rules spell it.
fn as_written(limit: &Limit) -> &'static str {
    match limit {
        Limit::TokenBucket(_) => "token_bucket",
        Limit::LeakyBucket(_) => "leaky_bucket",
        Limit::LeakyQueue(_) => "leaky_bucket with max_wait",
        Limit::FixedWindow(_) => "fixed_window",
        Limit::SlidingWindow(_) => "sliding_window",
        Limit::SubWindows(_) => "sliding_window with sub_windows",
        Limit::SlidingLog(_) => "sliding_log",
        Limit::Concurrency(_) => "concurrency",
        Limit::Blocked(_) => "blocked",
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Period::Unit(unit) => f.write_str(unit.name()),
            Period::Length(length) => write!(f, "{length:?}"),
            Period::Calendar(unit) => write!(f, "calendar {}", format!("{unit:?}").to_lowercase()),
        }
    }
}
