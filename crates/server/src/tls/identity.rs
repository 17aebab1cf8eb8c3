//! From the bytes of PEM files to what a handshake needs.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error, RootCertStore, ServerConfig};

use tollgate::core::Time;

use super::Files;
use super::expiry::{self, Expiry};
use crate::secret::{NamedFile, SecretError};

/// The most certificates that a file may have.
const CERTIFICATES_MAX: usize = 1_000;
/// The most lists of revoked certificates that a file may have.
const REVOCATION_LISTS_MAX: usize = 100;

const NOT_A_CERTIFICATE: &str = "PEM, but what is in it is no certificate";

/// Who the server is, and whom it lets in.
pub(super) struct Identity {
    provider: Arc<CryptoProvider>,
    certificate: NamedFile,
    certified: CertifiedKey,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    ends: Vec<Expiry>,
}

impl Identity {
    /// From the contents of the files, in the order in which they are named.
    pub(super) fn from_pem(files: &Files, contents: &[Vec<u8>], now: Time) -> Result<Identity, SecretError> {
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
        let lists = match &files.client_crl {
            Some(file) => revocation_lists(file, content(3), now)?,
            None => Vec::new(),
        };
        let mut authorities = Vec::new();
        let clients = match &files.client_ca {
            Some(file) => {
                authorities = certificates(file, content(2))?;
                Some(verifier(files, file, (&authorities, &lists), &provider)?)
            }
            None => None,
        };
        let ends = expiry::ends(&certified.cert, &authorities, &lists);
        Ok(Identity { provider, certificate: files.certificate.clone(), certified, clients, ends })
    }

    /// When it ends.
    pub(super) fn ends(&self) -> Vec<Expiry> {
        self.ends.clone()
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

/// All lists of revoked certificates of a file, none of which may be out of date: it would not name what was revoked since.
fn revocation_lists(
    file: &NamedFile,
    pem: &[u8],
    now: Time,
) -> Result<Vec<CertificateRevocationListDer<'static>>, SecretError> {
    let found: Vec<_> = CertificateRevocationListDer::pem_slice_iter(pem)
        .take(REVOCATION_LISTS_MAX + 1)
        .collect::<Result<_, _>>()
        .map_err(|error| file.unusable(format!("not PEM: {error}")))?;
    if found.is_empty() {
        return Err(file.unusable("no revocation list in PEM, which begins with -----BEGIN X509 CRL-----"));
    }
    if found.len() > REVOCATION_LISTS_MAX {
        return Err(file.unusable(format!("more than {REVOCATION_LISTS_MAX} revocation lists")));
    }
    for list in &found {
        if let Some(ended_s) = expiry::next_update_s(list).map(|end_s| expiry::now_s(now) - end_s)
            && ended_s >= 0
        {
            return Err(file.unusable(format!(
                "a revocation list has expired {ended_s} seconds ago: fetch the current one from its authority"
            )));
        }
    }
    Ok(found)
}

/// What lets clients in whose certificates these authorities have signed, and have not revoked. Where there are lists, there has to be one of
/// each authority: what none of them speaks of is refused.
fn verifier(
    files: &Files,
    file: &NamedFile,
    (authorities, lists): (&[CertificateDer<'static>], &[CertificateRevocationListDer<'static>]),
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, SecretError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone()).map_err(|_| file.unusable(NOT_A_CERTIFICATE))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let built = builder.with_crls(lists.iter().cloned()).build();
    built.map(|verifier| verifier as Arc<dyn ClientCertVerifier>).map_err(|error| match error {
        VerifierBuilderError::InvalidCrl(error) => files
            .client_crl
            .as_ref()
            .unwrap_or(file)
            .unusable(format!("not a revocation list of use: {error:?}")),
        other => file.unusable(other.to_string()),
    })
}
