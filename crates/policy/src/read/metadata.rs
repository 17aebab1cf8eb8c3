//! Metadata: whatever mapping a person wrote, as JSON.

use serde_json::{Map, Number, Value};

use super::Reader;
use super::fields::Fields;
use crate::problem::quote;
use crate::yaml::{Content, Entry, Node, Plain, Scalar, plain};

impl Reader<'_, '_> {
    /// What is to be returned along with the answer. An empty mapping is as good as none.
    pub(super) fn metadata(&mut self, fields: &Fields) -> Option<Map<String, Value>> {
        let entries =
            self.optional(fields, "metadata", |reader, entry| reader.map(entry, "`metadata: {owner: shop}`"));
        let map = self.json_map(&entries.value()?);
        (!map.is_empty()).then_some(map)
    }

    fn json_map(&mut self, entries: &[Entry]) -> Map<String, Value> {
        entries.iter().map(|entry| (entry.key.as_ref().to_owned(), self.json(&entry.value))).collect()
    }

    fn json(&mut self, node: &Node) -> Value {
        match &node.content {
            Content::Map(entries) => Value::Object(self.json_map(entries)),
            Content::List(items) => items.iter().map(|item| self.json(item)).collect(),
            Content::Scalar(scalar) if !scalar.plain => Value::from(&*scalar.text),
            Content::Scalar(scalar) => self.json_plain(scalar, node),
        }
    }

    fn json_plain(&mut self, scalar: &Scalar, node: &Node) -> Value {
        match plain(&scalar.text) {
            Plain::Null => Value::Null,
            Plain::Boolean(value) => Value::from(value),
            Plain::Whole(number) => {
                let exact = u64::try_from(number)
                    .map(Number::from)
                    .or_else(|_| i64::try_from(number).map(Number::from));
                exact.map_or_else(|_| Value::from(&*scalar.text), Value::Number)
            }
            Plain::Float(number) => {
                Number::from_f64(number).map_or_else(|| self.no_json(scalar, node), Value::Number)
            }
            Plain::Text => Value::from(&*scalar.text),
        }
    }

    fn no_json(&mut self, scalar: &Scalar, node: &Node) -> Value {
        let what = format!("metadata cannot carry {}", quote(&scalar.text));
        self.wrong(node.mark, what, "JSON has no such number; write it as text, in quotes");
        Value::Null
    }
}
