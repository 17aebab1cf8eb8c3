//! The schema lists what the reader accepts: no key more, no key less.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};
use tollgate_policy::{DefaultAlgorithm, Source, read_all, schema};

/// Rules with every key of every place. As JSON, so that they can be held against the schema as well.
fn every_key() -> Value {
    let numbers = json!({"requests_per_unit": 5, "unit": "day"});
    let limit = json!({
        "requests": 5, "period": "90s", "burst": 9, "algorithm": "token_bucket", "name": "a",
        "replaces": [{"name": "b"}], "overshoot": "deny", "enforce_percent": 50, "consistency": "leased", "strict": true,
        "fail_mode": "local", "local_fraction": 0.5, "tiers": {"pro": {"unlimited": true}, "free": numbers},
    });
    let others = json!([
        {"requests": 5, "unit": "hour", "consistency": "exact", "lease_when_hot": true},
        {"requests": 5, "calendar": "month", "zone": "UTC", "anchor_day": 15, "durable": true},
        {"requests": 5, "unit": "hour", "sub_windows": 8, "jitter": true},
        {"requests": 5, "period": "1m", "algorithm": "leaky_bucket", "max_wait": "1s"},
    ]);
    let tests = json!([
        {"name": "a", "present_match": true, "invert_match": true, "treat_missing_header_as_empty": true},
        {"name": "b", "exact_match": "x"}, {"name": "c", "prefix_match": "x"}, {"name": "d", "suffix_match": "x"},
        {"name": "e", "contains_match": "x"}, {"name": "f", "range_match": {"start": 0, "end": 1}},
        {"name": "g", "string_match": {"exact": "x", "ignore_case": true}},
        {"name": "h", "string_match": {"prefix": "x"}}, {"name": "i", "string_match": {"suffix": "x"}},
        {"name": "j", "string_match": {"contains": "x"}},
    ]);
    let parameters =
        json!([{"name": "a", "present_match": true}, {"name": "b", "string_match": {"exact": "x"}}]);
    let actions = json!([
        {"request_headers": {"header_name": "x-user", "descriptor_key": "user", "skip_if_absent": true}},
        {"query_parameters": {"query_parameter_name": "user", "descriptor_key": "user", "skip_if_absent": true}},
        {"remote_address": {}},
        {"masked_remote_address": {"v4_prefix_mask_len": 24, "v6_prefix_mask_len": 48}},
        {"generic_key": {"descriptor_key": "a", "descriptor_value": "b"}},
        {"header_value_match": {
            "descriptor_key": "a", "descriptor_value": "b", "expect_match": true, "headers": tests,
        }},
        {"query_parameter_value_match": {
            "descriptor_key": "a", "descriptor_value": "b", "expect_match": true, "query_parameters": parameters,
        }},
    ]);
    // The way that these actions lead.
    let met = ["a", "a", "a", "masked_remote_address", "remote_address"].into_iter();
    let met =
        met.fold(json!([]), |below, key| json!([{"key": key, "rate_limit": {"requests": 1, "period": "1s"}, "descriptors": below}]));
    json!({
        "forward_auth": [{"actions": actions}],
        "domain": "shop", "enabled": true, "tenant_key": "tenant", "tenants": {"acme": "pro"},
        "descriptors": [{
            "key": "tenant", "value": "a*", "rate_limit": limit, "shadow_mode": true, "quota_mode": true,
            "detailed_metric": true, "value_to_metric": true, "share_threshold": true, "enabled": true,
            "metadata": {"anything": ["goes"]}, "descriptors": [{"key": "path", "rate_limits": others}],
        }, met[0]],
        "policies": {
            "one": {"requests": 5, "unit": "hour", "shadow_mode": true, "enabled": true, "metadata": {}},
            "several": {"rate_limits": others},
        },
    })
}

