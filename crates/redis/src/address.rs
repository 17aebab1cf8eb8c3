//! Where the authority is, as people write it.
//!
//! One line names the kind of set-up, its nodes and, if need be, who asks: `redis://user:password@host:6379/0`. A password may stand in it,
//! so neither the address nor an error about it ever shows more than the names of the nodes.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The most nodes that an address may name. A cluster has more: those are learnt from the ones that are named.
pub const NODES_MAX: usize = 256;

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Where the authority is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// How the nodes belong together.
    pub layout: Layout,
    /// The nodes that are named: at least one.
    pub nodes: Vec<Node>,
    /// Whether connections are encrypted.
    pub is_tls: bool,
    /// Who asks.
    pub credentials: Credentials,
}

/// How nodes belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// There is one.
    One {
        /// Which of its databases.
        database: u32,
    },
    /// The nodes are sentinels, who know where the master is.
    Sentinel {
        /// Under which name they know it.
        master: String,
        /// Which of its databases.
        database: u32,
    },
    /// They are some nodes of a cluster, which knows where keys are.
    Cluster,
    /// They know nothing of each other: which one keeps a key is ours to say.
    Ring,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// Its name, or its number without brackets.
    pub host: String,
    /// Where it listens.
    pub port: u16,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user of Redis's access lists; the default one if nothing is said.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<Secret>,
}

/// What must never be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Why there is no such address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// It does not begin as one.
    #[error(
        "an address of Redis begins with redis://, redis+sentinel://, redis+cluster:// or redis+ring:// (rediss for TLS){}",
        did_you_mean(*.0)
    )]
    Scheme(Option<&'static str>),
    /// A node has no name.
    #[error("node {0} has no name: write it as host:port, with commas between nodes and no spaces")]
    Host(usize),
    /// A port is not one.
    #[error(
        "the port of node {0} is not a number from 1 to 65535 (in a user or a password, write `@` as %40, `:` as %3A and `/` as %2F)"
    )]
    Port(usize),
    /// IPv6 without brackets.
    #[error("node {0} has more than one `:`: write an IPv6 address in brackets, as in [::1]:6379")]
    Brackets(usize),
    /// One node is what this kind of address has.
    #[error("redis:// has one node; for more write redis+cluster://, redis+sentinel:// or redis+ring://")]
    ManyNodes,
    /// More nodes than anybody has.
    #[error("more than {NODES_MAX} nodes: name some of them, the others are learnt from those")]
    TooManyNodes,
    /// Twice the same.
    #[error("node {0} is named twice")]
    Twice(usize),
    /// The name of the master is missing.
    #[error(
        "redis+sentinel:// needs the name of the master at its end, as in redis+sentinel://host:26379/mymaster"
    )]
    Master,
    /// A database that is none.
    #[error("what follows the last `/` is not the number of a database")]
    Database,
    /// Databases where there are none.
    #[error("a cluster and a ring have no numbered databases: leave out the `/` and what follows")]
    NoDatabases,
    /// A bad escape.
    #[error(
        "the user or the password has a `%` that two hexadecimal digits should follow; write `%` itself as %25"
    )]
    Escape,
    /// Something that belongs elsewhere.
    #[error("`?` and `#` mean nothing here: whatever else there is to say has a setting of its own")]
    Query,
}

fn did_you_mean(meant: Option<&'static str>) -> String {
    meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default()
}

impl Secret {
    /// Keeps a secret.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The secret itself, for the one who may know it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Node {
    type Err = AddressError;

