//! HTTP/1.1 whose host or whose line ends two programs may read differently: on the short way of `/v1/check` and on hyper's.

use super::http1::QUESTION;
use super::raw::Raw;
use super::seen::{Seen, Tally, Want};
use super::{Attack, Field, Listener, quick};

pub(super) fn attacks() -> Vec<Attack> {
    const HTTP: Listener = Listener::Http;
    const ADMIN: Listener = Listener::Admin;
    vec![
        quick(HTTP, "no host, two hosts, no name of a host", "400", wrong_hosts),
        quick(ADMIN, "no host, two hosts, no name of a host", "400", wrong_hosts),
        quick(HTTP, "lines that end with a bare line feed", "400, no second answer", bare_line_feeds),
        quick(ADMIN, "lines that end with a bare line feed", "400, no second answer", bare_line_feeds),
    ]
}

/// The first lines of requests that are answered one way and the other.
const PATHS: [&str; 2] = ["POST /v1/check", "POST /v1/peek"];

/// Sends a request, and sees that it gets one answer: this.
fn check(at: &Field, tally: &mut Tally, what: &str, request: &str, want: Want) {
    let mut raw = Raw::sending(at.address, request.as_bytes());
    raw.finish();
    let seen = raw.http();
    tally.see(what, &seen, want);
    while let Ok(line) = raw.line() {
        if line.starts_with(b"HTTP/1.1 ") {
            tally.blame(format!("{what}: a second answer: {}", String::from_utf8_lossy(&line)));
        }
    }
    if seen == Seen::Silent {
        tally.blame(format!("{what}: the server waits for more"));
    }
}

fn request(line: &str, version: &str, fields: &str) -> String {
    let body = String::from_utf8_lossy(QUESTION);
    format!("{line} HTTP/{version}\r\n{fields}content-length: {}\r\n\r\n{body}", body.len())
}

fn wrong_hosts(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let wrong = [
        "",
        "host: a\r\nhost: a\r\n",
        "host: a\r\nHost: b\r\n",
        "host: a b\r\n",
        "host: a/b\r\n",
        "host: u@a\r\n",
    ];
    for line in PATHS {
        for fields in wrong {
            let what = format!("{line}, {fields:?}");
            check(at, &mut tally, &what, &request(line, "1.1", fields), Want::Told("400"));
        }
    }
    if at.on == Listener::Http {
        // Without tokens, the listener answers to the names of this machine alone.
        let right =
            ["host: localhost\r\n", "host: localhost:80\r\n", "host: [::1]:80\r\n", "host: 127.0.0.1\r\n"];
        for fields in right {
            for line in PATHS {
                check(at, &mut tally, fields, &request(line, "1.1", fields), Want::Answered);
            }
        }
        check(at, &mut tally, "HTTP/1.0 without a host", &request(PATHS[1], "1.0", ""), Want::Answered);
    }
    tally
}

fn bare_line_feeds(at: &Field) -> Tally {
    let mut tally = Tally::default();
    for line in PATHS {
        let whole = request(line, "1.1", "host: a\r\nx: y\r\n");
        // Every line end of the header in turn, and all of them.
        let ends: Vec<usize> = whole.match_indices("\r\n").map(|(index, _)| index).collect();
        for end in &ends {
            let mut cut = whole.clone();
            cut.remove(*end);
            check(at, &mut tally, &format!("{line}, at {end}"), &cut, Want::Told("400"));
        }
        check(at, &mut tally, line, &whole.replace("\r\n", "\n"), Want::Told("400"));
        // A field that only one of two programs sees, and with it a second request.
        let hidden = "x: y\ncontent-length: 5\r\nhost: a\r\n";
        let smuggled = format!("{}GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n", request(line, "1.1", hidden));
        check(at, &mut tally, "a hidden length", &smuggled, Want::Told("400"));
    }
    tally
}
