//! The format as a JSON schema, for editors that complete and check as a person types.

use serde_json::{Map, Value, json};

use crate::keys::{Key, Kind, NAME_CHARS_MAX, ROOT, Table, tables};

/// The JSON Schema (2020-12) of a file of rules, made from the tables that the reader itself goes by.
pub fn schema() -> Value {
    let definitions: Map<String, Value> =
        tables().map(|table| (table.id.to_owned(), table_schema(table))).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tollgate rules",
        "description": "A domain with its rules, or named policies, or both.",
        "$ref": reference(&ROOT),
        "$defs": definitions,
    })
}

fn reference(table: &Table) -> String {
    format!("#/$defs/{}", table.id)
}

fn table_schema(table: &Table) -> Value {
    let properties: Map<String, Value> =
        table.keys().map(|key| (key.name.to_owned(), key_schema(key))).collect();
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !table.required.is_empty() {
        schema["required"] = json!(table.required);
    }
    schema
}

fn key_schema(key: &Key) -> Value {
    let mut schema = kind_schema(key.kind);
    schema["description"] = json!(key.doc);
    schema
}

fn kind_schema(kind: Kind) -> Value {
    match kind {
        Kind::Text => json!({ "type": ["string", "number", "boolean", "null"] }),
        Kind::TextUpTo(chars_max) => {
            json!({ "type": ["string", "number", "boolean", "null"], "maxLength": chars_max })
        }
        Kind::Name => {
            json!({ "type": ["string", "number", "boolean", "null"], "pattern": "^[ -~]*$", "maxLength": NAME_CHARS_MAX })
        }
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Whole(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Fraction => json!({ "type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.01 }),
        Kind::Duration => json!({ "type": "string", "pattern": "^([0-9]+(ns|us|ms|s|m|h|d|w))+$" }),
        Kind::Choice(words) => json!({ "type": "string", "enum": words }),
        Kind::One(table) => json!({ "$ref": reference(table) }),
        Kind::ListOf(table) => json!({ "type": ["array", "null"], "items": { "$ref": reference(table) } }),
        Kind::MapOf(table) => {
            json!({ "type": ["object", "null"], "additionalProperties": { "$ref": reference(table) } })
        }
        Kind::MapOfText => {
            json!({ "type": ["object", "null"], "additionalProperties": { "type": ["string", "number", "boolean"] } })
        }
        Kind::Anything => json!({ "type": ["object", "null"] }),
    }
}
