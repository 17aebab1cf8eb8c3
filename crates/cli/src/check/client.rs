//! One question to a server over HTTP, and its answer.

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::failure::Failure;

/// A person waits no longer than this.
const TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What the server has said.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Posts a question.
pub(super) fn post(server: &str, path: &str, question: &Value) -> Result<Answer, Failure> {
    let failed = |reason: String| Failure::NoAnswer { server: server.to_owned(), reason };
    let authority = server.strip_prefix("http://").unwrap_or(server).trim_end_matches('/');
    if authority.contains("://") {
        return Err(Failure::Usage(format!("--server: \"{server}\" is not an http:// address")));
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    let exchange = exchange(authority, path, question.to_string());
    let answer = runtime.block_on(async { tokio::time::timeout(TIMEOUT, exchange).await });
    match answer {
        Ok(answer) => answer.map_err(|error| failed(error.to_string())),
        Err(_) => Err(failed(format!("nothing within {} s", TIMEOUT.as_secs()))),
    }
}

async fn exchange(
    authority: &str,
    path: &str,
    body: String,
) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    let host = if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
    let stream = TcpStream::connect(&host).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = hyper::Request::post(path)
        .header("host", authority)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await?.to_bytes();
    connection.abort();
    Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned() })
}
