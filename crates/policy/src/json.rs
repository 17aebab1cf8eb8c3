//! Rules as JSON, for those that carry no YAML. Read again, the JSON means what the YAML meant.
//!
//! YAML leaves open what a word without quotes is until somebody asks: `404` is a number in one place and text in another. JSON has
//! to say it. A word that JSON writes in the same way is said to be what it looks like, since readers of text take it as it is
//! written; every other one is text, unless it stands where the keys of rules want something else.

use serde_json::{Map, Number, Value};

use crate::keys::{Kind, tables};
use crate::problem::{Page, Problems};
use crate::source::{Source, too_large};
use crate::yaml::{self, Content, Node, Plain, plain};

/// What the text says, whatever it is: aliases and merges are resolved. Nothing at all is `null`.
pub fn to_json(source: &Source) -> Result<Value, Problems> {
    let mut problems = Problems::new();
    if source.text.len() > Source::TEXT_BYTES_MAX {
        problems.push(too_large(&source.name));
        return Err(problems);
    }
    let text = source.text.strip_prefix('\u{feff}').unwrap_or(&source.text);
    let page = Page::new(&source.name, text);
    let root = yaml::parse(text, &page, &mut problems);
    problems.or(root.map_or(Value::Null, |root| json(&root, "")))
}

/// A node that stands behind this key.
fn json(node: &Node, key: &str) -> Value {
    match &node.content {
        Content::List(items) => items.iter().map(|item| json(item, key)).collect(),
        Content::Map(entries) => {
            let entries = entries.iter().map(|entry| (entry.key.to_string(), json(&entry.value, &entry.key)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        Content::Scalar(scalar) if !scalar.plain => Value::from(&*scalar.text),
        Content::Scalar(scalar) => word(&scalar.text, key),
    }
}

fn word(text: &str, key: &str) -> Value {
    let value = match plain(text) {
        Plain::Null => return Value::Null,
        Plain::Boolean(value) => Value::from(value),
        Plain::Whole(number) => u64::try_from(number)
            .map(Value::from)
            .or_else(|_| i64::try_from(number).map(Value::from))
            .unwrap_or_default(),
        Plain::Float(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
        // As in YAML 1.1, which envoyproxy/ratelimit reads.
        Plain::Text => match text.to_ascii_lowercase().as_str() {
            "yes" | "on" | "y" => Value::from(true),
            "no" | "off" | "n" => Value::from(false),
            _ => return Value::from(text),
        },
    };
    let is_wanted =
        || wants(key, |kind| matches!(kind, Kind::Whole(..) | Kind::Fraction) == value.is_number());
    let written = value.to_string();
    if written == text || (!value.is_null() && is_wanted()) { value } else { Value::from(text) }
}

/// Whether a key of rules wants something that is no text, of a kind such as this.
fn wants(key: &str, is_such: impl Fn(Kind) -> bool) -> bool {
    let keys = tables().flat_map(crate::keys::Table::keys).filter(|known| known.name == key);
    keys.map(|known| known.kind)
        .any(|kind| matches!(kind, Kind::Boolean | Kind::Whole(..) | Kind::Fraction) && is_such(kind))
}

#[cfg(test)]
mod tests;
