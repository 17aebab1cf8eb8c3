//! A client that holds on to its connection, and sees how it ends.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::authority::{Authority, Pair};

/// Longer than any answer takes.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct Client(StreamOwned<ClientConnection, TcpStream>);

impl Client {
    /// Connects and shakes hands.
    pub(super) fn connect(
        address: SocketAddr,
        trusts: &Authority,
        shows: Option<&Pair>,
    ) -> io::Result<Client> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusts.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match shows {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(Client(StreamOwned::new(connection, stream)))
    }

    /// Sends something, and reads as much as is expected.
    pub(super) fn ask(&mut self, question: &str, answer: &str) -> io::Result<()> {
        self.0.write_all(question.as_bytes())?;
        let mut received = vec![0; answer.len()];
        self.0.read_exact(&mut received)?;
        assert_eq!(String::from_utf8_lossy(&received), answer);
        Ok(())
    }

    pub(super) fn ping(&mut self) -> io::Result<()> {
        self.ask("PING\r\n", "+PONG\r\n")
    }

    /// Reads to the end. An error if the end was not announced: then somebody may have cut the connection.
    pub(super) fn read_to_end(&mut self) -> io::Result<String> {
        let mut rest = String::new();
        self.0.read_to_string(&mut rest)?;
        Ok(rest)
    }
}
