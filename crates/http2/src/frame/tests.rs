//! Frames as they stand in RFC 9113, byte by byte, and at their limits.

use proptest::prelude::*;

use super::*;

#[test]
fn a_head_is_nine_bytes() {
    let head = Head { length: 0x01_0203, kind: kind::HEADERS, flags: 0x25, stream: 0x0405_0607 };
    let mut out = vec![9];
    head.put(&mut out);
    assert_eq!(out, [9, 1, 2, 3, 1, 0x25, 4, 5, 6, 7]);
    assert_eq!(Head::read(&out[1..]), Some(head));
    assert_eq!(Head::read(&out[2..]), None);
    assert_eq!(Head::read(&[]), None);
}

#[test]
fn the_reserved_bit_is_dropped() {
    let sent = [0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    let head = Head::read(&sent).unwrap();
    assert_eq!(head, Head { length: 0, kind: kind::DATA, flags: 0, stream: 0x7fff_ffff });
    let mut out = Vec::new();
    Head { stream: u32::MAX, ..head }.put(&mut out);
    assert_eq!(out, [0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]);
}

#[test]
fn a_flag_is_one_of_many() {
    let head = Head { length: 0, kind: kind::DATA, flags: flag::END_STREAM | flag::PADDED, stream: 1 };
    assert!(head.has(flag::END_STREAM) && head.has(flag::PADDED));
    assert!(!head.has(flag::END_HEADERS) && !head.has(flag::PRIORITY));
}

fn check_unpadded(kind: u8, flags: u8, payload: &[u8], expected: Option<&[u8]>) {
    let head = Head { length: u32::try_from(payload.len()).unwrap(), kind, flags, stream: 1 };
    assert_eq!(unpadded(head, payload).ok(), expected, "kind {kind}, flags {flags:#x}, {payload:?}");
}

#[test]
fn padding_is_left_out() {
    use kind::{DATA, HEADERS};
    const PADDED: u8 = flag::PADDED;
    for kind in [DATA, HEADERS] {
        check_unpadded(kind, 0, &[2, 1, 0, 0], Some(&[2, 1, 0, 0]));
        check_unpadded(kind, 0, &[], Some(&[]));
        check_unpadded(kind, PADDED, &[2, 1, 0, 0], Some(&[1]));
        check_unpadded(kind, PADDED, &[0, 1, 2], Some(&[1, 2]));
        check_unpadded(kind, PADDED, &[3, 0, 0, 0], Some(&[]));
        check_unpadded(kind, PADDED, &[4, 0, 0, 0], None);
        check_unpadded(kind, PADDED, &[0], Some(&[]));
        check_unpadded(kind, PADDED, &[], None);
    }
}

#[test]
fn priority_is_left_out_of_headers_alone() {
    use kind::{DATA, HEADERS};
    const PRIORITY: u8 = flag::PRIORITY;
    check_unpadded(HEADERS, PRIORITY, &[0, 0, 0, 1, 9, 7, 8], Some(&[7, 8]));
    check_unpadded(HEADERS, PRIORITY, &[0, 0, 0, 1, 9], Some(&[]));
    check_unpadded(HEADERS, PRIORITY, &[0, 0, 0, 1], None);
    check_unpadded(HEADERS, PRIORITY | flag::PADDED, &[1, 0, 0, 0, 1, 9, 7, 0], Some(&[7]));
    check_unpadded(HEADERS, PRIORITY | flag::PADDED, &[1, 0, 0, 0, 1, 9], None);
    check_unpadded(DATA, PRIORITY, &[0, 0, 0, 1, 9, 7, 8], Some(&[0, 0, 0, 1, 9, 7, 8]));
}

#[test]
fn a_frame_that_is_too_short_is_another_error_than_too_much_padding() {
    let code = |flags, payload: &[u8]| {
        let head = Head { length: 0, kind: kind::HEADERS, flags, stream: 1 };
        unpadded(head, payload).map(<[u8]>::len)
    };
    assert_eq!(code(flag::PADDED, &[]), Err(code::FRAME_SIZE_ERROR));
    assert_eq!(code(flag::PRIORITY, &[0; 4]), Err(code::FRAME_SIZE_ERROR));
    assert_eq!(code(flag::PRIORITY | flag::PADDED, &[0; 5]), Err(code::FRAME_SIZE_ERROR));
    assert_eq!(code(flag::PADDED, &[1]), Err(code::PROTOCOL_ERROR));
    assert_eq!(code(flag::PRIORITY | flag::PADDED, &[1, 0, 0, 0, 0, 0]), Err(code::PROTOCOL_ERROR));
}

#[test]
fn short_frames() {
    let mut out = Vec::new();
    put_window_update(&mut out, 3, 0x8001_0000);
    assert_eq!(out, [0, 0, 4, 8, 0, 0, 0, 0, 3, 0, 1, 0, 0]);
    out.clear();
    put_reset(&mut out, 5, code::REFUSED_STREAM);
    assert_eq!(out, [0, 0, 4, 3, 0, 0, 0, 0, 5, 0, 0, 0, 7]);
    out.clear();
    put_goaway(&mut out, 0x8000_0007, code::ENHANCE_YOUR_CALM);
    assert_eq!(out, [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 11]);
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        length in 0..1_u32 << 24, kind: u8, flags: u8, stream in 0..1_u32 << 31, rest: Vec<u8>,
    ) {
        let head = Head { length, kind, flags, stream };
        let mut out = Vec::new();
        head.put(&mut out);
        prop_assert_eq!(out.len(), HEADER_BYTES);
        out.extend_from_slice(&rest);
        prop_assert_eq!(Head::read(&out), Some(head));
    }

    /// Whatever is cut away was padding and priority, and comes to as much as it says.
    #[test]
    fn any_payload(kind in 0..2_u8, flags: u8, payload: Vec<u8>) {
        let head = Head { length: 0, kind, flags, stream: 1 };
        let (mut before, mut after) = (0, 0);
        if head.has(flag::PADDED) {
            before += 1;
            after = payload.first().map_or(0, |&length| usize::from(length));
        }
        if kind == kind::HEADERS && head.has(flag::PRIORITY) {
            before += 5;
        }
        let fits = before + after <= payload.len();
        let expected = fits.then(|| &payload[before..payload.len() - after]);
        prop_assert_eq!(unpadded(head, &payload).ok(), expected);
    }
}
