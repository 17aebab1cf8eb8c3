//! Frames in, frames out: what is answered here, what h2 gets to see, and what ends a connection.
#![allow(clippy::unwrap_used, clippy::panic)]

mod passing;
mod windows;

use prost::Message;
use tollgate_http2::hpack;

use super::super::SHOULD_RATE_LIMIT;
use super::super::tests::{descriptor, gate, gate_with, message, settings};
use super::headers::BLOCK_PIECES_MAX;
use super::*;
use crate::access::{Access, TEST_CLIENT, Token, TokenSettings, TokenSource};
use crate::room::Room;

const RULES: &str = r"
domain: d
descriptors:
- key: many
  rate_limit: {unit: year, requests_per_unit: 1000000}
";
const END: u8 = flag::END_STREAM;

/// A connection between a client and h2, neither of which is there: only what they would see is.
struct Wire {
    front: Front,
    batch: Batch,
    gate: Arc<Gate>,
}

impl Wire {
    fn new(gate: Arc<Gate>) -> Wire {
        Wire::within(Room::unbounded(), gate)
    }

    /// A connection that shares an account with others.
    fn within(room: Room, gate: Arc<Gate>) -> Wire {
        let (account, attempts) =
            (Account::open(&Arc::new(room)).unwrap(), Arc::new(Attempts::new(TEST_CLIENT)));
        let front = Front::new(Arc::clone(&gate), attempts, account);
        let mut wire = Wire { front, batch: Batch::default(), gate };
        let opening = [PREFACE.as_slice(), &frame(kind::SETTINGS, 0, 0, &[])].concat();
        wire.send(&opening).unwrap();
        assert_eq!(std::mem::take(wire.front.inward()), opening);
        wire
    }

    /// The client sends bytes, all of which are taken.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Taken { bytes: taken, has_more } = self.front.take(rest, &mut self.batch)?;
            assert!(taken > 0, "{} bytes are left", rest.len());
            assert_eq!(has_more, taken < rest.len(), "{taken} of {}", rest.len());
            let count = self.batch.len();
            self.batch.answer(&self.gate, rest, self.front.outward());
            self.front.has_answered(count);
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// What h2 was passed since the last look: `HEADERS 3 end`, `DATA 3 (8)`.
    fn passed(&mut self) -> Vec<String> {
        brief(&std::mem::take(self.front.inward()))
    }

    /// What the client was told since the last look.
    fn told(&mut self) -> Vec<String> {
        let told = brief(self.front.outward().bytes());
        self.front.outward().clear();
        told
    }
}

fn wire() -> Wire {
    Wire::new(gate(RULES))
}

fn brief(mut bytes: &[u8]) -> Vec<String> {
    let mut frames = Vec::new();
    while let Some(head) = Head::read(bytes) {
        let (frame, rest) = bytes.split_at(HEADER_BYTES + head.length as usize);
        let payload = &frame[HEADER_BYTES..];
        let last = |at| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        let end = if head.has(END) { " end" } else { "" };
        frames.push(match head.kind {
            kind::DATA => format!("DATA {} ({}){end}", head.stream, payload.len()),
            kind::HEADERS => format!("HEADERS {}{end}", head.stream),
            kind::RST_STREAM => format!("RST_STREAM {} {}", head.stream, last(0)),
            kind::WINDOW_UPDATE => format!("WINDOW_UPDATE {} {}", head.stream, last(0)),
            kind::GOAWAY => format!("GOAWAY {} {}", last(0), last(4)),
            kind => format!("{kind} {}", head.stream),
        });
        bytes = rest;
    }
    assert_eq!(bytes, b"", "whole frames");
    frames
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Head { length: u32::try_from(payload.len()).unwrap(), kind, flags, stream }.put(&mut out);
    out.extend_from_slice(payload);
    out
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        hpack::put_field(&mut out, name.as_bytes(), value.as_bytes());
    }
    out
}

/// The fields that every question has.
const FIELDS: [(&str, &str); 5] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", SHOULD_RATE_LIMIT),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
];

fn headers(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS, stream, &block(fields))
}

fn call(stream: u32) -> Vec<u8> {
    headers(stream, &FIELDS)
}

fn other_call(stream: u32) -> Vec<u8> {
    let mut fields = FIELDS;
    fields[2].1 = "/grpc.health.v1.Health/Check";
    headers(stream, &fields)
}

