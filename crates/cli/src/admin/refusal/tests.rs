//! Refusals as a person reads them.

use http::{HeaderMap, HeaderValue};
use insta::assert_snapshot;
use serde_json::json;

use super::*;

fn check(status: u16, body: &str) -> String {
    let answer = Answer { status, fields: HeaderMap::new(), body: body.to_owned() };
    Refusal::of(&answer, false).to_string()
}

#[test]
fn every_mistake_is_told_with_its_place_and_hint() {
    let body = json!({
        "type": "about:blank", "title": "Unprocessable Content", "status": 422, "detail": "the policy has 2 mistakes",
        "errors": [
            {"line": 3, "column": 24, "message": "unknown unit `fortnight`", "hint": "it can be second, minute"},
            {"message": "too large"},
        ],
    });
    assert_snapshot!(check(422, &body.to_string()), @"
    the server refuses (422): Unprocessable Content
    the policy has 2 mistakes
      line 3, column 24: unknown unit `fortnight`
         = it can be second, minute
      too large
    ");
}

#[test]
fn who_has_shown_no_token_hears_how() {
    let told = check(401, r#"{"title": "Unauthorized", "detail": "Unauthorized"}"#);
    assert!(told.contains("TOLLGATE_ADMIN_TOKEN") && told.matches("Unauthorized").count() == 1, "{told}");
}

#[test]
fn when_to_come_back_is_told() {
    let mut fields = HeaderMap::new();
    fields.insert("retry-after", HeaderValue::from_static("7"));
    let body = r#"{"title": "Service Unavailable", "detail": "the database is away: nothing was changed"}"#;
    let told = Refusal::of(&Answer { status: 503, fields, body: body.to_owned() }, true).to_string();
    assert!(told.ends_with("nothing was changed\nTry again in 7 s."), "{told}");
}

#[test]
fn what_is_not_of_the_api_is_shown_in_part_and_obeyed_by_no_terminal() {
    let told = check(404, &format!("\x1b[31mnot here{}", "x".repeat(10_000)));
    assert!(told.contains("admin listener?") && !told.contains('\x1b') && told.len() < 1_000, "{told}");
    let answer = Answer { status: 404, fields: HeaderMap::new(), body: "{}".to_owned() };
    assert!(!Refusal::of(&answer, true).is_missing());
    let ours = Answer { body: r#"{"title": "Not Found"}"#.to_owned(), ..answer };
    assert!(Refusal::of(&ours, true).is_missing());
}
