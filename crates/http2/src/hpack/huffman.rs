//! Huffman's code for strings: what is frequent in header fields takes five bits, what is not takes up to thirty.
//!
//! The code is canonical: codes of one length are consecutive, in the order of their symbols, and longer ones come after shorter
//! ones. So the lengths alone are the whole code, and everything else here is computed from them when this is compiled. Codes of up
//! to eight bits, which are nearly all that is ever sent, are found in one step by the next eight bits. Longer ones are found by
//! their length: it is the first whose last code is not below the next bits.

#[cfg(test)]
pub(super) mod tests;

use super::HpackError;

/// The symbol after all bytes, which ends all strings: its code may be begun, as padding, but never sent.
const END: u16 = 256;
const SYMBOLS: usize = 257;
/// The length of the code of each byte, and of [`END`].
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];
const LENGTH_MIN: usize = 5;
const LENGTH_MAX: usize = 30;
/// Codes of so many bits are found in one step.
const SHORT_BITS: usize = 8;

/// A symbol and how long its code is.
#[derive(Clone, Copy, Debug)]
struct Code {
    symbol: u16,
    bits: u16,
}

/// All codes of one length.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// The last code, followed by ones up to 32 bits.
    last: u32,
    /// The first code.
    first: u32,
    /// Where in [`Codes::sorted`] the first code's symbol is.
    at: usize,
    bits: u16,
}

struct Codes {
    /// By the next eight bits. No bits at all stand for a longer code.
    short: [Code; 1 << SHORT_BITS],
    /// The lengths above eight bits.
    long: [Group; LENGTH_MAX - SHORT_BITS],
    /// The symbols in the order of their codes.
    sorted: [u16; SYMBOLS],
}

static CODES: Codes = codes();

#[allow(clippy::cast_possible_truncation)]
const fn codes() -> Codes {
    let mut codes = Codes {
        short: [Code { symbol: END, bits: 0 }; 1 << SHORT_BITS],
        long: [Group { last: 0, first: 0, at: 0, bits: 0 }; LENGTH_MAX - SHORT_BITS],
        sorted: [END; SYMBOLS],
    };
    let (mut code, mut at, mut length) = (0_u32, 0, LENGTH_MIN);
    while length <= LENGTH_MAX {
        let (first, first_at) = (code, at);
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                codes.sorted[at] = symbol as u16;
                if length <= SHORT_BITS {
                    let spare_bits = SHORT_BITS - length;
                    let mut spare = 0;
                    while spare < 1 << spare_bits {
                        let bits = length as u16;
                        codes.short[(code as usize) << spare_bits | spare] =
                            Code { symbol: symbol as u16, bits };
                        spare += 1;
                    }
                }
                code += 1;
                at += 1;
            }
            symbol += 1;
        }
        if length > SHORT_BITS {
            // One less than the code after the last; if there is none of this length, nothing is as low as that.
            let last = ((code as u64) << (32 - length)).wrapping_sub(1) as u32;
            codes.long[length - SHORT_BITS - 1] = Group { last, first, at: first_at, bits: length as u16 };
        }
        code <<= 1;
        length += 1;
    }
    codes
}

/// Appends what a string says.
pub(super) fn decode(string: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    out.reserve(string.len() * 8 / LENGTH_MIN);
    let mut input = string;
    // The bits that were taken from the input but not yet used, from the highest on, and inverted: so ones follow them, as in the padding.
    let mut inverted = 0_u64;
    let mut bits = 0_u32;
    loop {
        if bits < 32 {
            if let Some((chunk, after)) = input.split_first_chunk() {
                inverted |= u64::from(!u32::from_be_bytes(*chunk)) << (32 - bits);
                (input, bits) = (after, bits + 32);
            } else {
                for &byte in input {
                    inverted |= u64::from(!byte) << (56 - bits);
                    bits += 8;
                }
                input = &[];
            }
        }
        let code = next(high_half(!inverted));
        if u32::from(code.bits) > bits {
            break;
        }
        let byte = u8::try_from(code.symbol).map_err(|_| HpackError::Huffman)?;
        out.push(byte);
        inverted <<= code.bits;
        bits -= u32::from(code.bits);
    }
    // What is left is the start of a code. That is padding if it is less than a byte, and nothing but ones.
    if bits < 8 && inverted == 0 { Ok(()) } else { Err(HpackError::Huffman) }
}

/// The code that some bits begin with.
#[inline]
fn next(window: u32) -> Code {
    match CODES.short.get((window >> (32 - SHORT_BITS)) as usize) {
        Some(&code) if code.bits != 0 => code,
        _ => next_long(window),
    }
}

fn next_long(window: u32) -> Code {
    for group in &CODES.long {
        if window <= group.last {
            let nth = (window >> (32 - group.bits)).wrapping_sub(group.first) as usize;
            let symbol = CODES.sorted.get(group.at + nth).copied().unwrap_or(END);
            return Code { symbol, bits: group.bits };
        }
    }
    // Not reached: the last group's last code is all ones.
    Code { symbol: END, bits: 30 }
}

#[allow(clippy::cast_possible_truncation)]
#[inline]
fn high_half(bits: u64) -> u32 {
    (bits >> 32) as u32
}
