//! Who is answered where tokens are wanted.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use tollgate::policy::Source;

use super::{gate, send};
use crate::access::{Access, Attempts, TEST_CLIENT, TokenSettings, TokenSource};
use crate::drain::Stopper;
use crate::gate::Gate;
use crate::protocol::http::{Service, serve};
use crate::stream::{Peer, Stream};

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

const SCOPED: &str = "0123456789abcdef scopes=check policies=search,tiered domains=web";

/// The status and the code of the answer to a body, by a client with a bounded token.
async fn ask_scoped(gate: &Arc<Gate>, path: &str, body: &str) -> (u16, String) {
    let request = Request::post(path).header("authorization", "Bearer 0123456789abcdef");
    let (head, body) = send(gate, request.body(Body::from(body.to_owned())).unwrap()).await;
    let told: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    (head.status().as_u16(), told["error"]["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_request_id_needs_a_scope_of_its_own() {
    let body = r#"{"policy": "search", "key": "k", "request_id": "x"}"#;
    let settle = r#"{"reservation": "00", "cost": 1, "request_id": "x"}"#;
    for (scopes, checked, settled) in [
        ("", 200, 404),
        ("scopes=check,reserve,request_id", 200, 404),
        ("scopes=check,reserve", 403, 403),
        ("scopes=request_id", 403, 403),
    ] {
        let lines = format!("0123456789abcdef {scopes}");
        let gate = Arc::new(Arc::into_inner(gate()).unwrap().with_access(Access::of_lines(&lines)));
        assert_eq!(ask_scoped(&gate, "/v1/check", body).await.0, checked, "{scopes}");
        assert_eq!(ask_scoped(&gate, "/v1/settle", settle).await.0, settled, "{scopes}");
        assert_eq!(gate.engine().request_id_stats().held, usize::from(checked == 200), "{scopes}");
    }
}

#[tokio::test]
async fn what_a_token_may_not_do_is_refused_and_charges_nothing() {
    let gate = Arc::new(Arc::into_inner(gate()).unwrap().with_access(Access::of_lines(SCOPED)));
    let user = r#"{"entries": [{"key": "user", "value": "ann"}]"#;
    let lacks = |scope: &str| format!("this token lacks the scope `{scope}`");
    for (path, body, told) in [
        (
            "/v1/check",
            r#"{"policy": "tokens", "key": "k"}"#.to_owned(),
            "this token may not use the policy \"tokens\"".to_owned(),
        ),
        (
            "/v1/acquire",
            r#"{"policy": "uploads", "key": "k"}"#.to_owned(),
            "this token may not use the policy \"uploads\"".to_owned(),
        ),
        (
            "/v1/peek",
            r#"{"domain": "other", "descriptors": [{"entries": []}]}"#.to_owned(),
            "this token may not use the domain \"other\"".to_owned(),
        ),
        ("/v1/check", r#"{"policy": "tiered", "key": "k", "tier": "pro"}"#.to_owned(), lacks("tier")),
        (
            "/v1/check",
            r#"{"policy": "search", "key": "k", "request_id": "x"}"#.to_owned(),
            lacks("request_id"),
        ),
        (
            "/v1/check",
            format!(r#"{{"domain": "web", "descriptors": [{user}, "is_negative_hits": true}}]}}"#),
            lacks("refund"),
        ),
        (
            "/json",
            format!(r#"{{"domain": "web", "descriptors": [{user}, "isNegativeHits": true}}]}}"#),
            lacks("refund"),
        ),
        (
            "/v1/check",
            format!(
                r#"{{"domain": "web", "descriptors": [{user}, "limit": {{"requests_per_unit": 9, "unit": "hour"}}}}]}}"#
            ),
            lacks("override"),
        ),
        ("/v1/reserve", r#"{"policy": "search", "key": "k", "cost": 1}"#.to_owned(), lacks("reserve")),
        ("/v1/settle", r#"{"reservation": "x", "cost": 1}"#.to_owned(), lacks("reserve")),
    ] {
        assert_eq!(ask_scoped(&gate, path, &body).await, (403, told), "{path} {body}");
    }
    let metrics = gate.metrics_text().unwrap();
    assert!(metrics.contains("ratelimit_unauthorized_total{protocol=\"http\"} 10\n"), "{metrics}");
    assert!(
        metrics.contains("ratelimit_requests_total{protocol=\"http\",outcome=\"allowed\"} 0\n"),
        "{metrics}"
    );
    for allowed in 0..2 {
        let (status, told) = ask_scoped(&gate, "/v1/check", r#"{"policy": "search", "key": "k"}"#).await;
        assert_eq!(status, 200, "{allowed}: {told}");
    }
    assert_eq!(
        ask_scoped(&gate, "/v1/check", &format!(r#"{{"domain": "web", "descriptors": [{user}}}]}}"#)).await.0,
        200
    );
}

#[tokio::test]
async fn a_token_without_the_scope_check_releases_nothing() {
    let access = Access::of_lines("0123456789abcdef scopes=reserve\nfedcba9876543210");
    let gate = Arc::new(Arc::into_inner(gate()).unwrap().with_access(access));
    let ask = async |token: &str, path: &str, body: String| {
        let request = Request::post(path).header("x-tollgate-token", token);
        let (head, body) = send(&gate, request.body(Body::from(body)).unwrap()).await;
        (head.status().as_u16(), serde_json::from_str::<serde_json::Value>(&body).unwrap())
    };
    let upload = r#"{"policy": "uploads", "key": "k"}"#.to_owned();
    let (status, acquired) = ask("fedcba9876543210", "/v1/acquire", upload.clone()).await;
    assert_eq!(status, 200, "{acquired}");
    let release = format!(r#"{{"lease": {}}}"#, acquired["lease"]);
    let (status, refused) = ask("0123456789abcdef", "/v1/release", release.clone()).await;
    assert_eq!((status, &refused["error"]["message"]), (403, &"this token lacks the scope `check`".into()));
    let (status, denied) = ask("fedcba9876543210", "/v1/acquire", upload).await;
    assert_eq!(status, 429, "the permit is still held: {denied}");
    let (status, released) = ask("fedcba9876543210", "/v1/release", release).await;
    assert_eq!(status, 200, "{released}");
}

#[tokio::test]
async fn a_proxy_with_the_wrong_scope_is_told_that_it_is_its_own_fault() {
    let gate = Arc::new(Arc::into_inner(gate()).unwrap().with_access(Access::of_lines(SCOPED)));
    for (policy, status) in [("search", 200), ("tokens", 500)] {
        let request = Request::get(format!("/v1/auth?policy={policy}"));
        let request = request.header("x-tollgate-token", TOKEN).body(Body::empty()).unwrap();
        let (head, body) = send(&gate, request).await;
        assert_eq!(head.status().as_u16(), status, "{body}");
        assert_eq!(body.contains("proxy_forbidden"), status == 500, "{body}");
    }
}

#[tokio::test]
async fn a_bounded_token_learns_no_names_of_other_policies() {
    let lines = "0123456789abcdef policies=search,nosuch*";
    let gate = Arc::new(Arc::into_inner(gate()).unwrap().with_access(Access::of_lines(lines)));
    let expected = "unknown policy \"nosuch\"; it could be search";
    let body = r#"{"policy": "nosuch", "key": "k", "cost": 1}"#;
    for path in ["/v1/check", "/v1/peek", "/v1/acquire", "/v1/reserve"] {
        assert_eq!(ask_scoped(&gate, path, body).await, (404, expected.to_owned()), "{path}");
    }
    let request = Request::get("/v1/auth?policy=nosuch").header("x-tollgate-token", TOKEN);
    let (_, body) = send(&gate, request.body(Body::empty()).unwrap()).await;
    assert!(body.contains(r#""unknown policy \"nosuch\"; it could be search""#), "{body}");
}

#[tokio::test]
async fn a_bounded_token_learns_no_names_of_other_domains() {
    let file =
        |name: &str| format!("domain: {name}\nforward_auth: [{{actions: [{{remote_address: {{}}}}]}}]\n");
    let ask = async |domains: &[&str], scope: &str, query: &str| {
        let gate = Arc::into_inner(super::empty_gate()).unwrap();
        let gate = Arc::new(gate.with_access(Access::of_lines(&format!("0123456789abcdef {scope}"))));
        let files: Vec<String> = domains.iter().map(|name| file(name)).collect();
        let sources: Vec<Source> = domains
            .iter()
            .zip(&files)
            .map(|(name, file)| Source::new(format!("{name}.yaml"), file))
            .collect();
        gate.load(&sources).unwrap();
        let request = Request::get(format!("/v1/auth{query}")).header("x-tollgate-token", TOKEN);
        let (head, body) = send(&gate, request.body(Body::empty()).unwrap()).await;
        let told: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let message = told["error"]["message"].as_str().unwrap_or_default();
        let (message, _advice) = message.split_once(": the proxy has to").unwrap_or((message, ""));
        (head.status().as_u16(), message.to_owned())
    };
    let refused = |name: &str| (500, format!("this token may not use the domain \"{name}\""));
    let both = ["secret", "shop"];
    assert_eq!(ask(&both, "domains=shop", "?domain=secret").await, refused("secret"));
    assert_eq!(ask(&both, "domains=shop", "?domain=nosuch").await, refused("nosuch"), "the same answer");
    let unknown = |rest: &str| (400, format!("unknown domain \"shop-2\"{rest}"));
    assert_eq!(ask(&both, "domains=shop*", "?domain=shop-2").await, unknown(": it could be shop"));
    assert_eq!(ask(&["secret"], "domains=shop*", "?domain=shop-2").await, unknown(""));
    assert_eq!(ask(&both, "domains=shop", "").await.0, 200, "one is left that can be meant");
    let none = (500, "this token may not use any domain that has `forward_auth`".to_owned());
    assert_eq!(ask(&both, "domains=other", "").await, none);
    assert_eq!(ask(&["secret"], "domains=other", "").await, none);
}

#[tokio::test]
async fn pages_of_other_sites_are_refused_but_not_where_proxies_ask() {
    let gate = gate();
    let foreign = |path: &str| {
        let request =
            Request::post(path).header("host", "127.0.0.1:8080").header("content-type", "text/plain");
        let request = request.header("origin", "https://evil.example").header("sec-fetch-site", "cross-site");
        request.body(Body::from(QUESTION)).unwrap()
    };
    for path in ["/v1/check", "/v1/peek", "/v1/acquire", "/v1/release", "/v1/reserve", "/v1/settle", "/json"]
    {
        let (head, body) = send(&gate, foreign(path)).await;
        assert_eq!(head.status(), 403, "{path}");
        assert!(body.contains(r#""code":"foreign_origin""#), "{body}");
    }
    // There, the header is that of the request which the proxy asks about.
    assert_eq!(send(&gate, foreign("/v1/auth?policy=search")).await.0.status(), 200);
    assert_eq!(
        send(&gate, Request::get("/healthz").header("origin", "null").body(Body::empty()).unwrap())
            .await
            .0
            .status(),
        200
    );
}

#[tokio::test]
async fn a_connection_is_closed_after_ten_wrong_tokens_and_a_new_one_is_not() {
    let gate = guarded();
    let attempts = || Arc::new(Attempts::new(TEST_CLIENT));
    let ask = async |attempts: &Arc<Attempts>, token: &str| {
        let request =
            Request::post("/v1/peek").header("x-tollgate-token", token).extension(Arc::clone(attempts));
        let (head, _) = send(&gate, request.body(Body::from(QUESTION)).unwrap()).await;
        (head.status().as_u16(), head.headers().get("connection").is_some_and(|value| value == "close"))
    };
    let first = attempts();
    for _ in 0..9 {
        assert_eq!(ask(&first, "fedcba9876543210").await, (401, false));
    }
    assert_eq!(ask(&first, TOKEN).await, (200, false), "a valid token is never refused or delayed");
    assert_eq!(ask(&first, "fedcba9876543210").await, (401, true));
    assert_eq!(ask(&first, TOKEN).await, (401, true), "nothing more is looked at on that connection");
    let second = attempts();
    assert_eq!(ask(&second, TOKEN).await, (200, false), "on a new one it is");
    assert_eq!(ask(&second, "fedcba9876543210").await, (401, true), "which may be wrong once");
}

#[tokio::test]
async fn a_connection_of_http_2_that_guesses_gets_goaway() {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (stopper, peer) = (Stopper::new(), Peer { address: (TEST_CLIENT, 1).into() });
    let served = serve(Stream::new(far, peer), Service::new(guarded()), stopper.drain());
    let guesses = async {
        let (mut client, connection) = h2::client::handshake(near).await.unwrap();
        tokio::spawn(connection);
        for _ in 0..10 {
            let request = Request::post("http://localhost/v1/peek").header("x-tollgate-token", "wrong");
            client = client.ready().await.unwrap();
            let (answer, _) = client.send_request(request.body(()).unwrap(), true).unwrap();
            assert_eq!(answer.await.unwrap().status(), 401);
        }
        loop {
            match client.ready().await {
                Ok(ready) => client = ready,
                Err(error) => return error,
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let ((), error) = tokio::join!(served, guesses);
    assert!(error.is_go_away() && error.is_remote(), "{error:?}");
}
