//! What header fields ask of a change.
#![allow(clippy::unwrap_used)]

use super::*;

fn fields(name: &'static str, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())])
}

#[test]
fn a_change_may_depend_on_a_version() {
    let wanted = |name, value| of_change(&fields(name, value)).ok();
    assert_eq!(of_change(&HeaderMap::new()).unwrap(), Condition::Any);
    assert_eq!(wanted("if-match", "*"), Some(Condition::IfPresent));
    assert_eq!(wanted("if-none-match", "*"), Some(Condition::IfAbsent));
    assert_eq!(wanted("if-match", "\"17\""), Some(Condition::IfVersion(17)));
    assert_eq!(wanted("if-match", "\"17\", \"18\""), Some(Condition::IfOneOf(vec![17, 18])));
    // Tags that nothing has: they are well-formed, and never hold.
    for value in ["W/\"17\"", "\"abc\"", "\"017\"", "\"\"", "\"99999999999999999999\""] {
        assert_eq!(wanted("if-match", value), Some(Condition::IfOneOf(Vec::new())), "{value}");
    }
    let many = vec!["\"1\""; TAGS_MAX + 1].join(",");
    for value in ["17", "\"17", "", ",", "*, \"1\"", "\"a b\"", &many] {
        assert_eq!(wanted("if-match", value), None, "{value}");
    }
    assert_eq!(wanted("if-none-match", "\"17\""), None);
    assert_eq!(wanted("if-match", "\"0\""), Some(Condition::IfAbsent));
    let mut both = fields("if-match", "*");
    both.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
    assert!(of_change(&both).is_err());
}

#[test]
fn what_is_known_need_not_be_sent() {
    let known = |value: &str| is_known(&fields("if-none-match", value), 17).unwrap();
    assert!(known("\"17\"") && known("W/\"17\"") && known("\"1\", \"17\"") && known("*"));
    assert!(!known("\"18\"") && !known("\"x\""));
    assert_eq!(tag(17), "\"17\"");
}

#[test]
fn keys_are_visible_and_not_long() {
    let key = |value: &str| idempotency_key(&fields(IDEMPOTENCY_KEY, value)).ok().flatten();
    assert_eq!(
        key("8e03978e-40d5-43dd-bc93-6894a57f9324").as_deref(),
        Some("8e03978e-40d5-43dd-bc93-6894a57f9324")
    );
    assert!(key(&"k".repeat(KEY_BYTES_MAX)).is_some());
    for value in ["", "a b", "ä", &"k".repeat(KEY_BYTES_MAX + 1)] {
        assert_eq!(key(value), None, "{value}");
    }
    assert_eq!(idempotency_key(&HeaderMap::new()).unwrap(), None);
    let mut twice = fields(IDEMPOTENCY_KEY, "a");
    twice.append(IDEMPOTENCY_KEY, HeaderValue::from_static("b"));
    assert!(idempotency_key(&twice).is_err());
}