fn body() -> Vec<u8> {
    let message = message(&[descriptor(&[("many", "x")])]).encode_to_vec();
    let length = u32::try_from(message.len()).unwrap();
    [&[0], length.to_be_bytes().as_slice(), &message].concat()
}

fn data(stream: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    frame(kind::DATA, flags, stream, payload)
}

fn question(stream: u32) -> Vec<u8> {
    [call(stream), data(stream, END, &body())].concat()
}

/// A field of 4000 bytes, and so many times the same, each of which is one byte.
fn bomb(count: usize) -> Vec<u8> {
    let mut block = vec![0x40, 1, b'a'];
    block.extend_from_slice(&[0x7f, 0x80, 0x1e]); // 3967 bytes
    block.extend_from_slice(&[b'v'; 3967]);
    block.extend_from_slice(&vec![0xbe; count]);
    block
}

/// The answer to a question, in short.
fn answered(stream: u32) -> [String; 3] {
    [
        format!("HEADERS {stream}"),
        format!("DATA {stream} ({})", answer_bytes()),
        format!("HEADERS {stream} end"),
    ]
}

/// How long an answer is.
fn answer_bytes() -> usize {
    let mut wire = wire();
    wire.send(&question(1)).unwrap();
    let told = wire.front.outward().bytes().to_vec();
    let header = Head::read(&told).unwrap();
    Head::read(&told[HEADER_BYTES + header.length as usize..]).unwrap().length as usize
}

fn check_answered(wire: &mut Wire, streams: &[u32]) {
    let expected: Vec<String> = streams.iter().flat_map(|&stream| answered(stream)).collect();
    assert_eq!(wire.told(), expected);
}

#[test]
fn questions_are_answered_and_not_passed_on() {
    let mut wire = wire();
    wire.send(&[question(1), question(3), question(7)].concat()).unwrap();
    check_answered(&mut wire, &[1, 3, 7]);
    assert!(wire.passed().is_empty());
}

#[test]
fn more_questions_than_one_batch_takes() {
    let mut wire = wire();
    let streams: Vec<u32> = (0..200).map(|at| 2 * at + 1).collect();
    wire.send(&streams.iter().flat_map(|&stream| question(stream)).collect::<Vec<_>>()).unwrap();
    check_answered(&mut wire, &streams);
}

#[test]
fn frames_that_come_byte_by_byte() {
    let mut wire = wire();
    let (bytes, mut kept) = ([question(1), question(3)].concat(), Vec::new());
    for byte in bytes {
        kept.push(byte);
        let Taken { bytes: taken, .. } = wire.front.take(&kept, &mut wire.batch).unwrap();
        wire.batch.answer(&wire.gate, &kept, wire.front.outward());
        kept.drain(..taken);
    }
    check_answered(&mut wire, &[1, 3]);
}

#[test]
fn messages_that_come_later_than_all_headers() {
    let mut wire = wire();
    wire.send(&[call(1), call(3), call(5)].concat()).unwrap();
    wire.send(&[data(5, END, &body()), data(1, 0, &body()), data(3, END, &body())].concat()).unwrap();
    check_answered(&mut wire, &[5, 3]);
    wire.send(&data(1, END, &[])).unwrap();
    check_answered(&mut wire, &[1]);
    assert!(wire.passed().is_empty() && !wire.front.holds_any());
}

#[test]
fn h2_sees_streams_in_their_order() {
    let mut wire = wire();
    wire.send(&[call(1), call(3), call(9)].concat()).unwrap();
    wire.send(&data(3, 0, &body())).unwrap();
    assert!(wire.passed().is_empty());
    // What waits goes before what comes later, with what it has.
    wire.send(&other_call(11)).unwrap();
    let body_bytes = body().len();
    let held = format!("DATA 3 ({body_bytes})");
    assert_eq!(wire.passed(), ["HEADERS 1", "HEADERS 3", &held, "HEADERS 9", "HEADERS 11"]);
    wire.send(&[data(1, END, &body()), data(3, END, &[])].concat()).unwrap();
    assert_eq!(wire.passed(), [format!("DATA 1 ({body_bytes}) end"), "DATA 3 (0) end".to_owned()]);
    assert!(wire.told().is_empty());
}

