//! The server behind the real Envoy: what clients of a proxy see of their limits.
//!
//! Limits are per hour and windows slide, so that no count depends on when a test runs.
#![allow(clippy::unwrap_used, clippy::panic)]

mod answers;
mod costs;
mod counts;
mod example;
mod failures;
mod meanings;
mod reload;

use std::thread;

use serde_json::{Value, json};
use tollgate_testkit::real::{Client, Envoy, Gateway, Launch, Tollgate};

type Headers<'a> = &'a [(&'a str, &'a str)];

/// A server with these rules.
fn tollgate(rules: &str) -> Tollgate {
    Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("envoy.yaml", rules).start()
}

/// An action whose value is a header's. A request without the header has no such descriptor.
fn by_header(key: &str, header: &str) -> Value {
    json!({"request_headers": {"header_name": header, "descriptor_key": key, "skip_if_absent": true}})
}

/// Sends requests one after the other, and compares: the status, and what Envoy says remains.
fn check(rules: &str, rate_limits: Value, steps: &[(Headers<'_>, u16, Option<&str>)]) {
    let tollgate = tollgate(rules);
    let envoy = Gateway::new(tollgate.grpc(), rate_limits).start();
    let mut client = envoy.client();
    for (at, (headers, status, remaining)) in steps.iter().enumerate() {
        let reply = client.get("/", headers);
        let got = (reply.status, reply.header("x-ratelimit-remaining"));
        assert_eq!(got, (*status, *remaining), "step {at}, with {headers:?}: {reply:#?}");
    }
    assert_eq!(envoy.counter("cluster.upstream.ratelimit.error"), 0);
}

/// How many requests had which status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: usize,
    limited: usize,
    other: usize,
}

impl Tally {
    fn add(&mut self, status: u16) {
        *match status {
            200 => &mut self.passed,
            429 => &mut self.limited,
            _ => &mut self.other,
        } += 1;
    }
}

/// Sends from so many threads, each so many requests over one connection, and counts what comes back.
fn flood(envoy: &Envoy, threads: usize, requests: usize, headers: Headers<'_>) -> Tally {
    let send = |mut client: Client| {
        move || (0..requests).map(|_| client.get("/", headers).status).collect::<Vec<u16>>()
    };
    let mut tally = Tally::default();
    thread::scope(|scope| {
        let senders: Vec<_> = (0..threads).map(|_| scope.spawn(send(envoy.client()))).collect();
        for sender in senders {
            sender.join().unwrap().into_iter().for_each(|status| tally.add(status));
        }
    });
    tally
}
