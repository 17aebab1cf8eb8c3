//! Answers read as a strict client reads them. What may differ from one time to the next, numbers and strings, is read but not kept.

#[cfg(test)]
mod tests;

use std::str::{FromStr, from_utf8};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Simple(String),
    Error(String),
    Integer,
    Bulk,
    Text,
    Nil,
    Array(Vec<Answer>),
    Map(Vec<Answer>),
    Set(Vec<Answer>),
}

/// All answers of a stream. Panics if it is not a stream of answers, or ends within one.
pub(super) fn read_all(stream: &[u8]) -> Vec<Answer> {
    let mut rest = stream;
    let mut answers = Vec::new();
    while !rest.is_empty() {
        let Some(answer) = read(&mut rest) else {
            panic!("no answer: \"{}\" of \"{}\"", rest.escape_ascii(), stream.escape_ascii());
        };
        answers.push(answer);
    }
    answers
}

fn read(rest: &mut &[u8]) -> Option<Answer> {
    let line = line(rest)?;
    let (mark, text) = line.split_at_checked(1)?;
    match (mark, text) {
        ("+", text) => Some(Answer::Simple(text.to_owned())),
        ("-", text) => starts_with_code(text).then(|| Answer::Error(text.to_owned())),
        (":", number) => number.parse::<i64>().ok().map(|_| Answer::Integer),
        ("_", "") | ("$" | "*", "-1") => Some(Answer::Nil),
        ("$", length) => string(rest, length).map(|_| Answer::Bulk),
        ("=", length) => string(rest, length)?.starts_with(b"txt:").then_some(Answer::Text),
        ("*", length) => elements(rest, parsed(length)?).map(Answer::Array),
        ("~", length) => elements(rest, parsed(length)?).map(Answer::Set),
        ("%", length) => elements(rest, parsed::<usize>(length)?.checked_mul(2)?).map(Answer::Map),
        _ => None,
    }
}

/// The text of an error begins with a word in capitals, by which programs know it.
fn starts_with_code(text: &str) -> bool {
    let code = text.split(' ').next().unwrap_or_default();
    !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let end = rest.iter().position(|byte| *byte == b'\r')?;
    let line = from_utf8(&rest[..end]).ok()?;
    *rest = rest[end..].strip_prefix(b"\r\n")?;
    (!line.contains('\n')).then_some(line)
}

fn string<'a>(rest: &mut &'a [u8], length: &str) -> Option<&'a [u8]> {
    let (string, after) = rest.split_at_checked(parsed(length)?)?;
    *rest = after.strip_prefix(b"\r\n")?;
    Some(string)
}

fn elements(rest: &mut &[u8], count: usize) -> Option<Vec<Answer>> {
    (0..count).map(|_| read(rest)).collect()
}

/// A number as it is written, and in no other way.
fn parsed<N: FromStr + ToString>(text: &str) -> Option<N> {
    text.parse::<N>().ok().filter(|number| number.to_string() == text)
}
