//! HTTP/1.1: requests that are cut short, have too much of something, or do not stop to listen.

use super::raw::{Raw, Sent};
use super::seen::{Seen, Tally, Want};
use super::{Attack, Field, Listener, quick};

/// Far more than header fields may take.
const TOO_LONG_BYTES: usize = 1 << 20;
/// More fields than any client sends.
const TOO_MANY_FIELDS: usize = 2_000;
/// Requests sent without reading one answer: far more than all buffers between can hold.
const PIPELINED: usize = 200_000;

pub(super) fn attacks() -> Vec<Attack> {
    const HTTP: Listener = Listener::Http;
    const ADMIN: Listener = Listener::Admin;
    vec![
        quick(HTTP, "a request, cut at every byte", "no answer", cut),
        quick(HTTP, "header fields too long", "431, or closed", long_fields),
        quick(HTTP, "header fields too many", "431, or closed", many_fields),
        quick(HTTP, "lines that are none", "400, or closed", bad_lines),
        quick(HTTP, "half-closed after a request", "an answer", half_closed),
        quick(HTTP, "a pipeline without reading", "held back", pipeline),
        quick(ADMIN, "a pipeline without reading", "held back", pipeline),
        quick(ADMIN, "header fields too long", "431, or closed", long_fields),
        quick(ADMIN, "a body that nobody wants", "an answer, then closed", unwanted_body),
    ]
}

/// A question with this body.
pub(super) fn post(body: &[u8]) -> Vec<u8> {
    post_with(&[], body)
}

/// A question with these fields and this body.
pub(super) fn post_with(fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut request = b"POST /v1/check HTTP/1.1\r\nhost: hostile\r\n".to_vec();
    for (name, value) in fields {
        request.extend(format!("{name}: {value}\r\n").bytes());
    }
    request.extend(format!("content-length: {}\r\n\r\n", body.len()).bytes());
    request.extend(body);
    request
}

/// A question that is all right.
pub(super) const QUESTION: &[u8] = br#"{"policy": "plenty", "key": "hostile"}"#;

fn cut(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let whole = post(QUESTION);
    for length in 0..whole.len() {
        let mut raw = Raw::sending(at.address, &whole[..length]);
        raw.finish();
        tally.see(&format!("cut at {length}"), &raw.http(), Want::Refused);
    }
    tally.see("whole", &Raw::sending(at.address, &whole).http(), Want::Answered);
    tally
}

fn long_fields(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let long = "a".repeat(TOO_LONG_BYTES);
    let requests = [
        ("a value", format!("GET / HTTP/1.1\r\nhost: hostile\r\nx: {long}\r\n\r\n")),
        ("a name", format!("GET / HTTP/1.1\r\nhost: hostile\r\n{long}: x\r\n\r\n")),
        ("a path", format!("GET /{long} HTTP/1.1\r\nhost: hostile\r\n\r\n")),
        ("a method", format!("{long} / HTTP/1.1\r\nhost: hostile\r\n\r\n")),
        ("no end", format!("GET / HTTP/1.1\r\nhost: hostile\r\nx: {long}")),
    ];
    for (what, request) in requests {
        tally.see(what, &Raw::sending(at.address, request.as_bytes()).http(), Want::Refused);
    }
    tally
}

fn many_fields(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let fields = "x-many: 1\r\n".repeat(TOO_MANY_FIELDS);
    let request = format!("GET /healthz HTTP/1.1\r\nhost: hostile\r\n{fields}\r\n");
    tally.see("many", &Raw::sending(at.address, request.as_bytes()).http(), Want::Refused);
    tally
}

fn bad_lines(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let requests: [(&str, &[u8]); 9] = [
        ("no version", b"GET /healthz\r\n\r\n"),
        ("a version that is none", b"GET /healthz HTTP/9.9\r\nhost: x\r\n\r\n"),
        ("a byte of zero", b"GET /healthz HTTP/1.1\r\nhost: x\0y\r\n\r\n"),
        ("a field without a name", b"GET /healthz HTTP/1.1\r\n: x\r\n\r\n"),
        ("a space before the colon", b"GET /healthz HTTP/1.1\r\nhost : x\r\n\r\n"),
        ("a folded field", b"GET /healthz HTTP/1.1\r\nhost: x\r\nx: a\r\n b\r\n\r\n"),
        ("a line feed in a field", b"GET /healthz HTTP/1.1\r\nhost: x\r\nx: a\rb\r\n\r\n"),
        ("spaces in the path", b"GET /a b HTTP/1.1\r\nhost: x\r\n\r\n"),
        ("bytes that are no text", b"\xff\xfe /healthz HTTP/1.1\r\nhost: x\r\n\r\n"),
    ];
    for (what, request) in requests {
        tally.see(what, &Raw::sending(at.address, request).http(), Want::Refused);
    }
    tally
}

fn half_closed(at: &Field) -> Tally {
    let mut tally = Tally::default();
    // Often: a server that would rather close may happen to answer first.
    for _ in 0..20 {
        let mut raw = Raw::sending(at.address, &post(QUESTION));
        raw.finish();
        tally.see("an answer", &raw.http(), Want::Answered);
        tally.see("the end", &raw.until_closed().0, Want::Closed);
    }
    tally
}

fn pipeline(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let request = b"GET / HTTP/1.1\r\nhost: hostile\r\n\r\n".repeat(100);
    let mut unread = Vec::new();
    for _ in 0..2 * at.force {
        let mut raw = Raw::connect(at.address);
        let sent = raw.flood(&request, PIPELINED / 100);
        tally.see("a pipeline", &sent.into(), Want::HeldBack);
        unread.push(raw);
    }
    tally
}

fn unwanted_body(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let head = b"GET /healthz HTTP/1.1\r\nhost: hostile\r\ncontent-length: 1000000000\r\n\r\n";
    let mut raw = Raw::sending(at.address, head);
    let sent = raw.flood(&[b'x'; 16 << 10], 4096);
    if sent == Sent::All {
        tally.blame("64 MiB of an unwanted body were taken".to_owned());
    }
    let seen = raw.http();
    // A reset may overtake the answer.
    tally.see("the answer", &seen, Want::Spoken);
    if seen != Seen::Closed {
        tally.see("the end", &raw.until_closed().0, Want::Closed);
    }
    tally
}