/// Checks a value against a part of the schema, as far as our schema goes.
fn check(value: &Value, part: &Value, root: &Value, place: &str) {
    if let Some(reference) = part["$ref"].as_str() {
        let target =
            root.pointer(reference.trim_start_matches('#')).unwrap_or_else(|| panic!("no {reference}"));
        return check(value, target, root, place);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let kinds = part["type"].as_array().cloned().unwrap_or_else(|| vec![part["type"].clone()]);
    assert!(kinds.contains(&json!(kind)) || part["type"].is_null(), "{place} is {kind}, not {kinds:?}");
    if let Some(words) = part["enum"].as_array() {
        assert!(words.contains(value), "{place}: {value} is none of {words:?}");
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        let place = format!("{place}.{key}");
        match (part["properties"].get(key), &part["additionalProperties"]) {
            (Some(property), _) => check(inner, property, root, &place),
            (None, Value::Bool(false)) => panic!("{place} is not in the schema"),
            (None, Value::Null) => {}
            (None, additional) => check(inner, additional, root, &place),
        }
    }
    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
        check(item, &part["items"], root, &format!("{place}[{i}]"));
    }
}

/// Takes the keys that a value uses out of those that the schema lists.
fn strike(value: &Value, part: &Value, unused: &mut Value) {
    let Some(id) = part["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) else {
        for inner in value.as_object().into_iter().flatten().map(|(_, inner)| inner) {
            strike(inner, &part["additionalProperties"], unused);
        }
        for item in value.as_array().into_iter().flatten() {
            strike(item, &part["items"], unused);
        }
        return;
    };
    let properties = schema()["$defs"][id]["properties"].clone();
    for (key, inner) in value.as_object().into_iter().flatten() {
        unused[id]["properties"].as_object_mut().unwrap().remove(key);
        strike(inner, &properties[key], unused);
    }
}

#[test]
fn the_reader_accepts_every_key_that_the_schema_lists() {
    let (rules, schema) = (every_key(), schema());
    let read = read_all(&[Source::new("rules.json", rules.to_string())], DefaultAlgorithm::default());
    assert!(read.is_ok(), "{}", read.unwrap_err());
    check(&rules, &schema, &schema, "rules");

    let mut unused = schema["$defs"].clone();
    strike(&rules, &schema, &mut unused);
    // A tier and a policy list the keys of a limit, which are used there.
    let elsewhere = ["tier", "policy"];
    let ids = unused.as_object().unwrap().keys().filter(|id| !elsewhere.contains(&id.as_str()));
    for id in ids {
        let left: Vec<_> = unused[id]["properties"].as_object().unwrap().keys().cloned().collect();
        let expected: &[&str] = if id == "rate_limit" { &["requests_per_unit", "unlimited"] } else { &[] };
        assert_eq!(left, expected, "{id}");
    }
}

#[test]
fn every_key_is_described_and_no_other_is_allowed() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for (id, definition) in schema["$defs"].as_object().unwrap() {
        assert_eq!(definition["additionalProperties"], json!(false), "{id}");
        for (key, property) in definition["properties"].as_object().unwrap() {
            let description = property["description"].as_str().unwrap_or_default();
            assert!(description.ends_with('.') && description.len() > 10, "{id}.{key}: {description}");
        }
    }
    assert_eq!(schema["$defs"]["descriptor"]["required"], json!(["key"]));
    let units = &schema["$defs"]["rate_limit"]["properties"]["unit"]["enum"];
    assert_eq!(units, &json!(["second", "minute", "hour", "day", "week", "month", "year"]));
    let length_max = |id: &str, key: &str| schema["$defs"][id]["properties"][key]["maxLength"].as_u64();
    assert_eq!(length_max("file", "domain"), Some(256));
    assert_eq!(length_max("descriptor", "key"), Some(256));
    assert_eq!(length_max("descriptor", "value"), Some(1_024));
    assert_eq!(length_max("rate_limit", "name"), Some(128));
}