    /// `host`, `host:port` or `[::1]:port`.
    fn from_str(text: &str) -> Result<Node, AddressError> {
        node(text, REDIS_PORT, 1)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = if self.is_tls { "s" } else { "" };
        let kind = match self.layout {
            Layout::One { .. } => "",
            Layout::Sentinel { .. } => "+sentinel",
            Layout::Cluster => "+cluster",
            Layout::Ring => "+ring",
        };
        write!(f, "redis{tls}{kind}://")?;
        for (index, node) in self.nodes.iter().enumerate() {
            write!(f, "{}{node}", if index == 0 { "" } else { "," })?;
        }
        match &self.layout {
            Layout::One { database } if *database > 0 => write!(f, "/{database}"),
            Layout::Sentinel { master, database: 0 } => write!(f, "/{master}"),
            Layout::Sentinel { master, database } => write!(f, "/{master}/{database}"),
            _ => Ok(()),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme(None))?;
        let (family, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let is_tls = match family {
            "redis" => false,
            "rediss" => true,
            _ => return Err(AddressError::Scheme(near_scheme(family))),
        };
        let default_port = if kind == "sentinel" { SENTINEL_PORT } else { REDIS_PORT };
        // A password may have an unescaped `@` or `/` in it, and would then be taken for a host: the last `@` counts.
        let (credentials, places) = match rest.rsplit_once('@') {
            Some((credentials, places)) => (Credentials::decode(credentials)?, places),
            None => (Credentials::default(), rest),
        };
        if places.contains(['?', '#']) {
            return Err(AddressError::Query);
        }
        let (hosts, path) = places.split_once('/').unwrap_or((places, ""));
        let nodes = nodes(hosts, default_port)?;
        let layout = match kind {
            "" if nodes.len() > 1 => return Err(AddressError::ManyNodes),
            "" => Layout::One { database: database(path)? },
            "sentinel" => {
                let (master, path) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(AddressError::Master);
                }
                Layout::Sentinel { master: master.to_owned(), database: database(path)? }
            }
            "cluster" | "ring" if !path.is_empty() => return Err(AddressError::NoDatabases),
            "cluster" => Layout::Cluster,
            "ring" => Layout::Ring,
            _ => return Err(AddressError::Scheme(near_kind(kind))),
        };
        Ok(Address { layout, nodes, is_tls, credentials })
    }
}

impl Credentials {
    /// `user:password`, `:password` or `user`, with escapes.
    fn decode(text: &str) -> Result<Credentials, AddressError> {
        let (user, password) = match text.split_once(':') {
            Some((user, password)) => (user, Some(Secret(unescape(password)?))),
            None => (text, None),
        };
        let user = Some(unescape(user)?).filter(|user| !user.is_empty());
        Ok(Credentials { user, password })
    }
}

fn nodes(hosts: &str, default_port: u16) -> Result<Vec<Node>, AddressError> {
    let mut nodes: Vec<Node> = Vec::new();
    for (index, text) in hosts.split(',').enumerate() {
        if index == NODES_MAX {
            return Err(AddressError::TooManyNodes);
        }
        let node = node(text, default_port, index + 1)?;
        if nodes.contains(&node) {
            return Err(AddressError::Twice(index + 1));
        }
        nodes.push(node);
    }
    Ok(nodes)
}

/// One node, of which errors know only the number: what stands there may be a misplaced password.
fn node(text: &str, default_port: u16, number: usize) -> Result<Node, AddressError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or(AddressError::Brackets(number))?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').unwrap_or("")) })
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(AddressError::Brackets(number)),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(AddressError::Host(number));
    }
    let port = match port {
        None => default_port,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(AddressError::Port(number)),
        },
    };
    Ok(Node { host: host.to_ascii_lowercase(), port })
}

fn database(path: &str) -> Result<u32, AddressError> {
    if path.is_empty() { Ok(0) } else { path.parse().map_err(|_| AddressError::Database) }
}

fn unescape(text: &str) -> Result<String, AddressError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digit = |index: usize| tail.get(index).and_then(|byte| char::from(*byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else { return Err(AddressError::Escape) };
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| AddressError::Escape)?);
        rest = tail.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| AddressError::Escape)
}

/// What somebody meant who wrote another scheme.
fn near_scheme(family: &str) -> Option<&'static str> {
    match family.to_ascii_lowercase().as_str() {
        "redis" | "valkey" | "redi" | "reids" => Some("redis://"),
        "rediss" | "valkeys" | "tls" => Some("rediss://"),
        "sentinel" | "redis-sentinel" => Some("redis+sentinel://"),
        "rediss-sentinel" => Some("rediss+sentinel://"),
        "cluster" | "redis-cluster" => Some("redis+cluster://"),
        "rediss-cluster" => Some("rediss+cluster://"),
        "ring" | "redis-ring" => Some("redis+ring://"),
        _ => None,
    }
}

fn near_kind(kind: &str) -> Option<&'static str> {
    match kind.to_ascii_lowercase().as_str() {
        "tls" | "ssl" => Some("rediss://"),
        "sentinel" | "sentinels" => Some("redis+sentinel://"),
        "cluster" | "clusters" => Some("redis+cluster://"),
        "ring" => Some("redis+ring://"),
        _ => None,
    }
}
