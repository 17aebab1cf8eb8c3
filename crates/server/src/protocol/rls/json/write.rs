//! Answers in protobuf's JSON form: names in camel case, enums by name, durations as seconds, and nothing that has its default.
//!
//! A body for clients is left out, as are header fields that go to the service behind a proxy: there is no proxy here.

use prost_types::value::Kind;
use serde_json::{Map, Number, Value as Json, json};

use crate::protocol::rls::wire::{DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse};

/// Writes an answer.
pub(super) fn response(response: &RateLimitResponse) -> String {
    let mut fields = Map::new();
    put(&mut fields, "overallCode", json!(response.overall_code().as_str_name()));
    put(&mut fields, "statuses", response.statuses.iter().map(status).collect());
    put(&mut fields, "responseHeadersToAdd", response.response_headers_to_add.iter().map(header).collect());
    if let Some(metadata) = &response.dynamic_metadata {
        fields.insert("dynamicMetadata".to_owned(), structure(metadata));
    }
    Json::Object(fields).to_string()
}

fn status(status: &DescriptorStatus) -> Json {
    let mut fields = Map::new();
    put(&mut fields, "code", json!(status.code().as_str_name()));
    if let Some(limit) = &status.current_limit {
        fields.insert("currentLimit".to_owned(), current_limit(limit));
    }
    put(&mut fields, "limitRemaining", json!(status.limit_remaining));
    if let Some(duration) = &status.duration_until_reset {
        // Only whole seconds are ever sent.
        put(&mut fields, "durationUntilReset", json!(format!("{}s", duration.seconds)));
    }
    Json::Object(fields)
}

fn current_limit(limit: &RateLimit) -> Json {
    let mut fields = Map::new();
    put(&mut fields, "name", json!(limit.name));
    put(&mut fields, "requestsPerUnit", json!(limit.requests_per_unit));
    if limit.unit != 0 {
        put(&mut fields, "unit", json!(limit.unit().as_str_name()));
    }
    Json::Object(fields)
}

fn header(header: &HeaderValue) -> Json {
    let mut fields = Map::new();
    put(&mut fields, "key", json!(header.key));
    put(&mut fields, "value", json!(header.value));
    Json::Object(fields)
}

/// Adds a field unless it has its default.
fn put(fields: &mut Map<String, Json>, name: &str, value: Json) {
    let is_default = match &value {
        Json::Number(number) => number.as_u64() == Some(0),
        Json::String(string) => string.is_empty(),
        Json::Array(values) => values.is_empty(),
        Json::Null | Json::Bool(_) | Json::Object(_) => false,
    };
    if !is_default {
        fields.insert(name.to_owned(), value);
    }
}

/// Values of any type, under names.
pub(in crate::protocol::rls) fn structure(structure: &prost_types::Struct) -> Json {
    structure.fields.iter().map(|(name, value)| (name.clone(), free(value))).collect()
}

/// A value of any type, which JSON has a form for.
fn free(value: &prost_types::Value) -> Json {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::BoolValue(bool)) => Json::Bool(*bool),
        Some(Kind::NumberValue(value)) => number(*value),
        Some(Kind::StringValue(string)) => Json::String(string.clone()),
        Some(Kind::ListValue(list)) => list.values.iter().map(free).collect(),
        Some(Kind::StructValue(below)) => structure(below),
    }
}

/// A whole number is written without a fraction, as far as numbers of this kind are exact.
fn number(value: f64) -> Json {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0; // 2 to the power of 53
    if value.fract() == 0.0 && value.abs() <= EXACT_MAX {
        #[allow(clippy::cast_possible_truncation)] // It is in range and whole.
        return Json::from(value as i64);
    }
    Number::from_f64(value).map_or(Json::Null, Json::Number)
}
