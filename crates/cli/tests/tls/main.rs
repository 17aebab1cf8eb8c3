//! TLS and tokens, with the clients that people use: curl, redis-cli, grpcio and Envoy.
#![allow(clippy::unwrap_used, clippy::panic)]

mod authority;
mod client;
mod crowds;
mod envoy;
mod grpc;
mod http;
mod mistakes;
mod redis;
mod reload;
mod stopping;
mod tokens;

use authority::Authority;
use tollgate_testkit::real::Launch;

const TOLLGATE: &str = env!("CARGO_BIN_EXE_tollgate");

const RULES: &str = "
domain: envoy
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 1}
policies:
  ten-an-hour: {requests: 10, period: 1h}
";

fn launch() -> Launch {
    Launch::new(TOLLGATE).rules("rules.yaml", RULES)
}

/// A server with a certificate of this authority, whose files lie in the server's directory as `server.pem`, `server.key` and `ca.pem`.
fn with_tls(authority: &Authority) -> Launch {
    let launch = launch();
    authority.write(launch.folder(), "ca");
    authority.vouch_for("localhost").write(launch.folder(), "server");
    launch.flag("tls-certificate", "server.pem").flag("tls-key", "server.key")
}

/// The same, where clients show a certificate of this authority too.
fn with_mutual_tls(authority: &Authority) -> Launch {
    with_tls(authority).flag("tls-client-ca", "ca.pem")
}
