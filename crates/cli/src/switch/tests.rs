//! Switches turned one at a time.

use super::*;

fn check(before: &Value, (what, name, is_off): (&str, &str, bool), after: &Value) {
    assert_eq!(switched(before, what, name, is_off), *after);
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
fn what_is_off_is_told() {
    assert_eq!(tell(&json!({"all": false, "domains": [], "rules": []})), "Everything is on.\n");
    let told = tell(&json!({"all": true, "domains": ["a\x1b"], "rules": ["shop: path"]}));
    assert_eq!(
        told,
        "EVERYTHING is off: every request passes, uncounted\noff: domain a\\u{1b}\noff: rule shop: path\n"
    );
}
