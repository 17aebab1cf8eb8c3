//! A connection of HTTP/2: many calls under way at once, each on a stream of its own.

use std::rc::Rc;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request, Uri};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::protocol::rls;
use crate::session::Session;
use crate::tally::Answer;
use crate::template::Template;

/// What the server may send before we have read: never a reason to wait.
const WINDOW_BYTES: u32 = 1 << 24;
/// An answer to a question about some descriptors.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What is called, again and again.
pub(crate) struct Call {
    uri: Uri,
    fields: HeaderMap,
    message: Template,
}

/// A token that cannot stand in a header field, or a host that cannot stand in an address.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Unsendable(#[from] http::Error);

impl Call {
    pub(crate) fn new(host: &str, token: Option<&str>, message: Template) -> Result<Call, Unsendable> {
        let mut request = Request::builder()
            .uri(format!("http://{host}{}", rls::PATH))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let (parts, ()) = request.body(())?.into_parts();
        Ok(Call { uri: parts.uri, fields: parts.headers, message })
    }

    fn request(&self) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.fields.clone();
        request
    }

    /// Asks about a key: the answer, and how long it was.
    async fn ask(&self, sender: &mut SendRequest<Bytes>, key: u64) -> Result<(Answer, usize), h2::Error> {
        let mut message = Vec::with_capacity(self.message.len());
        self.message.write(key, &mut message);
        let (answer, mut body) = sender.send_request(self.request(), false)?;
        body.send_data(message.into(), true)?;
        let (head, mut body) = answer.await?.into_parts();
        if let Some(refused) = refusal(&head.headers) {
            return Ok((refused, 0));
        }
        let mut message = Vec::new();
        while let Some(part) = body.data().await {
            let part = part?;
            body.flow_control().release_capacity(part.len())?;
            if message.len() + part.len() > ANSWER_BYTES_MAX {
                return Ok((Answer::Refused("an answer without an end".to_owned()), message.len()));
            }
            message.extend_from_slice(&part);
        }
        let trailers = body.trailers().await?.unwrap_or_default();
        let answer = refusal(&trailers).unwrap_or_else(|| match head.status.as_u16() {
            200 => rls::read(&message),
            status => Answer::Refused(format!("status {status}: is this a gRPC listener?")),
        });
        Ok((answer, message.len()))
    }
}

/// What a status other than 0 says.
fn refusal(fields: &HeaderMap) -> Option<Answer> {
    let status = fields.get("grpc-status")?.as_bytes();
    let message = fields.get("grpc-message").map_or(&[][..], |message| message.as_bytes());
    let told = || format!("gRPC status {}: {}", String::from_utf8_lossy(status), decoded(message));
    (status != b"0").then(|| Answer::Refused(told()))
}

/// A text in which some bytes are written as `%20`.
fn decoded(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = after
            .get(..2)
            .filter(|_| byte == b'%')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Takes turns until there are no more, over another connection if one breaks.
pub(crate) async fn drive(session: Rc<Session>, call: Rc<Call>, streams: usize, first: TcpStream) {
    let mut stream = Some(first);
    while let Some(connected) = stream.take() {
        let handshake = h2::client::Builder::new()
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .enable_push(false)
            .handshake(connected)
            .await;
        match handshake {
            Ok((sender, connection)) => {
                let connection = tokio::task::spawn_local(connection);
                let mut tasks = JoinSet::new();
                for _ in 0..streams {
                    tasks.spawn_local(take_turns(Rc::clone(&session), Rc::clone(&call), sender.clone()));
                }
                while tasks.join_next().await.is_some() {}
                connection.abort();
            }
            Err(error) => session.refuse(&format!("HTTP/2: {error}")),
        }
        if session.turns.has_ended() {
            return;
        }
        stream = session.connect_again().await;
    }
}

/// One call after the other, until there are no more turns or the connection is of no use.
async fn take_turns(session: Rc<Session>, call: Rc<Call>, mut sender: SendRequest<Bytes>) {
    loop {
        sender = match sender.ready().await {
            Ok(sender) => sender,
            Err(error) => return session.refuse(&format!("HTTP/2: {error}")),
        };
        let Some(turn) = session.turns.take().await else { return };
        let key = session.keys.borrow_mut().next();
        let mut waiting = session.send(turn);
        match call.ask(&mut sender, key).await {
            Ok((answer, bytes)) => {
                session.tally.borrow_mut().received_bytes += bytes as u64;
                waiting.answer(session.turns.now_ns(), answer);
            }
            Err(error) => {
                let error_told = format!("HTTP/2: {error}");
                waiting.fail(&error_told);
                session.refuse(&error_told);
                if error.is_io() || error.is_go_away() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
