//! Paths and queries as they are sent.

use super::*;

#[test]
fn any_text_is_one_segment() {
    for (text, path) in [
        ("acme", "acme"),
        ("a/b?c#d", "a%2Fb%3Fc%23d"),
        ("shop: path=/login", "shop%3A%20path%3D%2Flogin"),
        ("日", "%E6%97%A5"),
        ("a+b&c", "a%2Bb%26c"),
        ("", ""),
    ] {
        assert_eq!(encoded(text), path);
    }
}

#[test]
fn a_query_has_what_is_given() {
    assert_eq!(with_query("/a", &[("limit", None)]), "/a");
    assert_eq!(
        with_query("/a", &[("limit", Some("1")), ("x", None), ("who", Some("a b"))]),
        "/a?limit=1&who=a%20b"
    );
}

#[test]
fn a_list_goes_on_where_it_says() {
    assert_eq!(mark(&json!(null)), None);
    assert_eq!(mark(&json!("acme")).as_deref(), Some("acme"));
    assert_eq!(mark(&json!(17)).as_deref(), Some("17"));
}
