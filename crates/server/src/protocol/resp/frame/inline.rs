//! A line as a person types it, split into arguments: spaces separate them, and quotes keep spaces together.
//!
//! Between double quotes a backslash begins an escape (`\n`, `\x41`, ...); between single ones it only escapes the quote. A quote
//! that closes must be followed by a space, as in Redis: what comes right after is more likely a slip than an argument.

use std::ops::Range;

use super::{ARGUMENTS_MAX, ProtocolError};

/// Puts the arguments of a line side by side into `unquoted`, and where each stands into `ranges`.
pub(super) fn split(
    line: &[u8],
    unquoted: &mut Vec<u8>,
    ranges: &mut Vec<Range<usize>>,
) -> Result<(), ProtocolError> {
    unquoted.clear();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(());
        }
        if ranges.len() == ARGUMENTS_MAX {
            return Err(ProtocolError::LineLength);
        }
        let start = unquoted.len();
        rest = argument(rest, unquoted)?;
        ranges.push(start..unquoted.len());
    }
}

/// Takes one argument, and gives back what is left of the line.
fn argument<'a>(mut rest: &'a [u8], unquoted: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match rest {
            [] => return Ok(rest),
            [b'"', after @ ..] => return double_quoted(after, unquoted),
            [b'\'', after @ ..] => return single_quoted(after, unquoted),
            [byte, ..] if byte.is_ascii_whitespace() => return Ok(rest),
            [byte, after @ ..] => {
                unquoted.push(*byte);
                rest = after;
            }
        }
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], unquoted: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, after) = match rest {
            [] => return Err(ProtocolError::Quotes),
            [b'"', after @ ..] => return closed(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(*high) << 4 | hex(*low), after)
            }
            [b'\\', escaped, after @ ..] => (control(*escaped), after),
            [byte, after @ ..] => (*byte, after),
        };
        unquoted.push(byte);
        rest = after;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], unquoted: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, after) = match rest {
            [] => return Err(ProtocolError::Quotes),
            [b'\'', after @ ..] => return closed(after),
            [b'\\', b'\'', after @ ..] => (b'\'', after),
            [byte, after @ ..] => (*byte, after),
        };
        unquoted.push(byte);
        rest = after;
    }
}

fn closed(after: &[u8]) -> Result<&[u8], ProtocolError> {
    match after.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(ProtocolError::Quotes),
        _ => Ok(after),
    }
}

fn control(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
