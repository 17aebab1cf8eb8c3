//! A server between Tollgate and PostgreSQL, with a certificate of its own, gets neither the password nor a proof that it can use.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tollgate_control::{Database, DatabaseError, DatabaseSettings};
use tollgate_testkit::real::postgres::PostgresLaunch;

const PASSWORD: &str = "correct-horse-battery";
const SSL_REQUEST_BYTES: usize = 8;
/// What a client sends that answers a request for its password, in whichever form.
const PASSWORD_MESSAGE: u8 = b'p';

/// A certificate and its key, for 127.0.0.1, that no authority vouches for.
struct Identity {
    certificate: rcgen::Certificate,
    key: rcgen::KeyPair,
}

impl Identity {
    fn new() -> Identity {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        Identity { certificate: parameters.self_signed(&key).unwrap(), key }
    }

    fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }

    fn acceptor(&self) -> TlsAcceptor {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.der()], key)
            .unwrap();
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

async fn open(address: SocketAddr, parameters: &str) -> Result<(), DatabaseError> {
    let url = format!("postgres://tollgate:{PASSWORD}@{address}/tollgate{parameters}");
    Database::open(DatabaseSettings::new(url.parse().expect("an address"))).await.map(drop)
}

/// A message in which a server asks a client to prove who it is.
fn authentication(code: u32, rest: &[u8]) -> Vec<u8> {
    let mut message = vec![b'R'];
    message.extend_from_slice(&u32::try_from(8 + rest.len()).unwrap().to_be_bytes());
    message.extend_from_slice(&code.to_be_bytes());
    message.extend_from_slice(rest);
    message
}

/// Answers one connection with TLS and this message. Returns all that the client has said afterwards.
async fn pretend(asks: Vec<u8>) -> (SocketAddr, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = Identity::new().acceptor();
    let heard = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut [0; SSL_REQUEST_BYTES]).await.unwrap();
        stream.write_all(b"S").await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let length = stream.read_u32().await.unwrap();
        let mut startup = vec![0; length as usize - 4];
        stream.read_exact(&mut startup).await.unwrap();
        stream.write_all(&asks).await.unwrap();
        stream.flush().await.unwrap();
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard).await; // It may end without a farewell.
        heard
    });
    (address, heard)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_verified_hears_no_password_in_any_form() {
    let requests = [
        ("a password in the clear", authentication(3, &[])),
        ("an MD5 hash", authentication(5, b"salt")),
        ("SCRAM without channel binding", authentication(10, b"SCRAM-SHA-256\0\0")),
        ("no password at all", authentication(0, &[])),
    ];
    for parameters in ["", "?sslmode=prefer", "?sslmode=require"] {
        for (what, request) in &requests {
            let (address, heard) = pretend(request.clone()).await;
            let error = open(address, parameters).await.unwrap_err();
            assert!(matches!(error, DatabaseError::Denied(_)), "{what} {parameters}: {error}");
            let text = error.to_string();
            assert!(text.contains("channel binding") && text.contains("verify-full"), "{text}");
            assert!(!text.contains(PASSWORD), "{text}");
            let heard = heard.await.unwrap();
            assert_ne!(heard.first(), Some(&PASSWORD_MESSAGE), "{what} {parameters}: {heard:?}");
        }
    }
}

/// Takes connections with a certificate of its own and passes all that it hears on to a real server, both ways.
async fn relay(to: SocketAddr, trusted: CertificateDer<'static>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = Identity::new().acceptor();
    let mut roots = RootCertStore::empty();
    roots.add(trusted).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (acceptor, connector) = (acceptor.clone(), connector.clone());
            tokio::spawn(async move {
                let mut request = [0; SSL_REQUEST_BYTES];
                client.read_exact(&mut request).await?;
                let mut server = TcpStream::connect(to).await?;
                server.write_all(&request).await?;
                assert_eq!(server.read_u8().await?, b'S');
                client.write_all(b"S").await?;
                let mut client = acceptor.accept(client).await?;
                let name = ServerName::try_from("127.0.0.1").unwrap();
                let mut server = connector.connect(name, server).await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_that_is_relayed_to_the_real_server_is_worth_nothing_there() {
    let real = Identity::new();
    let server = PostgresLaunch::default().tls(real.certificate.pem(), real.key.serialize_pem()).start();
    server.sql(&format!("ALTER ROLE tollgate PASSWORD '{PASSWORD}'"));
    for parameters in ["?sslmode=prefer", "?sslmode=require"] {
        open(server.address(), parameters).await.expect("SCRAM with channel binding");
        let relay = relay(server.address(), real.der()).await;
        let error = open(relay, parameters).await.unwrap_err();
        assert!(matches!(error, DatabaseError::Denied(_)), "{parameters}: {error}");
        assert!(error.to_string().contains("channel binding"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_tls_is_asked_in_the_clear_on_loopback_and_only_with_prefer() {
    let server = PostgresLaunch::default().start();
    server.sql(&format!("ALTER ROLE tollgate PASSWORD '{PASSWORD}'"));
    open(server.address(), "").await.expect("a connection without TLS");
    let error = open(server.address(), "?sslmode=require").await.unwrap_err();
    assert!(error.to_string().contains("TLS"), "{error}");
}
