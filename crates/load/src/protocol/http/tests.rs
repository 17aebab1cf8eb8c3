//! Requests with the right length, and answers cut off at every byte.

use super::{Question, read, wire};
use crate::tally::Answer;

fn written(question: &Question, token: Option<&str>) -> String {
    let mut request = Vec::new();
    wire(question, "here:80", token).unwrap().request.write(7, &mut request);
    String::from_utf8(request).unwrap()
}

/// The answer is read once its last byte has come, and not before.
fn check(bytes: &str, answer: &Answer) {
    for cut in 0..bytes.len() {
        assert_eq!(read(&bytes.as_bytes()[..cut]), Ok(None), "{bytes:?} up to {cut}");
    }
    let more = format!("{bytes}HTTP/1.1 200");
    assert_eq!(read(more.as_bytes()), Ok(Some((answer.clone(), bytes.len()))), "{bytes:?}");
}

#[test]
fn a_request_says_how_long_it_is() {
    let policy = Question::Policy { name: "a\"b".to_owned(), key: "user:{key}".to_owned(), cost: 2 };
    assert_eq!(
        written(&policy, Some("secret")),
        "POST /v1/check HTTP/1.1\r\nhost: here:80\r\ncontent-type: application/json\r\n\
         authorization: Bearer secret\r\ncontent-length: 52\r\n\r\n\
         {\"policy\":\"a\\\"b\",\"key\":\"user:000000000007\",\"cost\":2}"
    );
    let entries = vec![("path".to_owned(), "/".to_owned()), ("user".to_owned(), "{key}".to_owned())];
    let descriptors =
        Question::Descriptors { domain: "shop".to_owned(), descriptors: vec![entries], cost: 1 };
    let request = written(&descriptors, None);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert_eq!(
        body,
        r#"{"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/"},{"key":"user","value":"000000000007"}]}],"hits_addend":1}"#
    );
    assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
}

#[test]
fn the_status_decides() {
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nx: y\r\n\r\n{}", &Answer::Allowed);
    check("HTTP/1.1 429 Too Many Requests\r\ncontent-length:0\r\n\r\n", &Answer::Denied);
}

#[test]
fn an_error_is_told_in_its_own_words() {
    let body = r#"{"error":{"message":"unknown policy"}}"#;
    let head = format!("HTTP/1.1 404 Not Found\r\ncontent-length: {}\r\n\r\n", body.len());
    check(&format!("{head}{body}"), &Answer::Refused("404: unknown policy".to_owned()));
    check(
        "HTTP/1.1 502 Bad\r\ncontent-length: 4\r\n\r\nsorry".strip_suffix('y').unwrap(),
        &Answer::Refused("502: sorr".to_owned()),
    );
}

#[test]
fn what_is_not_http_is_refused() {
    for bytes in ["-ERR\r\n", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "HTTP/1.0 200 OK\r\n"]
    {
        assert!(read(bytes.as_bytes()).is_err(), "{bytes:?}");
    }
    let endless = format!("HTTP/1.1 200 OK\r\n{}", "x".repeat(70_000));
    assert!(read(endless.as_bytes()).is_err());
}
