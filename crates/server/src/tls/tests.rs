//! Which settings and files make a door, and what comes through it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod handshakes;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, IsCa, KeyIdMethod,
    KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use tollgate::core::Time;

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
        self.vouch_for_number(name, None)
    }

    /// The same with a serial number, by which it can be revoked.
    pub(super) fn vouch_for_number(&self, name: &str, serial: Option<u64>) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.serial_number = serial.map(SerialNumber::from);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Authority {
    /// A list of certificates that it has revoked, in PEM: good from 2020 until the first day of this year.
    pub(super) fn revoke(&self, serials: &[u64], until_year: i32) -> String {
        let (this_update, next_update) = (date_time_ymd(2020, 1, 1), date_time_ymd(until_year, 1, 1));
        let revoked = |&serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: this_update,
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update,
            next_update,
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.0).unwrap().pem().unwrap()
    }
}

/// A day in 2027.
const NOW: Time = Time::from_ticks(1_800_000_000_000_000_000);

/// Files that are not there.
pub(super) fn files() -> Files {
    let named = |setting, path: &str| NamedFile { setting, path: path.into() };
    Files {
        certificate: named(CERTIFICATE, "cert.pem"),
        key: named(KEY, "key.pem"),
        client_ca: Some(named(CLIENT_CA, "ca.pem")),
        client_crl: None,
    }
}

pub(super) fn identity(pair: &Pair, client_ca: &str) -> Result<Identity, SecretError> {
    let contents = [&pair.certificate, &pair.key, client_ca].map(|text| text.as_bytes().to_vec());
    Identity::from_pem(&files(), &contents, NOW)
}

/// The same with lists of revoked certificates.
pub(super) fn identity_with_lists(
    pair: &Pair,
    client_ca: &str,
    client_crl: &str,
) -> Result<Identity, SecretError> {
    let named = NamedFile { setting: CLIENT_CRL, path: "crl.pem".into() };
    let contents = [&pair.certificate, &pair.key, client_ca, client_crl].map(|text| text.as_bytes().to_vec());
    Identity::from_pem(&Files { client_crl: Some(named), ..files() }, &contents, NOW)
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
        let loaded = Tls::load(&settings, &Arc::new(Clock::new()));
        assert_eq!(loaded.map(drop).unwrap_err().to_string(), expected);
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
    check(
        TlsSettings { client_crl: path(), certificate: path(), key: path(), ..none() },
        "`tls_client_crl` needs `tls_client_ca` too",
    );
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

#[test]
fn a_revocation_list_that_is_of_no_use_is_told() {
    let authority = Authority::new();
    let (pair, ca) = (authority.vouch_for("localhost"), authority.pem());
    let check = |lists: &str, expected: &str| {
        let refused = identity_with_lists(&pair, &ca, lists).map(drop).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("`tls_client_crl` crl.pem: {expected}")), "{refused}");
    };
    let good = authority.revoke(&[], 2100);
    assert!(identity_with_lists(&pair, &ca, &good).is_ok());
    assert!(identity_with_lists(&pair, &ca, &good.repeat(100)).is_ok());
    check(&good.repeat(101), "more than 100 revocation lists");
    check("", "no revocation list in PEM, which begins with -----BEGIN X509 CRL-----");
    check(&pair.certificate, "no revocation list in PEM");
    check("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n", "not a revocation list of use: ");
    check(&authority.revoke(&[], 2021), "a revocation list has expired ");
    check(&(good + &authority.revoke(&[], 2021)), "a revocation list has expired ");
}

#[test]
fn the_end_of_each_file_is_that_of_its_first_certificate_to_end() {
    let authority = Authority::new();
    let (pair, ca) = (authority.vouch_for("localhost"), authority.pem());
    let lists = authority.revoke(&[], 2100) + &authority.revoke(&[], 2030);
    // What rcgen makes ends in the year 4096.
    let far = date_time_ymd(4096, 1, 1).unix_timestamp();
    let listed = date_time_ymd(2030, 1, 1).unix_timestamp();
    let ends = |identity: Identity| {
        identity.ends().iter().map(|end| (end.file, end.not_after_s)).collect::<Vec<_>>()
    };
    assert_eq!(ends(identity(&pair, &ca).unwrap()), [(CERTIFICATE, far), (CLIENT_CA, far)]);
    assert_eq!(
        ends(identity_with_lists(&pair, &ca, &lists).unwrap()),
        [(CERTIFICATE, far), (CLIENT_CA, far), (CLIENT_CRL, listed)]
    );
}

#[test]
fn an_expired_revocation_list_stops_a_start_and_leaves_the_last_good_one_in_force_at_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let pair = authority.vouch_for("localhost");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(path)
    };
    let settings = TlsSettings {
        certificate: write("cert.pem", &pair.certificate),
        key: write("key.pem", &pair.key),
        client_ca: write("ca.pem", &authority.pem()),
        client_crl: write("crl.pem", &authority.revoke(&[], 2021)),
        ..TlsSettings::default()
    };
    let clock = Arc::new(Clock::new());
    let load = || Tls::load(&settings, &clock);
    let refused = load().map(drop).unwrap_err().to_string();
    assert!(refused.contains("tls_client_crl") && refused.contains("has expired"), "{refused}");

    write("crl.pem", &authority.revoke(&[], 2100));
    let (tls, kept) = load().unwrap();
    let mut kept = kept.unwrap();
    let listed_until = || tls.expiries().all().last().map(|end| (end.file, end.not_after_s));
    let until = |year| Some((CLIENT_CRL, date_time_ymd(year, 1, 1).unix_timestamp()));
    assert_eq!(listed_until(), until(2100));
    write("crl.pem", &authority.revoke(&[], 2021));
    let refused = kept.refresh(true, 0).unwrap().unwrap_err().to_string();
    assert!(refused.contains("has expired"), "{refused}");
    assert_eq!(listed_until(), until(2100), "the last good one");
    write("crl.pem", &authority.revoke(&[], 2101));
    kept.refresh(true, 0).unwrap().unwrap();
    assert_eq!(listed_until(), until(2101));
}
