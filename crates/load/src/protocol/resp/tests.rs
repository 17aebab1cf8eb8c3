//! Commands as Redis clients write them, and answers cut off at every byte.

use super::{Question, read, wire};
use crate::tally::Answer;

fn written(question: &Question, token: Option<&str>) -> (String, String) {
    let wire = wire(question, token).unwrap();
    let mut request = Vec::new();
    wire.request.write(7, &mut request);
    (String::from_utf8(wire.greeting).unwrap(), String::from_utf8(request).unwrap())
}

/// The answer is read once its last byte has come, and not before.
fn check(bytes: &str, yes: Option<i64>, answer: &Answer) {
    for cut in 0..bytes.len() {
        assert_eq!(read(&bytes.as_bytes()[..cut], yes), Ok(None), "{bytes:?} up to {cut}");
    }
    let more = format!("{bytes}:1\r\n");
    assert_eq!(read(more.as_bytes(), yes), Ok(Some((answer.clone(), bytes.len()))), "{bytes:?}");
}

#[test]
fn commands_have_the_length_of_their_key() {
    let (_, request) = written(&Question::throttle("user:{key}", 15, 30, 60), None);
    assert_eq!(
        request,
        "*5\r\n$11\r\nCL.THROTTLE\r\n$17\r\nuser:000000000007\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n"
    );
    let policy = Question::Policy { name: "api".to_owned(), key: "{key}".to_owned(), cost: 3 };
    let (greeting, request) = written(&policy, Some("secret"));
    assert_eq!(greeting, "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n");
    assert_eq!(request, "*4\r\n$8\r\nTG.CHECK\r\n$3\r\napi\r\n$12\r\n000000000007\r\n$1\r\n3\r\n");
}

#[test]
fn the_first_number_decides() {
    check("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", Some(0), &Answer::Allowed);
    check("*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:32\r\n", Some(0), &Answer::Denied);
    check("*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:32\r\n", Some(1), &Answer::Allowed);
}

#[test]
fn any_answer_is_a_yes_where_none_is_named() {
    for bytes in [":12\r\n", "$3\r\nfoo\r\n", "$-1\r\n", "+OK\r\n", "*0\r\n", "*2\r\n*1\r\n:1\r\n$1\r\nx\r\n"]
    {
        check(bytes, None, &Answer::Allowed);
    }
}

#[test]
fn an_error_is_told_in_its_own_words() {
    check("-ERR unknown policy\r\n", Some(1), &Answer::Refused("ERR unknown policy".to_owned()));
}

#[test]
fn what_is_not_resp_is_refused() {
    for bytes in ["HTTP/1.1 400\r\n", "$x\r\n", "*-7\r\n", "$99999999999\r\n"] {
        assert!(read(bytes.as_bytes(), None).is_err(), "{bytes:?}");
    }
    let nested = "*1\r\n".repeat(100);
    assert!(read(nested.as_bytes(), None).is_err());
}
