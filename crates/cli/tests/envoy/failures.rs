//! What becomes of requests while the server is dead or frozen, and afterwards.

use std::time::Duration;

use serde_json::json;
use tollgate::Clock;
use tollgate::core::Tick;
use tollgate_testkit::real::{Client, Envoy, Gateway, Signal, Tollgate, until};

use super::{by_header, tollgate};

const RULES: &str = "
domain: envoy
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 3}
";
const ANN: &[(&str, &str)] = &[("x-user", "ann")];
const TIMEOUT: Duration = Duration::from_millis(300);
/// For a machine with much else to do.
const SLACK: Duration = Duration::from_secs(3);

fn start(failure_mode_deny: bool) -> (Tollgate, Envoy) {
    let tollgate = tollgate(RULES);
    let rate_limits = json!([{"actions": [by_header("user", "x-user")]}]);
    let timeout_ms = u32::try_from(TIMEOUT.as_millis()).unwrap();
    let envoy =
        Gateway { timeout_ms, failure_mode_deny, ..Gateway::new(tollgate.grpc(), rate_limits) }.start();
    (tollgate, envoy)
}

/// The limit is used up and enforced, be it after a while in which Envoy has not yet found back.
fn check_limits(client: &mut Client) {
    until("requests are limited", || (client.get("/", ANN).status == 429).then_some(()));
}

/// Five requests have this status, and none takes much longer than Envoy waits.
fn check_unanswered(client: &mut Client, status: u16) {
    let clock = Clock::new();
    for _ in 0..5 {
        let before = clock.now();
        assert_eq!(client.get("/", ANN).status, status);
        let took = Tick::NANOSECOND.duration(clock.now().since(before));
        assert!(took < TIMEOUT + SLACK, "{took:?}");
    }
}

fn check_killed(failure_mode_deny: bool, status: u16) {
    let (mut tollgate, envoy) = start(failure_mode_deny);
    let mut client = envoy.client();
    check_limits(&mut client);
    tollgate.signal(Signal::KILL);
    assert_eq!(tollgate.wait(), None, "a signal has no exit code");
    check_unanswered(&mut client, status);
    tollgate.restart();
    // It has forgotten what it counted, but not how to count.
    check_limits(&mut client);
    assert!(envoy.counter("cluster.upstream.ratelimit.error") >= 5);
}

fn check_frozen(failure_mode_deny: bool, status: u16) {
    let (tollgate, envoy) = start(failure_mode_deny);
    let mut client = envoy.client();
    check_limits(&mut client);
    tollgate.signal(Signal::STOP);
    check_unanswered(&mut client, status);
    tollgate.signal(Signal::CONT);
    check_limits(&mut client);
    let mut fresh = envoy.client();
    assert_eq!(fresh.get("/", ANN).the("x-ratelimit-remaining"), "0", "and it has forgotten nothing");
}

#[test]
fn requests_pass_while_the_server_is_dead() {
    check_killed(false, 200);
}

#[test]
fn requests_fail_while_the_server_is_dead_if_envoy_is_told_so() {
    check_killed(true, 500);
}

#[test]
fn requests_pass_while_the_server_is_frozen() {
    check_frozen(false, 200);
}

#[test]
fn requests_fail_while_the_server_is_frozen_if_envoy_is_told_so() {
    check_frozen(true, 500);
}
