//! Channel binding: a hash of the server's certificate that both ends mix into the proof of the password (RFC 5929, `tls-server-end-point`).
//!
//! A man in the middle has another certificate than the real server, so a proof that was made towards the one is worth nothing at the
//! other. The hash function is that of the certificate's own signature; in the place of MD5 and SHA-1 stands SHA-256.

#[cfg(test)]
mod tests;

use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::{
    OID_PKCS1_MD5WITHRSAENC, OID_PKCS1_SHA1WITHRSA, OID_PKCS1_SHA256WITHRSA, OID_PKCS1_SHA384WITHRSA,
    OID_PKCS1_SHA512WITHRSA, OID_SIG_ECDSA_WITH_SHA256, OID_SIG_ECDSA_WITH_SHA384, OID_SIG_ECDSA_WITH_SHA512,
    Oid,
};

/// Each signature algorithm with a hash function of its own. Others, such as Ed25519, have none, and no binding is defined for them.
const HASHES: [(Oid<'static>, &Algorithm); 8] = [
    (OID_PKCS1_MD5WITHRSAENC, &SHA256),
    (OID_PKCS1_SHA1WITHRSA, &SHA256),
    (OID_PKCS1_SHA256WITHRSA, &SHA256),
    (OID_PKCS1_SHA384WITHRSA, &SHA384),
    (OID_PKCS1_SHA512WITHRSA, &SHA512),
    (OID_SIG_ECDSA_WITH_SHA256, &SHA256),
    (OID_SIG_ECDSA_WITH_SHA384, &SHA384),
    (OID_SIG_ECDSA_WITH_SHA512, &SHA512),
];

/// The binding to the end of a connection that has shown this certificate, in DER. None where none is defined.
pub(super) fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let signed_with = &parsed.signature_algorithm.algorithm;
    let (_, hash) = HASHES.into_iter().find(|(algorithm, _)| algorithm == signed_with)?;
    Some(digest(hash, certificate).as_ref().to_vec())
}
