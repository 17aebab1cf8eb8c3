//! Questions to a server over HTTP, and its answers: one connection that is kept, a time-out, and a bound on what is read.

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::failure::Failure;

const HTTPS: &str = "https://";
/// A page of the largest documents.
const ANSWER_BYTES_MAX: usize = 64 << 20;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Sender = SendRequest<Full<Bytes>>;
/// Takes the status of an answer, and its body piece by piece.
type Sink<'a> = dyn FnMut(u16, &[u8]) -> io::Result<()> + 'a;

/// Whom to ask, and how.
pub(crate) struct Server<'a> {
    /// Such as `http://127.0.0.1:8080`.
    pub(crate) url: &'a str,
    /// What to show it.
    pub(crate) token: Option<&'a str>,
    /// The authority that vouches for it.
    pub(crate) ca: Option<&'a Path>,
}

/// One question.
pub(crate) struct Ask<'a> {
    pub(crate) method: Method,
    /// With its query.
    pub(crate) path: &'a str,
    pub(crate) fields: Vec<(&'static str, String)>,
    /// JSON.
    pub(crate) body: Option<String>,
    /// A person waits no longer than this.
    pub(crate) timeout: Duration,
    /// Whether to ask once more if the connection is lost before the answer.
    pub(crate) may_repeat: bool,
}

/// What the server has said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) body: String,
}

/// Whoever asks a server. Connects when it must.
pub(crate) struct Client {
    url: String,
    authority: Authority,
    /// The field that shows the token.
    token: Option<HeaderValue>,
    tls: Option<TlsConnector>,
    runtime: Runtime,
    kept: Option<Sender>,
}

/// What a time-out is for.
#[derive(Clone, Copy)]
enum Patience {
    Whole,
    /// Each piece of the answer: all of them may take as long as they take.
    Piece,
}

/// Why there is no answer.
enum Trouble {
    /// There is no connection.
    Unreachable(Error),
    /// There was one.
    Lost(Error),
    Late,
    /// Nobody takes what the server says.
    Sink(io::Error),
}

/// Whom a URL names.
fn authority(url: &str) -> Option<Authority> {
    let rest = url.strip_prefix(HTTPS).or_else(|| url.strip_prefix("http://")).unwrap_or(url);
    rest.trim_end_matches('/').parse().ok()
}

