//! What requests cost: a number, a header, or what only the response tells; and what is given back.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::real::{Gateway, Tollgate, holds_within, until};

use super::{Headers, by_header, check, tollgate};

const TEN_AN_HOUR: &str = "
domain: envoy
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 10}
";

const ANN: (&str, &str) = ("x-user", "ann");

/// A descriptor with the user and what it costs.
fn costing(hits_addend: &Value) -> Value {
    json!({"actions": [by_header("user", "x-user")], "hits_addend": hits_addend})
}

#[test]
fn a_descriptor_costs_what_its_configuration_says() {
    let ann: Headers<'_> = &[ANN];
    let steps = [(ann, 200, Some("7")), (ann, 200, Some("4")), (ann, 200, Some("1")), (ann, 429, Some("0"))];
    check(TEN_AN_HOUR, json!([costing(&json!({"number": 3}))]), &steps);
}

#[test]
fn a_descriptor_costs_what_a_header_says() {
    let steps: [(Headers<'_>, _, _); 5] = [
        (&[ANN, ("x-cost", "4")], 200, Some("6")),
        (&[ANN, ("x-cost", "0")], 200, Some("6")),
        (&[ANN, ("x-cost", "6")], 200, Some("0")),
        // Nothing left, and nothing asked for: that passes.
        (&[ANN, ("x-cost", "0")], 200, Some("0")),
        (&[ANN, ("x-cost", "1")], 429, Some("0")),
    ];
    check(TEN_AN_HOUR, json!([costing(&json!({"format": "%REQ(x-cost)%"}))]), &steps);
}

#[test]
fn a_cost_that_is_no_number_never_reaches_the_server() {
    // Envoy drops the descriptor, and the request is not limited at all. A cost must not come from a client.
    let steps: [(Headers<'_>, _, _); 6] = [
        (&[ANN, ("x-cost", "10")], 200, Some("0")),
        (&[ANN], 200, None),
        (&[ANN, ("x-cost", "junk")], 200, None),
        (&[ANN, ("x-cost", "-3")], 200, None),
        (&[ANN, ("x-cost", "99999999999")], 200, None),
        (&[ANN, ("x-cost", "1")], 429, Some("0")),
    ];
    check(TEN_AN_HOUR, json!([costing(&json!({"format": "%REQ(x-cost)%"}))]), &steps);
}

#[test]
fn what_is_given_back_can_be_used_again() {
    let refund = json!({
        "actions": [by_header("user", "x-refund")],
        "hits_addend": {"format": "%REQ(x-units)%", "is_negative_hits": true},
    });
    let steps: [(Headers<'_>, _, _); 6] = [
        (&[ANN], 200, Some("5")),
        (&[ANN], 200, Some("0")),
        (&[("x-refund", "ann"), ("x-units", "6")], 200, Some("6")),
        (&[ANN], 200, Some("1")),
        // Never above full.
        (&[("x-refund", "ann"), ("x-units", "100")], 200, Some("10")),
        (&[ANN], 200, Some("5")),
    ];
    check(TEN_AN_HOUR, json!([costing(&json!({"number": 5})), refund]), &steps);
}

/// A check that costs nothing before the request, and the true cost after the response.
fn checked_before_and_charged_after() -> Value {
    let mut after = costing(&json!({"format": "%RESP(x-cost)%"}));
    after["apply_on_stream_done"] = json!(true);
    json!([costing(&json!({"number": 0})), after])
}

/// How many questions Envoy has had answered.
fn answered(tollgate: &Tollgate) -> u64 {
    let count = |outcome| {
        tollgate.metric(&format!("ratelimit_requests_total{{protocol=\"rls\",outcome=\"{outcome}\"}}"))
    };
    count("allowed") + count("denied")
}

#[test]
fn what_a_response_costs_is_charged_after_it() {
    let tollgate = tollgate(TEN_AN_HOUR);
    let envoy = Gateway::new(tollgate.grpc(), checked_before_and_charged_after()).start();
    let mut client = envoy.client();
    let steps = [
        ("4", 200, "10"),
        ("6", 200, "6"),
        // Exactly at the limit: nothing is owed yet, so a check passes, and its cost makes a debt.
        ("5", 200, "0"),
        ("5", 429, "0"),
        ("5", 429, "0"),
    ];
    for (at, (cost, status, remaining)) in steps.into_iter().enumerate() {
        let before = answered(&tollgate);
        let reply = client.get("/", &[ANN, ("x-reply-cost", cost)]);
        assert_eq!((reply.status, reply.the("x-ratelimit-remaining")), (status, remaining), "step {at}");
        // The second question comes after the client has its answer, and none comes if there was no response with a cost.
        let questions = if status == 200 { 2 } else { 1 };
        until("the response is charged", || (answered(&tollgate) >= before + questions).then_some(()));
    }
    assert_eq!(envoy.counter("cluster.upstream.ratelimit.error"), 0);
}

#[test]
fn a_debt_denies_until_it_is_paid_off() {
    let tollgate = tollgate(
        "
domain: envoy
descriptors:
  - key: user
    rate_limit: {algorithm: token_bucket, requests: 10, period: 10s, burst: 10}
",
    );
    let envoy = Gateway::new(tollgate.grpc(), checked_before_and_charged_after()).start();
    let mut client = envoy.client();
    assert_eq!(client.get("/", &[ANN, ("x-reply-cost", "13")]).status, 200);
    until("the response is charged", || (answered(&tollgate) == 2).then_some(()));
    let denied = client.get("/", &[ANN]);
    assert_eq!(denied.status, 429, "{denied:#?}");
    // Three units owed, one a second.
    assert!(["2", "3"].contains(&denied.the("retry-after")), "{denied:#?}");
    assert_eq!(client.get("/", &[("x-user", "ben")]).status, 200, "others owe nothing");
    assert!(holds_within(Duration::from_secs(10), || client.get("/", &[ANN]).status == 200));
}
