//! The reader of answers takes what clients take, and keeps what makes a difference to them.

use std::panic::catch_unwind;

use super::{Answer, read_all};

const YES: &[u8] = b"HTTP/1.1 200 OK\r\nA: b\r\ncontent-length: 2\r\n\r\n{}";

fn one(stream: &[u8]) -> Answer {
    let answers = read_all(stream);
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.into_iter().next().unwrap()
}

fn check_refused(stream: &[u8]) {
    let read = catch_unwind(|| read_all(stream));
    assert!(read.is_err(), "\"{}\" was read as {:?}", stream.escape_ascii(), read.unwrap_or_default());
}

#[test]
fn reads_one_answer_after_the_other() {
    assert_eq!(read_all(b""), []);
    let head = &b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"[..];
    let statuses = |stream: &[u8]| read_all(stream).iter().map(|answer| answer.status).collect::<Vec<_>>();
    assert_eq!(
        statuses(&[b"HTTP/1.1 100 Continue\r\n\r\n", YES, head, YES, head].concat()),
        [100, 200, 200, 200, 200]
    );
    assert_eq!(one(YES).body, "{}");
}

#[test]
fn refuses_what_is_no_answer() {
    for stream in [
        &b"200 OK\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ndate: today\r\n\r\n",
    ] {
        check_refused(stream);
    }
}

#[test]
fn keeps_what_makes_a_difference() {
    for other in [
        &b"HTTP/1.1 429 OK\r\nA: b\r\ncontent-length: 2\r\n\r\n{}"[..],
        b"HTTP/1.1 200 OK\r\nA: c\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nA: b\r\nA: b\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nA: b\r\nretry-after: 1\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nA: b\r\ncontent-length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nA: b\r\ncontent-length: 0\r\n\r\n",
    ] {
        assert_ne!(one(YES), one(other), "{}", other.escape_ascii());
    }
}

#[test]
fn forgets_what_chance_and_time_have_made() {
    let with = |field: &str, body: &str| {
        one(format!("HTTP/1.1 429 No\r\n{field}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes())
    };
    assert_eq!(with("Retry-After: 9", ""), with("retry-after: 10", ""));
    for (one, other) in [
        (r#"{"retry_after":1.5,"a":1}"#, r#"{"retry_after":12,"a":1}"#),
        (r#"{"reset_at":1}"#, r#"{"reset_at":2}"#),
        (r#"{"lease":"0a"}"#, r#"{"lease":"0b0c"}"#),
        ("try again in 1 second\"", "try again in 12 seconds\""),
    ] {
        assert_eq!(with("a: b", one), with("a: b", other));
    }
    for (one, other) in [
        (r#"{"retry_after":1}"#, r#"{"retry_after":null}"#),
        (r#"{"retry_after":1,"a":1}"#, r#"{"retry_after":1,"a":2}"#),
        (r#"{"lease":"0a"}"#, r#"{"lease":null}"#),
    ] {
        assert_ne!(with("a: b", one), with("a: b", other));
    }
}
