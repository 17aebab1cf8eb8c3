//! Counters in Redis, end to end: several servers that share them, over TLS as a user with a password, behind gRPC and Envoy.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../tls/authority.rs"]
mod authority;
mod bookings;
mod denials;
mod envoy;
mod holds;
mod hot_keys;
mod leases;
mod pins;
mod processes;
mod repeats;
mod throttles;
mod tls;

use tollgate_testkit::real::Launch;

/// A server with these rules whose counters are kept there. It waits for them for longer than a busy machine lets it wait.
fn launch(rules: &str, store: &str) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("rules.yaml", rules);
    launch.flag("store", store).flag("store-deadline", "2s")
}
