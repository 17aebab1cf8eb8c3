//! Requests in pieces of every length: those that are right are left as they are, and those that are in doubt are found.
#![allow(clippy::unwrap_used)]

use super::*;

/// Where bytes are in doubt, however they are cut into pieces.
fn doubt(bytes: &str) -> Option<usize> {
    let in_pieces = |length: usize| {
        let (mut requests, mut start) = (Requests::new(), 0);
        for piece in bytes.as_bytes().chunks(length) {
            if let Err(at) = requests.read(piece) {
                return Some(start + at);
            }
            start += piece.len();
        }
        None
    };
    let whole = in_pieces(bytes.len());
    for length in 1..bytes.len().min(20) {
        assert_eq!(in_pieces(length), whole, "{bytes:?} in pieces of {length}");
    }
    whole
}

#[test]
fn requests_that_are_right_are_in_no_doubt() {
    let right = [
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n\n\n\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length:2\r\nContent-Length: 2\r\n\r\n\nxGET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n\n\n\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\ntransfer-encoding:Chunked\r\n\r\nA;e=f\r\n0123456789\r\n0\r\nt: v\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    ];
    for request in right {
        assert_eq!(doubt(request), None, "{request:?}");
    }
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\nGET / HTTP/1.1\r\n\r\n", "v".repeat(1000));
    assert_eq!(doubt(&long), None);
}

#[test]
fn a_line_that_ends_with_a_bare_line_feed_is_found() {
    let wrong = [
        "\n",
        "GET / HTTP/1.1\n",
        "GET / HTTP/1.1\r\nHost: x\n",
        "GET / HTTP/1.1\r\nHost: x\r\n\n",
        "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n\n\n\nGET / HTTP/1.1\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;e\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nt: v\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\n",
    ];
    for request in wrong {
        assert_eq!(doubt(request), Some(request.len() - 1), "{request:?}");
    }
}

#[test]
fn lengths_that_two_programs_may_read_differently_are_found() {
    let fields = [
        "Content-Length: 1\r\nContent-Length: 2\r\n",
        "Content-Length: 1, 1\r\n",
        "Content-Length: +1\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length:\r\n",
        "Content-Length : 1x\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
    ];
    for fields in fields {
        assert!(doubt(&format!("POST / HTTP/1.1\r\n{fields}\r\n")).is_some(), "{fields:?}");
    }
    for chunk in ["x\r\n", "-1\r\n", "fffffffffffffffff\r\n", "1\r\nxy\r\n"] {
        let request = format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
        assert!(doubt(&request).is_some(), "{chunk:?}");
    }
}