#[test]
fn what_comes_in_pieces_is_passed_on() {
    let (body, rest) = (body(), "DATA 1 (3) end");
    let (begun, end) = body.split_at(body.len() - 3);
    let padded = frame(kind::DATA, END | flag::PADDED, 1, &[&[1], body.as_slice(), &[0]].concat());
    let cases: [(Vec<u8>, &[String]); 4] = [
        (
            [data(1, 0, begun), data(1, END, end)].concat(),
            &[format!("DATA 1 ({})", begun.len()), rest.to_owned()],
        ),
        (data(1, END, begun), &[format!("DATA 1 ({}) end", begun.len())]),
        (padded, &[format!("DATA 1 ({}) end", body.len() + 2)]),
        // Nothing behind reads trailers, so they are passed on as the end that they are.
        (
            [data(1, 0, &body), frame(kind::HEADERS, END | flag::END_HEADERS, 1, &block(&[("t", "v")]))]
                .concat(),
            &[format!("DATA 1 ({})", body.len()), "DATA 1 (0) end".to_owned()],
        ),
    ];
    for (sent, passed) in cases {
        let mut wire = wire();
        wire.send(&[call(1), sent].concat()).unwrap();
        assert_eq!(wire.passed(), [&["HEADERS 1".to_owned()], passed].concat());
        assert!(wire.told().is_empty());
    }
}

#[test]
fn headers_that_are_not_those_of_a_plain_question() {
    let with = |name, value| [&FIELDS[..], &[(name, value)]].concat();
    let without = |at: usize| [&FIELDS[..at], &FIELDS[at + 1..]].concat();
    let swapped = |at: usize, value| {
        let mut fields = FIELDS.to_vec();
        fields[at].1 = value;
        fields
    };
    let odd = [
        with("grpc-encoding", "gzip"),
        with("content-length", "8"),
        with("host", "tollgate"),
        without(3),
        swapped(0, "GET"),
        swapped(2, "/envoy.service.ratelimit.v3.RateLimitService/Other"),
        swapped(3, "text/plain"),
    ];
    for fields in odd {
        let mut wire = wire();
        wire.send(&[headers(1, &fields), data(1, END, &body())].concat()).unwrap();
        assert_eq!(wire.passed().first().map(String::as_str), Some("HEADERS 1"), "{fields:?}");
        assert!(wire.told().is_empty(), "{fields:?}");
    }
    let plain = [
        with("grpc-encoding", "identity"),
        with("grpc-timeout", "20m"),
        with("x-request-id", "\u{e9}"),
        with(":authority", "tollgate")[5..].iter().chain(&FIELDS).copied().collect(),
        with(":authority", "")[5..].iter().chain(&FIELDS).copied().collect(),
        swapped(1, "https"),
        swapped(3, "application/grpc+proto"),
        without(4),
    ];
    for fields in plain {
        let mut wire = wire();
        wire.send(&[headers(1, &fields), data(1, END, &body())].concat()).unwrap();
        check_answered(&mut wire, &[1]);
    }
}

#[test]
fn tokens() {
    let token = "0123456789abcdef";
    let listed = TokenSource::Listed(vec![Token::new(token).unwrap()]);
    let tokens = TokenSettings { grpc: Some(listed), ..TokenSettings::default() };
    let (access, _) = Access::load(&tokens).unwrap();
    let guarded = |access| {
        let gate = Arc::into_inner(gate_with(RULES, settings())).unwrap().with_access(access);
        Wire::new(Arc::new(gate))
    };
    let mut wire = guarded(access);
    let bearer = format!("Bearer {token}");
    let shown = [("x-tollgate-token", token), ("authorization", bearer.as_str())];
    for (stream, field) in [1, 3].into_iter().zip(shown) {
        let fields = [&FIELDS[..], &[field]].concat();
        wire.send(&[headers(stream, &fields), data(stream, END, &body())].concat()).unwrap();
        check_answered(&mut wire, &[stream]);
    }
    // Who shows none, or a wrong one, is refused by h2; and who is passed on has its token.
    let wrong = [&FIELDS[..], &[("x-tollgate-token", "0123456789abcdeg")]].concat();
    wire.send(&[call(5), headers(7, &wrong)].concat()).unwrap();
    assert_eq!(wire.passed(), ["HEADERS 5", "HEADERS 7"]);
    wire.send(&headers(9, &[&FIELDS[..], &[shown[1]]].concat())).unwrap();
    wire.front.release();
    let inward = String::from_utf8_lossy(wire.front.inward()).into_owned();
    assert!(inward.contains("x-tollgate-token") && inward.contains(token), "{inward:?}");
}

