//! Percent-encoding, undone. As in Envoy, a `+` is a `+`, and what does not decode stays as it is.

use std::borrow::Cow;

/// The text that this one stands for. Bytes that are not UTF-8 are read all the same.
pub(super) fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        match (first, after) {
            (b'%', [high, low, after @ ..]) if let (Some(high), Some(low)) = (digit(*high), digit(*low)) => {
                decoded.push(high << 4 | low);
                rest = after;
            }
            _ => {
                decoded.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned().into()
}

pub(super) fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
