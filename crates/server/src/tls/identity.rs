//! From the bytes of PEM files to what a handshake needs.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error, RootCertStore, ServerConfig};

use super::Files;
use crate::secret::{NamedFile, SecretError};

/// The most certificates that a file may have.
const CERTIFICATES_MAX: usize = 1_000;

const NOT_A_CERTIFICATE: &str = "PEM, but what is in it is no certificate";

/// Who the server is, and whom it lets in.
pub(super) struct Identity {
    provider: Arc<CryptoProvider>,
    certificate: NamedFile,
    certified: CertifiedKey,
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

impl Identity {
    /// From the contents of the files, in the order in which they are named.
    pub(super) fn from_pem(files: &Files, contents: &[Vec<u8>]) -> Result<Identity, SecretError> {
        let content = |index: usize| contents.get(index).map(Vec::as_slice).unwrap_or_default();
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(&files.certificate, content(0))?;
        let key = PrivateKeyDer::from_pem_slice(content(1)).map_err(|_| {
            files.key.unusable("no private key in PEM: PKCS#8, PKCS#1 or SEC1, and not encrypted")
        })?;
        let certified = CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
            Error::InconsistentKeys(_) => {
                SecretError::Mismatch { key: files.key.clone(), certificate: files.certificate.clone() }
            }
            Error::InvalidCertificate(_) => files.certificate.unusable(NOT_A_CERTIFICATE),
            other => files.key.unusable(format!("not a key of use: {other}")),
        })?;
        let clients = match &files.client_ca {
            Some(file) => Some(verifier(file, content(2), &provider)?),
            None => None,
        };
        Ok(Identity { provider, certificate: files.certificate.clone(), certified, clients })
    }

    /// What handshakes are made with. Each has memories of its own: a session that began without a client's certificate, or with one
    /// that is no longer trusted, cannot be resumed elsewhere.
    pub(super) fn config(
        &self,
        is_mutual: bool,
        protocols: &[&[u8]],
    ) -> Result<Arc<ServerConfig>, SecretError> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| self.certificate.unusable(error.to_string()))?;
        let builder = match (is_mutual, &self.clients) {
            (true, Some(clients)) => builder.with_client_cert_verifier(Arc::clone(clients)),
            (true, None) => return Err(self.certificate.unusable("nobody says which clients to let in")),
            (false, _) => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(self.certified.clone())));
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

/// All certificates of a file, of which there must be one.
fn certificates(file: &NamedFile, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, SecretError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .take(CERTIFICATES_MAX + 1)
        .collect::<Result<_, _>>()
        .map_err(|error| file.unusable(format!("not PEM: {error}")))?;
    match found.len() {
        0 => Err(file.unusable("no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----")),
        1..=CERTIFICATES_MAX => Ok(found),
        _ => Err(file.unusable(format!("more than {CERTIFICATES_MAX} certificates"))),
    }
}

/// What lets clients in whose certificates these authorities have signed.
fn verifier(
    file: &NamedFile,
    pem: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, SecretError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(file, pem)? {
        roots.add(authority).map_err(|_| file.unusable(NOT_A_CERTIFICATE))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map(|verifier| verifier as Arc<dyn ClientCertVerifier>)
        .map_err(|error| file.unusable(error.to_string()))
}
