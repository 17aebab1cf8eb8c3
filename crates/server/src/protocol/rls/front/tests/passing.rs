//! What is passed on to h2, how much of it at a time, and what is refused instead.

use super::super::headers::PASSED_BLOCK_BYTES_MAX;
use super::*;
use crate::protocol::rls::account::CALL_FIRST_BYTES;

/// The header block that h2 was passed first, decoded.
fn passed_fields(wire: &mut Wire) -> Vec<(String, String)> {
    let inward = std::mem::take(wire.front.inward());
    let head = Head::read(&inward).unwrap();
    assert!(head.kind == kind::HEADERS && head.has(flag::END_HEADERS));
    let mut fields = Fields::new(usize::MAX);
    Decoder::new(0).decode(&inward[HEADER_BYTES..HEADER_BYTES + head.length as usize], &mut fields).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    fields.iter().map(|(name, value)| (text(name), text(value))).collect()
}

#[test]
fn only_the_fields_that_something_behind_reads_are_passed_on_and_each_once() {
    let mut wire = wire();
    let needed = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/grpc.health.v1.Health/Check"),
        (":authority", "tollgate"),
        ("content-type", "application/grpc"),
        ("content-length", "5"),
        ("te", "trailers"),
        ("grpc-encoding", "identity"),
        ("grpc-accept-encoding", "gzip"),
        ("grpc-timeout", "1S"),
        ("x-tollgate-token", "t"),
        ("authorization", "Bearer t"),
    ];
    let dropped = [("x-request-id", "1"), ("user-agent", "grpc"), ("cookie", "c"), ("grpc-trace-bin", "AA")];
    let again = [("content-length", "5"), ("authorization", "other"), ("grpc-timeout", "2S")];
    wire.send(&headers(1, &[&needed[..], &dropped, &again].concat())).unwrap();
    let expected: Vec<_> = needed.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    assert_eq!(passed_fields(&mut wire), expected);
}

/// RFC 9113, section 8. All rules, with what comes of them on the wire, are in the attacks of the test kit.
#[test]
fn malformed_requests_are_reset_and_not_passed_on() {
    let with = |field: (&'static str, &'static str)| [&FIELDS[..], &[field]].concat();
    let after = |field: (&'static str, &'static str)| [&[field], &FIELDS[..]].concat();
    let malformed = [
        with(("x", "a\nb")),
        with(("x", "a\rb")),
        with(("x", "a\0b")),
        with(("x", " a")),
        with(("X", "a")),
        with(("x y", "a")),
        with((":authority", "late")),
        with((":status", "200")),
        after((":path", "/twice")),
        with(("connection", "close")),
        with(("transfer-encoding", "chunked")),
        with(("te", "gzip")),
        with(("content-length", "+5")),
        [with(("content-length", "5")), vec![("content-length", "6")]].concat(),
        [with(("host", "a")), vec![("host", "a")]].concat(),
        [after((":authority", "a")), vec![("host", "b")]].concat(),
        after((":authority", "user@a")),
        FIELDS[1..].to_vec(),
        [&FIELDS[..1], &FIELDS[2..]].concat(),
        [&FIELDS[..2], &FIELDS[3..]].concat(),
    ];
    for fields in malformed {
        let mut wire = wire();
        wire.send(&headers(1, &fields)).unwrap();
        assert_eq!((wire.passed(), wire.told()), (vec![], vec!["RST_STREAM 1 1".to_owned()]), "{fields:?}");
        wire.send(&question(3)).unwrap();
        check_answered(&mut wire, &[3]);
    }
}

#[test]
fn malformed_trailers_end_their_call() {
    let sent =
        |flags, fields: &[(&str, &str)]| frame(kind::HEADERS, flags | flag::END_HEADERS, 1, &block(fields));
    for (trailers, passed) in [
        (sent(END, &[("t", "v")]), "DATA 1 (0) end"),
        (sent(0, &[("t", "v")]), "HEADERS 1"),
        (sent(END, &[(":path", "/")]), "HEADERS 1"),
        (sent(END, &[("t", "a\nb")]), "HEADERS 1"),
        (sent(END, &[("upgrade", "x")]), "HEADERS 1"),
        (sent(END, &[("te", "gzip")]), "HEADERS 1"),
    ] {
        let mut wire = wire();
        wire.send(&[other_call(1), trailers].concat()).unwrap();
        assert_eq!(wire.passed(), ["HEADERS 1", passed]);
    }
}

