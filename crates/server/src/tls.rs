//! TLS on listeners: who is at which end, and new certificates while connections last.
//!
//! Certificates run out, and are replaced while the server runs. So every listener that speaks TLS has a [`Door`]: a handshake takes the
//! configuration that hangs there, and keeps it as long as its connection lasts. A new one is made whole before it is hung up, so
//! that a broken pair of files never gets there.

mod expiry;
mod identity;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tollgate::Clock;

pub(crate) use self::expiry::{Expiries, Expiry};
use self::identity::Identity;
use crate::drain::Drain;
use crate::reload::Kept;
use crate::secret::{NamedFile, SecretError};

/// How long a client may take to shake hands.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// So long is a client listened to that has failed to, and so much is taken from it: closing on unread bytes would destroy the alert
/// that tells it why.
const PARTING_TIME_MAX: Duration = Duration::from_secs(1);
const PARTING_BYTES_MAX: u64 = 256 << 10;

/// Whether a listener speaks TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsMode {
    /// In the clear.
    #[default]
    Off,
    /// The server shows a certificate.
    On,
    /// The client has to show one too.
    Mutual,
}

/// What TLS is made of.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// The certificate and those between it and its authority, in PEM.
    pub certificate: Option<PathBuf>,
    /// Its private key, in PEM.
    pub key: Option<PathBuf>,
    /// The authorities whose clients are let in, in PEM.
    pub client_ca: Option<PathBuf>,
    /// Lists of certificates that these authorities have revoked, in PEM.
    pub client_crl: Option<PathBuf>,
    /// What was said of the HTTP listener.
    pub http: Option<TlsMode>,
    /// What was said of the gRPC listener.
    pub grpc: Option<TlsMode>,
    /// What was said of the RESP listener.
    pub resp: Option<TlsMode>,
    /// What was said of the admin listener.
    pub admin: Option<TlsMode>,
}

/// How each listener speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsModes {
    /// HTTP.
    pub http: TlsMode,
    /// gRPC.
    pub grpc: TlsMode,
    /// RESP.
    pub resp: TlsMode,
    /// Metrics and health.
    pub admin: TlsMode,
}

impl TlsMode {
    fn name(self) -> &'static str {
        match self {
            TlsMode::Off => "off",
            TlsMode::On => "on",
            TlsMode::Mutual => "mutual",
        }
    }
}

impl TlsSettings {
    /// How each listener speaks: as it was told, else as well as the files allow. Scrapers seldom have certificates, so that the admin
    /// listener asks for one only if it is told to.
    pub fn modes(&self) -> TlsModes {
        let best = match (&self.certificate, &self.client_ca) {
            (None, _) => TlsMode::Off,
            (Some(_), None) => TlsMode::On,
            (Some(_), Some(_)) => TlsMode::Mutual,
        };
        TlsModes {
            http: self.http.unwrap_or(best),
            grpc: self.grpc.unwrap_or(best),
            resp: self.resp.unwrap_or(best),
            admin: self.admin.unwrap_or(best.min(TlsMode::On)),
        }
    }

    /// The certificate, its key and the clients' authorities, if there are any; and what contradicts itself.
    fn files(&self) -> Result<Option<Files>, SecretError> {
        let TlsModes { http, grpc, resp, admin } = self.modes();
        for (listener, mode) in [("http", http), ("grpc", grpc), ("resp", resp), ("admin", admin)] {
            let unsupported =
                |missing| Err(SecretError::Unsupported { listener, mode: mode.name(), missing });
            if mode != TlsMode::Off && self.certificate.is_none() {
                return unsupported(CERTIFICATE);
            }
            if mode == TlsMode::Mutual && self.client_ca.is_none() {
                return unsupported(CLIENT_CA);
            }
        }
        let incomplete = |setting, missing| Err(SecretError::Incomplete { setting, missing });
        let named = |setting, path: &PathBuf| NamedFile { setting, path: path.clone() };
        if self.client_crl.is_some() && self.client_ca.is_none() {
            return incomplete(CLIENT_CRL, CLIENT_CA);
        }
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Ok(Some(Files {
                certificate: named(CERTIFICATE, certificate),
                key: named(KEY, key),
                client_ca: self.client_ca.as_ref().map(|path| named(CLIENT_CA, path)),
                client_crl: self.client_crl.as_ref().map(|path| named(CLIENT_CRL, path)),
            })),
            (Some(_), None) => incomplete(CERTIFICATE, KEY),
            (None, Some(_)) => incomplete(KEY, CERTIFICATE),
            (None, None) if self.client_ca.is_some() => incomplete(CLIENT_CA, CERTIFICATE),
            (None, None) => Ok(None),
        }
    }
}

const CERTIFICATE: &str = "tls_certificate";
const KEY: &str = "tls_key";
const CLIENT_CA: &str = "tls_client_ca";
const CLIENT_CRL: &str = "tls_client_crl";

