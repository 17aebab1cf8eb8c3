//! Descriptors: a tree whose nodes may each have a rule.

use std::collections::HashMap;

use super::Reader;
use super::fields::Fields;
use crate::keys::{DESCRIPTOR, KEY_CHARS_MAX, RATE_LIMIT, VALUE_CHARS_MAX};
use crate::problem::{Mark, Problem, quote};
use crate::rule::{Rule, RuleLimit};
use crate::spec::DescriptorSpec;
use crate::yaml::{Entry, Node};

/// The deepest tree, which is the most entries that a request's descriptor may have.
pub(super) const DEPTH_MAX: usize = 32;

/// The most bytes of the ways to all descriptors of a file in sum. Every limit is compiled to a few copies of its way.
const WAYS_BYTES_MAX: usize = 64 << 20;

/// The way from a domain down to a descriptor: its levels, and the length of their keys and values and the domain's name.
#[derive(Clone, Copy)]
pub(super) struct Way {
    depth: usize,
    bytes: usize,
}

impl Way {
    /// Before the first level.
    pub(super) fn to_domain(name: &str) -> Way {
        Way { depth: 0, bytes: name.len() }
    }

    fn step(self, key: Option<&str>, value: Option<&str>) -> Way {
        let bytes = key.map_or(0, str::len) + value.map_or(0, str::len);
        Way { depth: self.depth + 1, bytes: self.bytes + bytes }
    }
}

/// What makes two descriptors of one level the same.
type Identity = (String, Option<String>);

impl Reader<'_, '_> {
    /// One level of the tree, at the end of a way.
    pub(super) fn descriptors(&mut self, entry: &Entry, above: Way) -> Option<Vec<DescriptorSpec>> {
        if above.depth == DEPTH_MAX {
            let what = format!("descriptors are nested more than {DEPTH_MAX} deep");
            self.wrong(entry.key_mark, what, "no request has as many entries; remove the levels below");
            return None;
        }
        let items = self.list(entry)?;
        let mut seen = HashMap::new();
        let mut descriptors = Vec::with_capacity(items.len());
        for item in items.iter() {
            descriptors.extend(self.descriptor(item, above, &mut seen));
        }
        Some(descriptors)
    }

    fn descriptor(
        &mut self,
        node: &Node,
        above: Way,
        seen: &mut HashMap<Identity, Mark>,
    ) -> Option<DescriptorSpec> {
        let fields = self.fields(node, &DESCRIPTOR, node.mark)?;
        let key = self.key(&fields);
        let value =
            self.optional(&fields, "value", |reader, entry| reader.text_up_to(entry, VALUE_CHARS_MAX));
        let value = value.value().filter(|value| !value.is_empty());
        let way = above.step(key.as_deref(), value.as_deref());
        let share_threshold = self.flag(&fields, "share_threshold", false);
        self.check_share_threshold(&fields, share_threshold, value.as_deref());
        let value_to_metric = self.flag(&fields, "value_to_metric", false);
        let rule = self.rule(&fields);
        self.count_way(way, rule.as_ref().map_or(1, |rule| rule.limits.len()), fields.mark);
        let next = self.optional(&fields, "descriptors", |reader, entry| reader.descriptors(entry, way));
        let key = key?;
        self.check_first(&fields, (key.clone(), value.clone()), seen);
        self.keys_seen.push(key.clone());
        Some(DescriptorSpec {
            key,
            value,
            share_threshold,
            value_to_metric,
            rule,
            descriptors: next.value().unwrap_or_default(),
        })
    }

    fn key(&mut self, fields: &Fields) -> Option<String> {
        let hint = "write `key: NAME`, the key that an entry of the request has";
        if fields.lacks("key") {
            self.wrong(fields.mark, "a descriptor lacks `key`", hint);
        }
        let key = self.field(fields, "key", |reader, entry| reader.text_up_to(entry, KEY_CHARS_MAX));
        if let Some(given) = key.given().filter(|given| given.value.is_empty()) {
            self.wrong(given.mark, "the `key` of a descriptor is empty", hint);
            return None;
        }
        key.value()
    }

