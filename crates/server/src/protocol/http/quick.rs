//! `POST /v1/check` over HTTP/1.1, in the form in which nearly every client sends it, without a general server of HTTP around it.
//!
//! That server costs several times what the decision does. Here the usual request is found in the bytes and its answer written as bytes.
//! Nothing is refused: whatever is unusual about a request (another path, chunks, `Expect`, no clear length, JSON that is none) is left
//! with all its bytes to hyper, which serves the connection from then on. So there is one place that says what is wrong.

#[cfg(test)]
mod tests;

use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Sleep, sleep, timeout};
use tollgate::Verdict;
use tollgate::core::Time;

use super::problem::Problem;
use super::question::Question;
use super::{answer, denied_status};
use crate::drain::Drain;
use crate::gate::Gate;
use crate::headers::{self, Wanted};
use crate::metrics::Protocol;
use crate::room::Held;
use crate::stream::{Stream, close};

/// What a usual request begins with.
const REQUEST_LINE: &[u8] = b"POST /v1/check HTTP/1.1\r\n";
/// A usual request has no more header fields, and no longer body.
const FIELDS_MAX: usize = 32;
const BODY_BYTES_MAX: usize = 16 << 10;
/// A usual request is not longer than this. More is hyper's.
const REQUEST_BYTES_MAX: usize = 32 << 10;
/// Room for so much is made before every reading.
const READ_BYTES: usize = 4 << 10;
/// So many bytes of answers are written before more requests are looked at.
const ANSWERS_BYTES_MAX: usize = 64 << 10;
/// Buffers of a connection that are charged with it: room for a few short requests and their answers.
const FIRST_BYTES_MAX: usize = 16 << 10;
/// How often a connection is looked at. Who has asked nothing between two looks is not waited for.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// How long a client may take none of its answers.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// What somebody else has to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// The connection has ended.
    Nothing,
    /// Nothing was answered yet, and nobody knows what the client speaks.
    All,
    /// The client speaks HTTP/1.1.
    Rest,
}

/// Serves a connection as long as its requests are usual.
pub(super) async fn serve<I>(stream: &mut Stream<I>, gate: &Gate, drain: &mut Drain) -> Left
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    if gate.access().wants_token(Protocol::Http) {
        return Left::All;
    }
    let (mut connection, mut left) = (Connection::default(), Left::All);
    let held = Held::new(Arc::clone(stream.room()), FIRST_BYTES_MAX);
    let mut watchman = Watchman::new();
    loop {
        // Here everything is answered at once. Where counters are shared, answers may have to be waited for; whether they are may change with the rules.
        let found = if gate.is_sharing() { Found::Unusual } else { connection.answer(gate) };
        // A request of which a part is here is answered too, and then is the last.
        let is_last = drain.has_begun()
            && found == Found::Part
            && connection.input.is_empty()
            && connection.close_after_last();
        if !connection.output.is_empty() {
            (watchman.has_asked, left) = (true, Left::Rest);
            if write(stream, &connection.output).await.is_err() {
                return Left::Nothing;
            }
            connection.output.clear();
        }
        if is_last {
            let _ = close(stream, WRITE_TIMEOUT).await; // The client may be gone already.
            return Left::Nothing;
        }
        match found {
            Found::More => continue,
            Found::Unusual => break,
            Found::Part => {}
        }
        connection.input.reserve(READ_BYTES);
        if held.set(connection.input.capacity() + connection.output.capacity()).is_err() {
            tracing::debug!("no memory is left for a connection");
            return Left::Nothing;
        }
        let read = tokio::select! {
            biased; // What is there already is answered, even if the server stops.
            read = stream.read_buf(&mut connection.input) => read,
            () = watchman.waited_enough() => Ok(0),
            () = drain.grace_over() => Ok(0),
        };
        match read {
            Ok(0) if connection.input.is_empty() => {
                let _ = close(stream, WRITE_TIMEOUT).await; // The client may be gone already.
                return Left::Nothing;
            }
            Ok(0) => break,
            Ok(_) => {}
            Err(_) => return Left::Nothing,
        }
    }
    stream.unread(connection.input);
    left
}

