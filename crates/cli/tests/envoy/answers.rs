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

fn seconds(reply: &Reply, header: &str) -> u64 {
    reply.the(header).parse().unwrap()
}

#[test]
fn clients_are_told_their_limits() {
    let tollgate = tollgate(RULES);
    let rate_limits =
        json!([{"actions": [by_header("user", "x-user")]}, {"actions": [by_header("blocked", "x-blocked")]}]);
    let envoy = Gateway::new(tollgate.grpc(), rate_limits).start();
    let mut client = envoy.client();
    let mut get = |header, value| client.get("/", &[(header, value)]);

    let unlimited = get("x-other", "ann");
    println!("{unlimited:#?}");
    let first = get("x-user", "ann");
    println!("{first:#?}");
    let second = get("x-user", "ann");
    println!("{second:#?}");
    let third = get("x-user", "ann");
    println!("{third:#?}");
    let blocked = get("x-blocked", "x");
    println!("{blocked:#?}");
    panic!();
}
