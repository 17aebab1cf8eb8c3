//! HTTP bodies: too large, too deep, of the wrong types, with numbers at and beyond every edge.

use super::http1::{post, post_with};
use super::raw::Raw;
use super::seen::{Seen, Tally, Want};
use super::{Attack, Field, Listener, quick};

/// Deeper than any stack would follow.
const NESTED: usize = 100_000;
/// The largest body that is taken.
const BODY_BYTES_MAX: usize = 1 << 20;

pub(super) fn attacks() -> Vec<Attack> {
    const HTTP: Listener = Listener::Http;
    vec![
        quick(HTTP, "a body too large, announced", "413 before it is sent", announced),
        quick(HTTP, "a body too large, in chunks", "413", endless_chunks),
        quick(HTTP, "JSON nested 100,000 deep", "400", nested),
        quick(HTTP, "JSON lists of 1 MiB", "400", long_lists),
        quick(HTTP, "JSON of the wrong types", "400", wrong_types),
        quick(HTTP, "bytes that are no UTF-8", "400", not_text),
        quick(HTTP, "costs beyond u64, NaN, floats", "400", wrong_costs),
        quick(HTTP, "costs at the edges of u64", "an answer", edge_costs),
    ]
}

fn asked(at: &Field, body: &[u8]) -> Seen {
    Raw::sending(at.address, &post(body)).http()
}

fn announced(at: &Field) -> Tally {
    let mut tally = Tally::default();
    for length in [format!("{}", BODY_BYTES_MAX + 1), format!("{}", u64::MAX)] {
        let head = format!("POST /v1/check HTTP/1.1\r\nhost: hostile\r\ncontent-length: {length}\r\n\r\n");
        let mut raw = Raw::sending(at.address, head.as_bytes());
        let want = if length.len() < 10 { Want::Told("413") } else { Want::Refused };
        tally.see(&length, &raw.http(), want);
    }
    tally
}

fn endless_chunks(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let head = b"POST /v1/check HTTP/1.1\r\nhost: hostile\r\ntransfer-encoding: chunked\r\n\r\n";
    for size in [1, 1 << 10, 64 << 10] {
        let mut raw = Raw::sending(at.address, head);
        let chunk = [format!("{size:x}\r\n").as_bytes(), &vec![b' '; size], b"\r\n"].concat();
        let times = 2 * BODY_BYTES_MAX / size;
        raw.flood(&chunk.repeat((16 << 10) / size.min(16 << 10)), times.div_ceil(((16 << 10) / size).max(1)));
        // A reset may overtake the answer where not all was read.
        tally.see(&format!("chunks of {size}"), &raw.http(), Want::Refused);
    }
    tally
}

fn nested(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let deep = |open: &str| format!(r#"{{"policy": {}"#, open.repeat(NESTED));
    for (what, body) in [("lists", deep("[")), ("objects", deep(r#"{"a":"#)), ("both", deep(r#"[{"a":"#))] {
        tally.see(what, &asked(at, body.as_bytes()), Want::Told("400"));
    }
    tally
}

/// Each element is three bytes of a body, and many more wherever room is made for it.
fn long_lists(at: &Field) -> Tally {
    let mut tally = Tally::default();
    for path in ["/json", "/v1/check"] {
        for (what, start) in [
            ("descriptors", r#"{"domain":"hostile","descriptors":[{}"#),
            ("entries", r#"{"domain":"hostile","descriptors":[{"entries":[{}"#),
        ] {
            let body = [start.as_bytes(), &b",{}".repeat((BODY_BYTES_MAX - start.len()) / 3)].concat();
            let head =
                format!("POST {path} HTTP/1.1\r\nhost: hostile\r\ncontent-length: {}\r\n\r\n", body.len());
            let mut raw = Raw::sending(at.address, &[head.as_bytes(), &body].concat());
            tally.see(&format!("{path}: {what}"), &raw.http(), Want::Told("400"));
        }
    }
    tally
}

fn wrong_types(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let bodies = [
        r#"{"policy": 1, "key": "x"}"#,
        r#"{"policy": ["plenty"], "key": "x"}"#,
        r#"{"policy": "plenty", "key": {"a": 1}}"#,
        r#"{"policy": "plenty", "key": "x", "cost": "1"}"#,
        r#"{"policy": "plenty", "key": "x", "cost": true}"#,
        r#"{"policy": "plenty", "key": "x", "cost": [1]}"#,
        r#"{"domain": "hostile", "descriptors": {"entries": []}}"#,
        r#"{"domain": "hostile", "descriptors": [[]]}"#,
        r#"{"domain": "hostile", "descriptors": [{"entries": [{"key": 1, "value": 2}]}]}"#,
        r#"{"domain": "hostile", "descriptors": 7}"#,
        "[]",
        "7",
        "null",
        "",
    ];
    for body in bodies {
        tally.see(body, &asked(at, body.as_bytes()), Want::Told("400"));
    }
    tally
}

fn not_text(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let bodies: [&[u8]; 5] = [
        b"{\"policy\": \"plenty\", \"key\": \"\xff\xfe\"}",
        b"{\"policy\": \"\xc3\x28\", \"key\": \"x\"}",
        b"{\"policy\": \"plenty\", \"key\": \"\\ud800\"}",
        b"\xef\xbb\xbf{\"policy\": \"plenty\", \"key\": \"x\"}",
        b"\x00\x01\x02",
    ];
    for body in bodies {
        tally.see(&format!("{body:?}"), &asked(at, body), Want::Told("400"));
    }
    // What is no text in a header field is no reason to refuse.
    let mut request = post_with(&[], br#"{"policy": "plenty", "key": "x"}"#);
    let host = request.windows(7).position(|window| window == b"hostile").expect("the host");
    request.splice(host + 7..host + 7, *b"\r\nx-latin: caf\xe9");
    tally.see("a header field", &Raw::sending(at.address, &request).http(), Want::Answered);
    tally
}

/// What is answered to a cost.
fn cost(at: &Field, cost: &str) -> Seen {
    asked(at, format!(r#"{{"policy": "two-an-hour", "key": "costs", "cost": {cost}}}"#).as_bytes())
}

fn wrong_costs(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let costs = [
        "18446744073709551616",
        "-1",
        "-18446744073709551615",
        "1.5",
        "1e400",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e",
        "0x10",
        "99999999999999999999999999999999999999999999",
    ];
    for text in costs {
        tally.see(text, &cost(at, text), Want::Told("400"));
    }
    tally
}

fn edge_costs(at: &Field) -> Tally {
    let mut tally = Tally::default();
    for text in ["18446744073709551615", "9223372036854775808", "0", "1", "18446744073709551615"] {
        tally.see(text, &cost(at, text), Want::Answered);
    }
    tally
}