#[test]
fn a_token_that_may_not_ask_about_a_domain_is_refused_on_the_fast_path() {
    for (scope, allowed) in [("domains=d", 1), ("domains=other", 0), ("scopes=refund", 0)] {
        let access = Access::of_lines(&format!("0123456789abcdef {scope}"));
        let gate = Arc::into_inner(gate_with(RULES, settings())).unwrap().with_access(access);
        let mut wire = Wire::new(Arc::new(gate));
        let fields = [&FIELDS[..], &[("x-tollgate-token", "0123456789abcdef")]].concat();
        wire.send(&[headers(1, &fields), data(1, END, &body())].concat()).unwrap();
        assert!(wire.passed().is_empty(), "it is answered here");
        let told = String::from_utf8_lossy(wire.front.outward().bytes()).into_owned();
        assert_eq!(told.contains("this%20token"), allowed == 0, "{told:?}");
        let metrics = wire.gate.metrics_text().unwrap();
        let counted = format!("ratelimit_requests_total{{protocol=\"rls\",outcome=\"allowed\"}} {allowed}\n");
        assert!(metrics.contains(&counted), "{metrics}");
    }
}

#[test]
fn resets() {
    let mut wire = wire();
    let reset = |stream| frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8]);
    wire.send(&[call(1), reset(1), other_call(3), reset(3), question(5), reset(5)].concat()).unwrap();
    assert_eq!(wire.passed(), ["HEADERS 3", "RST_STREAM 3 8"]);
    check_answered(&mut wire, &[5]);
    // What was reset is not waited for.
    assert!(!wire.front.holds_any());
    let stubborn: Vec<u8> =
        (0..2000).map(|at| 2 * at + 7).flat_map(|stream| [call(stream), reset(stream)].concat()).collect();
    assert_eq!(wire.send(&stubborn), Err(Violation(code::ENHANCE_YOUR_CALM)));
}

#[test]
fn some_resets_among_many_questions_are_no_attack() {
    let mut wire = wire();
    for at in 0..1000 {
        let stream = 4 * at + 1;
        let reset = frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8]);
        wire.send(&[call(stream), reset, question(stream + 2)].concat()).unwrap();
        wire.send(&frame(kind::WINDOW_UPDATE, 0, 0, &10_000_u32.to_be_bytes())).unwrap();
    }
    assert!(wire.passed().is_empty());
}

#[test]
fn resets_among_calls_that_h2_answers_are_no_attack() {
    let mut wire = wire();
    for at in 0..1000 {
        let stream = 4 * at + 1;
        let reset = frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8]);
        wire.send(&[call(stream), reset, other_call(stream + 2), data(stream + 2, END, &[])].concat())
            .unwrap();
        wire.front.relay(&frame(kind::HEADERS, END | flag::END_HEADERS, stream + 2, b""));
        wire.passed();
    }
}

#[test]
fn trailers_may_come_late_but_not_another_call() {
    let mut wire = wire();
    let trailers = frame(kind::HEADERS, END | flag::END_HEADERS, 1, &block(&[("t", "v")]));
    wire.send(&[other_call(1), question(3)].concat()).unwrap();
    wire.front.relay(&frame(kind::RST_STREAM, 0, 1, &[0; 4]));
    wire.passed();
    wire.send(&[data(1, 0, b"late"), trailers, question(5)].concat()).unwrap();
    assert!(wire.passed().is_empty());
    assert_eq!(wire.send(&call(1)), Err(Violation(code::STREAM_CLOSED)));
}

#[test]
fn streams_that_h2_never_ends_are_bounded() {
    let mut wire = wire();
    let unusual = |stream| headers(stream, &[&FIELDS[..], &[("content-length", "9")]].concat());
    let ended = (0..u32::MAX).map(|at| 2 * at + 1).find(|&stream| {
        wire.passed();
        wire.send(&unusual(stream)).is_err()
    });
    assert_eq!(ended, Some(2 * u32::try_from(PASSED_MAX).unwrap() + 1));
}

