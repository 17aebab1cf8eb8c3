//! How many requests pass: exactly as many as the rules say, whoever sends them at the same time.

use std::thread;

use serde_json::json;
use tollgate_testkit::real::{Gateway, Place};

use super::{Tally, by_header, flood, tollgate};

const RULES: &str = "
domain: envoy
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 100}
";

fn check(place: Place) {
    let tollgate = tollgate(RULES);
    let rate_limits = json!([{"actions": [by_header("user", "x-user")]}]);
    let envoy = Gateway { place, ..Gateway::new(tollgate.grpc(), rate_limits) }.start();
    let tallies = thread::scope(|scope| {
        let floods = ["ann", "ben", "cleo"].map(|user| {
            let envoy = &envoy;
            scope.spawn(move || flood(envoy, 8, 50, &[("x-user", user)]))
        });
        floods.map(|flood| flood.join().unwrap())
    });
    assert_eq!(tallies, [Tally { passed: 100, limited: 300, other: 0 }; 3]);
    // Envoy itself has seen no error: nothing passed for want of an answer.
    let counter = |name: &str| envoy.counter(&format!("cluster.upstream.ratelimit.{name}"));
    assert_eq!(["ok", "over_limit", "error"].map(counter), [300, 900, 0]);
    assert_eq!(
        flood(&envoy, 1, 10, &[]),
        Tally { passed: 10, ..Tally::default() },
        "no descriptor, no limit"
    );
}

#[test]
fn exactly_the_limit_passes_of_many_at_once() {
    check(Place::Filter);
}

#[test]
fn so_it_does_where_a_route_has_its_own_limits() {
    check(Place::PerRoute);
}

#[test]
fn so_it_does_where_a_route_has_them_the_old_way() {
    check(Place::Route);
}
