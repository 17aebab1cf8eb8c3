//! Where the database is, as people write it.
//!
//! A password may stand in it, so neither the address nor an error about it ever shows what stands before the host.

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

const POSTGRES_PORT: u16 = 5432;

/// Where the database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseAddress {
    /// There is none: `off`.
    Off,
    /// A file: `sqlite:PATH`.
    Sqlite(PathBuf),
    /// A server: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=MODE&sslrootcert=PATH`.
    Postgres(PostgresAddress),
}

/// Where a PostgreSQL is, and who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresAddress {
    /// Its name, or its number without brackets.
    pub host: String,
    /// Where it listens.
    pub port: u16,
    /// Who asks.
    pub user: String,
    /// Their password.
    pub password: Option<Secret>,
    /// Which of its databases.
    pub database: String,
    /// How the connection is encrypted.
    pub sslmode: SslMode,
    /// The certificates of those who may vouch for it, in a file of PEM.
    pub sslrootcert: Option<PathBuf>,
}

/// How a connection is encrypted. The words and their meaning are PostgreSQL's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslMode {
    /// Not at all.
    Disable,
    /// If the server can. Whoever is between may prevent it.
    #[default]
    Prefer,
    /// Always, with any server that answers; with `sslrootcert` as [`SslMode::VerifyCa`], as PostgreSQL's own clients do.
    Require,
    /// Always, and only with a server that an authority vouches for, whatever its name.
    VerifyCa,
    /// Always, and with nobody but whom the certificate names.
    VerifyFull,
}

/// What must never be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Why there is no such address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// It does not begin as one.
    #[error("a database is off, sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE")]
    Scheme,
    /// No file is named.
    #[error("sqlite: is followed by the path of a file, as in sqlite:data/tollgate.db")]
    Path,
    /// Two slashes.
    #[error(
        "sqlite: is followed by a path, not by //: write sqlite:data/tollgate.db or sqlite:/var/lib/tollgate/tollgate.db"
    )]
    Slashes,
    /// What is not kept.
    #[error("a database in memory keeps nothing: name a file")]
    Memory,
    /// No user.
    #[error("postgres:// needs the name of a user, as in postgres://tollgate:PASSWORD@HOST/tollgate")]
    User,
    /// No host.
    #[error("postgres:// needs a host, as in postgres://tollgate:PASSWORD@db.example:5432/tollgate")]
    Host,
    /// A port is not one.
    #[error(
        "the port is not a number from 1 to 65535 (in a user or a password, write `@` as %40, `:` as %3A and `/` as %2F)"
    )]
    Port,
    /// IPv6 without brackets.
    #[error("the host has more than one `:`: write an IPv6 address in brackets, as in [::1]:5432")]
    Brackets,
    /// No database.
    #[error("postgres:// needs the name of a database at its end, as in postgres://tollgate@HOST/tollgate")]
    Database,
    /// Another mode.
    #[error("sslmode is disable, prefer, require, verify-ca or verify-full")]
    SslMode,
    /// Something that means nothing.
    #[error("behind `?` may stand sslmode=MODE and sslrootcert=PATH, with `&` between them, each once")]
    Parameter,
    /// A bad escape.
    #[error("a `%` that two hexadecimal digits should follow; write `%` itself as %25")]
    Escape,
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

impl SslMode {
    const ALL: [SslMode; 5] =
        [SslMode::Disable, SslMode::Prefer, SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            SslMode::Disable => "disable",
            SslMode::Prefer => "prefer",
            SslMode::Require => "require",
            SslMode::VerifyCa => "verify-ca",
            SslMode::VerifyFull => "verify-full",
        }
    }
}

impl PostgresAddress {
    /// Whether an authority has to vouch for the server's certificate.
    pub(crate) fn is_verified(&self) -> bool {
        match self.sslmode {
            SslMode::Disable | SslMode::Prefer => false,
            SslMode::Require => self.sslrootcert.is_some(),
            SslMode::VerifyCa | SslMode::VerifyFull => true,
        }
    }
}

impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseAddress::Off => f.write_str("off"),
            DatabaseAddress::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            DatabaseAddress::Postgres(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for PostgresAddress {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PostgresAddress { host, port, user, database, .. } = self;
        if host.contains(':') {
            write!(f, "postgres://{user}@[{host}]:{port}/{database}")?;
        } else {
            write!(f, "postgres://{user}@{host}:{port}/{database}")?;
        }
        if self.sslmode != SslMode::default() {
            write!(f, "?sslmode={}", self.sslmode.name())?;
        }
        Ok(())
    }
}

impl FromStr for DatabaseAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<DatabaseAddress, AddressError> {
        if text == "off" {
            return Ok(DatabaseAddress::Off);
        }
        if let Some(path) = text.strip_prefix("sqlite:") {
            return file(path).map(DatabaseAddress::Sqlite);
        }
        let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
        rest.ok_or(AddressError::Scheme)?.parse().map(DatabaseAddress::Postgres)
    }
}

impl FromStr for PostgresAddress {
    type Err = AddressError;

    /// What follows `postgres://`.
    fn from_str(text: &str) -> Result<PostgresAddress, AddressError> {
        // A password may have an unescaped `@`, `/` or `?` in it, and would then be taken for a host: the last `@` counts.
        let (who, place) = text.rsplit_once('@').ok_or(AddressError::User)?;
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, Some(Secret(unescape(password)?))),
            None => (who, None),
        };
        let (place, parameters) = place.split_once('?').unwrap_or((place, ""));
        let (node, database) = place.split_once('/').unwrap_or((place, ""));
        let (host, port) = node_of(node)?;
        let (sslmode, sslrootcert) = parameters_of(parameters)?;
        let user = Some(unescape(user)?).filter(|user| !user.is_empty()).ok_or(AddressError::User)?;
        let database = Some(unescape(database)?).filter(|name| !name.is_empty() && !name.contains('/'));
        let database = database.ok_or(AddressError::Database)?;
        Ok(PostgresAddress { host, port, user, password, database, sslmode, sslrootcert })
    }
}

fn file(path: &str) -> Result<PathBuf, AddressError> {
    match path {
        "" => Err(AddressError::Path),
        ":memory:" => Err(AddressError::Memory),
        _ if path.contains('\0') => Err(AddressError::Path),
        _ => match path.strip_prefix("//") {
            // As URLs have it, with no host before the path.
            Some(path) if path.starts_with('/') => Ok(path.into()),
            Some(_) => Err(AddressError::Slashes),
            None => Ok(path.into()),
        },
    }
}

fn node_of(text: &str) -> Result<(String, u16), AddressError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or(AddressError::Brackets)?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').unwrap_or("")) })
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(AddressError::Brackets),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control() || c == ',' || c == '%')
    {
        return Err(AddressError::Host);
    }
    let port = match port {
        None => POSTGRES_PORT,
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or(AddressError::Port)?,
    };
    Ok((host.to_ascii_lowercase(), port))
}

fn parameters_of(text: &str) -> Result<(SslMode, Option<PathBuf>), AddressError> {
    let (mut mode, mut authorities) = (None, None);
    for parameter in text.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("sslmode", name)) if mode.is_none() => {
                let found = SslMode::ALL.into_iter().find(|mode| mode.name() == name);
                mode = Some(found.ok_or(AddressError::SslMode)?);
            }
            Some(("sslrootcert", path)) if authorities.is_none() && !path.is_empty() => {
                authorities = Some(PathBuf::from(unescape(path)?));
            }
            _ => return Err(AddressError::Parameter),
        }
    }
    Ok((mode.unwrap_or_default(), authorities))
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
