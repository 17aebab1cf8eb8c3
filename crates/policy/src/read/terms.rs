//! The terms of one tenant, from the document that they are stored in.

use std::sync::Arc;

use tollgate_core::Time;

use super::fields::Fields;
use super::{Reader, reader};
use crate::keys::terms::{OVERRIDE, PHASE, TERMS};
use crate::keys::{DOMAIN_CHARS_MAX, KEY_CHARS_MAX, NAME_CHARS_MAX, VALUE_CHARS_MAX};
use crate::problem::{Mark, Page, Position, Problem, Problems, quote};
use crate::rule::DefaultAlgorithm;
use crate::source::Source;
use crate::tenant::{
    OVERRIDE_ENTRIES_MAX, OVERRIDES_MAX, Override, OverrideNumbers, Phase, Target, TargetEntry, TenantTerms,
};
use crate::yaml::{self, Content, Entry, Node};

/// What a moment looks like.
const MOMENT_EXAMPLE: &str = "write it as `2026-02-01T00:00:00Z`";

/// Reads the terms of a tenant from JSON: its tier, its overrides, from when and until when. `name` is what problems call the text.
///
/// ```
/// let terms = r#"{"tier": "gold", "overrides": [{"descriptor": "endpoint:POST /v1/orders", "requests_per_unit": 500, "unit": "minute"}]}"#;
/// let terms = tollgate_policy::read_terms("acme", terms)?;
/// assert_eq!(terms.phases[0].tier.as_deref(), Some("gold"));
/// # Ok::<(), tollgate_policy::Problems>(())
/// ```
pub fn read_terms(name: &str, json: &str) -> Result<TenantTerms, Problems> {
    let mut problems = Problems::new();
    if json.len() > Source::TEXT_BYTES_MAX {
        problems.push(Problem::new(Position::file(name), "the text is too long"));
        return problems.or(TenantTerms::default());
    }
    let page = Page::new(name, json);
    let root = yaml::parse(json, &page, &mut problems);
    if root.is_none() && problems.is_empty() {
        let hint = "write `{\"tier\": \"NAME\"}`, or `overrides`";
        problems.push(Problem::new(page.whole(), "the text says nothing").hint(hint));
    }
    let terms = root.and_then(|root| reader(&page, &mut problems, DefaultAlgorithm::default()).terms(&root));
    problems.or(terms.unwrap_or_default())
}

impl Reader<'_, '_> {
    fn terms(&mut self, root: &Node) -> Option<TenantTerms> {
        let fields = self.fields(root, &TERMS, root.mark)?;
        let phase = self.phase(&fields);
        let before = fields.entry("before").filter(|entry| !entry.value.is_null());
        let before = before.and_then(|entry| {
            let fields = self.fields(&entry.value, &PHASE, entry.key_mark)?;
            Some(self.phase(&fields))
        });
        // What is in force from ever has nothing before it.
        let before = before.zip(phase.from).and_then(|(before, from)| {
            let until = before.until.map_or(from, |until| until.min(from));
            let is_ever = before.from.is_none_or(|from| from < until);
            is_ever.then_some(Phase { until: Some(until), ..before })
        });
        Some(TenantTerms { phases: before.into_iter().chain([phase]).collect() })
    }

    fn phase(&mut self, fields: &Fields) -> Phase {
        let tier = self.optional(fields, "tier", |reader, entry| reader.text_up_to(entry, NAME_CHARS_MAX));
        if let Some(given) = tier.given().filter(|given| given.value.is_empty()) {
            self.wrong(given.mark, "the `tier` is empty", "name one, or write `null`");
        }
        if let Some(given) = tier.given().filter(|given| given.value.contains(char::is_control)) {
            self.wrong(
                given.mark,
                "the `tier` has a control character in it",
                "write its name as the rules do",
            );
        }
        let list =
            self.optional(fields, "overrides", |reader, entry| reader.list_up_to(entry, OVERRIDES_MAX));
        let mut overrides = Vec::new();
        for item in list.value().iter().flat_map(|items| items.iter()) {
            overrides.extend(self.override_of(item));
        }
        let from = self.optional(fields, "effective_at", Reader::moment);
        let until = self.optional(fields, "expires_at", Reader::moment);
        if let (Some(from), Some(until)) = (from.given(), until.given())
            && until.value <= from.value
        {
            let what = "`expires_at` is not after `effective_at`";
            self.wrong(until.mark, what, "it would never be in force: write a later moment");
        }
        let (from, until, tier) = (from.value(), until.value(), tier.value());
        Phase { from, until, tier: tier.map(Into::into), overrides }
    }

