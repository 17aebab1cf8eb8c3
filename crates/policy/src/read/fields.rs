//! A mapping whose keys are those of a table.

use std::rc::Rc;

use super::Reader;
use super::guess::Guess;
use crate::keys::Table;
use crate::problem::{Mark, quote};
use crate::yaml::{Content, Entry, Node};

/// The entries of a mapping. Keys that do not belong there have been told of and left out.
pub(super) struct Fields {
    pub(super) table: &'static Table,
    /// Where something is missing, if it is: the key above the mapping, or its first line.
    pub(super) mark: Mark,
    entries: Rc<[Entry]>,
    /// Keys that somebody tried to write.
    misspelled: Vec<&'static str>,
    /// Whether keys were left out.
    has_unknown: bool,
}

/// What became of a key's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<T> {
    Absent,
    /// It is there, and is wrong, which has been said.
    Broken,
    Given(Given<T>),
}

/// A value, the key that gives it, and where both stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<T> {
    pub(super) value: T,
    pub(super) key: &'static str,
    pub(super) key_mark: Mark,
    pub(super) mark: Mark,
}

impl Fields {
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| &*entry.key == key)
    }

    /// Whether the key is there, with any value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Whether the key is neither there nor misspelled, which has been told already.
    pub(super) fn lacks(&self, key: &str) -> bool {
        !self.has(key) && !self.misspelled.contains(&key)
    }

    /// Whether no key was left out: then what is not there was not written either.
    pub(super) fn knows_all(&self) -> bool {
        !self.has_unknown
    }

    /// The entries in the order of the text.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl<T> Found<T> {
    pub(super) fn given(&self) -> Option<&Given<T>> {
        match self {
            Found::Given(given) => Some(given),
            _ => None,
        }
    }

    pub(super) fn value(self) -> Option<T> {
        match self {
            Found::Given(given) => Some(given.value),
            _ => None,
        }
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Found::Absent)
    }

    pub(super) fn or(self, other: Found<T>) -> Found<T> {
        if self.is_absent() { other } else { self }
    }
}

impl Reader<'_, '_> {
    /// The mapping that `node` is, with the keys of `table`. `mark` is where anything missing is told.
    pub(super) fn fields(&mut self, node: &Node, table: &'static Table, mark: Mark) -> Option<Fields> {
        let Content::Map(entries) = &node.content else {
            let title = table.title;
            match &node.content {
                _ if node.is_null() => self.wrong(mark, format!("{title} says nothing"), example(table)),
                Content::List(_) if table.id == "rate_limit" => {
                    self.wrong(
                        node.mark,
                        format!("{title} is one limit, not a list"),
                        "for several, write `rate_limits:`",
                    );
                }
                _ => {
                    let what = format!("{title} must be a mapping, not {}", node.kind());
                    self.wrong(node.mark, what, example(table));
                }
            }
            return None;
        };
        let unknown = |entry: &Entry| table.key(&entry.key).is_none();
        let mut misspelled = Vec::new();
        for entry in entries.iter().filter(|entry| unknown(entry)) {
            if self.is_only_counted(entry.key_mark) {
                continue;
            }
            let look = || Guess { meant: table.meant(&entry.key), hint: table.advice(&entry.key) };
            let guess = self.guesses.guess(table.id, &entry.key, look, || table.key_names());
            misspelled.extend(guess.meant);
            let what = if guess.hint.starts_with('`') {
                format!("{} does not belong here", quote(&entry.key))
            } else {
                format!("unknown key {}", quote(&entry.key))
            };
            self.wrong(entry.key_mark, what, guess.hint);
        }
        let has_unknown = entries.iter().any(unknown);
        let entries = if has_unknown {
            entries.iter().filter(|entry| !unknown(entry)).cloned().collect()
        } else {
            Rc::clone(entries)
        };
        Some(Fields { table, mark, entries, misspelled, has_unknown })
    }

