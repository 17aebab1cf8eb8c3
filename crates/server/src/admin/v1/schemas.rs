//! What bodies look like, for the description of the API. Rules are described by the tables that their reader goes by.

use serde_json::{Map, Value, json};

use super::openapi::reference;

/// All schemas by name.
pub(super) fn all() -> Value {
    let mut all = Map::new();
    for schemas in [common(), policies(), quotas(), usage(), keys(), switches(), fleet(), rules()] {
        if let Value::Object(schemas) = schemas {
            all.extend(schemas);
        }
    }
    Value::Object(all)
}

/// An object that has all of these, and nothing else.
#[allow(clippy::needless_pass_by_value)] // It is made for this call, wherever it comes from.
fn object(properties: Value) -> Value {
    let names: Vec<String> = properties.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    optional(&names, properties)
}

/// An object that has some of these, and nothing else.
#[allow(clippy::needless_pass_by_value)]
fn optional(required: &[impl AsRef<str>], properties: Value) -> Value {
    let required: Vec<&str> = required.iter().map(AsRef::as_ref).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn page_of(schema: &str) -> Value {
    let items = json!({ "type": "array", "items": reference(schema) });
    object(
        json!({ "items": items, "next": { "type": ["string", "null"], "description": "Where the next page begins: send it as `after`." } }),
    )
}

fn moment() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

fn moment_or_null() -> Value {
    json!({ "type": ["string", "null"], "format": "date-time" })
}

fn whole() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn texts() -> Value {
    json!({ "type": "array", "items": text() })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

/// The same properties, with the origin of a document.
fn with_origin(mut properties: Value) -> Value {
    properties["version"] = whole();
    properties["changed_at"] = moment_or_null();
    properties["changed_by"] = json!({ "type": ["string", "null"] });
    properties
}

fn common() -> Value {
    let mistake = optional(
        &["message"],
        json!({ "line": whole(), "column": whole(), "message": text(), "hint": text() }),
    );
    json!({
        "Description": { "type": "object" },
        "Done": object(json!({ "version": whole() })),
        "Reset": object(json!({ "version": whole(), "subjects": whole() })),
        "Problem": optional(&["type", "title", "status", "detail"], json!({
            "type": text(),
            "title": text(),
            "status": { "type": "integer" },
            "detail": text(),
            "errors": { "type": "array", "items": mistake },
        })),
    })
}

fn policies() -> Value {
    json!({
        "PolicyBody": { "anyOf": [reference("rules_policy"), reference("rules_domain")] },
        "Policy": object(with_origin(json!({
            "id": text(),
            "policy": { "type": "object" },
            "replaces": { "type": ["string", "null"], "description": "The file of this server that the document replaces." },
        }))),
        "ExplainQuestion": { "anyOf": [
            optional(&["policy"], json!({ "policy": text() })),
            optional(&["domain", "entries"], json!({
                "domain": text(),
                "entries": { "type": "array", "maxItems": 32, "items": object(json!({ "key": text(), "value": text() })) },
            })),
        ] },
        "Explanation": object(json!({
            "lines": texts(),
            "meets_a_limit": flag(),
            "source": { "type": ["string", "null"], "description": "The file that is in force, or `database`." },
            "replaces": { "type": ["string", "null"], "description": "The file that the database replaces." },
        })),
        "PolicyPage": page_of("Policy"),
    })
}

/// The schema of rule files, its parts under names of ours.
fn rules() -> Value {
    let Value::Object(mut schema) = tollgate::policy::schema() else { return Value::Null };
    let Some(Value::Object(parts)) = schema.remove("$defs") else { return Value::Null };
    let mut renamed: Map<String, Value> =
        parts.into_iter().map(|(name, part)| (format!("rules_{name}"), renamed(part))).collect();
    if let Some(Value::Object(mut domain)) = renamed.remove("rules_file") {
        if let Some(Value::Object(properties)) = domain.get_mut("properties") {
            properties.remove("policies");
            properties
                .insert("domain".to_owned(), json!({ "type": "string", "minLength": 1, "maxLength": 256 }));
        }
        domain.insert("required".to_owned(), json!(["domain"]));
        renamed.insert("rules_domain".to_owned(), Value::Object(domain));
    }
    Value::Object(renamed)
}

fn renamed(part: Value) -> Value {
    match part {
        Value::Object(fields) => {
            let field = |(name, value): (String, Value)| match value
                .as_str()
                .and_then(|text| text.strip_prefix("#/$defs/"))
            {
                Some(part) if name == "$ref" => (name, format!("#/components/schemas/rules_{part}").into()),
                _ => (name, renamed(value)),
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(renamed).collect()),
        other => other,
    }
}

fn quotas() -> Value {
    let word = json!({ "type": ["string", "number", "boolean"] });
    let overrides = json!({ "type": "array", "items": { "type": "object" } });
    let terms = json!({ "tier": {}, "overrides": {}, "effective_at": moment_or_null(), "expires_at": moment_or_null() });
    let mut told = terms.clone();
    told["tier"] = json!({ "type": ["string", "number", "boolean", "null"] });
    told["overrides"] = overrides.clone();
    let mut sent = terms;
    sent["tier"] = json!({ "type": ["string", "number", "boolean", "null"], "description": "The tenant's tier, in the place of the one that the rules give to it." });
    sent["overrides"] = json!({ "type": ["array", "null"], "items": reference("Override"), "description": "Other numbers for some of its limits." });
    let mut quota = with_origin(told.clone());
    quota["api_key"] = text();
    quota["in_force"] = object(json!({ "tier": told["tier"], "overrides": overrides }));
    quota["scheduled"] = json!({ "anyOf": [{ "type": "null" }, object(told)] });
    let mut quota = object(quota);
    quota["properties"]["warnings"] = texts();
    json!({
        "QuotaBody": optional(&[""; 0], sent),
        "Override": optional(&[""; 0], json!({
            "descriptor": {
                "description": "The entries besides the tenant's own: KEY:VALUE, KEY for any value, or a list of such.",
                "anyOf": [word, { "type": "array", "items": word }],
            },
            "domain": { "type": ["string", "number", "boolean", "null"] },
            "policy": { "type": ["string", "number", "boolean", "null"], "description": "A named policy, asked with the tenant as the key; instead of a descriptor." },
            "limit": { "type": ["string", "number", "boolean", "null"], "description": "Which of the rule's limits, by name." },
            "requests_per_unit": { "type": ["integer", "null"], "minimum": 0 },
            "unit": { "type": ["string", "null"], "enum": ["second", "minute", "hour", "day", "week", "month", "year", null] },
            "requests": { "type": ["integer", "null"], "minimum": 0 },
            "period": { "type": ["string", "null"] },
            "burst": { "type": ["integer", "null"], "minimum": 1 },
            "unlimited": { "type": ["boolean", "null"] },
        })),
        "Quota": quota,
        "QuotaPage": page_of("Quota"),
    })
}

fn usage() -> Value {
    let limit = json!({
        "domain": text(),
        "policy": text(),
        "descriptor": text(),
        "entries": { "type": "array", "items": object(json!({ "key": text(), "value": text() })) },
        "rule": text(),
        "title": text(),
        "limit": whole(),
        "used": whole(),
        "remaining": whole(),
        "quota": whole(),
        "window_seconds": { "type": ["number", "null"] },
        "reset_at": moment_or_null(),
        "enforced": flag(),
    });
    let required =
        ["rule", "title", "limit", "used", "remaining", "quota", "window_seconds", "reset_at", "enforced"];
    json!({
        "LimitUsage": optional(&required, limit),
        "UsageDay": object(json!({
            "day": { "type": "string", "format": "date" }, "rule": text(), "units": whole(),
        })),
        "UsageDayPage": page_of("UsageDay"),
        "Usage": object(json!({ "api_key": text(), "limits": { "type": "array", "items": reference("LimitUsage") } })),
    })
}

fn keys() -> Value {
    let entry = object(json!({ "key": text(), "value": text() }));
    let descriptors = |entries_min: u32| {
        let entries = json!({ "type": "array", "minItems": entries_min, "maxItems": 32, "items": entry });
        json!({ "type": "array", "minItems": 1, "maxItems": 1, "items": object(json!({ "entries": entries })) })
    };
    let sent = |extra: &Value, required: &[&str]| {
        let with = |properties: Value| {
            let mut properties = properties;
            let names =
                properties.as_object().map(|own| own.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
            if let (Some(all), Some(extra)) = (properties.as_object_mut(), extra.as_object()) {
                all.extend(extra.clone());
            }
            let required: Vec<String> =
                names.into_iter().chain(required.iter().map(|name| (*name).to_owned())).collect();
            optional(&required, properties)
        };
        json!({ "anyOf": [
            with(json!({ "policy": text(), "key": text() })),
            with(json!({ "domain": text(), "descriptors": descriptors(1) })),
        ] })
    };
    let reason = json!({ "type": ["string", "null"], "maxLength": 512 });
    let percent = json!({ "type": "integer", "minimum": 1, "maximum": 100_000 });
    let mut key = with_origin(
        json!({ "id": text(), "act": { "enum": ["ban", "boost"] }, "until": moment(), "active": flag() }),
    );
    let required: Vec<String> = key.as_object().map(|own| own.keys().cloned().collect()).unwrap_or_default();
    for (name, schema) in [
        ("policy", text()),
        ("key", text()),
        ("domain", text()),
        ("percent", percent.clone()),
        ("reason", reason.clone()),
    ] {
        key[name] = schema;
    }
    key["descriptors"] = json!({ "type": "array" });
    key["warnings"] = texts();
    json!({
        "KeyQuestion": sent(&json!({}), &[]),
        "Ban": sent(&json!({ "until": moment(), "reason": reason }), &["until"]),
        "Boost": sent(&json!({ "until": moment(), "percent": percent, "reason": reason }), &["until", "percent"]),
        "Key": optional(&required, key),
        "KeyPage": page_of("Key"),
        "Verdict": {
            "type": "object",
            "required": ["allowed", "decisions", "act"],
            "properties": {
                "act": { "type": ["object", "null"], "description": "The ban or boost of this key, as in Key." },
                "act_unknown": {
                    "type": "boolean",
                    "description": "True if the database cannot be asked for `act`, which is null then. Else absent.",
                },
            },
        },
    })
}

fn switches() -> Value {
    let detail = |until: Value| {
        let reason = json!({ "type": ["string", "null"], "maxLength": 512 });
        json!({
            "type": "object",
            "description": "Until when and why, by switch: `all`, `domain NAME` or `rule NAME`.",
            "additionalProperties": optional(&[""; 0], json!({ "until": until, "reason": reason })),
        })
    };
    let body =
        json!({ "all": flag(), "domains": texts(), "rules": texts(), "details": detail(moment_or_null()) });
    let mut told = object(with_origin(body.clone()));
    told["properties"]["warnings"] = texts();
    json!({ "SwitchesBody": optional(&[""; 0], body), "Switches": told })
}

fn fleet() -> Value {
    let document = json!({ "type": ["object", "null"] });
    json!({
        "Node": object(json!({
            "node": text(),
            "name": text(),
            "version": whole(),
            "rules": text(),
            "started_at": moment(),
            "seen_at": moment(),
        })),
        "NodePage": object(json!({
            "head": { "type": "integer", "minimum": 0, "description": "The last version of the database." },
            "items": { "type": "array", "items": reference("Node") },
            "next": { "type": "null" },
        })),
        "AuditRow": object(json!({
            "version": whole(),
            "at": moment(),
            "who": text(),
            "role": text(),
            "action": text(),
            "kind": text(),
            "id": text(),
            "before": document,
            "after": document,
            "previous": text(),
            "hash": text(),
        })),
        "AuditPage": page_of("AuditRow"),
        "Verified": { "anyOf": [
            object(json!({
                "ok": { "const": true },
                "rows": whole(),
                "documents": whole(),
                "head": object(json!({ "version": whole(), "hash": text() })),
            })),
            object(json!({
                "ok": { "const": false },
                "version": { "type": ["integer", "null"], "description": "The first row that is wrong, if it is one." },
                "detail": text(),
            })),
        ] },
        "HotKeys": object(json!({ "keys": { "type": "array", "items": object(json!({
            "id": whole(),
            "domain": text(),
            "rule": text(),
            "limit": text(),
            "key": text(),
            "per_second": { "type": "number" },
            "per_second_error": { "type": "number" },
            "share": { "type": "number" },
            "denied_ratio": { "type": "number" },
            "hot": flag(),
            "leased": flag(),
        })) } })),
    })
}