/// Writes answers to a client that takes some of them every now and then.
async fn write(stream: &mut (impl AsyncWrite + Unpin), mut answers: &[u8]) -> io::Result<()> {
    while !answers.is_empty() {
        match timeout(WRITE_TIMEOUT, stream.write(answers)).await?? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            taken => answers = &answers[taken..],
        }
    }
    timeout(WRITE_TIMEOUT, stream.flush()).await? // TLS may hold some of it back.
}

/// Looks at a connection every now and then. A timer for every request would cost more than the request.
struct Watchman {
    next_look: Pin<Box<Sleep>>,
    has_asked: bool,
}

impl Watchman {
    fn new() -> Watchman {
        Watchman { next_look: Box::pin(sleep(LOOK_INTERVAL)), has_asked: false }
    }

    async fn waited_enough(&mut self) {
        loop {
            self.next_look.as_mut().await;
            let next_look = self.next_look.deadline() + LOOK_INTERVAL;
            self.next_look.as_mut().reset(next_look);
            if !std::mem::take(&mut self.has_asked) {
                return;
            }
        }
    }
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Something that is not for here.
    Unusual,
    /// What may become a usual request.
    Part,
    /// There are enough answers to write them first.
    More,
}

#[derive(Default)]
struct Connection {
    input: BytesMut,
    output: Vec<u8>,
    date: Date,
    /// Where in the output the last answer begins.
    last_answer: usize,
    /// The last `Host` that the listener answers to.
    host: Vec<u8>,
}

impl Connection {
    /// Answers the usual requests that are there.
    fn answer(&mut self, gate: &Gate) -> Found {
        loop {
            if self.output.len() >= ANSWERS_BYTES_MAX {
                return Found::More;
            }
            let (body, end) = match usual(&self.input, &mut self.host, gate) {
                Ok(Some(found)) => found,
                Ok(None) => return Found::Part,
                Err(Unusual) => return Found::Unusual,
            };
            let Ok(question) = Question::read(&self.input[body..end]) else { return Found::Unusual };
            if question.has_id() {
                return Found::Unusual;
            }
            self.last_answer = self.output.len();
            match question.ask(false, |request| gate.decide(request, Protocol::Http)) {
                Ok(verdict) => put_answer(&mut self.output, &mut self.date, &verdict),
                Err(error) => put_problem(&mut self.output, &mut self.date, gate.now(), &error.into()),
            }
            drop(question);
            self.input.advance(end);
        }
    }

    /// Has the last answer say that the connection ends with it. False if there is none.
    fn close_after_last(&mut self) -> bool {
        const CLOSE: &[u8] = b"connection: close\r\n";
        let answer = self.output.get(self.last_answer..).unwrap_or_default();
        let Some(line_end) = answer.windows(2).position(|bytes| bytes == b"\r\n") else { return false };
        let at = self.last_answer + line_end + 2;
        self.output.splice(at..at, CLOSE.iter().copied());
        true
    }
}

/// A request that is not for here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unusual;

/// Where the body of the first request begins and ends, once all of it is there.
fn usual(input: &[u8], host: &mut Vec<u8>, gate: &Gate) -> Result<Option<(usize, usize)>, Unusual> {
    let seen = input.len().min(REQUEST_LINE.len());
    if input[..seen] != REQUEST_LINE[..seen] {
        return Err(Unusual);
    }
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let body = match request.parse(input) {
        Ok(httparse::Status::Complete(body)) => body,
        Ok(httparse::Status::Partial) if input.len() < REQUEST_BYTES_MAX => return Ok(None),
        Ok(httparse::Status::Partial) | Err(_) => return Err(Unusual),
    };
    let end = body + body_length(request.headers)?;
    if has_bare_line_feed(input.get(..body).unwrap_or_default()) {
        return Err(Unusual);
    }
    if gate.web_hosts().checks_host() {
        check_host(request.headers, host, gate)?;
    }
    Ok((end <= input.len()).then_some((body, end)))
}

