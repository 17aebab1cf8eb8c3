//! RFC 7541, appendix C.1, and the limits.

use proptest::prelude::*;

use super::*;

/// Reads a number from all of some bytes, and says what is left of them.
fn read_all(prefix_bits: u32, bytes: &[u8]) -> Result<(usize, &[u8]), HpackError> {
    let (&first, mut rest) = bytes.split_first().unwrap();
    read(first, prefix_bits, &mut rest).map(|number| (number, rest))
}

fn check(prefix_bits: u32, first: u8, number: usize, bytes: &[u8]) {
    let mut out = vec![];
    put(&mut out, first, prefix_bits, number);
    assert_eq!(out, bytes, "{number} in {prefix_bits} bits");
    out.push(0x55);
    assert_eq!(read_all(prefix_bits, &out), Ok((number, &[0x55][..])), "{bytes:x?}");
}

#[test]
fn c_1_examples() {
    check(5, 0b1010_0000, 10, &[0b1010_1010]);
    check(5, 0, 1337, &[0b1_1111, 0b1001_1010, 0b0000_1010]);
    check(8, 0, 42, &[0b10_1010]);
}

#[test]
fn around_the_prefix() {
    check(7, 0x80, 126, &[0xfe]);
    check(7, 0x80, 127, &[0xff, 0]);
    check(7, 0x80, 127 + 127, &[0xff, 0x7f]);
    check(7, 0x80, 127 + 128, &[0xff, 0x80, 0x01]);
    check(4, 0, 15, &[0x0f, 0]);
}

#[test]
fn a_number_has_32_bits() {
    let largest = usize::try_from(u32::MAX).unwrap();
    check(7, 0, largest, &[0x7f, 0x80, 0xff, 0xff, 0xff, 0x0f]);
    assert_eq!(read_all(7, &[0x7f, 0x81, 0xff, 0xff, 0xff, 0x0f]), Err(HpackError::Number));
    assert_eq!(read_all(7, &[0x7f, 0, 0xff]), Ok((127, &[0xff][..])));
    assert_eq!(read_all(7, &[0x7f, 0xff, 0xff, 0xff, 0xff, 0x7f]), Err(HpackError::Number));
}

#[test]
fn zeros_do_not_go_on_for_ever() {
    assert_eq!(read_all(5, &[0x1f, 0x80, 0x80, 0x80, 0x80, 0]), Ok((31, &[][..])));
    assert_eq!(read_all(5, &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0]), Err(HpackError::Number));
}

#[test]
fn a_number_that_does_not_end() {
    assert_eq!(read_all(5, &[0x1f]), Err(HpackError::Truncated));
    assert_eq!(read_all(5, &[0x1f, 0x80]), Err(HpackError::Truncated));
}

proptest! {
    #[test]
    fn what_is_written_is_read(number: u32, shift in 0..32_u32, prefix_bits in 4..8_u32, high: u8) {
        let number = usize::try_from(number >> shift).unwrap();
        let high = high & (0xff << prefix_bits);
        let mut out = Vec::new();
        put(&mut out, high, prefix_bits, number);
        prop_assert_eq!(out[0] & (0xff << prefix_bits), high);
        prop_assert_eq!(read_all(prefix_bits, &out), Ok((number, &[][..])));
    }
}
