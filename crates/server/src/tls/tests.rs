//! Which settings and files make a door, and what comes through it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod handshakes;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;

/// Somebody who vouches for others.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(super) fn vouch_for(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// Files that are not there.
pub(super) fn files() -> Files {
    let named = |setting, path: &str| NamedFile { setting, path: path.into() };
    Files {
        certificate: named(CERTIFICATE, "cert.pem"),
        key: named(KEY, "key.pem"),
        client_ca: Some(named(CLIENT_CA, "ca.pem")),
    }
}

pub(super) fn identity(pair: &Pair, client_ca: &str) -> Result<Identity, SecretError> {
    let contents = [&pair.certificate, &pair.key, client_ca].map(|text| text.as_bytes().to_vec());
    Identity::from_pem(&files(), &contents)
}

#[test]
fn listeners_speak_as_well_as_the_files_allow() {
    use TlsMode::{Mutual, Off, On};
    let path = || Some(PathBuf::from("x"));
    let check = |settings: TlsSettings, expected: [TlsMode; 4]| {
        let TlsModes { http, grpc, resp, admin } = settings.modes();
        assert_eq!([http, grpc, resp, admin], expected, "{settings:?}");
    };
    check(TlsSettings::default(), [Off; 4]);
    check(TlsSettings { client_ca: path(), ..TlsSettings::default() }, [Off; 4]);
    let with_certificate = TlsSettings { certificate: path(), key: path(), ..TlsSettings::default() };
    check(with_certificate.clone(), [On; 4]);
    check(TlsSettings { resp: Some(Off), ..with_certificate.clone() }, [On, On, Off, On]);
    let with_clients = TlsSettings { client_ca: path(), ..with_certificate };
    check(with_clients.clone(), [Mutual, Mutual, Mutual, On]);
    check(TlsSettings { http: Some(On), admin: Some(Mutual), ..with_clients }, [On, Mutual, Mutual, Mutual]);
}

#[test]
fn settings_that_contradict_each_other_are_told() {
    let path = || Some(PathBuf::from("x"));
    let check = |settings: TlsSettings, expected: &str| {
        assert_eq!(Tls::load(&settings).map(drop).unwrap_err().to_string(), expected);
    };
    let none = TlsSettings::default;
    check(
        TlsSettings { http: Some(TlsMode::On), ..none() },
        "`http_tls` is `on`, which needs `tls_certificate`",
    );
    check(
        TlsSettings { resp: Some(TlsMode::Mutual), certificate: path(), key: path(), ..none() },
        "`resp_tls` is `mutual`, which needs `tls_client_ca`",
    );
    check(TlsSettings { certificate: path(), ..none() }, "`tls_certificate` needs `tls_key` too");
    check(TlsSettings { key: path(), ..none() }, "`tls_key` needs `tls_certificate` too");
    check(TlsSettings { client_ca: path(), ..none() }, "`tls_client_ca` needs `tls_certificate` too");
    let nowhere = Some(PathBuf::from("/nowhere/x.pem"));
    check(
        TlsSettings { certificate: nowhere.clone(), key: nowhere, ..none() },
        "`tls_certificate` /nowhere/x.pem: cannot be read: No such file or directory (os error 2)",
    );
}

#[test]
fn files_that_are_of_no_use_are_told() {
    let authority = Authority::new();
    let (ours, other) = (authority.vouch_for("localhost"), authority.vouch_for("localhost"));
    let check = |certificate: &str, key: &str, client_ca: &str, expected: &str| {
        let pair = Pair { certificate: certificate.to_owned(), key: key.to_owned() };
        assert_eq!(identity(&pair, client_ca).map(drop).unwrap_err().to_string(), expected);
    };
    let ca = authority.pem();
    assert!(identity(&ours, &ca).is_ok());

    let no_certificate = "no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----";
    for text in ["", "nonsense", &ours.key] {
        check(text, &ours.key, &ca, &format!("`tls_certificate` cert.pem: {no_certificate}"));
        check(&ours.certificate, &ours.key, text, &format!("`tls_client_ca` ca.pem: {no_certificate}"));
    }
    let no_key = "`tls_key` key.pem: no private key in PEM: PKCS#8, PKCS#1 or SEC1, and not encrypted";
    for text in ["", "nonsense", &ours.certificate, &ours.key[..60]] {
        check(&ours.certificate, text, &ca, no_key);
    }
    check(
        &ours.certificate,
        &other.key,
        &ca,
        "`tls_key` key.pem: this key does not belong to the certificate of `tls_certificate` cert.pem",
    );
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    check(garbage, &ours.key, &ca, "`tls_certificate` cert.pem: PEM, but what is in it is no certificate");
    check(
        &ours.certificate,
        &ours.key,
        garbage,
        "`tls_client_ca` ca.pem: PEM, but what is in it is no certificate",
    );
    let garbage = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let refused = identity(&Pair { key: garbage.to_owned(), ..ours }, &ca).map(drop).unwrap_err().to_string();
    assert!(refused.starts_with("`tls_key` key.pem: not a key of use: "), "{refused}");
}

#[test]
fn a_file_of_certificates_has_a_length() {
    let authority = Authority::new();
    let pair = authority.vouch_for("localhost");
    let ca = authority.pem();
    assert!(identity(&pair, &ca.repeat(1_000)).is_ok());
    let refused = identity(&pair, &ca.repeat(1_001)).map(drop).unwrap_err().to_string();
    assert_eq!(refused, "`tls_client_ca` ca.pem: more than 1000 certificates");
}