    /// A moment of wall time.
    fn moment(&mut self, entry: &Entry) -> Option<Time> {
        let text = self.text(entry)?;
        let Ok(moment) = text.parse::<jiff::Timestamp>() else {
            let what = format!("`{}` must be a moment, not {}", entry.key, quote(&text));
            self.wrong(entry.value.mark, what, MOMENT_EXAMPLE);
            return None;
        };
        // Before 1970 is long ago, and beyond the last moment never.
        let ns = moment.as_nanosecond().max(0);
        Some(Time::from_ticks(u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    fn override_of(&mut self, item: &Node) -> Option<Override> {
        let fields = self.fields(item, &OVERRIDE, item.mark)?;
        let is_single = self.only_one(&fields, &["descriptor", "policy"], "keep one of the two");
        let target = self.target(&fields);
        let limit = self.optional(&fields, "limit", Reader::name).value().filter(|name| !name.is_empty());
        let numbers = self.override_numbers(&fields);
        let (target, numbers) = (target?, numbers?);
        is_single.then(|| Override { target: Arc::new(target), limit: limit.map(Into::into), numbers })
    }

    fn target(&mut self, fields: &Fields) -> Option<Target> {
        let domain =
            self.optional(fields, "domain", |reader, entry| reader.text_up_to(entry, DOMAIN_CHARS_MAX));
        if let Some(entry) = fields.entry("policy") {
            if let Some(domain) = domain.given() {
                self.wrong(domain.key_mark, "a policy has no `domain`", "remove one of the two");
            }
            let name = self.field(fields, "policy", Reader::name).value()?;
            if name.is_empty() {
                self.wrong(entry.value.mark, "the name of the policy is empty", "name one");
            }
            return Some(Target::Policy { name: name.into() });
        }
        let Some(entry) = fields.entry("descriptor") else {
            if fields.lacks("descriptor") && fields.lacks("policy") {
                let hint = "write `\"descriptor\": \"KEY:VALUE\"`, or `[]` for the rule that counts the tenant alone; or `\"policy\": \"NAME\"`";
                self.wrong(fields.mark, "the override does not say which rule it is for", hint);
            }
            return None;
        };
        let entries = self.target_entries(entry)?;
        Some(Target::Descriptor { domain: domain.value().map(Into::into), entries })
    }

    fn target_entries(&mut self, entry: &Entry) -> Option<Vec<TargetEntry>> {
        match &entry.value.content {
            Content::List(_) => {
                let items = self.list_up_to(entry, OVERRIDE_ENTRIES_MAX)?;
                let entries = items.iter().map(|item| {
                    let item =
                        Entry { key: entry.key.clone(), key_mark: entry.key_mark, value: item.clone() };
                    self.target_entry(&item)
                });
                // All of them are read, so that all that is wrong is told.
                let entries: Vec<_> = entries.collect();
                entries.into_iter().collect()
            }
            _ => Some(vec![self.target_entry(entry)?]),
        }
    }

    /// A key, and perhaps a value after the first colon.
    fn target_entry(&mut self, entry: &Entry) -> Option<TargetEntry> {
        let text = self.text(entry)?;
        let mark = entry.value.mark;
        let (key, value) = match text.split_once(':') {
            Some((key, value)) => (key, Some(value)),
            None => (text.as_str(), None),
        };
        let hint = "write `KEY:VALUE`, or `KEY` for any value";
        if key.is_empty() {
            self.wrong(mark, format!("{} names no key", quote(&text)), hint);
            return None;
        }
        self.check_length("key", key, KEY_CHARS_MAX, mark)?;
        self.check_length("value", value.unwrap_or_default(), VALUE_CHARS_MAX, mark)?;
        Some((key.into(), value.map(Into::into)))
    }

    fn check_length(&mut self, what: &str, text: &str, chars_max: usize, mark: Mark) -> Option<()> {
        let chars = text.chars().count();
        if chars <= chars_max {
            return Some(());
        }
        let what = format!("the {what} may have at most {chars_max} characters, not {chars}");
        self.wrong(mark, what, "choose a shorter one");
        None
    }

    fn override_numbers(&mut self, fields: &Fields) -> Option<OverrideNumbers> {
        let problems_before = self.problems.len();
        let numbers = self.numbers(fields);
        if self.problems.len() > problems_before {
            return None;
        }
        if numbers.is_unlimited() {
            return Some(OverrideNumbers::Unlimited);
        }
        let Some(units) = numbers.units.value() else {
            if fields.lacks("requests_per_unit") && fields.lacks("requests") {
                let hint =
                    "write `\"requests_per_unit\": 500` and `\"unit\": \"minute\"`; or `\"unlimited\": true`";
                self.wrong(fields.mark, "the override lacks `requests_per_unit`", hint);
            }
            return None;
        };
        if let Some(burst) = numbers.burst.given().filter(|burst| burst.value == 0) {
            self.wrong(
                burst.mark,
                "`burst` must be at least 1",
                "to let nothing pass, write `\"requests\": 0`",
            );
        }
        let (period, burst) = (numbers.period.value(), numbers.burst.value());
        Some(OverrideNumbers::Per { units, period, burst })
    }
}