#[test]
fn references_to_a_long_field_are_not_spelled_out_for_h2() {
    let mut wire = wire();
    let mut fields = FIELDS;
    fields[2].1 = "/grpc.health.v1.Health/Check";
    let bomb = [block(&fields), bomb(15)].concat();
    wire.send(&frame(kind::HEADERS, flag::END_HEADERS, 1, &bomb)).unwrap();
    assert!(wire.front.inward().len() < 200, "{}", wire.front.inward().len());
    // Nor are they kept: what the next connection's client would need is not taken from this one's.
    assert!(wire.front.fields.is_empty());
}

#[test]
fn what_is_passed_on_of_a_header_has_a_longest_length() {
    let mut wire = wire();
    let fields = |bytes: usize| {
        let mut fields = FIELDS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        fields[2].1 = "/grpc.health.v1.Health/Check".to_owned();
        fields.push(("authorization".to_owned(), "v".repeat(bytes)));
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        fields.iter().fold(Vec::new(), |mut out, (name, value)| {
            hpack::put_field(&mut out, name.as_bytes(), value.as_bytes());
            out
        })
    };
    let spare = PASSED_BLOCK_BYTES_MAX - fields(1000).len() + 1000;
    wire.send(&frame(kind::HEADERS, flag::END_HEADERS, 1, &fields(spare))).unwrap();
    assert_eq!(wire.passed(), ["HEADERS 1"]);
    wire.send(&frame(kind::HEADERS, flag::END_HEADERS, 3, &fields(spare + 1))).unwrap();
    assert_eq!((wire.passed(), wire.told()), (vec![], vec!["HEADERS 3 end".into(), "RST_STREAM 3 0".into()]));
}

#[test]
fn a_connection_has_at_most_sixteen_other_calls_at_a_time() {
    let mut wire = wire();
    let others = u32::try_from(OTHER_CALLS_MAX).unwrap();
    for at in 0..others {
        wire.send(&other_call(2 * at + 1)).unwrap();
    }
    assert_eq!((wire.passed().len(), wire.told().len()), (OTHER_CALLS_MAX, 0));
    let next = 2 * others + 1;
    wire.send(&[other_call(next), question(next + 2)].concat()).unwrap();
    let mut expected = vec![format!("HEADERS {next} end"), format!("RST_STREAM {next} 0")];
    expected.extend(answered(next + 2));
    assert_eq!(wire.told(), expected);
    // Questions that h2 answers are none of them.
    let unusual = headers(next + 4, &[&FIELDS[..], &[("content-length", "9")]].concat());
    wire.send(&unusual).unwrap();
    assert_eq!(wire.passed(), [format!("HEADERS {}", next + 4)]);
    // One that has ended makes room for another, whichever side ends it.
    wire.front.relay(&frame(kind::RST_STREAM, 0, 1, &[0; 4]));
    wire.send(&[frame(kind::RST_STREAM, 0, 3, &[0; 4]), other_call(next + 6), other_call(next + 8)].concat())
        .unwrap();
    let passed = wire.passed();
    assert_eq!(passed[1..], [format!("HEADERS {}", next + 6), format!("HEADERS {}", next + 8)]);
}

#[test]
fn a_long_body_of_another_call_ends_it() {
    let mut wire = wire();
    let (long, rest) = (vec![0; OTHER_BODY_BYTES_MAX - 9], [0; 9]);
    wire.send(&[other_call(1), data(1, 0, &long), data(1, 0, &rest)].concat()).unwrap();
    assert_eq!(wire.passed().len(), 3);
    wire.send(&data(1, 0, &[0])).unwrap();
    // Which makes h2 reset it.
    assert_eq!(wire.passed(), ["HEADERS 1"]);
}

