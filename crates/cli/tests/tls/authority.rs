//! Certificates as an authority of our own gives them out.

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};

/// Somebody who vouches for others.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a name and for this machine, as a server and as a client.
    pub(super) fn vouch_for(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// Writes its own certificate to `NAME.pem`.
    pub(super) fn write(&self, folder: &Path, name: &str) {
        put(&folder.join(format!("{name}.pem")), &self.pem());
    }
}

impl Pair {
    /// Writes `NAME.pem` and `NAME.key`.
    pub(super) fn write(&self, folder: &Path, name: &str) {
        put(&folder.join(format!("{name}.pem")), &self.certificate);
        put(&folder.join(format!("{name}.key")), &self.key);
    }
}

/// Writes a file, whole: nobody sees half of it.
pub(super) fn put(path: &Path, text: &str) {
    let draft = path.with_extension("draft");
    fs::write(&draft, text).unwrap();
    fs::rename(draft, path).unwrap();
}
