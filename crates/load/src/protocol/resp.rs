//! RESP: commands of Redis clients, pipelined.

use super::{Decode, Found, Garbled, Wire};
use crate::question::Question;
use crate::tally::Answer;
use crate::template::Template;

/// Of an answer. Ours and Redis' to such questions have one level.
const DEPTH_MAX: usize = 8;
/// A length that is longer than this is no length.
const LENGTH_MAX: i64 = 64 << 20;

/// How a question is put. None if RESP has no words for it.
pub(crate) fn wire(question: &Question, token: Option<&str>) -> Option<Wire> {
    let (words, yes) = match question {
        Question::Command { words, yes } => (words.clone(), *yes),
        Question::Policy { name, key, cost } => {
            (vec!["TG.CHECK".to_owned(), name.clone(), key.clone(), cost.to_string()], Some(1))
        }
        Question::Descriptors { .. } => return None,
    };
    let mut greeting = Vec::new();
    if let Some(token) = token {
        command(&["AUTH".to_owned(), token.to_owned()]).write(0, &mut greeting);
    }
    Some(Wire {
        greeting_answers: usize::from(token.is_some()),
        greeting,
        request: command(&words),
        decode: Decode::Resp(yes),
    })
}

fn command(words: &[String]) -> Template {
    let mut command = Template::of(&format!("*{}\r\n", words.len()));
    for word in words {
        let word = Template::of(word);
        command.push(format!("${}\r\n", word.len()).as_bytes());
        command.append(&word);
        command.push(b"\r\n");
    }
    command
}

/// The first answer among these bytes.
pub(crate) fn read(bytes: &[u8], yes: Option<i64>) -> Result<Found, Garbled> {
    let Some(length) = whole(bytes, 0)? else { return Ok(None) };
    let answer = match bytes.first() {
        Some(b'-') => {
            Answer::Refused(String::from_utf8_lossy(bytes[1..length].trim_ascii_end()).into_owned())
        }
        _ if yes.is_none() || first_number(&bytes[..length]) == yes => Answer::Allowed,
        _ => Answer::Denied,
    };
    Ok(Some((answer, length)))
}

/// The length of the value at the beginning, with everything in it. None if it is not complete.
fn whole(bytes: &[u8], depth: usize) -> Result<Option<usize>, Garbled> {
    let Some(line) = line_length(bytes) else { return Ok(None) };
    let number = || number(&bytes[1..line]).filter(|&number| (-1..=LENGTH_MAX).contains(&number));
    match bytes.first() {
        Some(b'+' | b'-' | b':') => Ok(Some(line)),
        Some(b'$') => {
            let text = usize::try_from(number().ok_or(Garbled("a text without a length"))?);
            let end = text.map_or(line, |text| line + text + 2);
            Ok((bytes.len() >= end).then_some(end))
        }
        Some(b'*') if depth < DEPTH_MAX => {
            let mut end = line;
            for _ in 0..number().ok_or(Garbled("a list without a length"))? {
                match whole(&bytes[end..], depth + 1)? {
                    Some(length) => end += length,
                    None => return Ok(None),
                }
            }
            Ok(Some(end))
        }
        _ => Err(Garbled("this is not RESP: is it the right port?")),
    }
}

/// The number of an answer, or the first of a list.
fn first_number(bytes: &[u8]) -> Option<i64> {
    let line = line_length(bytes)?;
    match bytes.first()? {
        b'*' => first_number(&bytes[line..]),
        b':' => number(&bytes[1..line]),
        _ => None,
    }
}

/// Up to and with the first line's end.
fn line_length(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == b'\n').map(|at| at + 1)
}

fn number(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line.trim_ascii_end()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
