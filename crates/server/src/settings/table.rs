//! The settings by name: one line each, and what it changes.

use tollgate::policy::DefaultAlgorithm;

use tollgate_redis::Address;

use super::Settings;
use super::networks::{hops, ipv6_prefix, networks};
use super::pins::pins;
use super::value::{
    SettingError, admin_hosts, boolean, bytes, count, duration, listen, log_format, log_level, meaningless,
    percent, rate, ratio, tls_mode, tokens,
};
use crate::admin::AdminTokenSource;
use crate::gate::PathForm;
use crate::store::HiddenText;

/// A setting: its names, and how its text becomes part of [`Settings`].
pub struct Setting {
    /// Its name in the settings file. Its flag has dashes instead of underscores.
    pub name: &'static str,
    /// Its environment variable.
    pub variable: &'static str,
    /// The variable under which envoyproxy/ratelimit knows it, if it takes the same values.
    pub alias: Option<&'static str>,
    /// What kind of value it takes, for help texts.
    pub value_name: &'static str,
    /// What it means, in a line, its default included.
    pub help: &'static str,
    pub(super) set: fn(&mut Settings, &str) -> Result<(), SettingError>,
}

macro_rules! settings {
    ($($name:literal, $variable:literal, $alias:expr, $value_name:literal, $help:literal, $set:expr;)*) => {
        /// All settings.
        pub const SETTINGS: &[Setting] = &[$(
            Setting { name: $name, variable: $variable, alias: $alias, value_name: $value_name, help: $help, set: $set },
        )*];
    };
}

