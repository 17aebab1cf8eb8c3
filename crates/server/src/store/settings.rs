//! What a server is told about the store of its counters.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tollgate_redis::{Address, Credentials, Layout, Node, Secret, Settings, SettingsError, Tls, TlsError};

use crate::secret::{NamedFile, SecretError};

/// What a server is told about the store of its counters.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// Where it is. Nowhere: counters are kept in memory, for this process alone.
    pub address: Option<Address>,
    /// Who asks, if the address does not say it.
    pub user: Option<String>,
    /// The password of whoever asks.
    pub password: Option<HiddenText>,
    /// The password of the sentinels, who have one of their own.
    pub sentinel_password: Option<HiddenText>,
    /// The authorities that vouch for the store, in PEM.
    pub tls_ca: Option<PathBuf>,
    /// The certificate to show to the store, in PEM.
    pub tls_certificate: Option<PathBuf>,
    /// Its private key, in PEM.
    pub tls_key: Option<PathBuf>,
    /// The longest that a decision waits for the store.
    pub deadline: Duration,
    /// What keys in the store begin with.
    pub prefix: String,
    /// What all who share the counters know, and nobody else: names of counters are made with it.
    pub secret: Option<HiddenText>,
    /// How many processes share the counters, if they are not to count themselves.
    pub nodes: Option<u32>,
    /// What is kept on a node of its own.
    pub pins: Vec<(String, Node)>,
}

/// A text that is not to be shown: as it is, or in a file.
#[derive(Clone, PartialEq, Eq)]
pub enum HiddenText {
    /// As it is.
    Given(String),
    /// In a file. The end of its line does not belong to it.
    File(PathBuf),
}

/// Why the store cannot be reached with these settings.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A file.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// Somebody to trust, and nothing to trust them with.
    #[error("`store_tls_ca` is given, but `store` begins with `redis`: write `rediss` to reach it by TLS")]
    PlainAddress,
    /// Pins, and no nodes to choose from.
    #[error(
        "`store_pins` needs nodes that know nothing of each other: a `store` that begins with redis+ring://, or redis:// and no database. A Cluster decides itself where a key lives"
    )]
    Pins,
    /// TLS.
    #[error("TLS to the store: {0}")]
    Tls(#[from] TlsError),
    /// What the settings say together.
    #[error("store: {0}")]
    Settings(#[from] SettingsError),
}

impl Default for StoreSettings {
    fn default() -> StoreSettings {
        StoreSettings {
            address: None,
            user: None,
            password: None,
            sentinel_password: None,
            tls_ca: None,
            tls_certificate: None,
            tls_key: None,
            deadline: Duration::from_millis(2),
            prefix: "tollgate".to_owned(),
            secret: None,
            nodes: None,
            pins: Vec::new(),
        }
    }
}

impl StoreSettings {
    /// How the store is reached, if there is one.
    pub(super) fn reached(&self) -> Result<Option<Settings>, StoreError> {
        let Some(mut address) = self.address.clone() else {
            return if self.pins.is_empty() { Ok(None) } else { Err(StoreError::Pins) };
        };
        if !self.pins.is_empty() {
            address.layout = match address.layout {
                // With the nodes of pins it is not the only one any more. What is not pinned stays where it is.
                Layout::One { database: 0 } | Layout::Ring => Layout::Ring,
                _ => return Err(StoreError::Pins),
            };
        }
        if let Some(user) = &self.user {
            address.credentials.user = Some(user.clone());
        }
        if let Some(password) = &self.password {
            address.credentials.password = Some(Secret::new(password.read("store_password")?));
        }
        let sentinel_password =
            self.sentinel_password.as_ref().map(|password| password.read("store_sentinel_password"));
        let sentinel_password = sentinel_password.transpose()?.map(Secret::new);
        let tls = self.tls(address.is_tls)?;
        Ok(Some(Settings {
            sentinel_credentials: Credentials { user: None, password: sentinel_password },
            tls,
            prefix: self.prefix.clone(),
            nodes: self.nodes,
            pins: self.pins.clone(),
            ..Settings::new(address)
        }))
    }

    /// How many nodes the settings name: each thread that serves requests has a connection to each.
    pub(crate) fn named_nodes(&self) -> usize {
        let Some(address) = &self.address else { return 0 };
        let mut nodes: Vec<&Node> = address.nodes.iter().collect();
        for (_, node) in &self.pins {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        nodes.len()
    }

    /// What all who share the counters know.
    pub(crate) fn secret(&self) -> Result<Vec<u8>, StoreError> {
        match &self.secret {
            Some(secret) => Ok(secret.read("store_secret")?.into_bytes()),
            None => Ok(Vec::new()),
        }
    }

    fn tls(&self, is_wanted: bool) -> Result<Option<Tls>, StoreError> {
        let read = |setting, path: &Option<PathBuf>| {
            path.clone().map(|path| NamedFile { setting, path }.read()).transpose()
        };
        let Some(ca) = read("store_tls_ca", &self.tls_ca)? else { return Ok(None) };
        if !is_wanted {
            return Err(StoreError::PlainAddress);
        }
        let certificate = read("store_tls_certificate", &self.tls_certificate)?;
        let identity = match (&certificate, read("store_tls_key", &self.tls_key)?) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (Some(_), None) => return Err(incomplete("store_tls_certificate", "store_tls_key")),
            (None, Some(_)) => return Err(incomplete("store_tls_key", "store_tls_certificate")),
        };
        let identity = identity.as_ref().map(|(certificate, key)| (certificate.as_slice(), key.as_slice()));
        Ok(Some(Tls::new(&ca, identity)?))
    }
}

fn incomplete(setting: &'static str, missing: &'static str) -> StoreError {
    SecretError::Incomplete { setting, missing }.into()
}

impl HiddenText {
    /// The text itself, or `@PATH` of a file.
    pub(crate) fn parse(text: &str) -> HiddenText {
        match text.strip_prefix('@') {
            Some(path) => HiddenText::File(path.into()),
            None => HiddenText::Given(text.to_owned()),
        }
    }

    fn read(&self, setting: &'static str) -> Result<String, SecretError> {
        let path = match self {
            HiddenText::Given(text) => return Ok(text.clone()),
            HiddenText::File(path) => path.clone(),
        };
        let file = NamedFile { setting, path };
        let text = String::from_utf8(file.read()?).map_err(|_| file.unusable("is not text"))?;
        let text = text.strip_suffix('\n').map_or(&*text, |text| text.strip_suffix('\r').unwrap_or(text));
        if text.is_empty() {
            return Err(file.unusable("is empty"));
        }
        Ok(text.to_owned())
    }
}

impl fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HiddenText::Given(_) => f.write_str("(hidden)"),
            HiddenText::File(path) => write!(f, "@{}", path.display()),
        }
    }
}
