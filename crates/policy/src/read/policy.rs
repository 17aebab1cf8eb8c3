//! What a place asks: the one limit or the several limits of a descriptor, and named policies.

use std::collections::HashMap;
use std::rc::Rc;

use super::Reader;
use super::fields::Fields;
use crate::keys::{POLICY, RATE_LIMIT};
use crate::problem::{Mark, Position, Problem, quote};
use crate::rule::{Rule, RuleLimit};
use crate::spec::PolicySpec;
use crate::yaml::{Content, Entry};

impl Reader<'_, '_> {
    /// The limits of `rate_limits`.
    pub(super) fn limits(&mut self, entry: &Entry) -> Option<Vec<RuleLimit>> {
        let items = self.list(entry)?;
        if items.is_empty() {
            self.wrong(entry.key_mark, "`rate_limits` is empty", "give it at least one limit, or remove it");
            return None;
        }
        let mut limits = Vec::with_capacity(items.len());
        let mut names = HashMap::new();
        for item in items.iter() {
            let Some(fields) = self.fields(item, &RATE_LIMIT, item.mark) else { continue };
            limits.extend(self.limit(&fields));
            self.check_first_name(&fields, &mut names);
        }
        Some(limits)
    }

    /// A name tells a limit's counters from those of the others of its list. `seen` has where names stand, and their limits.
    fn check_first_name(&mut self, fields: &Fields, seen: &mut HashMap<Rc<str>, (Mark, Mark)>) {
        let Some(entry) = fields.entry("name").filter(|entry| !entry.value.is_null()) else { return };
        let Content::Scalar(name) = &entry.value.content else { return };
        if name.text.is_empty() {
            return;
        }
        let marks = (entry.value.mark, fields.mark);
        let Some(first) = seen.get(&name.text) else {
            seen.insert(Rc::clone(&name.text), marks);
            return;
        };
        // By an alias, both may have their name from one line; then it is the limits that are shown.
        let (mark, first) = if marks.0 == first.0 { (marks.1, first.1) } else { (marks.0, first.0) };
        let what = format!("two limits of one list have the name {}", quote(&name.text));
        let problem = Problem::new(self.page.position(mark), what)
            .also(self.page.position(first), "the first is here")
            .hint("they would share one counter: give each a name of its own");
        self.problems.push(problem);
    }

    /// A key that is true, false, or not there.
    pub(super) fn flag(&mut self, fields: &Fields, key: &'static str, default: bool) -> bool {
        self.field(fields, key, Reader::boolean).value().unwrap_or(default)
    }

    /// The policies of a file, and where their names stand.
    pub(super) fn policies(&mut self, entries: &[Entry]) -> (Vec<PolicySpec>, Vec<Position>) {
        let mut specs = Vec::with_capacity(entries.len());
        let mut positions = Vec::with_capacity(entries.len());
        for entry in entries {
            if entry.key.is_empty() {
                self.wrong(
                    entry.key_mark,
                    "a policy needs a name",
                    "write `NAME: {requests: 100, period: 1m}`",
                );
            }
            let is_named = self.check_name(&entry.key, entry.key_mark);
            if let Some(rule) = self.policy(entry).filter(|_| is_named) {
                specs.push(PolicySpec { name: entry.key.as_ref().to_owned(), rule });
                positions.push(self.page.position(entry.key_mark));
            }
        }
        (specs, positions)
    }

    /// What a policy asks.
    pub(super) fn policy(&mut self, entry: &Entry) -> Option<Rule> {
        let fields = self.fields(&entry.value, &POLICY, entry.key_mark)?;
        let limits = if let Some(list) = fields.entry("rate_limits") {
            self.check_moved(&fields, list);
            self.field(&fields, "rate_limits", Reader::limits).value()?
        } else {
            vec![self.limit(&fields)?]
        };
        Some(Rule {
            enabled: self.flag(&fields, "enabled", true),
            shadow_mode: self.flag(&fields, "shadow_mode", false),
            quota_mode: false,
            detailed_metric: false,
            metadata: self.metadata(&fields),
            limits,
        })
    }

    /// Beside `rate_limits`, a policy has no limit of its own.
    fn check_moved(&mut self, fields: &Fields, list: &Entry) {
        for entry in fields.entries().iter().filter(|entry| RATE_LIMIT.key(&entry.key).is_some()) {
            let what = format!("{} stands beside `rate_limits`", quote(&entry.key));
            let problem = Problem::new(self.page.position(entry.key_mark), what)
                .also(self.page.position(list.key_mark), "the list of limits")
                .hint("move it into an entry of the list");
            self.problems.push(problem);
        }
    }
}
