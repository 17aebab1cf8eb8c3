//! The examples of RFC 7541.

mod examples;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
    assert_eq!(digits.len() % 2, 0, "half a byte in {hex}");
    let pairs = digits.chunks(2).map(|pair| pair.iter().collect::<String>());
    pairs.map(|pair| u8::from_str_radix(&pair, 16).unwrap()).collect()
}

fn told(fields: &Fields) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    fields.iter().map(|(name, value)| (text(name), text(value))).collect()
}
