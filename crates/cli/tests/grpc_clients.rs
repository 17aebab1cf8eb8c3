//! grpcio as a client, which learns all messages from the server itself: what any gRPC client is answered.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use tollgate_testkit::real::{Launch, Signal, Tollgate, python};

const RULES: &str = "
domain: d
descriptors:
  - key: ten
    rate_limit: {name: ten-an-hour, unit: hour, requests_per_unit: 10}
  - key: one
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: blocked
    rate_limit: {unit: minute, requests_per_unit: 0}
  - key: unlimited
    rate_limit: {unlimited: true}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: replaced
    rate_limit: {name: old, unit: hour, requests_per_unit: 0}
  - key: replacing
    rate_limit: {name: new, unit: hour, requests_per_unit: 5, replaces: [{name: old}]}
  - key: quota-a
    quota_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: quota-b
    quota_mode: true
    rate_limit: {unit: hour, requests_per_unit: 2}
  - key: many
    rate_limit: {unit: hour, requests_per_unit: 300}
  - {key: unit, value: second, rate_limit: {unit: second, requests_per_unit: 7}}
  - {key: unit, value: minute, rate_limit: {unit: minute, requests_per_unit: 7}}
  - {key: unit, value: hour, rate_limit: {unit: hour, requests_per_unit: 7}}
  - {key: unit, value: day, rate_limit: {unit: day, requests_per_unit: 7}}
  - {key: unit, value: week, rate_limit: {unit: week, requests_per_unit: 7}}
  - {key: unit, value: month, rate_limit: {unit: month, requests_per_unit: 7}}
  - {key: unit, value: year, rate_limit: {unit: year, requests_per_unit: 7}}
";

fn launch() -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("d.yaml", RULES)
}

/// Runs one part of the script against a server.
fn check(tollgate: &Tollgate, part: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/grpc_client.py");
    let arguments = [tollgate.grpc().port().to_string(), tollgate.pid().to_string(), part.to_owned()];
    let finished = python(&script, &arguments);
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "fine"), "{}", finished.stderr);
}

#[test]
fn every_case_has_its_answer() {
    check(&launch().start(), "answers");
}

#[test]
fn every_unit_is_told() {
    check(&launch().start(), "units");
}

#[test]
fn costs_refunds_and_own_limits_count() {
    check(&launch().start(), "costs");
}

#[test]
fn a_denied_client_has_headers_and_a_body() {
    check(&launch().start(), "denials");
}

#[test]
fn errors_have_the_codes_and_texts_that_callers_know() {
    check(&launch().start(), "errors");
}

#[test]
fn many_calls_at_once_get_exactly_the_limit() {
    check(&launch().start(), "parallel");
}

#[test]
fn a_deadline_passes_and_the_next_call_is_answered() {
    check(&launch().start(), "deadline");
}

#[test]
fn health_is_told() {
    check(&launch().start(), "health");
}

#[test]
fn health_changes_while_draining() {
    let mut tollgate = launch().flag("drain-delay", "1m").start();
    check(&tollgate, "draining");
    tollgate.signal(Signal::TERM);
    assert_eq!(tollgate.wait(), Some(0), "told twice, it goes at once");
}