    /// The value of a key, by a reader for its kind. A key without a value is wrong.
    pub(super) fn field<T>(
        &mut self,
        fields: &Fields,
        key: &'static str,
        read: impl FnOnce(&mut Self, &Entry) -> Option<T>,
    ) -> Found<T> {
        debug_assert!(fields.table.key(key).is_some(), "{key} is not in the table of {}", fields.table.title);
        let Some(entry) = fields.entry(key) else { return Found::Absent };
        if entry.value.is_null() {
            self.wrong(entry.key_mark, format!("`{key}` has no value"), "give it one, or remove the key");
            return Found::Broken;
        }
        match read(self, entry) {
            Some(value) => {
                Found::Given(Given { value, key, key_mark: entry.key_mark, mark: entry.value.mark })
            }
            None => Found::Broken,
        }
    }

    /// As [`Reader::field`], where a key without a value is as good as none.
    pub(super) fn optional<T>(
        &mut self,
        fields: &Fields,
        key: &'static str,
        read: impl FnOnce(&mut Self, &Entry) -> Option<T>,
    ) -> Found<T> {
        match fields.entry(key) {
            Some(entry) if entry.value.is_null() => Found::Absent,
            _ => self.field(fields, key, read),
        }
    }

    /// The items of a list.
    pub(super) fn list(&mut self, entry: &Entry) -> Option<Rc<[Node]>> {
        if let Content::List(items) = &entry.value.content {
            return Some(Rc::clone(items));
        }
        let what = format!("`{}` must be a list, not {}", entry.key, entry.value.kind());
        self.wrong(entry.value.mark, what, "begin each of its entries with `- `");
        None
    }

    /// The items of a list, so many at most.
    pub(super) fn list_up_to(&mut self, entry: &Entry, items_max: usize) -> Option<Rc<[Node]>> {
        let items = self.list(entry)?;
        if items.len() <= items_max {
            return Some(items);
        }
        let what = format!("`{}` may have at most {items_max} entries, not {}", entry.key, items.len());
        self.wrong(entry.key_mark, what, "remove some: every request pays for all of them");
        None
    }

    /// The entries of a mapping with keys of a person's own.
    pub(super) fn map(&mut self, entry: &Entry, example: &str) -> Option<Rc<[Entry]>> {
        if let Content::Map(entries) = &entry.value.content {
            return Some(Rc::clone(entries));
        }
        let what = format!("`{}` must be a mapping, not {}", entry.key, entry.value.kind());
        self.wrong(entry.value.mark, what, format!("write it as {example}"));
        None
    }
}

/// What one of the table looks like.
pub(super) fn example(table: &Table) -> &'static str {
    match table.id {
        "file" => "write `domain: NAME`, and its rules under `descriptors:`",
        "descriptor" => "write `- key: NAME`, with its other keys indented below it",
        "replaced" => "write `- name: NAME`",
        "tier" => "write `NAME: {requests: 100}`",
        "recipe" => "write `- actions:`, with its actions as a list below it",
        "action" => "write `- remote_address: {}`, or another of the actions",
        "request_headers" => "write `{header_name: x-user, descriptor_key: user}`",
        "query_parameters" => "write `{query_parameter_name: user, descriptor_key: user}`",
        "remote_address" => "write `remote_address: {}`",
        "masked_remote_address" => "write `masked_remote_address: {v4_prefix_mask_len: 24}`",
        "generic_key" => "write `generic_key: {descriptor_value: NAME}`",
        "header_value_match" => "write `descriptor_value: NAME`, and `headers` as a list, indented below it",
        "query_parameter_value_match" => {
            "write `descriptor_value: NAME`, and `query_parameters` as a list, indented below it"
        }
        "header_matcher" | "query_parameter_matcher" => "write `- name: NAME`, with what it must be below it",
        "string_match" => "write `string_match: {exact: TEXT}`",
        "range_match" => "write `range_match: {start: 1, end: 10}`",
        _ => "write `unit: minute` and `requests_per_unit: 100`, indented below it",
    }
}
