//! What a record says at a moment.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;

fn record(body: &Value) -> Record {
    let document = Document {
        kind: Kind::Quota,
        id: "acme".to_owned(),
        version: 1,
        body: body.to_string(),
        changed_at_ms: 0,
        changed_by: "anna".to_owned(),
    };
    Record::of(&document).unwrap()
}

fn tier_at(record: &Record, moment_text: &str) -> Value {
    let fields = record.in_force(moment::parse_ms(moment_text).unwrap());
    fields.map_or(Value::Null, |fields| fields["tier"].clone())
}

#[test]
fn what_is_in_force_depends_on_the_moment() {
    let record = record(&json!({
        "tier": "new",
        "overrides": [],
        "effective_at": "2030-01-01T00:00:00Z",
        "expires_at": "2031-01-01T00:00:00Z",
        "before": { "tier": "old", "overrides": [], "effective_at": null, "expires_at": "2029-01-01T00:00:00Z" },
    }));
    for (moment, tier) in [
        ("2028-12-31T23:59:59.999Z", json!("old")),
        ("2029-01-01T00:00:00Z", json!(null)),
        ("2029-12-31T23:59:59.999Z", json!(null)),
        ("2030-01-01T00:00:00Z", json!("new")),
        ("2030-12-31T23:59:59.999Z", json!("new")),
        ("2031-01-01T00:00:00Z", json!(null)),
    ] {
        assert_eq!(tier_at(&record, moment), tier, "{moment}");
    }
}

#[test]
fn what_was_before_is_kept_one_deep() {
    let now_ms = moment::parse_ms("2028-01-01T00:00:00Z").unwrap();
    let first = record(&json!({ "tier": "a", "overrides": [], "effective_at": null, "expires_at": null }));
    let plan = |tier: &str| {
        Record::read("acme", &json!({ "tier": tier, "effective_at": "2030-01-01T00:00:00Z" }).to_string())
    };
    let second = plan("b").unwrap().with_before(first.in_force(now_ms).cloned());
    let second = record(&serde_json::from_str(&second).unwrap());
    assert_eq!(tier_at(&second, "2029-01-01T00:00:00Z"), "a");
    let third = plan("c").unwrap().with_before(second.in_force(now_ms).cloned());
    let third: Value = serde_json::from_str(&third).unwrap();
    assert_eq!((&third["tier"], &third["before"]["tier"]), (&json!("c"), &json!("a")), "{third}");
    assert!(third["before"].get("before").is_none());
}
