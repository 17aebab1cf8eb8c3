//! Requests that two programs would cut apart at different places: whoever disagrees about where one ends lets the next one in
//! unseen. All of these must end the connection, or be one request and nothing more.

use super::raw::Raw;
use super::seen::{Seen, Tally, Want};
use super::{Attack, Field, Listener, quick};

pub(super) fn attacks() -> Vec<Attack> {
    vec![
        quick(Listener::Http, "lengths that disagree", "400 or closed, no second answer", disagreeing),
        quick(Listener::Http, "chunks that are none", "400 or closed, no second answer", bad_chunks),
        quick(Listener::Http, "endless chunk extensions", "400, or closed", extensions),
        quick(Listener::Http, "endless trailers", "400, or closed", trailers),
    ]
}

/// The request that would be let in.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nhost: hostile\r\n\r\n";

/// Sends a head and a body that ends with another request, and sees that the other one is not answered.
fn smuggle(at: &Field, tally: &mut Tally, fields: &str, body: &str) {
    let request = format!("POST /v1/check HTTP/1.1\r\nhost: hostile\r\n{fields}\r\n{body}");
    let mut raw = Raw::sending(at.address, request.as_bytes());
    raw.finish();
    let seen = raw.http();
    tally.see(fields, &seen, Want::Refused);
    while let Ok(line) = raw.line() {
        if line.starts_with(b"HTTP/1.1 ") {
            tally.blame(format!("{fields}: a second answer: {}", String::from_utf8_lossy(&line)));
        }
    }
    if seen == Seen::Silent {
        tally.blame(format!("{fields}: the server waits for more"));
    }
}

fn disagreeing(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let chunked = format!("0\r\n\r\n{SMUGGLED}");
    let plain = format!("x{SMUGGLED}");
    let cases: [(&str, &str); 13] = [
        ("content-length: 1\r\ncontent-length: 44\r\n", &plain),
        ("content-length: 44\r\ncontent-length: 1\r\n", &plain),
        ("content-length: 1, 44\r\n", &plain),
        ("content-length: +1\r\n", &plain),
        ("content-length: -1\r\n", &plain),
        ("content-length: 0x1\r\n", &plain),
        ("content-length: 1 1\r\n", &plain),
        ("content-length: \r\n", &plain),
        ("content-length: 48\r\ntransfer-encoding: chunked\r\n", &chunked),
        ("transfer-encoding: chunked\r\ncontent-length: 5\r\n", &chunked),
        ("transfer-encoding: chunked, identity\r\n", &chunked),
        ("transfer-encoding: xchunked\r\n", &chunked),
        ("transfer-encoding : chunked\r\n", &chunked),
    ];
    for (fields, body) in cases {
        smuggle(at, &mut tally, fields, body);
    }
    tally
}

fn bad_chunks(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let sizes = ["g", "-1", "+1", "0x1", "1 1", "", "ffffffffffffffff", "10000000000000000", "1\n", " 1"];
    for size in sizes {
        let body = format!("{size}\r\nx\r\n0\r\n\r\n{SMUGGLED}");
        smuggle(at, &mut tally, "transfer-encoding: chunked\r\n", &body);
    }
    tally
}

const CHUNKED: &[u8] = b"POST /v1/check HTTP/1.1\r\nhost: hostile\r\ntransfer-encoding: chunked\r\n\r\n";

fn extensions(at: &Field) -> Tally {
    let mut tally = Tally::default();
    for chunk in [b"1;".as_slice(), b"1;a=b\r\nx\r\n"] {
        let mut raw = Raw::sending(at.address, CHUNKED);
        raw.send(chunk);
        let rest = if chunk.ends_with(b"\n") { chunk.to_vec() } else { vec![b'e'; 10] };
        raw.flood(&rest.repeat(1_000), 400 * at.force);
        tally.see("extensions", &raw.http(), Want::Refused);
    }
    tally
}

fn trailers(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let mut raw = Raw::sending(at.address, CHUNKED);
    raw.send(b"0\r\n");
    raw.flood(&b"x-trailer: 1\r\n".repeat(1_000), 400 * at.force);
    tally.see("trailers", &raw.http(), Want::Refused);
    tally
}