/// Where an identity comes from.
#[derive(Clone, Debug)]
struct Files {
    certificate: NamedFile,
    key: NamedFile,
    client_ca: Option<NamedFile>,
    /// Only where there are authorities.
    client_crl: Option<NamedFile>,
}

impl Files {
    fn all(&self) -> Vec<NamedFile> {
        let clients = self.client_ca.iter().chain(&self.client_crl);
        [&self.certificate, &self.key].into_iter().chain(clients).cloned().collect()
    }
}

/// The doors of all listeners that speak TLS.
#[derive(Default)]
pub(crate) struct Tls {
    doors: Vec<Arc<Door>>,
    expiries: Arc<Expiries>,
}

/// Where one listener's handshakes take their configuration.
pub(crate) struct Door {
    listener: &'static str,
    is_mutual: bool,
    config: ArcSwap<ServerConfig>,
}

impl Tls {
    /// Reads the files, and makes a door for every listener that is to have one; and what is to be kept up to date.
    pub(crate) fn load(
        settings: &TlsSettings,
        clock: &Arc<Clock>,
    ) -> Result<(Tls, Option<Kept>), SecretError> {
        let Some(files) = settings.files()? else { return Ok((Tls::default(), None)) };
        let contents = Kept::read(&files.all())?;
        let identity = Identity::from_pem(&files, &contents, clock.now())?;
        let expiries = Arc::new(Expiries::default());
        expiries.replace(identity.ends());
        let TlsModes { http, grpc, resp, admin } = settings.modes();
        let doors = [("http", http), ("grpc", grpc), ("resp", resp), ("admin", admin)]
            .into_iter()
            .filter(|(_, mode)| *mode != TlsMode::Off)
            .map(|(listener, mode)| {
                let is_mutual = mode == TlsMode::Mutual;
                let config = identity.config(is_mutual, protocols(listener));
                Ok(Arc::new(Door { listener, is_mutual, config: ArcSwap::from(config?) }))
            })
            .collect::<Result<Vec<_>, SecretError>>()?;
        let (renewed, ends, clock) = (doors.clone(), Arc::clone(&expiries), Arc::clone(clock));
        let kept = Kept::new("certificates", files.all(), &contents, move |contents| {
            let identity = Identity::from_pem(&files, contents, clock.now())?;
            identity.hang_up(&renewed)?;
            ends.replace(identity.ends());
            Ok(())
        });
        Ok((Tls { doors, expiries }, Some(kept)))
    }

    /// When what is in force ends.
    pub(crate) fn expiries(&self) -> Arc<Expiries> {
        Arc::clone(&self.expiries)
    }

    /// The door of a listener, if it speaks TLS.
    pub(crate) fn door(&self, listener: &str) -> Option<Arc<Door>> {
        self.doors.iter().find(|door| door.listener == listener).cloned()
    }
}

impl Identity {
    /// Gives all doors what is made of this identity: all or none.
    fn hang_up(&self, doors: &[Arc<Door>]) -> Result<(), SecretError> {
        let config = |door: &Arc<Door>| self.config(door.is_mutual, protocols(door.listener));
        let configs = doors.iter().map(config).collect::<Result<Vec<_>, _>>()?;
        for (door, config) in doors.iter().zip(configs) {
            door.config.store(config);
        }
        Ok(())
    }
}

/// What is spoken behind the door, as clients can choose it during the handshake.
fn protocols(listener: &str) -> &'static [&'static [u8]] {
    match listener {
        "http" | "admin" => &[b"h2", b"http/1.1"],
        "grpc" => &[b"h2"],
        _ => &[],
    }
}

impl Door {
    /// Shakes hands. Nothing if the client fails to, or takes too long, or the server stops.
    pub(crate) async fn open(&self, stream: TcpStream, drain: &mut Drain) -> Option<TlsStream<TcpStream>> {
        let handshake = async {
            let acceptor = TlsAcceptor::from(self.config.load_full());
            match acceptor.accept(stream).into_fallible().await {
                Ok(stream) => Some(stream),
                Err((error, stream)) => {
                    tracing::debug!(listener = self.listener, %error, "a handshake failed");
                    let _ = part_with(stream).await; // It may have gone already.
                    None
                }
            }
        };
        tokio::select! {
            shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake) => shaken.unwrap_or_else(|_| {
                tracing::debug!(listener = self.listener, "a handshake took too long");
                None
            }),
            () = drain.begun() => None,
        }
    }
}

/// Lets a client read the alert that was written.
async fn part_with(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let (mut rest, mut nowhere) = (stream.take(PARTING_BYTES_MAX), tokio::io::sink());
    let taken = tokio::io::copy(&mut rest, &mut nowhere);
    // Whichever comes first: its end, or ours.
    tokio::time::timeout(PARTING_TIME_MAX, taken).await?.map(drop)
}
