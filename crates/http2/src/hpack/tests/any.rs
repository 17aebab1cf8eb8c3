//! Connections of any blocks, right and wrong, read by the decoder and by the oracle.

use proptest::prelude::*;

use super::super::huffman::tests::encode;
use super::oracle::Oracle;
use super::*;

const TABLE_BYTES_MAX: usize = 5000;

/// Few distinct texts, so that fields come again, and all lengths.
fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => "[a-c]{0,2}".prop_map(String::into_bytes),
        10 => "[ -~]{0,30}".prop_map(String::into_bytes),
        5 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => proptest::collection::vec(any::<u8>(), 2000..6000),
    ]
}

fn string() -> impl Strategy<Value = Vec<u8>> {
    (text(), any::<bool>()).prop_map(|(text, is_coded)| {
        let (string, bit) = if is_coded { (encode(&text), HUFFMAN_BIT) } else { (text, 0) };
        let mut out = Vec::new();
        integer::put(&mut out, bit, 7, string.len());
        out.extend(string);
        out
    })
}

/// A part of a block, whose place in the table is known once it is known what the table holds.
#[derive(Clone, Debug)]
enum Part {
    Indexed(Place),
    Named { literal: (u8, u32), place: Place, value: Vec<u8> },
    Spelled { literal: (u8, u32), name: Vec<u8>, value: Vec<u8> },
}

/// One of the fixed fields, or one of those that were sent.
#[derive(Clone, Copy, Debug)]
struct Place {
    is_fixed: bool,
    nth: prop::sample::Index,
}

fn place() -> impl Strategy<Value = Place> {
    any::<(bool, prop::sample::Index)>().prop_map(|(is_fixed, nth)| Place { is_fixed, nth })
}

fn part() -> impl Strategy<Value = Part> {
    let literal = prop_oneof![3 => Just((0x40, 6)), 1 => Just((0x00, 4)), 1 => Just((0x10, 4))];
    prop_oneof![
        10 => place().prop_map(Part::Indexed),
        5 => (literal.clone(), place(), string())
            .prop_map(|(literal, place, value)| Part::Named { literal, place, value }),
        5 => (literal, string(), string())
            .prop_map(|(literal, name, value)| Part::Spelled { literal, name, value }),
    ]
}

/// New sizes of the table, and fields.
type Parts = (Vec<usize>, Vec<Part>);

fn connection() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let size = prop_oneof![0..400_usize, 0..=TABLE_BYTES_MAX];
    let sizes = prop_oneof![10 => Just(vec![]), 1 => proptest::collection::vec(size, 1..3)];
    let block = (sizes, proptest::collection::vec(part(), 0..8));
    proptest::collection::vec(block, 1..20).prop_map(|blocks| {
        let mut oracle = Oracle::new(TABLE_BYTES_MAX);
        blocks.into_iter().map(|parts| written(&mut oracle, parts)).collect()
    })
}

/// A block of such parts, for the table that the oracle has.
fn written(oracle: &mut Oracle, (sizes, parts): Parts) -> Vec<u8> {
    let mut block = Vec::new();
    for size in sizes {
        let start = block.len();
        integer::put(&mut block, 0x20, 5, size);
        oracle.decode(&block[start..]).unwrap();
    }
    for part in parts {
        let start = block.len();
        match part {
            Part::Indexed(place) => integer::put(&mut block, 0x80, 7, index(oracle, place)),
            Part::Named { literal: (first, prefix_bits), place, value } => {
                integer::put(&mut block, first, prefix_bits, index(oracle, place));
                block.extend(value);
            }
            Part::Spelled { literal: (first, _), name, value } => {
                block.push(first);
                block.extend(name);
                block.extend(value);
            }
        }
        oracle.decode(&block[start..]).unwrap();
    }
    block
}

fn index(oracle: &Oracle, place: Place) -> usize {
    match oracle.sent_count() {
        count if count > 0 && !place.is_fixed => 62 + place.nth.index(count),
        _ => 1 + place.nth.index(61),
    }
}

/// Reads blocks until the first error with both, and counts those that were right.
fn check(fields_bytes_max: usize, blocks: &[Vec<u8>]) -> usize {
    let mut decoder = Decoder::new(TABLE_BYTES_MAX);
    let mut oracle = Oracle::new(TABLE_BYTES_MAX);
    let mut fields = Fields::new(fields_bytes_max);
    for (count, block) in blocks.iter().enumerate() {
        let read = decoder.decode(block, &mut fields);
        let all = oracle.decode(block);
        if read == Err(HpackError::TooLong) {
            // Whatever comes after that does not matter any more.
            let sizes = all.iter().flatten().map(|(name, value)| name.len() + value.len() + 32);
            assert!(all.is_err() || sizes.sum::<usize>() > 4 * fields_bytes_max, "{block:x?}");
            return count;
        }
        match all {
            Ok(expected) => {
                assert_eq!(read, Ok(()), "{block:x?}");
                check_fields(&fields, fields_bytes_max, &expected);
            }
            Err(error) => {
                assert_eq!(read, Err(error), "{block:x?}");
                return count;
            }
        }
    }
    blocks.len()
}

/// As many as there is room for are kept.
fn check_fields(fields: &Fields, bytes_max: usize, expected: &[(Vec<u8>, Vec<u8>)]) {
    let mut bytes = 0;
    let kept = expected.iter().take_while(|(name, value)| {
        bytes += name.len() + value.len() + 32;
        bytes <= bytes_max
    });
    let kept: Vec<_> = kept.map(|(name, value)| line(name, value)).collect();
    assert_eq!(told(fields), kept);
    assert_eq!(fields.len(), kept.len());
    assert_eq!(fields.is_too_long(), bytes > bytes_max);
}

proptest! {
    #[test]
    fn blocks(bytes_max in prop_oneof![0..2000_usize, Just(1 << 20)], blocks in connection()) {
        check(bytes_max, &blocks);
        // With room for all of them, all are read.
        prop_assert_eq!(check(usize::MAX / 8, &blocks), blocks.len());
    }

    /// A byte is changed, or the end of a block is cut off.
    #[test]
    fn blocks_with_an_error(
        mut blocks in connection(), which: prop::sample::Index, at: prop::sample::Index, byte: Option<u8>,
    ) {
        let block = which.get_mut(&mut blocks);
        if !block.is_empty() {
            let at = at.index(block.len());
            match byte {
                Some(byte) => block[at] = byte,
                None => block.truncate(at),
            }
        }
        check(1000, &blocks);
    }

    #[test]
    fn bytes(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..4)) {
        check(1000, &blocks);
    }

    #[test]
    fn what_is_written_is_read(sent in proptest::collection::vec((text(), text()), 0..8)) {
        let mut block = Vec::new();
        for (name, value) in &sent {
            put_field(&mut block, name, value);
        }
        let mut fields = Fields::new(1 << 20);
        let mut decoder = Decoder::new(4096);
        decoder.decode(&block, &mut fields).unwrap();
        let kept: Vec<_> = fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        prop_assert_eq!(kept, sent);
        prop_assert_eq!(decoder.table.bytes(), 0);
    }
}
