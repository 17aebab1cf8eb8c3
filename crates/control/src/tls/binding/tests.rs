//! The hash that binds a login to the server's certificate.
#![allow(clippy::unwrap_used)]

use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};

use super::*;

fn certificate(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
    let key = KeyPair::generate_for(algorithm).unwrap();
    CertificateParams::new(vec!["db".to_owned()]).unwrap().self_signed(&key).unwrap().der().to_vec()
}

#[test]
fn the_hash_is_that_of_the_signature() {
    for (algorithm, hash) in
        [(&rcgen::PKCS_ECDSA_P256_SHA256, &SHA256), (&rcgen::PKCS_ECDSA_P384_SHA384, &SHA384)]
    {
        let certificate = certificate(algorithm);
        assert_eq!(server_end_point(&certificate).unwrap(), digest(hash, &certificate).as_ref());
    }
    assert_eq!(server_end_point(&certificate(&rcgen::PKCS_ED25519)), None, "it has no hash function");
    assert_eq!(server_end_point(b"no certificate"), None);
}
