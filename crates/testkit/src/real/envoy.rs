//! The real Envoy, asking the server under test about every request.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::http::{Client, fetch};
use super::process::Process;
use super::upstream::Upstream;
use super::venv;
use super::wait::until;

/// An admin listener at any port, beside whatever a configuration says.
const ADMIN: &str = "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}";

/// Where a configuration says what requests are about. Envoy knows three places, and they can do different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `rate_limits` of the filter itself, for all routes.
    Filter,
    /// `typed_per_filter_config` of the route.
    PerRoute,
    /// `rate_limits` of the route: the oldest one. Descriptors have no cost of their own there.
    Route,
}

/// What Envoy is to do: one listener, one filter that asks, one route to a service that answers 200.
///
/// The service is one of its own: a route that answers by itself (`direct_response`) is none that Envoy would ask about.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Where it asks.
    pub tollgate: SocketAddr,
    /// What a request is about: a list of Envoy's `RateLimit`.
    pub rate_limits: Value,
    /// Where that stands.
    pub place: Place,
    /// How long Envoy waits for an answer.
    pub timeout_ms: u32,
    /// Whether a request without an answer is turned away.
    pub failure_mode_deny: bool,
    /// Filters before the one that asks.
    pub filters: Vec<Value>,
    /// How it connects to where it asks, if not in the clear.
    pub transport_socket: Option<Value>,
    /// What it says of itself with every question: a list of Envoy's `HeaderValue`.
    pub metadata: Value,
}

impl Gateway {
    /// Asks about the domain `envoy`, with time enough that a busy machine makes no difference.
    pub fn new(tollgate: SocketAddr, rate_limits: Value) -> Gateway {
        Gateway {
            tollgate,
            rate_limits,
            place: Place::Filter,
            timeout_ms: 10_000,
            failure_mode_deny: false,
            filters: Vec::new(),
            transport_socket: None,
            metadata: json!([]),
        }
    }

    /// Starts it.
    pub fn start(&self) -> Envoy {
        Envoy::start(&self.config(Upstream::start().address()).to_string())
    }

    fn config(&self, upstream: SocketAddr) -> Value {
        let mut filters = self.filters.clone();
        filters.push(self.rate_limit_filter());
        filters.push(typed("envoy.filters.http.router", "http.router.v3.Router", json!({})));
        let manager = json!({
            "stat_prefix": "ingress",
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [self.route()]}]},
            "http_filters": filters,
        });
        let manager = typed(
            "envoy.filters.network.http_connection_manager",
            "network.http_connection_manager.v3.HttpConnectionManager",
            manager,
        );
        let mut tollgate = cluster("tollgate", self.tollgate, true);
        if let Some(socket) = &self.transport_socket {
            tollgate["transport_socket"] = socket.clone();
        }
        json!({"static_resources": {
            "listeners": [{
                "name": "ingress",
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
                "filter_chains": [{"filters": [manager]}],
            }],
            "clusters": [tollgate, cluster("upstream", upstream, false)],
        }})
    }

    fn route(&self) -> Value {
        let filter = "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute";
        json!({
            "match": {"prefix": "/"},
            "route": {"cluster": "upstream", "rate_limits": self.rate_limits_at(Place::Route)},
            "typed_per_filter_config": {"envoy.filters.http.ratelimit": {
                "@type": filter,
                "rate_limits": self.rate_limits_at(Place::PerRoute),
            }},
        })
    }

    fn rate_limit_filter(&self) -> Value {
        let filter = json!({
            "domain": "envoy",
            "timeout": format!("{:.3}s", f64::from(self.timeout_ms) / 1e3),
            "failure_mode_deny": self.failure_mode_deny,
            "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
            "rate_limits": self.rate_limits_at(Place::Filter),
            "rate_limit_service": {
                "transport_api_version": "V3",
                "grpc_service": {
                    "envoy_grpc": {"cluster_name": "tollgate"},
                    "initial_metadata": self.metadata,
                },
            },
        });
        typed("envoy.filters.http.ratelimit", "http.ratelimit.v3.RateLimit", filter)
    }

    fn rate_limits_at(&self, place: Place) -> Value {
        if place == self.place { self.rate_limits.clone() } else { json!([]) }
    }
}