/// Whether a URL names this machine, and nobody who could be elsewhere.
pub(crate) fn is_here(url: &str) -> bool {
    authority(url).is_some_and(|authority| {
        let host = authority.host().trim_matches(['[', ']']);
        host.eq_ignore_ascii_case("localhost")
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

impl Server<'_> {
    /// Somebody who will ask it. Nothing is sent yet.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let tls = self.url.starts_with(HTTPS).then(|| self.connector()).transpose()?;
        let authority = authority(self.url).ok_or_else(|| {
            Failure::Usage(format!("--server: \"{}\" is not an http:// or https:// address", self.url))
        })?;
        let token = self.token.map(|token| HeaderValue::try_from(format!("Bearer {token}"))).transpose();
        let mut token = token.map_err(|_| {
            Failure::Usage("the token has a character in it that no header can carry".to_owned())
        })?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
        Ok(Client { url: self.url.to_owned(), authority, token, tls, runtime, kept: None })
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
}

impl Client {
    /// Asks, and waits for the whole answer.
    pub(crate) fn ask(&mut self, ask: &Ask<'_>) -> Result<Answer, Failure> {
        let mut body = Vec::new();
        let answer = self.converse(ask, Patience::Whole, &mut |_, piece| {
            if body.len() + piece.len() > ANSWER_BYTES_MAX {
                return Err(io::Error::other(format!("the answer has more than {ANSWER_BYTES_MAX} bytes")));
            }
            body.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(Answer { body: String::from_utf8_lossy(&body).into_owned(), ..answer })
    }

    /// Asks, and hands over the answer's body piece by piece; what is returned has none. The time-out is that of each piece. An
    /// ask that may be repeated is so only before the first piece.
    pub(crate) fn stream(&mut self, ask: &Ask<'_>, sink: &mut Sink<'_>) -> Result<Answer, Failure> {
        self.converse(ask, Patience::Piece, sink)
    }

    fn converse(
        &mut self,
        ask: &Ask<'_>,
        patience: Patience,
        sink: &mut Sink<'_>,
    ) -> Result<Answer, Failure> {
        let is_begun = Cell::new(false);
        let mut sink = |status: u16, piece: &[u8]| {
            is_begun.set(true);
            sink(status, piece)
        };
        let mut trouble = match self.exchange(ask, patience, &mut sink) {
            Ok(answer) => return Ok(answer),
            Err(trouble) => trouble,
        };
        if ask.may_repeat && matches!(trouble, Trouble::Lost(_)) && !is_begun.get() {
            match self.exchange(ask, patience, &mut sink) {
                Ok(answer) => return Ok(answer),
                Err(again) => trouble = again,
            }
        }
        let reason = match trouble {
            Trouble::Unreachable(error) => error.to_string(),
            Trouble::Lost(error) => format!("the connection was lost: {error}"),
            Trouble::Late => format!("nothing within {} s", ask.timeout.as_secs()),
            Trouble::Sink(error) => return Err(Failure::Output(error)),
        };
        Err(Failure::NoAnswer { server: self.url.clone(), reason })
    }

    fn exchange(
        &mut self,
        ask: &Ask<'_>,
        patience: Patience,
        sink: &mut Sink<'_>,
    ) -> Result<Answer, Trouble> {
        let kept = self.kept.take().filter(|sender| !sender.is_closed());
        let exchange = async {
            let within = ask.timeout;
            let begun = timeout(within, self.begin(kept, ask)).await.map_err(|_| Trouble::Late)?;
            let (sender, response) = begun?;
            let (head, mut body) = response.into_parts();
            let status = head.status.as_u16();
            while let Some(frame) = timeout(within, body.frame()).await.map_err(|_| Trouble::Late)? {
                let frame = frame.map_err(|error| Trouble::Lost(error.into()))?;
                frame.data_ref().map_or(Ok(()), |piece| sink(status, piece)).map_err(Trouble::Sink)?;
            }
            Ok((sender, Answer { status, fields: head.headers, body: String::new() }))
        };
        let (sender, answer) = self.runtime.block_on(async {
            match patience {
                Patience::Piece => exchange.await,
                Patience::Whole => timeout(ask.timeout, exchange).await.unwrap_or(Err(Trouble::Late)),
            }
        })?;
        self.kept = Some(sender);
        Ok(answer)
    }

    /// Sends the question, and waits for the head of the answer.
    async fn begin(
        &self,
        kept: Option<Sender>,
        ask: &Ask<'_>,
    ) -> Result<(Sender, hyper::Response<hyper::body::Incoming>), Trouble> {
        let request = self.request(ask).map_err(Trouble::Unreachable)?;
        let mut sender = match kept {
            Some(sender) => sender,
            None => self.open().await.map_err(Trouble::Unreachable)?,
        };
        sender.ready().await.map_err(|error| Trouble::Lost(error.into()))?;
        let response = sender.send_request(request).await.map_err(|error| Trouble::Lost(error.into()))?;
        Ok((sender, response))
    }

    fn request(&self, ask: &Ask<'_>) -> Result<hyper::Request<Full<Bytes>>, Error> {
        let mut request = hyper::Request::builder()
            .method(&ask.method)
            .uri(ask.path)
            .header("host", self.authority.as_str());
        if let Some(token) = &self.token {
            request = request.header("authorization", token);
        }
        if ask.body.is_some() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in &ask.fields {
            request = request.header(*name, value);
        }
        Ok(request.body(Full::new(Bytes::from(ask.body.clone().unwrap_or_default())))?)
    }

    async fn open(&self) -> Result<Sender, Error> {
        let port = self.authority.port_u16().unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let host = self.authority.host();
        let stream = TcpStream::connect(format!("{host}:{port}")).await?;
        match &self.tls {
            None => over(stream).await,
            Some(tls) => {
                let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())?;
                over(tls.connect(name, stream).await?).await
            }
        }
    }
}

async fn over<S>(stream: S) -> Result<Sender, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection); // Ends with the sender, or with the runtime.
    Ok(sender)
}

#[cfg(test)]
mod tests;
