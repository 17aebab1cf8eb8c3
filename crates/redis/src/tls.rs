//! Whom to trust at the other end of an encrypted connection, and who we are there.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The most certificates that one file may have.
const CERTIFICATES_MAX: usize = 1_000;

/// How connections are encrypted.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
}

/// Why they cannot be. What stands in a file is never shown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TlsError {
    /// The authorities' certificates.
    #[error("the authorities' certificates: {0}")]
    Authorities(String),
    /// Our own certificate or its key.
    #[error("the client's certificate and key: {0}")]
    Identity(String),
}

impl Tls {
    /// Trusts whom these authorities vouch for, in PEM. Who has a certificate of its own shows it: its chain and its key, in PEM.
    pub fn new(authorities: &[u8], identity: Option<(&[u8], &[u8])>) -> Result<Tls, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authorities).map_err(TlsError::Authorities)? {
            roots.add(certificate).map_err(|error| TlsError::Authorities(error.to_string()))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Authorities(error.to_string()))?
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = certificates(chain).map_err(TlsError::Identity)?;
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|_| TlsError::Identity("no private key in PEM that is not encrypted".into()))?;
                let config = builder.with_client_auth_cert(chain, key);
                config.map_err(|error| TlsError::Identity(error.to_string()))?
            }
        };
        Ok(Tls { connector: TlsConnector::from(Arc::new(config)) })
    }

    /// Shakes hands with who must be `host`.
    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| std::io::Error::other("its name can stand in no certificate"))?;
        self.connector.connect(name, stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .take(CERTIFICATES_MAX + 1)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("not PEM: {error}"))?;
    match found.len() {
        0 => Err("no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----".to_owned()),
        1..=CERTIFICATES_MAX => Ok(found),
        _ => Err(format!("more than {CERTIFICATES_MAX} certificates")),
    }
}
