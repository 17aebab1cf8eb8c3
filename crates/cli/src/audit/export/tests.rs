//! Lines that come in pieces.

use super::*;

fn check(pieces: &[&str]) -> (io::Result<()>, String, u64, u64) {
    let mut to = Vec::new();
    let mut lines = Lines { to: &mut to, rest: Vec::new(), count: 0, last: 0 };
    let outcome = pieces.iter().try_for_each(|piece| lines.take(piece.as_bytes()));
    let (count, last) = (lines.count, lines.last);
    (outcome, String::from_utf8(to).unwrap(), count, last)
}

#[test]
fn only_whole_lines_are_written() {
    let (outcome, text, count, last) = check(&["{\"version\":", "1}\n{\"version\":2}\n{\"ver", "sion\":3"]);
    assert!(outcome.is_ok());
    assert_eq!((text.as_str(), count, last), ("{\"version\":1}\n{\"version\":2}\n", 2, 2));
}

#[test]
fn what_is_no_audit_is_refused() {
    for text in ["<html>\n", "{}\n", &"x".repeat(LINE_BYTES_MAX + 1)] {
        let (outcome, written, ..) = check(&[text]);
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(written, "");
    }
}