#[test]
fn the_body_of_another_call_is_charged() {
    // Without an account, the first buffers have room for the call and for some of its body.
    let room = CALL_FIRST_BYTES - STREAM_BYTES - 1_000;
    for (lent_bytes_max, bytes, passed) in [
        (0, room, ["HEADER", "DATA 1"]),
        (0, room + 1_000, ["HEADER", "HEADER"]),
        (1_000, room + 1_000, ["HEADER", "DATA 1"]),
    ] {
        let mut wire = Wire::within(Room::new(9, lent_bytes_max), gate(RULES));
        wire.send(&[other_call(1), data(1, 0, &vec![0; bytes])].concat()).unwrap();
        // A second header in the midst of a body makes h2 reset the call.
        let kinds: Vec<_> = wire.passed().iter().map(|frame| frame[..passed[1].len()].to_owned()).collect();
        assert_eq!(kinds, passed, "{bytes} bytes with {lent_bytes_max} to lend");
    }
}

#[test]
fn other_calls_are_refused_before_questions() {
    const QUESTIONS: u32 = 8;
    let unusual = |stream| headers(stream, &[&FIELDS[..], &[("content-length", "9")]].concat());
    // Questions take three quarters of the account and a little more.
    let mut wire = Wire::within(Room::new(9, QUESTIONS as usize * STREAM_BYTES), gate(RULES));
    let mut stream = 1;
    for _ in 0..=QUESTIONS / 4 * 3 {
        wire.send(&unusual(stream)).unwrap();
        stream += 2;
    }
    // The first buffers of the connection are enough for one other call.
    wire.send(&other_call(stream)).unwrap();
    assert_eq!((wire.passed().len(), wire.told().len()), (QUESTIONS as usize / 4 * 3 + 2, 0));
    stream += 2;
    wire.send(&[other_call(stream), unusual(stream + 2)].concat()).unwrap();
    assert_eq!(wire.told(), [format!("HEADERS {stream} end"), format!("RST_STREAM {stream} 0")]);
    assert_eq!(wire.passed(), [format!("HEADERS {}", stream + 2)]);
}

#[test]
fn a_full_account_refuses_what_h2_would_answer_and_nothing_else() {
    let free_calls = CALL_FIRST_BYTES / STREAM_BYTES;
    let mut wire = Wire::within(Room::new(9, 0), gate(RULES));
    let unusual = |stream| headers(stream, &[&FIELDS[..], &[("content-length", "9")]].concat());
    let mut stream = 1;
    while wire.told().is_empty() {
        wire.send(&unusual(stream)).unwrap();
        stream += 2;
    }
    // The first buffers are enough for one, and for one other call.
    let passed = wire.passed().len();
    assert_eq!(passed, free_calls);
    wire.send(&other_call(stream)).unwrap();
    assert_eq!(wire.passed(), [format!("HEADERS {stream}")]);
    stream += 2;
    wire.send(&[other_call(stream), question(stream + 2)].concat()).unwrap();
    let mut expected = vec![format!("HEADERS {stream} end"), format!("RST_STREAM {stream} 0")];
    expected.extend(answered(stream + 2));
    assert_eq!(wire.told(), expected);
    // A call that waits for its message is refused as well when h2 would have to wait for it.
    wire.send(&call(stream + 4)).unwrap();
    wire.front.release();
    assert_eq!(wire.told()[0], format!("HEADERS {} end", stream + 4));
    // What has ended makes room.
    wire.send(&frame(kind::RST_STREAM, 0, 1, &[0; 4])).unwrap();
    wire.passed();
    wire.send(&unusual(stream + 6)).unwrap();
    assert_eq!(wire.passed(), [format!("HEADERS {}", stream + 6)]);
}

#[test]
fn refusals_do_not_wait_for_a_window() {
    let mut wire = wire();
    wire.front.relay(&data(1, 0, &[0; 16_384]).repeat(5));
    assert!(wire.front.outward().waits().is_some());
    wire.told();
    let waiting = wire.front.stuck_bytes();
    for stream in (3..103).step_by(4) {
        wire.send(&headers(stream, &[(":method", "POST")])).unwrap();
        wire.send(&frame(kind::HEADERS, flag::END_HEADERS, stream + 2, &bomb(20))).unwrap();
    }
    assert!(wire.told().len() >= 75);
    assert_eq!(wire.front.stuck_bytes(), waiting);
}
