//! What a PostgreSQL server must show before the password is used.
//!
//! `prefer` and `require` encrypt with any server that answers, also with a man in the middle. Such a server can ask for the password in the
//! clear or as an MD5 hash, or relay a plain SCRAM exchange to the real server and take the session over. SCRAM with channel binding
//! (SCRAM-SHA-256-PLUS) prevents all three: the proof covers the certificate that this side has seen. So where no authority vouches
//! for the certificate, nothing else is accepted.
//!
//! A connection without TLS has no certificate to bind to. `prefer` falls back to one on loopback only; elsewhere an operator has to
//! say `disable`.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use tokio_postgres::config;

use crate::address::{PostgresAddress, SslMode};
use crate::error::DatabaseError;

/// How the driver says that a server has used no channel binding, and that it does not speak TLS. Tests notice if these change.
const NO_BINDING: &str = "server did not use channel binding";
const NO_TLS: &str = "server does not support TLS";

/// How a connection is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Protection {
    sslmode: SslMode,
    /// Whether an authority vouches for the certificate.
    is_verified: bool,
    is_loopback: bool,
    has_password: bool,
}

impl Protection {
    pub(super) fn of(address: &PostgresAddress) -> Protection {
        Protection {
            sslmode: address.sslmode,
            is_verified: address.is_verified(),
            is_loopback: is_loopback(&address.host),
            has_password: address.password.is_some(),
        }
    }

    /// Whether the connection is encrypted, in the words of the driver.
    pub(super) fn ssl_mode(self) -> config::SslMode {
        match self.sslmode {
            SslMode::Disable => config::SslMode::Disable,
            SslMode::Prefer if !self.has_password => config::SslMode::Prefer,
            SslMode::Prefer | SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
                config::SslMode::Require
            }
        }
    }

    /// Whether the server has to prove, by channel binding, that it is at the other end of this very connection. Not asked of a connection
    /// that has no password to protect.
    fn requires_binding(self) -> bool {
        self.has_password && !self.is_verified && self.sslmode != SslMode::Disable
    }

    /// The same in the words of the driver.
    pub(super) fn channel_binding(self) -> config::ChannelBinding {
        if self.requires_binding() { config::ChannelBinding::Require } else { config::ChannelBinding::Prefer }
    }

    /// Whether the server is asked again without TLS after this reason why it could not be reached: it has none, and it is on
    /// this machine.
    pub(super) fn falls_back(self, reason: &str) -> bool {
        self.sslmode == SslMode::Prefer && self.is_loopback && self.has_password && reason.contains(NO_TLS)
    }

    /// A warning for operators whose password or session depends on the network, if it does.
    pub(super) fn warning(self) -> Option<&'static str> {
        match self.sslmode {
            _ if self.is_loopback || self.is_verified => None,
            SslMode::Disable => Some(
                "the connection to PostgreSQL is not encrypted: a machine on its way can read and change what is sent, \
                 and ask for the password; use sslmode=verify-full",
            ),
            _ => Some(
                "the certificate of PostgreSQL is not verified: only SCRAM with channel binding protects the password; \
                 use sslmode=verify-full",
            ),
        }
    }

    /// An error of the driver that is about protection, in words for operators.
    pub(super) fn error(self, place: &str, reason: &str) -> Option<DatabaseError> {
        if reason.contains(NO_BINDING) && self.requires_binding() {
            return Some(DatabaseError::Denied(format!(
                "{place} did not use SCRAM with channel binding, and its certificate is not verified: the password was not sent. \
                 Set sslmode=verify-full and sslrootcert, or have PostgreSQL keep the password with scram-sha-256"
            )));
        }
        if reason.contains(NO_TLS) && self.sslmode == SslMode::Prefer {
            return Some(DatabaseError::Denied(format!(
                "{place} does not speak TLS: sslmode=prefer uses a password without TLS on loopback only. Turn `ssl` on in PostgreSQL, \
                 or set sslmode=disable if the network between is trusted"
            )));
        }
        None
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}
