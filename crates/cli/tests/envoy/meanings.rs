//! explore
use serde_json::{Value, json};
use tollgate_testkit::real::{Gateway, Reply, Place};

use super::{by_header, tollgate};

const RULES: &str = "
domain: envoy
descriptors:
  - key: user
    rate_limit: {name: per-user, unit: hour, requests_per_unit: 10}
";
fn over(place: Place, unit: &str, deny: bool) {
    let tollgate = tollgate(RULES);
    let limits = json!([{"actions": [by_header("user", "x-user")], "limit": {"dynamic_metadata": {"metadata_key": {"key": "test.override", "path": [{"key": "limit"}]}}}}]);
    let set = json!({"name": "envoy.filters.http.set_metadata", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config", "metadata": [{"metadata_namespace": "test.override", "value": {"limit": {"requests_per_unit": 2, "unit": unit}}}]}});
    let envoy = Gateway{ filters: vec![set], place, failure_mode_deny: deny, ..Gateway::new(tollgate.grpc(), limits)}.start();
    let mut client = envoy.client();
    for _ in 0..4 {
        let r = client.get("/", &[("x-user", "a")]);
        println!("-> {} {:?} {:?}", r.status, r.header("x-ratelimit-remaining"), r.header("x-ratelimit-limit"));
    }
    println!("{}", envoy.counter("cluster.upstream.ratelimit.error"));
    panic!();
}
#[test]
fn over_route() { over(Place::Route, "HOUR", false) }
#[test]
fn over_filter() { over(Place::Filter, "HOUR", false) }
#[test]
fn over_unknown() { over(Place::Route, "UNKNOWN", false) }
#[test]
fn over_unknown_deny() { over(Place::Route, "UNKNOWN", true) }
