//! HTTP/1.1: one request under way on each connection, which stays open.

use serde_json::{Value, json};

use super::{Decode, Found, Garbled, Wire};
use crate::question::Question;
use crate::tally::Answer;
use crate::template::Template;

/// The head of an answer is not longer.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Nor is its body.
const BODY_BYTES_MAX: usize = 1 << 20;

/// How a question is put. None if `/v1/check` has no words for it.
pub(crate) fn wire(question: &Question, host: &str, token: Option<&str>) -> Option<Wire> {
    let body = Template::of(&body(question)?.to_string());
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let mut request = Template::of(&format!(
        "POST /v1/check HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{token}content-length: {}\r\n\r\n",
        body.len()
    ));
    request.append(&body);
    Some(Wire { greeting: Vec::new(), greeting_answers: 0, request, decode: Decode::Http })
}

fn body(question: &Question) -> Option<Value> {
    match question {
        Question::Policy { name, key, cost } => Some(json!({"policy": name, "key": key, "cost": cost})),
        Question::Descriptors { domain, descriptors, cost } => {
            let entry = |(key, value): &(String, String)| json!({"key": key, "value": value});
            let descriptor =
                |entries: &Vec<_>| json!({"entries": entries.iter().map(entry).collect::<Vec<_>>()});
            let descriptors: Vec<Value> = descriptors.iter().map(descriptor).collect();
            Some(json!({"domain": domain, "descriptors": descriptors, "hits_addend": cost}))
        }
        Question::Command { .. } => None,
    }
}

/// The first answer among these bytes.
pub(crate) fn read(bytes: &[u8]) -> Result<Found, Garbled> {
    let not_http = Garbled("this is not HTTP/1.1: is it the right port?");
    let beginning = b"HTTP/1.1 ";
    if !bytes.iter().zip(beginning).all(|(byte, wanted)| byte == wanted) {
        return Err(not_http);
    }
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return if bytes.len() > HEAD_BYTES_MAX { Err(Garbled("a head without an end")) } else { Ok(None) };
    };
    let (fields, body) = (&bytes[beginning.len()..head + 2], head + 4);
    let length = content_length(fields).ok_or(Garbled("an answer without content-length"))?;
    let Some(text) = bytes.get(body..body + length) else { return Ok(None) };
    let answer = match fields.get(..3) {
        Some(b"200") => Answer::Allowed,
        Some(b"429") => Answer::Denied,
        Some(status) => Answer::Refused(error(status, text)),
        None => return Err(not_http),
    };
    Ok(Some((answer, body + length)))
}

/// What the server says in an error, or all of its answer.
fn error(status: &[u8], body: &[u8]) -> String {
    let status = String::from_utf8_lossy(status);
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let message = parsed.as_ref().and_then(|body| body["error"]["message"].as_str());
    format!("{status}: {}", message.map_or_else(|| String::from_utf8_lossy(body), Into::into).trim())
}

fn content_length(fields: &[u8]) -> Option<usize> {
    let name = b"content-length:";
    let is_field = |line: &&[u8]| line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name);
    let line = fields.split(|&byte| byte == b'\n').find(is_field)?;
    let length = std::str::from_utf8(&line[name.len()..]).ok()?.trim().parse().ok()?;
    Some(length).filter(|&length| length <= BODY_BYTES_MAX)
}

#[cfg(test)]
mod tests;
