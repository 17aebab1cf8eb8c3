//! The server behind the real Envoy: what clients of a proxy see of their limits.
//!
//! Limits are per hour and windows slide, so that no count depends on when a test runs.
#![allow(clippy::unwrap_used, clippy::panic)]

mod answers;
mod costs;
mod counts;
mod meanings;

use std::thread;

use serde_json::{Value, json};
use tollgate_testkit::real::{Client, Envoy, Launch, Tollgate};

/// A server with these rules.
fn tollgate(rules: &str) -> Tollgate {
    launch(rules).start()
}

fn launch(rules: &str) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("envoy.yaml", rules)
}

/// A descriptor of one entry whose value is a header's. A request without the header has no such descriptor.
fn by_header(key: &str, header: &str) -> Value {
    json!({"request_headers": {"header_name": header, "descriptor_key": key, "skip_if_absent": true}})
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
fn flood(envoy: &Envoy, threads: usize, requests: usize, headers: &[(&str, &str)]) -> Tally {
    let statuses = thread::scope(|scope| {
        let send = |mut client: Client| move || (0..requests).map(|_| client.get("/", headers).status).collect::<Vec<_>>();
        let senders: Vec<_> = (0..threads).map(|_| scope.spawn(send(envoy.client()))).collect();
        senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect::<Vec<u16>>()
    });
    let mut tally = Tally::default();
    statuses.into_iter().for_each(|status| tally.add(status));
    tally
}
