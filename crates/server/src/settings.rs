//! What a server is told before it starts.
//!
//! Every setting has one name, from which its flag, its environment variable and its key in the settings file are made. All
//! of them bring a text, and one table says what the texts mean.

mod networks;
mod pins;
mod table;
mod value;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use table::{SETTINGS, Setting};
pub use value::SettingError;

use ipnet::IpNet;
use tollgate_control::DatabaseAddress;

use crate::access::{TokenSettings, TokenSource};
use crate::admin::{AdminHost, AdminRate, AdminTokenSource};
use crate::gate::GateSettings;
use crate::store::{HiddenText, StoreSettings};
use crate::tls::TlsSettings;

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere.
    Off,
    /// At this address. Port 0 takes any that is free.
    At(SocketAddr),
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What a server is told about its admin API.
#[derive(Clone, Debug)]
pub struct AdminSettings {
    /// Those who may use it. Nobody: the server makes a token, and writes it into its `data`.
    pub tokens: Option<AdminTokenSource>,
    /// Names under which it is asked, besides its address and those of this machine.
    pub hosts: Vec<AdminHost>,
    /// How many requests it takes of each token, if there is a limit.
    pub rate: Option<AdminRate>,
}

impl Default for AdminSettings {
    fn default() -> AdminSettings {
        AdminSettings { tokens: None, hosts: Vec::new(), rate: Some(AdminRate::default()) }
    }
}

/// What a server is told before it starts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file or directory of rules.
    pub rules: PathBuf,
    /// HTTP.
    pub http: Listen,
    /// gRPC.
    pub grpc: Listen,
    /// RESP.
    pub resp: Listen,
    /// Metrics and health.
    pub admin: Listen,
    /// Which of them speak TLS, and with which certificates.
    pub tls: TlsSettings,
    /// Which of them want tokens.
    pub tokens: TokenSettings,
    /// Names under which the HTTP listener is asked, besides addresses and `localhost`, and whose web pages may ask it.
    pub http_hosts: Vec<AdminHost>,
    /// Who may use the admin API, and how often.
    pub admin_api: AdminSettings,
    /// The directory of what the server itself writes.
    pub data: PathBuf,
    /// Where what operators change is kept; a file in `data`, if nothing is said.
    pub database: Option<DatabaseAddress>,
    /// The longest that a decision waits for the database.
    pub database_deadline: Duration,
    /// Where counters are kept.
    pub store: StoreSettings,
    /// The most memory, in bytes, that counters may take, where the operator says so.
    pub memory: Option<usize>,
    /// How requests are answered.
    pub gate: GateSettings,
    /// Threads that serve requests.
    pub workers: usize,
    /// Connections of one data listener at the same time; more wait to be accepted. The default depends
    /// on how many file descriptors there are.
    pub connections_max: Option<usize>,
    /// Of these, connections of one client; half of them unless the operator says otherwise.
    pub connections_per_client: Option<usize>,
    /// New connections of one client: on all data listeners together, and as many on the admin listener.
    pub connection_rate_per_client: Option<AdminRate>,
    /// Networks that the limits per client do not apply to.
    pub connections_per_client_exempt: Vec<IpNet>,
    /// The most memory, in bytes, that clients can make the server hold; a quarter of what counters may
    /// take unless the operator says otherwise.
    pub connections_memory: Option<usize>,
    /// Whether data listeners may be open to other machines without tokens and client certificates.
    pub insecure_listen: bool,
    /// How long a server that was told to stop goes on as before, but not ready: load balancers need to notice.
    pub drain_delay: Duration,
    /// How long connections have to finish after that.
    pub drain_timeout: Duration,
    /// How long wall time has to stay where it has jumped to before the server follows it without
    /// another clock.
    pub clock_jump_delay: Duration,
    /// What is logged: a level, or a filter such as `info,tollgate_server=debug`.
    pub log_level: String,
    /// How logs are written.
    pub log_format: LogFormat,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            rules: PathBuf::from("rules"),
            http: Listen::loopback(8080),
            grpc: Listen::loopback(8081),
            resp: Listen::loopback(6380),
            admin: Listen::loopback(9090),
            tls: TlsSettings::default(),
            tokens: TokenSettings::default(),
            http_hosts: Vec::new(),
            admin_api: AdminSettings::default(),
            data: PathBuf::from("data"),
            database: None,
            database_deadline: Duration::from_millis(500),
            store: StoreSettings::default(),
            memory: None,
            gate: GateSettings::default(),
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            connections_max: None,
            connections_per_client: None,
            connection_rate_per_client: Some(AdminRate { per_second: 5_000, burst: 10_000 }),
            connections_per_client_exempt: Vec::new(),
            connections_memory: None,
            insecure_listen: false,
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(10),
            clock_jump_delay: Duration::from_mins(1),
            log_level: "info".to_owned(),
            log_format: LogFormat::Text,
        }
    }
}

impl Listen {
    const fn loopback(port: u16) -> Listen {
        Listen::At(SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), port))
    }
}

impl Settings {
    /// Sets the setting of this name to what the text says.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingError> {
        let setting = SETTINGS.iter().find(|setting| setting.name == name).ok_or(SettingError::Unknown)?;
        (setting.set)(self, text)
    }

    /// Where what operators change is kept.
    pub fn database_address(&self) -> DatabaseAddress {
        let in_data = || DatabaseAddress::Sqlite(self.data.join("tollgate.db"));
        self.database.clone().unwrap_or_else(in_data)
    }

    /// The file of the database, if it is one.
    pub(crate) fn database_file(&self) -> Option<PathBuf> {
        match self.database_address() {
            DatabaseAddress::Sqlite(path) => Some(path),
            DatabaseAddress::Postgres(_) | DatabaseAddress::Off => None,
        }
    }

    /// Where the server's own admin token lies, if it has to make one.
    pub(crate) fn admin_token_file(&self) -> PathBuf {
        self.data.join("admin.token")
    }

    /// Takes relative paths as meant from this directory.
    pub fn paths_from(&mut self, folder: &Path) {
        let tokens = [&mut self.tokens.http, &mut self.tokens.grpc, &mut self.tokens.resp];
        let tokens = tokens.into_iter().flatten().filter_map(|source| match source {
            TokenSource::File(path) => Some(path),
            TokenSource::Listed(_) => None,
        });
        let TlsSettings { certificate, key, client_ca, client_crl, .. } = &mut self.tls;
        let tls = [certificate, key, client_ca, client_crl];
        let store = &mut self.store;
        let hidden = [&mut store.password, &mut store.sentinel_password, &mut store.secret];
        let hidden = hidden.into_iter().flatten().filter_map(|text| match text {
            HiddenText::File(path) => Some(path),
            HiddenText::Given(_) => None,
        });
        let admin_tokens = match &mut self.admin_api.tokens {
            Some(AdminTokenSource::File(path)) => Some(path),
            _ => None,
        };
        let database = match &mut self.database {
            Some(DatabaseAddress::Sqlite(path)) => Some(path),
            Some(DatabaseAddress::Postgres(address)) => address.sslrootcert.as_mut(),
            Some(DatabaseAddress::Off) | None => None,
        };
        let own = [Some(&mut self.data), admin_tokens, database].into_iter().flatten();
        let store_tls = [&mut store.tls_ca, &mut store.tls_certificate, &mut store.tls_key];
        let files = tls.into_iter().chain(store_tls).flatten();
        for path in std::iter::once(&mut self.rules).chain(files).chain(tokens).chain(hidden).chain(own) {
            *path = folder.join(&*path); // An absolute one stays what it is.
        }
    }
}

#[cfg(test)]
mod tests;
