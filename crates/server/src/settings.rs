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

use crate::access::{TokenSettings, TokenSource};
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
    /// Where counters are kept.
    pub store: StoreSettings,
    /// How requests are answered.
    pub gate: GateSettings,
    /// Threads that serve requests.
    pub workers: usize,
    /// Connections of one listener at the same time; more have to wait.
    pub connections_max: usize,
    /// The most memory, in bytes, that one listener gives to long requests under way.
    pub requests_memory: usize,
    /// How long a server that was told to stop goes on as before, but not ready: load balancers need to notice.
    pub drain_delay: Duration,
    /// How long connections have to finish after that.
    pub drain_timeout: Duration,
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
            store: StoreSettings::default(),
            gate: GateSettings::default(),
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            connections_max: 16_384,
            requests_memory: 64 << 20,
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(10),
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

    /// Takes relative paths as meant from this directory.
    pub fn paths_from(&mut self, folder: &Path) {
        let tokens = [&mut self.tokens.http, &mut self.tokens.grpc, &mut self.tokens.resp];
        let tokens = tokens.into_iter().flatten().filter_map(|source| match source {
            TokenSource::File(path) => Some(path),
            TokenSource::Listed(_) => None,
        });
        let tls = [&mut self.tls.certificate, &mut self.tls.key, &mut self.tls.client_ca];
        let store = &mut self.store;
        let hidden = [&mut store.password, &mut store.sentinel_password, &mut store.secret];
        let hidden = hidden.into_iter().flatten().filter_map(|text| match text {
            HiddenText::File(path) => Some(path),
            HiddenText::Given(_) => None,
        });
        let store_tls = [&mut store.tls_ca, &mut store.tls_certificate, &mut store.tls_key];
        let files = tls.into_iter().chain(store_tls).flatten();
        for path in std::iter::once(&mut self.rules).chain(files).chain(tokens).chain(hidden) {
            *path = folder.join(&*path); // An absolute one stays what it is.
        }
    }
}

#[cfg(test)]
mod tests;
