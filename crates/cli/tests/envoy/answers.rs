//! What a client is told: Envoy's own headers from our statuses, and ours beside them.

use serde_json::{Value, json};
use tollgate_testkit::real::{Gateway, Reply};

use super::{by_header, tollgate};

const RULES: &str = "
domain: envoy
descriptors:
  - key: user
    rate_limit: {name: per-user, unit: hour, requests_per_unit: 2}
  - key: blocked
    rate_limit: {unit: minute, requests_per_unit: 0}
";

fn number(reply: &Reply, header: &str) -> u64 {
    reply.the(header).parse().unwrap()
}

/// `"per-user";r=1;t=2342` without its time, and the time.
fn split_time(ratelimit: &str) -> (&str, u64) {
    let (rest, time) = ratelimit.rsplit_once(";t=").unwrap();
    (rest, time.parse().unwrap())
}

#[test]
fn clients_are_told_their_limits() {
    let tollgate = tollgate(RULES);
    let rate_limits = json!([{"actions": [by_header("user", "x-user")]}]);
    let envoy = Gateway::new(tollgate.grpc(), rate_limits).start();
    let mut client = envoy.client();
    let replies = [(); 3].map(|()| client.get("/", &[("x-user", "ann")]));
    assert_eq!(replies.each_ref().map(|reply| reply.status), [200, 200, 429]);
    assert_eq!(replies.each_ref().map(|reply| number(reply, "x-ratelimit-remaining")), [1, 0, 0]);
    for reply in &replies {
        assert_eq!(reply.the("x-ratelimit-limit"), r#"2, 2;w=3600;name="per-user""#);
        assert!((1..=7200).contains(&number(reply, "x-ratelimit-reset")), "{reply:#?}");
        assert_eq!(reply.the("ratelimit-policy"), r#""per-user";q=2;w=3600"#);
    }
    for (reply, told) in replies.iter().zip([r#""per-user";r=1"#, r#""per-user";r=0"#, r#""per-user";r=0"#]) {
        assert_eq!(split_time(reply.the("ratelimit")).0, told);
    }
    let [first, second, denied] = &replies;
    assert_eq!([first, second].map(|reply| reply.header("retry-after")), [None, None]);
    // Two counters stand for a sliding window: both hours may have to pass.
    let retry_after = number(denied, "retry-after");
    assert!((1..=7200).contains(&retry_after), "{denied:#?}");
    assert_eq!(split_time(denied.the("ratelimit")).1, retry_after);
    assert_eq!(number(denied, "x-ratelimit-reset"), retry_after, "both say when to come back");
}

#[test]
fn a_denied_client_reads_json() {
    let tollgate = tollgate(RULES);
    let rate_limits =
        json!([{"actions": [by_header("user", "x-user")]}, {"actions": [by_header("blocked", "x-blocked")]}]);
    let envoy = Gateway::new(tollgate.grpc(), rate_limits).start();
    let mut client = envoy.client();
    let mut denied = |headers: &[(&str, &str)]| {
        let reply = client.get("/", headers);
        assert_eq!(reply.status, 429, "{reply:#?}");
        assert_eq!(reply.the("content-type"), "application/json");
        assert_eq!(reply.the("x-envoy-ratelimited"), "true");
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        (number(&reply, "retry-after"), body)
    };
    let (retry_after, blocked) = denied(&[("x-blocked", "x")]);
    assert_eq!(retry_after, 60);
    let told = json!({
        "code": "blocked", "message": "\"blocked\" lets nothing through",
        "retry_after": 60, "limit": 0, "quota": 0, "window": 60, "scope": "blocked",
    });
    assert_eq!(blocked, told);

    let mut ann = envoy.client();
    assert_eq!([(); 2].map(|()| ann.get("/", &[("x-user", "ann")]).status), [200; 2]);
    let (retry_after, limited) = denied(&[("x-user", "ann")]);
    let fields = ["code", "limit", "window", "scope"].map(|field| &limited[field]);
    assert_eq!(fields, [&json!("rate_limited"), &json!(2), &json!(3600), &json!("per-user")]);
    // The header has whole seconds, rounded up.
    let exact = limited["retry_after"].as_f64().unwrap();
    assert!(exact <= Value::from(retry_after).as_f64().unwrap(), "{exact} and {retry_after}");
}

#[test]
fn a_request_without_a_limit_gets_no_headers() {
    let tollgate = tollgate(RULES);
    let envoy = Gateway::new(tollgate.grpc(), json!([{"actions": [by_header("other", "x-other")]}])).start();
    let reply = envoy.client().get("/", &[("x-other", "ann")]);
    assert_eq!((reply.status, reply.body.as_str()), (200, "ok\n"));
    let told: Vec<_> = reply.headers.iter().filter(|(name, _)| name.contains("limit")).collect();
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(envoy.counter("cluster.upstream.ratelimit.ok"), 1, "and yet it was asked about");
}
