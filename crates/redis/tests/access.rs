//! Who is let in, over which kind of connection, and what is told of it.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};

use common::{address, ask, bucket, fleet_with, remaining, started, take, try_remaining, until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tollgate_redis::{Authority, Credentials, Fleet, Secret, Settings, SettingsError, Tls, TlsError};
use tollgate_store::authority::Failure;
use tollgate_testkit::real::redis::{
    RedisCluster, RedisIdentity, RedisLaunch, RedisSentinel, RedisServer, Reply,
};
use tracing::subscriber::DefaultGuard;

/// Somebody who vouches for others.
struct Issuer(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
struct Pair {
    certificate: String,
    key: String,
}

impl Issuer {
    fn new() -> Issuer {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Another name than what it signs has, or OpenSSL takes that for signed by itself.
        params.distinguished_name.push(DnType::CommonName, "issuer");
        Issuer(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn vouch_for(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// Servers that speak TLS with those whom the issuer vouches for.
fn tls_launch(issuer: &Issuer) -> RedisLaunch {
    let Pair { certificate, key } = issuer.vouch_for("127.0.0.1");
    RedisLaunch::redis().tls(RedisIdentity { certificate, key, trusted: issuer.0.pem() })
}

/// What somebody is who trusts this issuer, and is vouched for by it.
fn insider(issuer: &Issuer) -> Tls {
    let own = issuer.vouch_for("tollgate");
    Tls::new(issuer.0.pem().as_bytes(), Some((own.certificate.as_bytes(), own.key.as_bytes()))).unwrap()
}

/// An insider is answered for keys of every node, a stranger not at all.
async fn check_tls(text: &str, issuer: &Issuer) -> Authority {
    let with = |tls: Tls| Settings { tls: Some(tls), ..Settings::new(address(text)) };
    let authority = started(&fleet_with(with(insider(issuer)))).await;
    for number in 0..30 {
        assert!(ask(&authority, take(number, &bucket(10))).await.unwrap().decision.is_allowed());
    }
    check_refused(&fleet_with(with(insider(&Issuer::new())))).await;
    authority
}

#[tokio::test]
async fn tls_to_a_cluster() {
    let issuer = Issuer::new();
    let cluster = RedisCluster::of(&tls_launch(&issuer), 3, false);
    check_tls(&cluster.address(), &issuer).await;
    for master in &cluster.masters {
        assert!(master.client().run("DBSIZE").integer() > 0, "a node of the cluster keeps nothing");
    }
}

#[tokio::test]
async fn tls_to_a_master_that_sentinels_know() {
    let issuer = Issuer::new();
    let servers = RedisSentinel::of(&tls_launch(&issuer));
    let authority = check_tls(&servers.address(), &issuer).await;
    servers.fail_over();
    servers.replica.client().run("FLUSHALL");
    until("the new master is asked", async || {
        (try_remaining(&authority, 1, &bucket(10)).await == Ok(10)).then_some(())
    })
    .await;
}

async fn check_refused(fleet: &Arc<Fleet>) {
    let authority = Authority::start(fleet);
    until("it is known to be closed to us", async || {
        let answer = ask(&authority, take(1, &bucket(10))).await;
        assert!(answer.is_err(), "let in");
        (answer == Err(Failure::Unreachable)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn tls_with_certificates_on_both_sides() {
    let (issuer, stranger) = (Issuer::new(), Issuer::new());
    let server = tls_launch(&issuer).start();
    let text = format!("rediss://{}", server.served_address());
    let own = issuer.vouch_for("tollgate");
    let identity = Some((own.certificate.as_bytes(), own.key.as_bytes()));
    let with = |tls: Tls| Settings { tls: Some(tls), ..Settings::new(address(&text)) };

    let tls = Tls::new(issuer.0.pem().as_bytes(), identity).unwrap();
    let authority = started(&fleet_with(with(tls))).await;
    assert!(ask(&authority, take(1, &bucket(10))).await.unwrap().decision.is_allowed());
    assert_eq!(remaining(&authority, 1, &bucket(10)).await, 9);
    assert!(server.client().run("DBSIZE").integer() > 0);

    // Whom nobody we know vouches for, who has nothing to show, and who speaks in the clear.
    check_refused(&fleet_with(with(Tls::new(stranger.0.pem().as_bytes(), identity).unwrap()))).await;
    check_refused(&fleet_with(with(Tls::new(issuer.0.pem().as_bytes(), None).unwrap()))).await;
    check_refused(&common::fleet(&text.replace("rediss", "redis"))).await;
}

#[test]
fn tls_needs_somebody_to_trust() {
    let made = Fleet::new(Settings::new(address("rediss://u:hunter2@h")), Arc::default()).err();
    assert_eq!(made, Some(SettingsError::NoAuthorities("rediss://h:6379".to_owned())));
    assert!(matches!(Tls::new(b"", None), Err(TlsError::Authorities(_))));
    let issuer = Issuer::new();
    let pem = issuer.0.pem();
    let error = Tls::new(pem.as_bytes(), Some((pem.as_bytes(), b"hunter2"))).unwrap_err();
    assert!(matches!(error, TlsError::Identity(_)) && !error.to_string().contains("hunter2"), "{error}");
}

/// A server at which only this user may do what Tollgate does.
fn guarded_server() -> RedisServer {
    let server = RedisServer::start();
    let mut client = server.client();
    client.run("ACL SETUSER tollgate on >s3cret ~tollgate:* +@all -@admin");
    client.run("ACL SETUSER default on >other");
    server
}

#[tokio::test]
async fn a_user_of_the_access_list() {
    let server = guarded_server();
    let place = server.address();
    let authority = common::connect(&format!("redis://tollgate:s3cret@{place}")).await;
    assert!(ask(&authority, take(1, &bucket(10))).await.unwrap().decision.is_allowed());
    let default = common::connect(&format!("redis://:other@{place}")).await;
    assert_eq!(remaining(&default, 1, &bucket(10)).await, 9);
    for text in [format!("redis://tollgate:wrong@{place}"), format!("redis://{place}")] {
        check_refused(&common::fleet(&text)).await;
    }
    let mut settings = Settings::new(address(&format!("redis://tollgate:s3cret@{place}")));
    settings.prefix = "elsewhere".to_owned();
    let authority = started(&fleet_with(settings)).await;
    let refused = ask(&authority, take(1, &bucket(10))).await;
    assert_eq!(refused, Err(Failure::Refused), "the user may not touch such keys");
}

#[tokio::test]
async fn a_new_password_counts_for_new_connections() {
    let server = guarded_server();
    let authority = common::connect(&format!("redis://tollgate:s3cret@{}", server.address())).await;
    let mut client = server.client();
    assert_eq!(client.run("AUTH other"), Reply::Simple("OK".to_owned()));
    // Whoever is connected as a user that is deleted loses the connection.
    client.run("ACL DELUSER tollgate");
    client.run("ACL SETUSER tollgate on >n3w ~tollgate:* +@all -@admin");
    until("it is known to be closed to us", async || {
        (ask(&authority, take(1, &bucket(10))).await == Err(Failure::NotAsked)).then_some(())
    })
    .await;
    let password = Some(Secret::new("n3w"));
    authority.fleet().set_credentials(Credentials { user: Some("tollgate".to_owned()), password });
    until("the new password is used", async || ask(&authority, take(1, &bucket(10))).await.ok()).await;
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Keeps all that this thread logs until the guard is dropped.
    fn keep() -> (Log, DefaultGuard) {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn said(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[tokio::test]
async fn each_cause_of_a_failure_is_told() {
    let (log, _guard) = Log::keep();
    let mut server = RedisServer::start();
    let _authority = common::connect(&format!("redis://{}", server.address())).await;
    server.kill();
    // One after the other, within much less than the time for which a cause is not repeated.
    until("it is told that nobody is there", async || log.said().contains("refused").then_some(())).await;
    let said = log.said();
    let told = said.lines().find(|line| line.contains("refused")).unwrap();
    assert!(told.contains("untold=0"), "some other cause has hidden it at first: {said}");
}

#[tokio::test]
async fn no_secret_is_logged() {
    let (log, _guard) = Log::keep();
    let server = guarded_server();
    // A Redis that knows no AUTH repeats what it was told.
    let renamed = RedisLaunch::redis().setting("rename-command AUTH \"\"").start();
    for place in [server.address(), renamed.address()] {
        check_refused(&common::fleet(&format!("redis://tollgate:hunter2@{place}"))).await;
    }
    let said = log.said();
    assert!(said.contains("WRONGPASS") && said.contains("Redis fails"), "{said}");
    assert!(!said.contains("hunter2") && !said.contains("s3cret"), "{said}");
    assert!(said.lines().count() < 20, "too much is told:\n{said}");
}
