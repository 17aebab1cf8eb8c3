//! What is different between two JSON documents, in words: one line for every value that has come, gone or changed.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::table::shown;

/// The longest value that is shown whole.
const VALUE_CHARS_MAX: usize = 80;

/// The lines, in the order of the later document; `null` is as good as nothing.
pub(crate) fn lines(before: &Value, after: &Value) -> Vec<String> {
    let (old, new) = (flat(before), flat(after));
    let mut lines = Vec::new();
    for (path, value) in &new {
        match old.get(path) {
            Some(was) if was == value => {}
            Some(was) => lines.push(format!("{}: {} -> {}", shown(path), short(was), short(value))),
            None => lines.push(format!("{}: {} (new)", shown(path), short(value))),
        }
    }
    let known: BTreeSet<&String> = new.keys().collect();
    let gone = old.iter().filter(|(path, _)| !known.contains(path));
    lines.extend(gone.map(|(path, was)| format!("{}: (gone, was {})", shown(path), short(was))));
    lines
}

/// Every value that is no list and no mapping, by the way to it.
fn flat(value: &Value) -> Map<String, Value> {
    let mut found = Map::new();
    // JSON that was read is at most 128 deep.
    descend(value, "", &mut found);
    found
}

fn descend(value: &Value, path: &str, found: &mut Map<String, Value>) {
    match value {
        Value::Null => {}
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                descend(value, &path, found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (i, value) in items.iter().enumerate() {
                descend(value, &format!("{path}[{i}]"), found);
            }
        }
        Value::Object(_) | Value::Array(_) if path.is_empty() => {}
        other => {
            found.insert(path.to_owned(), other.clone());
        }
    }
}

fn short(value: &Value) -> String {
    let text = match value {
        Value::String(text) => shown(text),
        other => other.to_string(),
    };
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
