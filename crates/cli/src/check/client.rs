//! One question to a server over HTTP, and its answer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::failure::Failure;

/// A person waits no longer than this.
const TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: usize = 1 << 20;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Whom to ask, and how.
pub(super) struct Server<'a> {
    /// Such as `http://127.0.0.1:8080`.
    pub(super) url: &'a str,
    /// What to show it.
    pub(super) token: Option<&'a str>,
    /// The authority that vouches for it.
    pub(super) ca: Option<&'a Path>,
}

/// What the server has said.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

impl Server<'_> {
    /// Posts a question.
    pub(super) fn post(&self, path: &str, question: &Value) -> Result<Answer, Failure> {
        let failed = |reason: String| Failure::NoAnswer { server: self.url.to_owned(), reason };
        let (tls, rest) = match self.url.strip_prefix("https://") {
            Some(rest) => (Some(self.connector()?), rest),
            None => (None, self.url.strip_prefix("http://").unwrap_or(self.url)),
        };
        let authority = rest.trim_end_matches('/').parse::<Authority>().map_err(|_| {
            Failure::Usage(format!("--server: \"{}\" is not an http:// or https:// address", self.url))
        })?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
        let exchange = self.exchange(&authority, tls, path, question.to_string());
        match runtime.block_on(async { tokio::time::timeout(TIMEOUT, exchange).await }) {
            Ok(answer) => answer.map_err(|error| failed(error.to_string())),
            Err(_) => Err(failed(format!("nothing within {} s", TIMEOUT.as_secs()))),
        }
    }

    fn connector(&self) -> Result<TlsConnector, Failure> {
        let Some(path) = self.ca else {
            return Err(Failure::Usage(
                "--server: https:// needs --ca FILE, to know whom to trust".to_owned(),
            ));
        };
        let refused = |error: &dyn std::fmt::Display| {
            Failure::Usage(format!("--ca: {}: no authority in PEM: {error}", path.display()))
        };
        let pem = std::fs::read(path).map_err(|error| Failure::Read { path: path.to_owned(), error })?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| refused(&error))?;
            roots.add(certificate).map_err(|error| refused(&error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(&error))?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }

    async fn exchange(
        &self,
        authority: &Authority,
        tls: Option<TlsConnector>,
        path: &str,
        body: String,
    ) -> Result<Answer, Error> {
        let mut request = hyper::Request::post(path)
            .header("host", authority.as_str())
            .header("content-type", "application/json");
        if let Some(token) = self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let port = authority.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
        let host = authority.host();
        let stream = TcpStream::connect(format!("{host}:{port}")).await?;
        match tls {
            None => send(stream, request).await,
            Some(tls) => {
                let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())?;
                send(tls.connect(name, stream).await?, request).await
            }
        }
    }
}

async fn send<S>(stream: S, request: hyper::Request<Full<Bytes>>) -> Result<Answer, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await?.to_bytes();
    connection.abort();
    Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned() })
}