/// The length of the body, if the header fields say nothing else that matters to how a request is read.
fn body_length(fields: &[httparse::Header<'_>]) -> Result<usize, Unusual> {
    // The last two are sent by browsers alone.
    const MATTERING: [&str; 8] =
        ["transfer-encoding", "connection", "expect", "upgrade", "te", "trailer", "origin", "sec-fetch-site"];
    let (mut length, mut hosts) = (None, 0);
    for field in fields {
        if field.name.eq_ignore_ascii_case("host") {
            hosts += if is_usual_host(field.value) { 1 } else { 2 };
        } else if field.name.eq_ignore_ascii_case("content-length") {
            if length.is_some() {
                return Err(Unusual);
            }
            length = Some(number(field.value).filter(|&length| length <= BODY_BYTES_MAX).ok_or(Unusual)?);
        } else if MATTERING.iter().any(|name| field.name.eq_ignore_ascii_case(name))
            && !(field.name.eq_ignore_ascii_case("connection")
                && field.value.eq_ignore_ascii_case(b"keep-alive"))
        {
            return Err(Unusual);
        }
    }
    length.filter(|_| hosts == 1).ok_or(Unusual)
}

/// A name or an address, perhaps with a port. Whether anything else is a host, hyper's side decides.
fn is_usual_host(value: &[u8]) -> bool {
    let is_usual =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']');
    value.iter().all(is_usual)
}

/// Whether a line ends without a carriage return. Some programs take that for the end of a line and some do not, so it is refused.
fn has_bare_line_feed(head: &[u8]) -> bool {
    // Without a branch for each byte, so that many bytes are compared at once.
    let pairs = head.iter().zip(head.get(1..).unwrap_or_default());
    let is_bare = |before: u8, byte: u8| u8::from(byte == b'\n' && before != b'\r');
    pairs.fold(0, |found, (&before, &byte)| found | is_bare(before, byte)) != 0
}

/// Whether the listener answers to the name by which it is asked. It mostly is the one of the last request.
fn check_host(fields: &[httparse::Header<'_>], last: &mut Vec<u8>, gate: &Gate) -> Result<(), Unusual> {
    let Some(host) = fields.iter().find(|field| field.name.eq_ignore_ascii_case("host")) else {
        return Ok(());
    };
    if host.value == last.as_slice() {
        return Ok(());
    }
    let named = str::from_utf8(host.value).map_err(|_| Unusual)?;
    if !gate.web_hosts().answers_to(named) {
        return Err(Unusual);
    }
    last.clear();
    last.extend_from_slice(host.value); // It is no longer than a name: see `AdminHost::parse`.
    Ok(())
}

/// Digits alone, and not many.
fn number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 6 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |number, digit| 10 * number + usize::from(digit - b'0')))
}

fn put_answer(output: &mut Vec<u8>, date: &mut Date, verdict: &Verdict) {
    if verdict.allowed() {
        output.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    } else {
        // A vector takes everything.
        let _ = write!(output, "HTTP/1.1 {}\r\n", denied_status(verdict));
    }
    headers::each(verdict, Wanted { x_ratelimit: true, older: false }, &mut String::new(), |name, value| {
        put_field(output, name, value);
    });
    put_body(output, date.at(verdict.now()), &answer::body(verdict));
}

fn put_problem(output: &mut Vec<u8>, date: &mut Date, now: Time, problem: &Problem) {
    let (status, retry_after_s, body) = problem.told();
    // A vector takes everything.
    let _ = write!(output, "HTTP/1.1 {status}\r\n");
    if let Some(retry_after_s) = retry_after_s {
        put_field(output, "retry-after", itoa::Buffer::new().format(retry_after_s));
    }
    put_body(output, date.at(now), &body);
}

fn put_field(output: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        output.extend_from_slice(part.as_bytes());
    }
}

/// The last header fields, and the body.
fn put_body(output: &mut Vec<u8>, date: &str, body: &str) {
    put_field(output, "content-type", "application/json");
    put_field(output, "content-length", itoa::Buffer::new().format(body.len()));
    put_field(output, "date", date);
    output.extend_from_slice(b"\r\n");
    output.extend_from_slice(body.as_bytes());
}

/// The time of day as HTTP writes it. It is written anew once a second.
#[derive(Default)]
struct Date {
    second: u64,
    text: String,
}

impl Date {
    fn at(&mut self, now: Time) -> &str {
        let second = now.ticks() / 1_000_000_000;
        if self.second != second || self.text.is_empty() {
            self.second = second;
            self.text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
        }
        &self.text
    }
}
