//! Bans and boosts, as they are sent.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::act::ActFields;
use super::*;

fn check(name: ActName, body: &Value) -> Result<String, String> {
    let fields: ActFields = serde_json::from_value(body.clone()).map_err(|error| error.to_string())?;
    match fields.checked(name) {
        Ok(body) => Ok(serde_json::to_string(&body).unwrap()),
        Err(Problem::Invalid(mistakes)) => Err(serde_json::to_string(&mistakes).unwrap()),
        Err(other) => Err(format!("{other:?}")),
    }
}

#[test]
fn a_moment_is_kept_in_utc() {
    let body = json!({ "policy": "p", "key": "k", "until": "2030-01-01T02:00:00+02:00", "reason": "r" });
    let told = check(ActName::Ban, &body).unwrap();
    assert_eq!(told, r#"{"act":"ban","policy":"p","key":"k","until":"2030-01-01T00:00:00Z","reason":"r"}"#);
}

#[test]
fn what_is_over_is_known_to_be() {
    let body = json!({ "policy": "p", "key": "k", "until": "2030-01-01T00:00:00Z" });
    let fields: ActFields = serde_json::from_value(body).unwrap();
    let body = fields.checked(ActName::Ban).unwrap();
    assert!(!act::is_over(&body, 1_893_455_999_999) && act::is_over(&body, 1_893_456_000_000));
}

#[test]
fn what_has_no_bound_has_one() {
    let until = "2030-01-01T00:00:00Z";
    let policy = |key: usize| json!({ "policy": "p", "key": "k".repeat(key), "until": until });
    assert!(check(ActName::Ban, &policy(4_096)).is_ok());
    assert!(check(ActName::Ban, &policy(4_097)).is_err());
    let entries = |count: usize| vec![json!({ "key": "k", "value": "v" }); count];
    let descriptor = |count: usize| json!({ "domain": "d", "descriptors": [{ "entries": entries(count) }], "until": until });
    assert!(check(ActName::Ban, &descriptor(32)).is_ok());
    assert!(check(ActName::Ban, &descriptor(0)).is_err() && check(ActName::Ban, &descriptor(33)).is_err());
    let boost = |percent: u32| json!({ "policy": "p", "key": "k", "until": until, "percent": percent });
    assert!(check(ActName::Boost, &boost(1)).is_ok() && check(ActName::Boost, &boost(100_000)).is_ok());
    assert!(check(ActName::Boost, &boost(0)).is_err() && check(ActName::Boost, &boost(100_001)).is_err());
    let two = json!({ "domain": "d", "descriptors": [{ "entries": entries(1) }, { "entries": entries(1) }], "until": until });
    assert!(check(ActName::Ban, &two).is_err());
}
