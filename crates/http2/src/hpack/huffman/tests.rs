//! The code against one that is read bit by bit. That the lengths themselves are right, the RFC's examples and real clients show.

use std::collections::HashMap;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

/// The code of each symbol, as ones and zeros.
fn written_out() -> Vec<String> {
    let mut symbols: Vec<_> = (0..SYMBOLS).collect();
    symbols.sort_by_key(|&symbol| LENGTHS[symbol]);
    let mut codes = vec![String::new(); SYMBOLS];
    let (mut code, mut length) = (0_u64, 0);
    for symbol in symbols {
        code <<= LENGTHS[symbol] - length;
        length = LENGTHS[symbol];
        codes[symbol] = format!("{code:0width$b}", width = usize::from(length));
        code += 1;
    }
    codes
}

fn packed(bits: &str) -> Vec<u8> {
    assert_eq!(bits.len() % 8, 0, "{bits}");
    bits.as_bytes()
        .chunks(8)
        .map(|byte| u8::from_str_radix(str::from_utf8(byte).unwrap(), 2).unwrap())
        .collect()
}

/// A string in the code, padded as it should be.
pub(in super::super) fn encode(string: &[u8]) -> Vec<u8> {
    static CODES: LazyLock<Vec<String>> = LazyLock::new(written_out);
    let mut bits: String = string.iter().map(|&byte| CODES[usize::from(byte)].as_str()).collect();
    while !bits.len().is_multiple_of(8) {
        bits.push('1');
    }
    packed(&bits)
}

/// Bit by bit, with a look at all codes after each.
pub(in super::super) fn decode_naively(string: &[u8]) -> Result<Vec<u8>, HpackError> {
    static SYMBOLS: LazyLock<HashMap<String, u16>> =
        LazyLock::new(|| written_out().into_iter().zip(0..).collect());
    let (mut out, mut code) = (Vec::new(), String::new());
    for bit in string.iter().flat_map(|byte| format!("{byte:08b}").into_bytes()) {
        code.push(char::from(bit));
        if let Some(&symbol) = SYMBOLS.get(&code) {
            out.push(u8::try_from(symbol).map_err(|_| HpackError::Huffman)?);
            code.clear();
        }
    }
    let is_padding = code.len() < 8 && !code.contains('0');
    if is_padding { Ok(out) } else { Err(HpackError::Huffman) }
}

fn decoded(string: &[u8]) -> Result<Vec<u8>, HpackError> {
    let mut out = Vec::new();
    decode(string, &mut out).map(|()| out)
}

#[test]
fn codes_as_they_are_printed() {
    let codes = written_out();
    for (symbol, code) in [
        (b'0', "00000"),
        (b'&', "11111000"),
        (b'!', "1111111000"),
        (b'#', "111111111010"),
        (0, "1111111111000"),
        (b'\\', "1111111111111110000"),
        (255, "11111111111111111111101110"),
        (22, "111111111111111111111111111110"),
    ] {
        assert_eq!(codes[usize::from(symbol)], code, "{symbol}");
    }
    assert_eq!(codes[usize::from(END)], "1".repeat(30));
}

#[test]
fn every_byte() {
    for byte in 0..=255_u8 {
        for count in 1..=9 {
            let string = vec![byte; count];
            assert_eq!(decoded(&encode(&string)), Ok(string));
        }
    }
    let all: Vec<_> = (0..=255).collect();
    assert_eq!(decoded(&encode(&all)), Ok(all));
}

#[test]
fn it_is_appended() {
    let mut out = b"before ".to_vec();
    decode(&encode(b"after"), &mut out).unwrap();
    assert_eq!(out, b"before after");
    decode(&[], &mut out).unwrap();
    assert_eq!(out, b"before after");
}

#[test]
fn padding_is_less_than_a_byte_of_ones() {
    // Eight codes of five bits fill five bytes, so there is no padding; each code less leaves five bits more to fill.
    for count in 0..8 {
        let code = "00011".repeat(count);
        let spare = (8 - code.len() % 8) % 8;
        let ones = "1".repeat(spare);
        assert_eq!(decoded(&packed(&(code.clone() + &ones))), Ok(vec![b'a'; count]));
        assert_eq!(decoded(&packed(&(code.clone() + &ones + "11111111"))), Err(HpackError::Huffman));
        for at in 0..spare.min(4) {
            let mut wrong = ones.clone();
            wrong.replace_range(at..=at, "0");
            // Five bits or more could be a code of their own.
            let wrong = packed(&(code.clone() + &wrong));
            assert_eq!(decoded(&wrong), decode_naively(&wrong), "{wrong:x?}");
        }
    }
    assert_eq!(decoded(&packed("0001111000011110")), Err(HpackError::Huffman));
    assert_eq!(decoded(&packed("0001111011111110")), Err(HpackError::Huffman));
}

#[test]
fn the_end_of_all_strings_is_never_sent() {
    let end = "1".repeat(30);
    for before in ["", "00011", "1111111000"] {
        for after in ["", "00011", "11111000"] {
            let mut bits = [before, &end, after].concat();
            while bits.len() % 8 != 0 {
                bits.push('1');
            }
            assert_eq!(decoded(&packed(&bits)), Err(HpackError::Huffman), "{bits}");
        }
    }
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(string: Vec<u8>, text in "[ -~]{0,80}") {
        prop_assert_eq!(decoded(&encode(text.as_bytes())), Ok(text.into_bytes()));
        prop_assert_eq!(decoded(&encode(&string)), Ok(string));
    }

    #[test]
    fn any_bytes(string in proptest::collection::vec(prop_oneof![Just(0xff_u8), any::<u8>()], 0..24)) {
        prop_assert_eq!(decoded(&string), decode_naively(&string));
    }
}