    /// Adds a way, which each of so many limits carries, to all. Beyond the bound it is said once.
    fn count_way(&mut self, way: Way, limits: usize, mark: Mark) {
        let was_within = self.ways_bytes <= WAYS_BYTES_MAX;
        self.ways_bytes = self.ways_bytes.saturating_add(way.bytes.saturating_mul(limits.max(1)));
        if was_within && self.ways_bytes > WAYS_BYTES_MAX {
            let what = format!(
                "from here on, the rules are too large: each carries the keys and values above it, {} MiB in sum at most",
                WAYS_BYTES_MAX >> 20
            );
            let hint = "shorten the keys and values of the upper levels, or put the rules into several files, one domain each";
            self.wrong(mark, what, hint);
        }
    }

    fn check_share_threshold(&mut self, fields: &Fields, is_shared: bool, value: Option<&str>) {
        let has_star = value.is_some_and(|value| value.contains('*'));
        if let Some(entry) = fields.entry("share_threshold").filter(|_| is_shared && !has_star) {
            let what = match value {
                Some(_) => "`share_threshold` needs a `*` in the `value`",
                None => "`share_threshold` needs a `value` with a `*`",
            };
            let hint =
                "it makes all values that match, such as `value: files/*`, share one counter; else remove it";
            self.wrong(entry.key_mark, what, hint);
        }
    }

    fn check_first(&mut self, fields: &Fields, identity: Identity, seen: &mut HashMap<Identity, Mark>) {
        let shown = fields.entry("value").filter(|_| identity.1.is_some()).or(fields.entry("key"));
        let mark = shown.map_or(fields.mark, |entry| entry.value.mark);
        let Some(first) = seen.get(&identity) else {
            seen.insert(identity, mark);
            return;
        };
        let what = match &identity.1 {
            Some(value) => {
                format!(
                    "the descriptor {} with the value {} is listed twice",
                    quote(&identity.0),
                    quote(value)
                )
            }
            None => format!("the descriptor {} without a value is listed twice", quote(&identity.0)),
        };
        let problem = Problem::new(self.page.position(mark), what)
            .also(self.page.position(*first), "first listed here");
        self.problems.push(
            problem.hint("join the two: limits go into `rate_limits`, what follows into one `descriptors`"),
        );
    }

    /// The rule of a descriptor that has a limit.
    fn rule(&mut self, fields: &Fields) -> Option<Rule> {
        let flags = Rule {
            enabled: self.flag(fields, "enabled", true),
            shadow_mode: self.flag(fields, "shadow_mode", false),
            quota_mode: self.flag(fields, "quota_mode", false),
            detailed_metric: self.flag(fields, "detailed_metric", false),
            metadata: self.metadata(fields),
            limits: Vec::new(),
        };
        self.only_one(fields, &["rate_limit", "rate_limits"], "put all of them into the list `rate_limits`");
        let one = self.one_limit(fields);
        let several = self.field(fields, "rate_limits", Reader::limits).value();
        if let Some(entry) =
            fields.entry("enabled").filter(|_| fields.lacks("rate_limit") && fields.lacks("rate_limits"))
        {
            let hint = "write it beside the `rate_limit` that it switches; the levels below have their own";
            self.wrong(entry.key_mark, "`enabled` has no meaning without a `rate_limit`", hint);
        }
        let limits = several.or(one.map(|limit| vec![limit]))?;
        Some(Rule { limits, ..flags })
    }

    fn one_limit(&mut self, fields: &Fields) -> Option<RuleLimit> {
        let entry = fields.entry("rate_limit")?;
        if entry.value.is_null() {
            let hint = "write `unit` and `requests_per_unit` indented below it; to let all pass, remove it";
            self.wrong(entry.key_mark, "`rate_limit` is empty", hint);
            return None;
        }
        let fields = self.fields(&entry.value, &RATE_LIMIT, entry.key_mark)?;
        self.limit(&fields)
    }
}