#[test]
fn violations() {
    let begun = frame(kind::HEADERS, 0, 1, &block(&FIELDS));
    let continued = |count| [begun.clone(), frame(kind::CONTINUATION, 0, 1, &[]).repeat(count)].concat();
    let long =
        [begun.clone(), frame(kind::CONTINUATION, 0, 1, &vec![0; PAYLOAD_BYTES_MAX]).repeat(4)].concat();
    let update = |stream, bytes: u32| frame(kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
    // h2 is still to answer it.
    let ended = [other_call(1), data(1, END, &[])].concat();
    let cases = [
        (frame(kind::PING, 0, 0, &vec![0; PAYLOAD_BYTES_MAX + 1]), code::FRAME_SIZE_ERROR),
        (frame(kind::HEADERS, flag::END_HEADERS, 2, &block(&FIELDS)), code::PROTOCOL_ERROR),
        (frame(kind::HEADERS, flag::END_HEADERS | flag::PADDED, 1, &[9, 0]), code::PROTOCOL_ERROR),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, &[0x80]), code::COMPRESSION_ERROR),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, &bomb(100)), code::ENHANCE_YOUR_CALM),
        ([question(3), call(1)].concat(), code::PROTOCOL_ERROR),
        ([question(3), call(3)].concat(), code::STREAM_CLOSED),
        ([begun.clone(), data(1, END, &body())].concat(), code::PROTOCOL_ERROR),
        ([begun.clone(), frame(kind::CONTINUATION, 0, 3, &[])].concat(), code::PROTOCOL_ERROR),
        (frame(kind::CONTINUATION, 0, 1, &[]), code::PROTOCOL_ERROR),
        (continued(BLOCK_PIECES_MAX), code::ENHANCE_YOUR_CALM),
        (long, code::ENHANCE_YOUR_CALM),
        (data(0, 0, &[]), code::PROTOCOL_ERROR),
        (data(1, 0, &[]), code::PROTOCOL_ERROR),
        (frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]), code::PROTOCOL_ERROR),
        (frame(kind::RST_STREAM, 0, 1, &[0]), code::FRAME_SIZE_ERROR),
        (update(0, 0), code::PROTOCOL_ERROR),
        (update(1, 1), code::PROTOCOL_ERROR),
        (update(0, 0x7fff_ffff), code::FLOW_CONTROL_ERROR),
        (frame(kind::WINDOW_UPDATE, 0, 0, &[1]), code::FRAME_SIZE_ERROR),
        (frame(kind::SETTINGS, 0, 1, &[]), code::PROTOCOL_ERROR),
        (frame(kind::SETTINGS, 0, 0, &[0; 5]), code::FRAME_SIZE_ERROR),
        (frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]), code::FRAME_SIZE_ERROR),
        (frame(kind::PING, 0, 1, &[0; 8]), code::PROTOCOL_ERROR),
        (frame(kind::PING, 0, 0, &[0; 7]), code::FRAME_SIZE_ERROR),
        (frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0; 4]), code::PROTOCOL_ERROR),
        (frame(kind::PRIORITY, 0, 0, &[0; 5]), code::PROTOCOL_ERROR),
        (frame(kind::PRIORITY, 0, 1, &[0; 4]), code::FRAME_SIZE_ERROR),
        ([ended.clone(), data(1, 0, &[])].concat(), code::STREAM_CLOSED),
        ([ended, headers(1, &[("t", "v")])].concat(), code::STREAM_CLOSED),
    ];
    for (at, (sent, code)) in cases.into_iter().enumerate() {
        let mut wire = wire();
        assert_eq!(wire.send(&sent), Err(Violation(code)), "case {at}");
        wire.front.end(Violation(code));
        let last = wire.told().pop().unwrap();
        assert_eq!(last.split(' ').next_back(), Some(code.to_string().as_str()), "case {at}: {last}");
    }
    // As many pieces as may be are none.
    wire().send(&continued(BLOCK_PIECES_MAX - 1)).unwrap();
    for first in [question(1), frame(kind::SETTINGS, flag::ACK, 0, &[]), frame(kind::PING, 0, 0, &[0; 8])] {
        let account = Account::open(&Arc::new(Room::unbounded())).unwrap();
        let mut front = Front::new(gate(RULES), Arc::new(Attempts::new(TEST_CLIENT)), account);
        let taken = front.take(&[PREFACE.as_slice(), &first].concat(), &mut Batch::default());
        assert_eq!(taken, Err(Violation(code::PROTOCOL_ERROR)), "settings come first");
    }
}

