//! Switches turned one at a time.

use super::*;

fn check(before: &Value, (what, name, is_off): (&str, &str, bool), after: &Value) {
    let turn = if is_off { Turn::Off(Map::new()) } else { Turn::On };
    assert_eq!(switched(before, what, name, &turn), *after);
}

#[test]
fn one_switch_leaves_the_others_alone() {
    let none = json!({"all": false, "domains": [], "rules": []});
    let shop = json!({"all": false, "domains": ["shop"], "rules": []});
    check(&none, ("domain", "shop", true), &shop);
    check(&shop, ("domain", "shop", true), &shop);
    check(&shop, ("domain", "other", false), &shop);
    check(&shop, ("domain", "shop", false), &none);
    check(&shop, ("all", "", true), &json!({"all": true, "domains": ["shop"], "rules": []}));
    check(&none, ("rule", "shop: a=b", true), &json!({"all": false, "domains": [], "rules": ["shop: a=b"]}));
    check(&json!({"version": 3}), ("all", "", false), &none);
}

#[test]
fn a_switch_has_its_own_end_and_reason() {
    let said = |value: Value| match value {
        Value::Object(detail) => Turn::Off(detail),
        _ => Turn::On,
    };
    let first = said(json!({"until": "2026-02-01T09:30:00Z", "reason": "incident"}));
    let shop = switched(&json!({}), "domain", "shop", &first);
    let details = json!({"domain shop": {"until": "2026-02-01T09:30:00Z", "reason": "incident"}});
    assert_eq!(shop, json!({"all": false, "domains": ["shop"], "rules": [], "details": details}));
    let both = switched(&shop, "all", "", &said(json!({"reason": "again"})));
    assert_eq!(both["details"]["domain shop"], details["domain shop"]);
    assert_eq!(both["details"]["all"], json!({"reason": "again"}));
    let on = switched(&switched(&both, "domain", "shop", &Turn::On), "all", "", &Turn::On);
    assert_eq!(on, json!({"all": false, "domains": [], "rules": []}));
}

#[test]
fn what_is_off_is_told() {
    let now: Timestamp = "2026-02-01T09:00:00Z".parse().unwrap();
    assert_eq!(tell(&json!({"all": false, "domains": [], "rules": []}), now), "Everything is on.\n");
    let details = json!({
        "all": {"until": "2026-02-01T09:15:00Z", "reason": "incident 4711"},
        "rule shop: path": {"reason": "too strict"},
    });
    let said = json!({"all": true, "domains": ["a\x1b"], "rules": ["shop: path"], "details": details});
    assert_eq!(
        tell(&said, now),
        "EVERYTHING is off, every request passes uncounted, until 2026-02-01T09:15:00Z (in 15m): incident 4711\n\
         off: domain a\\u{1b}\noff: rule shop: path: too strict\n"
    );
}
