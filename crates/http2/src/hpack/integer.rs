//! Numbers: in the low bits of a byte if they fit there, and else in as many more as they take, seven bits each, the lowest first.

#[cfg(test)]
mod tests;

use super::HpackError;

/// The most bytes after the first. Five have 35 bits, which hold any number that is accepted.
const MORE_BYTES_MAX: u32 = 5;

/// The number that begins in the low `prefix_bits` of `first` and goes on in `rest`, from which it is taken. It fits 32 bits, so that
/// nobody who adds to it has to think of an overflow.
#[inline]
pub(super) fn read(first: u8, prefix_bits: u32, rest: &mut &[u8]) -> Result<usize, HpackError> {
    let prefix_max = prefix_max(prefix_bits);
    let prefix = usize::from(first) & prefix_max;
    if prefix < prefix_max { Ok(prefix) } else { read_more(prefix, rest) }
}

fn read_more(prefix: usize, rest: &mut &[u8]) -> Result<usize, HpackError> {
    let mut number = 0_u64;
    for at in 0..MORE_BYTES_MAX {
        let (&byte, after) = rest.split_first().ok_or(HpackError::Truncated)?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            let number = u32::try_from(number + prefix as u64).map_err(|_| HpackError::Number)?;
            return usize::try_from(number).map_err(|_| HpackError::Number);
        }
    }
    Err(HpackError::Number)
}

/// Writes a number behind the bits of `first` above its prefix.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, first: u8, prefix_bits: u32, number: usize) {
    let prefix_max = prefix_max(prefix_bits);
    let Some(mut more) = number.checked_sub(prefix_max) else {
        out.push(first | low_byte(number));
        return;
    };
    out.push(first | low_byte(prefix_max));
    while more >= 0x80 {
        out.push(low_byte(more) | 0x80);
        more >>= 7;
    }
    out.push(low_byte(more));
}

#[inline]
fn prefix_max(prefix_bits: u32) -> usize {
    (1 << prefix_bits) - 1
}

#[allow(clippy::cast_possible_truncation)]
#[inline]
fn low_byte(number: usize) -> u8 {
    number as u8
}
