//! Blocks: the examples of RFC 7541, every error, and any others against a decoder that is as simple as can be.

mod any;
mod examples;
mod oracle;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
    assert_eq!(digits.len() % 2, 0, "half a byte in {hex}");
    let pairs = digits.chunks(2).map(|pair| pair.iter().collect::<String>());
    pairs.map(|pair| u8::from_str_radix(&pair, 16).unwrap()).collect()
}

/// The fields as lines.
fn told(fields: &Fields) -> Vec<String> {
    fields.iter().map(|(name, value)| line(name, value)).collect()
}

fn line(name: &[u8], value: &[u8]) -> String {
    format!("{}: {}", name.escape_ascii(), value.escape_ascii())
}

/// Blocks of one connection, the last of which has an error.
fn check_error(blocks: &[&str], error: HpackError) {
    let mut decoder = Decoder::new(100);
    let mut fields = Fields::new(1000);
    let (last, before) = blocks.split_last().unwrap();
    for block in before {
        decoder.decode(&bytes(block), &mut fields).unwrap();
    }
    assert_eq!(decoder.decode(&bytes(last), &mut fields), Err(error), "{blocks:?}");
}

#[test]
fn places_that_are_empty() {
    // None, the first after the fixed ones, the second of one that was put in, and one far away.
    for block in ["80", "be", "ffff01", "ff80ffffff0f"] {
        check_error(&[block], HpackError::Index);
    }
    check_error(&["400161 0162", "bf"], HpackError::Index);
    // The same as the place of a name.
    for block in ["7e 0161", "0f2f 0161", "1f2f 0161"] {
        check_error(&[block], HpackError::Index);
    }
    // Gone, because the table was emptied.
    check_error(&["400161 0162", "20 be"], HpackError::Index);
}

#[test]
fn a_forbidden_field_stays_forbidden_where_a_later_block_refers_to_it() {
    let (mut decoder, mut fields) = (Decoder::new(100), Fields::new(1000));
    // `a: b\nc`, then `d: e`, then both from the table, and at last the name of the first with another value.
    for (block, has_invalid) in
        [("400161 03620a63", true), ("400164 0165", false), ("bf", true), ("be", false), ("0f30 0165", false)]
    {
        decoder.decode(&bytes(block), &mut fields).unwrap();
        assert_eq!(fields.has_invalid(), has_invalid, "{block}");
    }
}

#[test]
fn blocks_that_end_within_a_field() {
    for block in
        ["ff", "ff80", "40", "4001", "400161", "400161 02", "400161 0262", "00", "10", "01", "01 81", "3f"]
    {
        check_error(&[block], HpackError::Truncated);
    }
    // A length that nothing follows is not made room for.
    check_error(&["00 7f80ffffff0f 61"], HpackError::Truncated);
}

#[test]
fn numbers_that_are_too_large() {
    for block in ["ff8180808010", "3f8180808010", "00 7f8180808010", "ff808080808000"] {
        check_error(&[block], HpackError::Number);
    }
}

#[test]
fn strings_that_are_not_in_the_code() {
    // Padding of a whole byte, padding of zeros, the end of all strings.
    for string in ["82 1fff", "81 18", "84 ffffffff"] {
        check_error(&[&format!("01{string}")], HpackError::Huffman);
        check_error(&[&format!("40{string}0161")], HpackError::Huffman);
    }
}

#[test]
fn sizes_of_the_table() {
    // To 100, to 0, twice in one block, and between blocks.
    let mut decoder = Decoder::new(100);
    let mut fields = Fields::new(1000);
    for block in ["3f45", "20", "20 3f45 82", "82", "3f45"] {
        decoder.decode(&bytes(block), &mut fields).unwrap();
    }
    check_error(&["3f46"], HpackError::TableSize);
    check_error(&["20 3f46"], HpackError::TableSize);
    check_error(&["82 20"], HpackError::TableSizeLate);
    check_error(&["20 82 3f45"], HpackError::TableSizeLate);
    check_error(&["400161 0162 20"], HpackError::TableSizeLate);
}

#[test]
fn a_table_of_no_size_holds_nothing() {
    let mut decoder = Decoder::new(0);
    let mut fields = Fields::new(1000);
    decoder.decode(&bytes("400161 0162 82"), &mut fields).unwrap();
    assert_eq!(told(&fields), ["a: b", ":method: GET"]);
    assert_eq!(decoder.decode(&bytes("be"), &mut fields), Err(HpackError::Index));
}

#[test]
fn a_name_may_be_that_of_a_field_which_goes() {
    let mut decoder = Decoder::new(100);
    let mut fields = Fields::new(1000);
    let value = "62".repeat(40);
    // Each takes more than half of the table.
    decoder.decode(&bytes(&format!("40 03616263 28{value}")), &mut fields).unwrap();
    decoder.decode(&bytes(&format!("7e 28{value} be")), &mut fields).unwrap();
    assert_eq!(told(&fields), [format!("abc: {}", "b".repeat(40)), format!("abc: {}", "b".repeat(40))]);
}

#[test]
fn the_table_is_right_after_fields_that_were_too_many() {
    let mut decoder = Decoder::new(4096);
    let mut few = Fields::new(40);
    decoder.decode(&bytes("82 400161 0162 400163 0164"), &mut few).unwrap();
    assert!(few.is_too_long() && few.is_empty());
    let mut fields = Fields::new(1000);
    decoder.decode(&bytes("be bf"), &mut fields).unwrap();
    assert_eq!(told(&fields), ["c: d", "a: b"]);
    assert!(!fields.is_too_long());
    decoder.decode(&bytes("be"), &mut few).unwrap();
    assert_eq!(told(&few), ["c: d"]);
    assert!(!few.is_too_long());
}

#[test]
fn a_long_literal_leaves_no_memory_behind() {
    let mut decoder = Decoder::new(4096);
    let mut fields = Fields::new(1000);
    let mut block = Vec::new();
    put_field(&mut block, b"name", &vec![b'v'; 100_000]);
    decoder.decode(&block, &mut fields).unwrap();
    assert!(fields.is_too_long() && fields.is_empty());
    assert!(decoder.literal.capacity() <= LITERAL_BYTES_KEPT);
}

#[test]
fn indexed_fields_take_no_memory() {
    let mut decoder = Decoder::new(4096);
    let mut fields = Fields::new(1000);
    decoder.decode(&bytes("82 84 87 400161 0162 41 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff"), &mut fields).unwrap();
    let block = bytes("82 84 87 be bf 01 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff");
    decoder.decode(&block, &mut fields).unwrap();
    let allocated = allocation_counter::measure(|| decoder.decode(&block, &mut fields).unwrap());
    assert_eq!(allocated.count_total, 0);
    assert_eq!(fields.len(), 6);
}

#[test]
fn written_fields_are_literals_that_no_table_keeps() {
    let mut out = vec![0x88];
    put_field(&mut out, b"grpc-status", b"0");
    assert_eq!(out, [&[0x88, 0, 11][..], b"grpc-status", &[1], b"0"].concat());
}

#[test]
fn errors_say_what_is_wrong() {
    let error: Box<dyn Error> = Box::new(HpackError::Truncated);
    assert_eq!(error.to_string(), "the header block ends within a field");
}
