//! What filters behind the rate limit filter are told: the question, and the metadata of the rules that let it pass.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use serde_json::Value as Json;
use tollgate::{Status, Verdict};

use super::decode::text;
use super::encode::is_over;
use super::wire::{RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitUnit};

type Fields = BTreeMap<String, Value>;

/// The metadata of an answer, with the names that envoyproxy/ratelimit gives its parts.
pub(super) fn dynamic_metadata(message: &RateLimitRequest, verdict: &Verdict) -> Struct {
    let mut fields = Fields::new();
    fields.insert("domain".to_owned(), string(message.domain.clone()));
    fields.insert("descriptors".to_owned(), list(message.descriptors.iter().map(descriptor)));
    if message.hits_addend != 0 {
        fields.insert("hitsAddend".to_owned(), number(f64::from(message.hits_addend)));
    }
    let metadata = passed_metadata(verdict);
    if !metadata.is_empty() {
        fields.insert("metadata".to_owned(), structure(metadata));
    }
    Struct { fields }
}

fn descriptor(sent: &RateLimitDescriptor) -> Value {
    let mut fields = Fields::new();
    let entries = sent.entries.iter().map(|entry| string(format!("{}={}", entry.key, text(&entry.value))));
    fields.insert("entries".to_owned(), list(entries));
    if let Some(limit) = sent.limit {
        fields.insert("limit".to_owned(), string(own_limit(limit)));
    }
    if let Some(cost) = sent.hits_addend {
        #[allow(clippy::cast_precision_loss)] // Numbers of this kind have no more precision.
        fields.insert("hitsAddend".to_owned(), number(cost as f64));
    }
    structure(fields)
}

/// As protobuf's text format has it, which leaves zeros out.
fn own_limit(limit: RateLimitOverride) -> String {
    let units =
        (limit.requests_per_unit != 0).then(|| format!("requests_per_unit:{}", limit.requests_per_unit));
    let unit = match RateLimitUnit::try_from(limit.unit) {
        Ok(RateLimitUnit::Unknown) => None,
        Ok(unit) => Some(format!("unit:{}", unit.as_str_name())),
        Err(_) => Some(format!("unit:{}", limit.unit)),
    };
    units.into_iter().chain(unit).collect::<Vec<_>>().join(" ")
}

/// The metadata of all rules whose descriptors are not over.
fn passed_metadata(verdict: &Verdict) -> Fields {
    let mut fields = Fields::new();
    for status in verdict.statuses() {
        let Status::Limited(range) = status else { continue };
        // The limits of one descriptor all come from the rule that it has met.
        let place = verdict.rulings().get(range.start).and_then(|ruling| verdict.place(ruling));
        if let Some(metadata) = place.and_then(|place| place.rule().metadata.as_ref())
            && !is_over(verdict, status)
        {
            merge(&mut fields, metadata);
        }
    }
    fields
}

/// Adds what is not there yet. Where both sides have fields of their own below the same name, those are merged in turn.
fn merge(fields: &mut Fields, more: &serde_json::Map<String, Json>) {
    for (name, json) in more {
        match fields.entry(name.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(value(json));
            }
            Entry::Occupied(mut occupied) => {
                if let (Some(Kind::StructValue(below)), Json::Object(more)) =
                    (&mut occupied.get_mut().kind, json)
                {
                    merge(&mut below.fields, more);
                }
            }
        }
    }
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value { kind: Some(Kind::NullValue(0)) },
        Json::Bool(bool) => Value { kind: Some(Kind::BoolValue(*bool)) },
        Json::Number(json) => number(json.as_f64().unwrap_or_default()),
        Json::String(json) => string(json.clone()),
        Json::Array(values) => list(values.iter().map(value)),
        Json::Object(map) => structure(map.iter().map(|(name, json)| (name.clone(), value(json))).collect()),
    }
}

fn string(value: String) -> Value {
    Value { kind: Some(Kind::StringValue(value)) }
}

fn number(value: f64) -> Value {
    Value { kind: Some(Kind::NumberValue(value)) }
}

fn list(values: impl Iterator<Item = Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values: values.collect() })) }
}

fn structure(fields: Fields) -> Value {
    Value { kind: Some(Kind::StructValue(Struct { fields })) }
}
