//! Every kind of answer, in both versions of the protocol.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

#[track_caller]
fn check(put: impl Fn(&mut Replies), in_resp2: &str, in_resp3: &str) {
    for (version, expected) in [(Version::Resp2, in_resp2), (Version::Resp3, in_resp3)] {
        let mut replies = Replies::default();
        replies.set_version(version);
        put(&mut replies);
        assert_eq!(replies.as_bytes().escape_ascii().to_string(), expected.escape_default().to_string());
    }
}

#[test]
fn same_in_both() {
    check(Replies::ok, "+OK\r\n", "+OK\r\n");
    check(|to| to.integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n");
    check(|to| to.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n");
    check(|to| to.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n");
    check(|to| to.array(3), "*3\r\n", "*3\r\n");
}

#[test]
fn different_in_each() {
    check(Replies::nil, "$-1\r\n", "_\r\n");
    check(Replies::nil_array, "*-1\r\n", "_\r\n");
    check(|to| to.map(2), "*4\r\n", "%2\r\n");
    check(|to| to.set(2), "*2\r\n", "~2\r\n");
    check(|to| to.text("abc"), "$3\r\nabc\r\n", "=7\r\ntxt:abc\r\n");
}

#[test]
fn errors_are_one_line_and_not_a_long_one() {
    check(|to| to.error("ERR a\r\nb\n"), "-ERR a  b \r\n", "-ERR a  b \r\n");
    let mut replies = Replies::default();
    replies.error("ü".repeat(ERROR_BYTES_MAX));
    assert_eq!(replies.as_bytes().len(), ERROR_BYTES_MAX + "-\r\n".len());
    replies.clear(16);
    replies.error("x".to_owned() + &"ü".repeat(ERROR_BYTES_MAX));
    assert_eq!(replies.as_bytes().len(), ERROR_BYTES_MAX - 1 + "-\r\n".len());
}

#[test]
fn memory_is_given_back() {
    let mut replies = Replies::default();
    replies.bulk(&vec![0; 1 << 20]);
    assert!(replies.capacity() < (1 << 20) + 64, "no more than it takes: {}", replies.capacity());
    replies.clear(4096);
    assert!(replies.as_bytes().is_empty() && replies.bytes.capacity() <= 4096);
}