/// A running Envoy.
#[derive(Debug)]
pub struct Envoy {
    // Before the directory, in which its files lie: fields are dropped in order.
    _process: Process,
    _folder: TempDir,
    admin: SocketAddr,
    address: SocketAddr,
}

impl Envoy {
    /// Starts it with a configuration, in YAML or JSON, that has a listener called `ingress`. It answers when this comes back.
    pub fn start(config: &str) -> Envoy {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("envoy.yaml");
        fs::write(&file, config).expect("a file in a directory of our own");
        let mut process = Process::start("envoy", &mut command(&file, folder.path()), folder.path());
        let admin = until("envoy says where it listens", || {
            assert_eq!(process.ended(), None, "envoy ended before it was ready");
            fs::read_to_string(folder.path().join("admin")).ok()?.trim().parse().ok()
        });
        until("envoy is ready", || {
            assert_eq!(process.ended(), None, "envoy ended before it was ready");
            fetch(admin, "/ready").ok().filter(|reply| reply.status == 200)
        });
        let address = until("envoy listens", || listener(admin));
        Envoy { _process: process, _folder: folder, admin, address }
    }

    /// Where its listener is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A connection to it.
    pub fn client(&self) -> Client {
        Client::connect(self.address).unwrap_or_else(|error| panic!("no connection to envoy: {error}"))
    }

    /// One of its own counters, by its full name. Those that were never used are 0.
    pub fn counter(&self, name: &str) -> u64 {
        let text = fetch(self.admin, &format!("/stats?filter=^{name}$")).expect("envoy's counters").body;
        text.trim().rsplit_once(": ").map_or(0, |(_, value)| value.parse().expect("a number"))
    }
}

fn command(config: &Path, folder: &Path) -> Command {
    let mut command = Command::new(venv::program("envoy"));
    command.arg("--config-path").arg(config).args(["--config-yaml", ADMIN]);
    command.arg("--admin-address-path").arg(folder.join("admin"));
    // Several of them run on one machine, and two threads of one must agree on what they count.
    command.args([
        "--use-dynamic-base-id",
        "--disable-hot-restart",
        "--concurrency",
        "2",
        "--log-level",
        "warning",
    ]);
    command
}

/// The address of the listener called `ingress`.
fn listener(admin: SocketAddr) -> Option<SocketAddr> {
    let reply = fetch(admin, "/listeners?format=json").ok()?;
    let listeners: Value = serde_json::from_str(&reply.body).ok()?;
    let listeners = listeners["listener_statuses"].as_array()?;
    let ingress = listeners.iter().find(|listener| listener["name"] == "ingress")?;
    let socket = &ingress["local_address"]["socket_address"];
    let address = socket["address"].as_str()?.parse().ok()?;
    let port = socket["port_value"].as_u64().and_then(|port| u16::try_from(port).ok())?;
    Some(SocketAddr::new(address, port)).filter(|address| address.port() != 0)
}

fn cluster(name: &str, address: SocketAddr, is_http2: bool) -> Value {
    let http = if is_http2 { "http2_protocol_options" } else { "http_protocol_options" };
    let protocol = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let endpoint = json!({"address": {"socket_address": {
        "address": address.ip().to_string(), "port_value": address.port(),
    }}});
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "typed_extension_protocol_options": {(protocol): {
            "@type": format!("type.googleapis.com/{protocol}"),
            "explicit_http_config": {(http): {}},
        }},
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": endpoint}]}],
        },
    })
}

fn typed(name: &str, kind: &str, mut config: Value) -> Value {
    config["@type"] = format!("type.googleapis.com/envoy.extensions.filters.{kind}").into();
    json!({"name": name, "typed_config": config})
}
