//! What those see who ask over gRPC, or through Envoy, when Redis is away.

use std::path::Path;

use serde_json::{Value, json};
use tollgate_testkit::real::redis::RedisServer;
use tollgate_testkit::real::{Gateway, Tollgate, python};

use crate::launch;

const RULES: &str = "
domain: envoy
descriptors:
  - {key: open, rate_limit: {unit: hour, requests_per_unit: 10, fail_mode: open}}
  - {key: closed, rate_limit: {unit: hour, requests_per_unit: 10, fail_mode: closed}}
  - {key: local, rate_limit: {unit: hour, requests_per_unit: 10, fail_mode: local}}
";

fn start() -> (RedisServer, Tollgate) {
    let redis = RedisServer::start();
    let tollgate = launch(RULES, &format!("redis://{}", redis.address())).start();
    (redis, tollgate)
}

/// Asks with grpcio for one descriptor: the answer as JSON.
fn ask(tollgate: &Tollgate, key: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/grpc_client.py");
    let request = json!([{"domain": "envoy", "descriptors": [{"entries": [{"key": key, "value": "ann"}]}]}]);
    let arguments = [tollgate.grpc().port().to_string(), tollgate.pid().to_string(), "ask".to_owned()];
    let finished = python(&script, &[&arguments[..], &[request.to_string()]].concat());
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    serde_json::from_str(&finished.stdout).unwrap()
}

/// The value of a header field that the answer tells Envoy to add.
fn header<'a>(answer: &'a Value, name: &str) -> Option<&'a str> {
    let headers = answer["responseHeadersToAdd"].as_array()?;
    headers.iter().find(|header| header["key"] == name)?["value"].as_str()
}

#[test]
fn a_denial_without_redis_is_over_limit_and_says_why() {
    let (mut redis, tollgate) = start();
    let check = |key: &str, code: &str, reason: Option<&str>| {
        let answer = ask(&tollgate, key);
        assert_eq!(
            (answer["overallCode"].as_str(), header(&answer, "x-tollgate-reason")),
            (Some(code), reason),
            "{answer:#}"
        );
    };
    for key in ["open", "closed", "local"] {
        check(key, "OK", None);
    }
    redis.kill();
    check("open", "OK", Some("fail_open: out of reach"));
    check("closed", "OVER_LIMIT", Some("fail_closed: out of reach"));
    check("local", "OK", Some("fail_local: out of reach"));
}

#[test]
fn envoy_tells_its_clients_why_they_are_denied() {
    let (mut redis, tollgate) = start();
    let by = |key: &str| {
        let header = format!("x-{key}");
        json!({"actions": [
            {"request_headers": {"header_name": header, "descriptor_key": key, "skip_if_absent": true}},
        ]})
    };
    let envoy = Gateway::new(tollgate.grpc(), json!([by("open"), by("closed")])).start();
    let mut client = envoy.client();
    let mut check = |header: &str, status: u16, reason: Option<&str>| {
        let reply = client.get("/", &[(header, "ann")]);
        assert_eq!((reply.status, reply.header("x-tollgate-reason")), (status, reason), "{reply:#?}");
    };
    check("x-open", 200, None);
    check("x-closed", 200, None);
    redis.kill();
    check("x-open", 200, Some("fail_open: out of reach"));
    check("x-closed", 429, Some("fail_closed: out of reach"));
    assert_eq!(envoy.counter("cluster.upstream.ratelimit.error"), 0);
}
