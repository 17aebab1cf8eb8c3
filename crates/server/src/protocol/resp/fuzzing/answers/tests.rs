//! The reader of answers takes what clients take, and nothing else.

use std::panic::catch_unwind;

use super::{Answer, read_all};

fn check(stream: &[u8], expected: &[Answer]) {
    assert_eq!(read_all(stream), expected, "{}", stream.escape_ascii());
}

fn check_refused(stream: &[u8]) {
    let read = catch_unwind(|| read_all(stream));
    assert!(read.is_err(), "\"{}\" was read as {:?}", stream.escape_ascii(), read.unwrap_or_default());
}

#[test]
fn reads_every_kind_of_answer() {
    let ok = Answer::Simple("OK".to_owned());
    check(b"", &[]);
    check(b"+OK\r\n-ERR no\r\n:-1\r\n", &[ok, Answer::Error("ERR no".to_owned()), Answer::Integer]);
    check(b"$4\r\n\r\n\r\n\r\n$0\r\n\r\n=5\r\ntxt:a\r\n", &[Answer::Bulk, Answer::Bulk, Answer::Text]);
    check(b"$-1\r\n*-1\r\n_\r\n", &[Answer::Nil, Answer::Nil, Answer::Nil]);
    let pair = vec![Answer::Integer, Answer::Array(vec![])];
    check(b"*2\r\n:1\r\n*0\r\n", &[Answer::Array(pair.clone())]);
    check(b"%1\r\n:1\r\n*0\r\n~2\r\n:1\r\n*0\r\n", &[Answer::Map(pair.clone()), Answer::Set(pair)]);
}

#[test]
fn refuses_everything_else() {
    for stream in [
        &b"OK\r\n"[..],
        b"+OK",
        b"+OK\n",
        b"+O\nK\r\n",
        b"-no code\r\n",
        b":1.5\r\n",
        b"$3\r\nab\r\n",
        b"$1\r\nab\r\n",
        b"$+1\r\na\r\n",
        b"$01\r\na\r\n",
        b"=1\r\na\r\n",
        b"*2\r\n:1\r\n",
        b"%1\r\n:1\r\n",
        b"_x\r\n",
        b"\r\n",
        b"\xff\r\n",
    ] {
        check_refused(stream);
    }
}
