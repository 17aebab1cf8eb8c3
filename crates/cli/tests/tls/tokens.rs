//! Tokens over HTTP, and what stays open without one.

use tollgate_testkit::real::{Client, Tollgate};

use super::launch;

const TOKEN: &str = "0123456789abcdef";
const QUESTION: &str = r#"{"policy": "ten-an-hour", "key": "ann"}"#;

fn ask(tollgate: &Tollgate, path: &str, headers: &[(&str, &str)]) -> (u16, Option<String>) {
    let method = if path.starts_with("/v1/") || path == "/json" { "POST" } else { "GET" };
    let reply = Client::connect(tollgate.http()).unwrap().send(method, path, headers, QUESTION).unwrap();
    (reply.status, reply.header("www-authenticate").map(str::to_owned))
}

#[test]
fn http_wants_a_token() {
    let tollgate = launch().variable("TOLLGATE_HTTP_TOKENS", TOKEN).start();
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(ask(&tollgate, "/v1/check", &[("authorization", &bearer)]), (200, None));
    let refused = (401, Some("Bearer".to_owned()));
    for headers in [&[][..], &[("authorization", "Bearer 0123456789abcdee")], &[("authorization", TOKEN)]] {
        for path in ["/v1/check", "/v1/peek", "/v1/acquire", "/v1/release", "/json"] {
            assert_eq!(ask(&tollgate, path, headers), refused, "{path} {headers:?}");
        }
        assert_eq!(ask(&tollgate, "/v1/auth", headers), (500, None), "{headers:?}");
    }
    for path in ["/", "/healthz", "/readyz", "/healthcheck"] {
        assert_eq!(ask(&tollgate, path, &[]), (200, None), "{path}");
    }
    assert_eq!(tollgate.metric("ratelimit_unauthorized_total{protocol=\"http\"}"), 18);
    assert_eq!(tollgate.metric("ratelimit_requests_total{protocol=\"http\",outcome=\"allowed\"}"), 1);
}
