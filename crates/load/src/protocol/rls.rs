//! Envoy's rate limit service: the question as a message with its prefix, and what an answer's message says.

use crate::question::Question;
use crate::tally::Answer;
use crate::template::Template;

/// Where the call is made.
pub(crate) const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// Before every message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
const OVERALL_OK: u64 = 1;
const OVERALL_OVER_LIMIT: u64 = 2;

/// The message of a question, with its prefix. None if the service has no words for it.
pub(crate) fn message(question: &Question) -> Option<Template> {
    let Question::Descriptors { domain, descriptors, cost } = question else { return None };
    let mut message = Template::default();
    push_field(&mut message, 1, &Template::of(domain));
    for entries in descriptors {
        let mut descriptor = Template::default();
        for (key, value) in entries {
            let mut entry = Template::default();
            push_field(&mut entry, 1, &Template::of(key));
            push_field(&mut entry, 2, &Template::of(value));
            push_field(&mut descriptor, 1, &entry);
        }
        push_field(&mut message, 2, &descriptor);
    }
    message.push(&[3 << 3]);
    push_varint(&mut message, u64::from(*cost));
    let mut prefixed = Template::default();
    prefixed.push(&[0]);
    prefixed.push(&u32::try_from(message.len()).ok()?.to_be_bytes());
    prefixed.append(&message);
    Some(prefixed)
}

/// Bytes of a field, behind its number and their length.
fn push_field(message: &mut Template, number: u8, bytes: &Template) {
    message.push(&[number << 3 | 2]);
    push_varint(message, bytes.len() as u64);
    message.append(bytes);
}

fn push_varint(message: &mut Template, mut number: u64) {
    while number >= 0x80 {
        message.push(&[number as u8 | 0x80]);
        number >>= 7;
    }
    message.push(&[number as u8]);
}

/// What a message with its prefix says.
pub(crate) fn read(bytes: &[u8]) -> Answer {
    match bytes.get(PREFIX_BYTES..).and_then(overall_code) {
        Some(OVERALL_OK) => Answer::Allowed,
        Some(OVERALL_OVER_LIMIT) => Answer::Denied,
        _ => Answer::Refused("an answer without a decision".to_owned()),
    }
}

/// The first field of the message, which may stand anywhere in it.
fn overall_code(mut bytes: &[u8]) -> Option<u64> {
    while !bytes.is_empty() {
        let tag = take_varint(&mut bytes)?;
        match tag & 7 {
            0 => {
                let value = take_varint(&mut bytes)?;
                if tag >> 3 == 1 {
                    return Some(value);
                }
            }
            2 => {
                let length = usize::try_from(take_varint(&mut bytes)?).ok()?;
                bytes = bytes.get(length..)?;
            }
            _ => return None,
        }
    }
    None
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests;
