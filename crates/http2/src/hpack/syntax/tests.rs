//! Every byte in every place of a name and of a value.

use super::*;

#[test]
fn a_name_has_no_byte_that_rfc_9113_forbids() {
    for byte in 0..=u8::MAX {
        // 8.2.1: control characters, space, capitals, DEL and beyond; and a colon, but for the first.
        let is_forbidden = matches!(byte, 0..=0x20 | b'A'..=b'Z' | 0x7f..);
        for name in [vec![b'a', byte], vec![b'a', byte, b'b']] {
            assert!(!(is_forbidden || byte == b':') || !is_name(&name), "{name:?}");
        }
        assert!(!is_forbidden || !is_name(&[byte, b'a']), "{byte}");
    }
    for name in [&b""[..], b":", b"::a", b"a:b", b"a:", b"a b", b"A", b"a(b", b"a\"", b"a/b", b"\xc3\xa9"] {
        assert!(!is_name(name), "{name:?}");
    }
    for name in [&b":method"[..], b"x-request-id", b"a_b", b"grpc-trace-bin", b"0", b"!#$%&'*+-.^_`|~"] {
        assert!(is_name(name), "{name:?}");
    }
}

#[test]
fn a_value_has_no_control_character_and_no_space_at_its_ends() {
    for byte in 0..=u8::MAX {
        let is_control = byte != b'\t' && (byte < 0x20 || byte == 0x7f);
        assert_eq!(is_value(&[b'a', byte, b'b']), !is_control, "{byte}");
        let is_space = matches!(byte, b' ' | b'\t');
        for value in [vec![byte, b'a'], vec![b'a', byte], vec![byte]] {
            assert_eq!(is_value(&value), !is_control && !is_space, "{value:?}");
        }
    }
    assert!(is_value(b""));
    let long = [&[b'v'; 1000][..], b"\n", &[b'v'; 1000]].concat();
    assert!(!is_value(&long));
}
