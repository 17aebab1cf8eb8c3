//! `POST /json`, as envoyproxy/ratelimit has it.

use axum::body::Body;
use http::Request;

use super::bad_input::bad_requests;
use super::{gate, post, send, statuses, user};

#[tokio::test]
async fn as_envoyproxy_ratelimit() {
    let gate = gate();
    assert_eq!(statuses(&gate, "/json", &user("alice"), 3).await, [200, 200, 429]);
}

#[tokio::test]
async fn has_the_same_header_fields_as_check() {
    let names = async |path: &str| {
        let (gate, mut names) = (gate(), Vec::new());
        for _ in 0..3 {
            let request = Request::post(path).body(Body::from(user("alice").to_string())).unwrap();
            let (head, _) = send(&gate, request).await;
            let is_timed =
                |name: &str| name.contains("reset") || ["ratelimit", "retry-after"].contains(&name);
            let field = |name: &str| {
                let value = &head.headers()[name];
                if is_timed(name) { name.to_owned() } else { format!("{name}: {value:?}") }
            };
            let fields = head.headers().keys().filter(|name| *name != "content-length");
            names.push((head.status(), fields.map(|name| field(name.as_str())).collect::<Vec<_>>()));
        }
        names
    };
    let of_json = names("/json").await;
    assert_eq!(of_json, names("/v1/check").await);
    assert!(of_json[2].1.contains(&"retry-after".to_owned()), "{of_json:?}");
}

#[tokio::test]
async fn what_is_wrong_is_said_in_plain_text_and_counted_once() {
    let gate = gate();
    let bodies = [
        "{",
        r#"{"domain": 5}"#,
        r#"{"domain": "web"}"#,
        &format!(r#"{{"domain": "web", "descriptors": [{}]}}"#, vec!["{}"; 129].join(",")),
    ];
    for (index, body) in bodies.into_iter().enumerate() {
        let (head, _) = send(&gate, Request::post("/json").body(Body::from(body.to_owned())).unwrap()).await;
        assert_eq!(head.status(), 400, "{body}");
        assert_eq!(head.headers()["content-type"], "text/plain; charset=utf-8");
        assert_eq!(bad_requests(&gate), index + 1, "{body}");
    }
    assert_eq!(post(&gate, "/json", vec![b' '; super::super::BODY_BYTES_MAX + 1]).await.0, 413);
    assert_eq!(bad_requests(&gate), bodies.len() + 1);
}
