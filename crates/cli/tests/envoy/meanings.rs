//! What rules mean for requests with several descriptors, and for those that bring their own limit.

use serde_json::{Value, json};
use tollgate_testkit::real::{Gateway, Place};

use super::{Headers, by_header, check, tollgate};

const ANN: (&str, &str) = ("x-user", "ann");
const ACME: (&str, &str) = ("x-company", "acme");

fn user_and_company() -> Value {
    json!([{"actions": [by_header("user", "x-user")]}, {"actions": [by_header("company", "x-company")]}])
}

#[test]
fn who_is_denied_by_one_limit_pays_nothing_to_the_other() {
    let rules = "
domain: envoy
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 5}
  - key: company
    rate_limit: {unit: hour, requests_per_unit: 2}
";
    let steps: [(Headers<'_>, _, _); 6] = [
        (&[ANN, ACME], 200, Some("1")),
        (&[ANN, ACME], 200, Some("0")),
        (&[ANN, ACME], 429, Some("0")),
        (&[ANN, ACME], 429, Some("0")),
        // Two were taken, not four.
        (&[ANN], 200, Some("2")),
        (&[ANN, ("x-company", "other")], 200, Some("1")),
    ];
    check(rules, user_and_company(), &steps);
}

#[test]
fn a_shadow_rule_counts_and_denies_nobody() {
    let rules = "
domain: envoy
descriptors:
  - key: user
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 2}
";
    let ann: Headers<'_> = &[ANN];
    let steps = [(ann, 200, Some("1")), (ann, 200, Some("0")), (ann, 200, Some("0")), (ann, 200, Some("0"))];
    check(rules, user_and_company(), &steps);
}

#[test]
fn quotas_deny_only_when_all_are_used_up() {
    let rules = "
domain: envoy
descriptors:
  - key: user
    quota_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: company
    quota_mode: true
    rate_limit: {unit: hour, requests_per_unit: 3}
";
    let both: Headers<'_> = &[ANN, ACME];
    let steps = [
        (both, 200, Some("0")),
        // The user's is used up, the company's is not.
        (both, 200, Some("0")),
        (both, 200, Some("0")),
        (both, 429, Some("0")),
    ];
    check(rules, user_and_company(), &steps);
}

/// A filter that gives every request a limit of its own.
fn own_limit(requests_per_unit: u32, unit: &str) -> Value {
    let limit = json!({"limit": {"requests_per_unit": requests_per_unit, "unit": unit}});
    json!({"name": "envoy.filters.http.set_metadata", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config",
        "metadata": [{"metadata_namespace": "test.own", "value": limit}],
    }})
}

/// Statuses of four requests of one user, whose requests bring a limit of this unit along.
fn check_own_limit(unit: &str, gateway: impl FnOnce(Gateway) -> Gateway, statuses: [u16; 4], errors: u64) {
    let tollgate = tollgate(
        "
domain: envoy
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 1}
",
    );
    let at = json!({"key": "test.own", "path": [{"key": "limit"}]});
    let rate_limits = json!([{
        "actions": [by_header("user", "x-user")],
        "limit": {"dynamic_metadata": {"metadata_key": at}},
    }]);
    let filters = vec![own_limit(2, unit)];
    let envoy = gateway(Gateway { filters, ..Gateway::new(tollgate.grpc(), rate_limits) }).start();
    let mut client = envoy.client();
    let replies = [(); 4].map(|()| client.get("/", &[ANN]));
    assert_eq!(replies.each_ref().map(|reply| reply.status), statuses);
    assert_eq!(envoy.counter("cluster.upstream.ratelimit.error"), errors);
    if errors == 0 {
        assert_eq!(replies[0].the("x-ratelimit-limit"), "2, 2;w=3600");
    }
    // It goes on as if nothing had been.
    let question =
        json!({"domain": "envoy", "descriptors": [{"entries": [{"key": "user", "value": "ann"}]}]});
    assert_eq!(tollgate.post("/json", &question).status, 200, "the rule's own counter is untouched");
}

#[test]
fn a_request_may_bring_its_own_limit() {
    check_own_limit("HOUR", |gateway| gateway, [200, 200, 429, 429], 0);
    check_own_limit("HOUR", |gateway| Gateway { place: Place::Route, ..gateway }, [200, 200, 429, 429], 0);
}

#[test]
fn a_limit_without_a_unit_is_an_error_and_envoy_decides() {
    check_own_limit("UNKNOWN", |gateway| gateway, [200; 4], 4);
    check_own_limit("UNKNOWN", |gateway| Gateway { failure_mode_deny: true, ..gateway }, [500; 4], 4);
}
