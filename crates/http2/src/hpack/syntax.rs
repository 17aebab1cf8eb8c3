//! Which names and values a header field may have in HTTP/2 (RFC 9113, section 8.2.1, and RFC 9110, section 5).
//!
//! A value with a line feed becomes two fields as soon as it is written to HTTP/1.1 or to a log. So no such field may pass.

#[cfg(test)]
mod tests;

/// Whether a name is lower-case letters, digits and the signs of a token. A pseudo-header's name has a colon first.
pub(super) fn is_name(name: &[u8]) -> bool {
    let rest = name.strip_prefix(b":").unwrap_or(name);
    !rest.is_empty() && rest.iter().all(|&byte| is_name_byte(byte))
}

/// Whether a value has no control characters but tabs, and no white space at its ends.
pub(super) fn is_value(value: &[u8]) -> bool {
    // Without a branch for each byte, so that many bytes are compared at once.
    let controls = value.iter().fold(0, |found, &byte| found | u8::from(is_control(byte)));
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    controls == 0 && !is_space(value.first()) && !is_space(value.last())
}

fn is_control(byte: u8) -> bool {
    byte != b'\t' && (byte < b' ' || byte == 0x7f)
}

fn is_name_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}
