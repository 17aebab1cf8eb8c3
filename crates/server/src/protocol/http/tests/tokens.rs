//! Who is answered where tokens are wanted.

use std::sync::Arc;

use axum::body::Body;
use http::Request;

use super::{gate, send};
use crate::access::{Access, TokenSettings, TokenSource};
use crate::gate::Gate;

const TOKEN: &str = "0123456789abcdef";
const QUESTION: &str = r#"{"policy": "search", "key": "ann"}"#;

fn guarded() -> Arc<Gate> {
    let tokens = TokenSettings { http: Some(TokenSource::parse(TOKEN).unwrap()), ..TokenSettings::default() };
    let gate = Arc::into_inner(gate()).unwrap();
    Arc::new(gate.with_access(Access::load(&tokens).unwrap().0))
}

/// The status of an answer, and how it asks for a token.
async fn check(method: &str, path: &str, authorization: Option<&str>, status: u16) {
    let gate = guarded();
    let mut request = Request::builder().method(method).uri(path);
    if let Some(value) = authorization {
        request = request.header("authorization", value);
    }
    let (head, body) = send(&gate, request.body(Body::from(QUESTION)).unwrap()).await;
    assert_eq!(head.status(), status, "{method} {path} {authorization:?}: {body}");
    let is_refused = status == 401;
    assert_eq!(head.headers().get("www-authenticate").is_some_and(|value| value == "Bearer"), is_refused);
    let metrics = gate.metrics_text().unwrap();
    let counted = format!("ratelimit_unauthorized_total{{protocol=\"http\"}} {}\n", u8::from(is_refused));
    assert!(metrics.contains(&counted), "{metrics}");
    if is_refused {
        let told = r#"{"error":{"code":"unauthorized","message":"a token is needed: send the header `Authorization: Bearer TOKEN`"}}"#;
        assert_eq!(body, told);
        assert!(!metrics.contains("outcome=\"allowed\"} 1\n"), "nothing was taken");
    }
}

#[tokio::test]
async fn whoever_shows_a_token_is_answered() {
    let right = Some("Bearer 0123456789abcdef");
    check("POST", "/v1/check", right, 200).await;
    check("POST", "/v1/peek", right, 200).await;
    check("GET", "/nosuch", right, 404).await;
}

#[tokio::test]
async fn nobody_else_is() {
    for authorization in [None, Some("Bearer 0123456789abcdeF"), Some("Basic 0123456789abcdef"), Some(TOKEN)]
    {
        check("POST", "/v1/check", authorization, 401).await;
    }
    for path in ["/v1/peek", "/v1/acquire", "/v1/release", "/json", "/v1/auth/", "/nosuch", "//", "/healthz/"]
    {
        check("POST", path, None, 401).await;
    }
}

/// A proxy would pass a 401 on to somebody who has nothing to do with it.
#[tokio::test]
async fn a_proxy_is_told_that_it_is_its_own_fault() {
    for (method, authorization) in
        [("GET", None), ("POST", None), ("GET", Some("Bearer of-the-proxys-client"))]
    {
        let gate = guarded();
        let mut request = Request::builder().method(method).uri("/v1/auth?policy=search");
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        let (head, body) = send(&gate, request.body(Body::empty()).unwrap()).await;
        assert_eq!((head.status().as_u16(), head.headers().get("www-authenticate")), (500, None));
        assert!(
            body.contains(r#""code":"proxy_unauthorized""#) && body.contains("`X-Tollgate-Token`"),
            "{body}"
        );
        let metrics = gate.metrics_text().unwrap();
        assert!(metrics.contains("ratelimit_unauthorized_total{protocol=\"http\"} 1\n"), "{metrics}");
    }
}

#[tokio::test]
async fn health_is_told_to_everybody() {
    for path in ["/", "/healthz", "/readyz", "/healthcheck"] {
        check("GET", path, None, 200).await;
    }
}