settings! {
    "rules", "TOLLGATE_RULES", None, "PATH",
        "The file or directory of rules [default: rules]",
        |settings, text| { settings.rules = text.into(); Ok(()) };
    "http", "TOLLGATE_HTTP", None, "ADDR",
        "Where HTTP is served, or `off` [default: 127.0.0.1:8080]",
        |settings, text| { settings.http = listen(text)?; Ok(()) };
    "grpc", "TOLLGATE_GRPC", None, "ADDR",
        "Where gRPC is served, or `off` [default: 127.0.0.1:8081]",
        |settings, text| { settings.grpc = listen(text)?; Ok(()) };
    "resp", "TOLLGATE_RESP", None, "ADDR",
        "Where Redis clients are served, or `off` [default: 127.0.0.1:6380]",
        |settings, text| { settings.resp = listen(text)?; Ok(()) };
    "admin", "TOLLGATE_ADMIN", None, "ADDR",
        "Where metrics, health and the admin API are served, or `off` [default: 127.0.0.1:9090]",
        |settings, text| { settings.admin = listen(text)?; Ok(()) };
    "tls_certificate", "TOLLGATE_TLS_CERTIFICATE", None, "PATH",
        "The server's certificate and its chain, in PEM [default: none]",
        |settings, text| { settings.tls.certificate = Some(text.into()); Ok(()) };
    "tls_key", "TOLLGATE_TLS_KEY", None, "PATH",
        "The certificate's private key, in PEM [default: none]",
        |settings, text| { settings.tls.key = Some(text.into()); Ok(()) };
    "tls_client_ca", "TOLLGATE_TLS_CLIENT_CA", None, "PATH",
        "The authorities whose clients are let in, in PEM [default: none]",
        |settings, text| { settings.tls.client_ca = Some(text.into()); Ok(()) };
    "tls_client_crl", "TOLLGATE_TLS_CLIENT_CRL", None, "PATH",
        "Lists of client certificates that these authorities have revoked, in PEM: one of each authority [default: none]",
        |settings, text| { settings.tls.client_crl = Some(text.into()); Ok(()) };
    "http_tls", "TOLLGATE_HTTP_TLS", None, "MODE",
        "TLS on the HTTP listener: `off`, `on`, or `mutual`, where clients show a certificate too [default: as the files allow]",
        |settings, text| { settings.tls.http = tls_mode(text)?; Ok(()) };
    "grpc_tls", "TOLLGATE_GRPC_TLS", None, "MODE",
        "TLS on the gRPC listener [default: as the files allow]",
        |settings, text| { settings.tls.grpc = tls_mode(text)?; Ok(()) };
    "resp_tls", "TOLLGATE_RESP_TLS", None, "MODE",
        "TLS on the RESP listener [default: as the files allow]",
        |settings, text| { settings.tls.resp = tls_mode(text)?; Ok(()) };
    "admin_tls", "TOLLGATE_ADMIN_TLS", None, "MODE",
        "TLS on the admin listener [default: `on` with a certificate]",
        |settings, text| { settings.tls.admin = tls_mode(text)?; Ok(()) };
    "http_tokens", "TOLLGATE_HTTP_TOKENS", None, "TOKENS",
        "Tokens that HTTP clients must show, with commas between them, or `@PATH` of a file of them [default: none]",
        |settings, text| { settings.tokens.http = tokens(text)?; Ok(()) };
    "grpc_tokens", "TOLLGATE_GRPC_TOKENS", None, "TOKENS",
        "Tokens that gRPC clients must show [default: none]",
        |settings, text| { settings.tokens.grpc = tokens(text)?; Ok(()) };
    "resp_tokens", "TOLLGATE_RESP_TOKENS", None, "TOKENS",
        "Tokens that Redis clients must show as a password [default: none]",
        |settings, text| { settings.tokens.resp = tokens(text)?; Ok(()) };
    "http_hosts", "TOLLGATE_HTTP_HOSTS", None, "LIST",
        "Names under which the HTTP listener is asked and whose web pages may ask it, besides addresses and localhost, with commas between them [default: none]",
        |settings, text| { settings.http_hosts = admin_hosts(text)?; Ok(()) };
    "admin_tokens", "TOLLGATE_ADMIN_TOKENS", None, "TOKENS",
        "Tokens of the admin API, as ROLE:NAME:TOKEN with commas between them, or `@PATH` of a file of them; roles are reader, operator and admin [default: one that is made, in DATA/admin.token]",
        |settings, text| { settings.admin_api.tokens = Some(AdminTokenSource::parse(text)?); Ok(()) };
    "admin_hosts", "TOLLGATE_ADMIN_HOSTS", None, "LIST",
        "Names under which the admin API is asked, besides its address and those of this machine, with commas between them [default: none]",
        |settings, text| { settings.admin_api.hosts = admin_hosts(text)?; Ok(()) };
    "admin_rate", "TOLLGATE_ADMIN_RATE", None, "RATE",
        "How many requests the admin API takes of each token, such as `50/s` or, with a burst, `50/s:200`; or `off` [default: 50/s:200]",
        |settings, text| { settings.admin_api.rate = rate(text)?; Ok(()) };
    "data", "TOLLGATE_DATA", None, "PATH",
        "The directory of what the server writes itself: its database and its admin token [default: data]",
        |settings, text| { settings.data = text.into(); Ok(()) };
    "database", "TOLLGATE_DATABASE", None, "DATABASE",
        "Where what operators change is kept: sqlite:PATH, postgres://USER:PASSWORD@HOST/NAME, or `off` [default: sqlite:DATA/tollgate.db]",
        |settings, text| { settings.database = Some(text.parse().map_err(SettingError::Database)?); Ok(()) };
    "database_deadline", "TOLLGATE_DATABASE_DEADLINE", None, "TIME",
        "The longest that a decision on a `durable` limit waits for the database, where it has no units at hand; then the rule's `fail_mode` decides [default: 500ms]",
        |settings, text| { settings.database_deadline = duration(text)?; Ok(()) };
    "store", "TOLLGATE_STORE", None, "STORE",
        "Where counters are kept: `memory`, for this process alone; or in Redis for all that share it: redis://HOST, redis+sentinel://HOST,HOST/MASTER, redis+cluster://HOST,HOST, redis+ring://HOST,HOST; `rediss` for TLS [default: memory]",
        |settings, text| { settings.store.address = store(text)?; Ok(()) };
    "store_user", "TOLLGATE_STORE_USER", None, "NAME",
        "The user of the store, if it wants one [default: as the address says]",
        |settings, text| { settings.store.user = Some(text.to_owned()); Ok(()) };
    "store_password", "TOLLGATE_STORE_PASSWORD", None, "TEXT",
        "The password of the store, or `@PATH` of a file with it [default: as the address says]",
        |settings, text| { settings.store.password = Some(HiddenText::parse(text)); Ok(()) };
    "store_sentinel_password", "TOLLGATE_STORE_SENTINEL_PASSWORD", None, "TEXT",
        "The password of the sentinels, or `@PATH` of a file with it [default: none]",
        |settings, text| { settings.store.sentinel_password = Some(HiddenText::parse(text)); Ok(()) };
    "store_tls_ca", "TOLLGATE_STORE_TLS_CA", None, "PATH",
        "The authorities that vouch for a store that is reached by TLS, in PEM [default: none]",
        |settings, text| { settings.store.tls_ca = Some(text.into()); Ok(()) };
    "store_tls_certificate", "TOLLGATE_STORE_TLS_CERTIFICATE", None, "PATH",
        "The certificate that the store is shown, and its chain, in PEM [default: none]",
        |settings, text| { settings.store.tls_certificate = Some(text.into()); Ok(()) };
    "store_tls_key", "TOLLGATE_STORE_TLS_KEY", None, "PATH",
        "The private key of that certificate, in PEM [default: none]",
        |settings, text| { settings.store.tls_key = Some(text.into()); Ok(()) };
    "store_deadline", "TOLLGATE_STORE_DEADLINE", None, "TIME",
        "The longest that a decision waits for the store; then the rule's `fail_mode` decides [default: 2ms]",
        |settings, text| { settings.store.deadline = duration(text)?; Ok(()) };
    "store_prefix", "TOLLGATE_STORE_PREFIX", None, "TEXT",
        "What keys in the store begin with [default: tollgate]",
        |settings, text| { text.clone_into(&mut settings.store.prefix); Ok(()) };
    "store_secret", "TOLLGATE_STORE_SECRET", None, "TEXT",
        "What all who share the counters know, or `@PATH` of a file with it: keys in the store are made with it, and tell nothing without it [default: none]",
        |settings, text| { settings.store.secret = Some(HiddenText::parse(text)); Ok(()) };
    "store_nodes", "TOLLGATE_STORE_NODES", None, "COUNT",
        "How many processes share the counters: each spends its part while the store is away [default: as they count themselves in the store]",
        |settings, text| { settings.store.nodes = Some(u32::try_from(count(text)?).unwrap_or(u32::MAX)); Ok(()) };
    "store_pins", "TOLLGATE_STORE_PINS", None, "LIST",
        "Tenants or keys that are kept on a node of their own, of a store that is a ring or one node: NAME=HOST:PORT, with commas between them [default: none]",
        |settings, text| { settings.store.pins = pins(text)?; Ok(()) };
    "memory", "TOLLGATE_MEMORY", None, "SIZE",
        "The most memory that counters may take [default: 1GiB, or half of the memory of the machine or container if that is less]",
        |settings, text| { settings.memory = Some(bytes(text)?); Ok(()) };
    "inline_limits_percent", "TOLLGATE_INLINE_LIMITS_PERCENT", None, "PERCENT",
        "Percent of `memory` for limits that requests bring along: CL.THROTTLE, limits in descriptors [default: 12]",
        |settings, text| { settings.gate.engine.ledger.callers_percent = percent(text)?; Ok(()) };
    "default_algorithm", "TOLLGATE_DEFAULT_ALGORITHM", None, "NAME",
        "The algorithm of limits that name none and have no burst: `sliding_window`, or `fixed_window` as envoyproxy/ratelimit counts [default: sliding_window]",
        |settings, text| { settings.gate.engine.default_algorithm = default_algorithm(text)?; Ok(()) };
    "shadow_mode", "TOLLGATE_SHADOW_MODE", Some("SHADOW_MODE"), "BOOL",
        "Let every request pass; count and report only [default: false]",
        |settings, text| { settings.gate.engine.shadow_mode = boolean(text)?; Ok(()) };
    "near_limit_ratio", "TOLLGATE_NEAR_LIMIT_RATIO", Some("NEAR_LIMIT_RATIO"), "RATIO",
        "From which part of a limit on a key is counted as near it, in metrics [default: 0.8]",
        |settings, text| { settings.gate.near_limit_ratio = ratio(text)?; Ok(()) };
    "hot_key_share", "TOLLGATE_HOT_KEY_SHARE", None, "RATIO",
        "From which part of the decisions of its shard on a key is hot: it is logged, and leased where its rule says `lease_when_hot`; 0 is never [default: 0.05]",
        |settings, text| { settings.gate.engine.hot.share = ratio(text)?; Ok(()) };
    "rls_older_headers", "TOLLGATE_RLS_OLDER_HEADERS", Some("LIMIT_RESPONSE_HEADERS_ENABLED"), "BOOL",
        "Give Envoy the older RateLimit-Limit, -Remaining and -Reset headers to add [default: false]",
        |settings, text| { settings.gate.rls_older_headers = boolean(text)?; Ok(()) };
    "rls_x_ratelimit_headers", "TOLLGATE_RLS_X_RATELIMIT_HEADERS", None, "BOOL",
        "Give Envoy X-RateLimit-* headers to add; not needed where it makes its own [default: false]",
        |settings, text| { settings.gate.rls_x_ratelimit_headers = boolean(text)?; Ok(()) };
    "rls_dynamic_metadata", "TOLLGATE_RLS_DYNAMIC_METADATA", Some("RESPONSE_DYNAMIC_METADATA"), "BOOL",
        "Give Envoy the request and the metadata of its rules as dynamic metadata [default: false]",
        |settings, text| { settings.gate.rls_dynamic_metadata = boolean(text)?; Ok(()) };
    "trusted_proxies", "TOLLGATE_TRUSTED_PROXIES", None, "LIST",
        "Proxies whose word about clients is taken by /v1/auth: networks and addresses, `loopback`, `private`, or `none` [default: loopback]",
        |settings, text| { settings.gate.addresses.trusted_proxies = networks(text)?; Ok(()) };
    "trusted_hops", "TOLLGATE_TRUSTED_HOPS", None, "COUNT",
        "How many proxies stand before /v1/auth, if their addresses do not tell; 0 goes by addresses [default: 0]",
        |settings, text| { settings.gate.addresses.trusted_hops = hops(text)?; Ok(()) };
    "ipv6_prefix", "TOLLGATE_IPV6_PREFIX", None, "BITS",
        "By how many leading bits /v1/auth tells IPv6 clients apart; 128 is the whole address [default: 64]",
        |settings, text| { settings.gate.addresses.ipv6_prefix = ipv6_prefix(text)?; Ok(()) };
    "normalize_path", "TOLLGATE_NORMALIZE_PATH", None, "BOOL",
        "Normalize the path of a request before /v1/auth makes descriptors of it: decode letters, digits and `-._~`, resolve dot segments, merge slashes [default: false]",
        |settings, text| { settings.gate.path_form = if boolean(text)? { PathForm::Normalized } else { PathForm::AsSent }; Ok(()) };
    "workers", "TOLLGATE_WORKERS", None, "COUNT",
        "Threads that serve requests [default: one per core]",
        |settings, text| { settings.workers = count(text)?; Ok(()) };
    "connections_max", "TOLLGATE_CONNECTIONS_MAX", None, "COUNT",
        "Connections per listener; more wait to be accepted [default: 16384, or as many as file descriptors allow]",
        |settings, text| { settings.connections_max = Some(count(text)?); Ok(()) };
    "connections_per_client", "TOLLGATE_CONNECTIONS_PER_CLIENT", None, "COUNT",
        "Connections per listener and client address, or per /64 network of IPv6; more are closed at once [default: half of connections_max]",
        |settings, text| { settings.connections_per_client = Some(count(text)?); Ok(()) };
    "connection_rate_per_client", "TOLLGATE_CONNECTION_RATE_PER_CLIENT", None, "RATE",
        "New connections per client address on all data listeners, such as `5000/s:10000` with a burst, or `off`; more are closed at once [default: 5000/s:10000]",
        |settings, text| { settings.connection_rate_per_client = rate(text)?; Ok(()) };
    "connections_per_client_exempt", "TOLLGATE_CONNECTIONS_PER_CLIENT_EXEMPT", None, "LIST",
        "Networks without limits per client: networks and addresses, `loopback`, `private`, or `none` [default: none]",
        |settings, text| { settings.connections_per_client_exempt = networks(text)?; Ok(()) };
    "connections_memory", "TOLLGATE_CONNECTIONS_MEMORY", None, "SIZE",
        "The most memory that connections and requests under way may take, on all listeners together [default: a quarter of memory]",
        |settings, text| { settings.connections_memory = Some(bytes(text)?); Ok(()) };
    "insecure_listen", "TOLLGATE_INSECURE_LISTEN", None, "BOOL",
        "Serve other machines without tokens or client certificates [default: false]",
        |settings, text| { settings.insecure_listen = boolean(text)?; Ok(()) };
    "drain_delay", "TOLLGATE_DRAIN_DELAY", None, "TIME",
        "How long to go on, but not ready, after being told to stop [default: 0s]",
        |settings, text| { settings.drain_delay = duration(text)?; Ok(()) };
    "drain_timeout", "TOLLGATE_DRAIN_TIMEOUT", None, "TIME",
        "How long connections then have to finish [default: 10s]",
        |settings, text| { settings.drain_timeout = duration(text)?; Ok(()) };
    "clock_jump_delay", "TOLLGATE_CLOCK_JUMP_DELAY", None, "TIME",
        "How long wall time has to stay where it has jumped to before the server follows it without another clock [default: 1m]",
        |settings, text| { settings.clock_jump_delay = duration(text)?; Ok(()) };
    "log_level", "TOLLGATE_LOG_LEVEL", Some("LOG_LEVEL"), "LEVEL",
        "What is logged: error, warn, info, debug, trace, or a filter by module [default: info]",
        |settings, text| { settings.log_level = log_level(text)?; Ok(()) };
    "log_format", "TOLLGATE_LOG_FORMAT", None, "FORMAT",
        "How it is logged: `text` or `json` [default: text]",
        |settings, text| { settings.log_format = log_format(text)?; Ok(()) };
}

/// An address may have a password in it: what is wrong is said without it.
fn store(text: &str) -> Result<Option<Address>, SettingError> {
    if text == "memory" { Ok(None) } else { Ok(Some(text.parse()?)) }
}

fn default_algorithm(text: &str) -> Result<DefaultAlgorithm, SettingError> {
    match text {
        "sliding_window" => Ok(DefaultAlgorithm::SlidingWindow),
        "fixed_window" => Ok(DefaultAlgorithm::FixedWindow),
        _ => Err(meaningless(text, "sliding_window or fixed_window")),
    }
}