#[test]
fn what_h2_is_to_judge_is_passed_on_as_it_is() {
    let frames = [
        frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]),
        frame(kind::SETTINGS, flag::ACK, 0, &[]),
        frame(kind::PING, 0, 0, &[7; 8]),
        frame(kind::GOAWAY, 0, 0, &[0; 8]),
    ];
    for frame in frames {
        let mut wire = wire();
        wire.send(&frame).unwrap();
        assert_eq!(*wire.front.inward(), frame);
    }
    let mut wire = wire();
    wire.send(&[frame(kind::PRIORITY, 0, 1, &[0; 5]), frame(0xbe, 0xff, 3, b"unknown")].concat()).unwrap();
    assert!(wire.front.inward().is_empty());
}

#[test]
fn a_header_that_is_too_long_is_that_calls_alone() {
    let mut wire = wire();
    wire.send(&frame(kind::HEADERS, flag::END_HEADERS, 1, &bomb(20))).unwrap();
    assert_eq!(wire.told(), ["HEADERS 1 end", "RST_STREAM 1 0"]);
    wire.send(&[data(1, END, b"late"), question(3)].concat()).unwrap();
    check_answered(&mut wire, &[3]);
    assert!(wire.passed().is_empty());
}

#[test]
fn much_that_is_to_be_passed_on_is_passed_on_first() {
    let mut wire = wire();
    let long = "v".repeat(5_000);
    let mut fields = FIELDS.to_vec();
    fields.extend([("authorization", long.as_str()), ("content-length", "9")]);
    let sent: Vec<u8> = (0..30).flat_map(|at| headers(2 * at + 1, &fields)).collect();
    let Taken { bytes: taken, has_more } = wire.front.take(&sent, &mut wire.batch).unwrap();
    assert!(has_more && taken < sent.len() && wire.front.is_full());
    assert!(wire.front.inward().len() < INWARD_BYTES_MAX + 20_000);
    wire.passed();
    wire.send(&sent[taken..taken + headers(1, &fields).len()]).unwrap();
    assert_eq!(wire.passed().len(), 1);
}

#[test]
fn only_so_many_calls_wait() {
    let mut wire = wire();
    let calls: Vec<u8> = (0..=HELD_MAX).map(|at| 2 * u32::try_from(at).unwrap() + 1).flat_map(call).collect();
    wire.send(&calls).unwrap();
    assert_eq!(wire.passed().len(), HELD_MAX + 1);
    assert!(!wire.front.holds_any());
}

#[test]
fn no_memory_is_taken_for_questions_like_those_before() {
    let mut wire = wire();
    let mut stream = 1;
    let mut ask = |wire: &mut Wire| {
        let sent: Vec<u8> = (0..50).flat_map(|at| question(stream + 2 * at)).collect();
        stream += 100;
        let allocated = allocation_counter::measure(|| wire.send(&sent).unwrap());
        wire.front.outward().clear();
        let update = frame(kind::WINDOW_UPDATE, 0, 0, &10_000_u32.to_be_bytes());
        wire.send(&update).unwrap();
        allocated.count_total
    };
    let allocated: Vec<u64> = (0..4).map(|_| ask(&mut wire)).collect();
    assert_eq!(allocated.last(), Some(&0), "{allocated:?}");
}

/// Changes the windows of all streams.
fn window_setting(bytes: u16) -> Vec<u8> {
    let [high, low] = bytes.to_be_bytes();
    frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, high, low])
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_settings_ends_the_connection() {
    let mut wire = wire();
    // The first settings of all count as well.
    for bytes in 1..32 {
        wire.send(&window_setting(bytes)).unwrap();
    }
    assert_eq!(wire.send(&window_setting(32)), Err(Violation(code::ENHANCE_YOUR_CALM)));
}

#[tokio::test(start_paused = true)]
async fn a_client_may_change_its_settings_now_and_then() {
    let mut wire = wire();
    for bytes in 0..1_000 {
        wire.send(&window_setting(bytes)).unwrap();
        tokio::time::advance(std::time::Duration::from_millis(50)).await;
    }
}
