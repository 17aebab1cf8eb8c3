//! gRPC: messages that are cut short, too long, of the wrong shape, or no messages at all.

use super::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, RST_STREAM, SETTINGS,
    WINDOW_UPDATE,
};
use super::raw::Raw;
use super::seen::{Seen, Tally, Want};
use super::{Attack, Field, Listener, quick};

const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// Longer than any message may be.
const TOO_LONG_BYTES: usize = 9 << 20;
/// What fits into one frame unless the server says otherwise.
const FRAME_BYTES: usize = 16 << 10;
/// So many elements of two bytes are nearly as long as a message may be.
const MANY: usize = 4_100_000;
/// The longest message twice, as it comes and as a whole, and what the allocator adds.
const LONG_PEAK_BYTES_MAX: u64 = 64 << 20;
/// What may be sent before the server says more.
const WINDOW_BYTES: usize = 65_535;
/// Deeper than any stack would follow, within what may be sent unasked.
const NESTED: usize = 60_000;

pub(super) fn attacks() -> Vec<Attack> {
    const GRPC: Listener = Listener::Grpc;
    vec![
        quick(GRPC, "a call, cut at every byte", "no answer", cut),
        quick(GRPC, "4 GiB announced", "an error at once", announced),
        quick(GRPC, "9 MiB sent", "an error", too_long),
        quick(GRPC, "8 MiB of descriptors or entries", "an error", too_many).costing(LONG_PEAK_BYTES_MAX),
        quick(GRPC, "wrong protobuf", "an error", wrong_protobuf),
        quick(GRPC, "odd, but protobuf", "an answer", odd_protobuf),
        quick(GRPC, "groups nested 60,000 deep", "an error", nested),
        quick(GRPC, "compressed, but not", "an error", compressed),
        quick(GRPC, "two messages, or none", "an error", wrong_count),
        quick(GRPC, "wrong paths", "an error", wrong_paths),
    ]
}

/// The fields of a call.
pub(super) fn fields(path: &str) -> [(&str, &str); 6] {
    [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "hostile"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
}

/// The call that is attacked.
pub(super) fn call(stream: u32) -> Frames {
    Frames::none().headers(stream, END_HEADERS, &fields(PATH))
}

/// A call with this body.
pub(super) fn ask(frames: Frames, stream: u32, body: &[u8]) -> Frames {
    let frames = frames.headers(stream, END_HEADERS, &fields(PATH));
    frames.add(DATA, END_STREAM, stream, body)
}

/// A message behind its length.
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a message of a test");
    [&[0], &length.to_be_bytes()[..], message].concat()
}

/// One field of a message: its bytes behind their length.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut encoded = vec![number << 3 | 2];
    let mut rest = bytes.len();
    while rest >= 0x80 {
        encoded.push(u8::try_from(rest % 0x80).expect("seven bits") | 0x80);
        rest /= 0x80;
    }
    encoded.push(u8::try_from(rest).expect("seven bits"));
    encoded.extend(bytes);
    encoded
}

/// The question about one user.
pub(super) fn question(user: &[u8]) -> Vec<u8> {
    let entry = [field(1, b"user"), field(2, user)].concat();
    [field(1, b"hostile"), field(2, &field(1, &entry))].concat()
}

/// What is answered to one call with this body.
fn answer(at: &Field, body: &[u8]) -> Seen {
    let mut raw = Raw::sending(at.address, &ask(Frames::opening(&[]), 1, body).0);
    raw.http2(1)
}

fn cut(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let whole = ask(Frames::opening(&[]), 1, &framed(&question(b"cut"))).0;
    for length in 0..whole.len() {
        let mut raw = Raw::sending(at.address, &whole[..length]);
        raw.finish();
        tally.see(&format!("cut at {length}"), &raw.http2(1), Want::Refused);
    }
    tally.see("whole", &Raw::sending(at.address, &whole).http2(1), Want::Answered);
    tally
}

fn announced(at: &Field) -> Tally {
    let mut tally = Tally::default();
    for length in [u32::MAX, 1 << 31, (8 << 20) + 1] {
        let head = [&[0][..], &length.to_be_bytes()].concat();
        let frames = Frames::opening(&[]).headers(1, END_HEADERS, &fields(PATH)).add(DATA, 0, 1, &head);
        tally.see(&format!("{length} bytes"), &Raw::sending(at.address, &frames.0).http2(1), Want::Refused);
    }
    tally
}

fn too_long(at: &Field) -> Tally {
    let mut tally = Tally::default();
    for _ in 0..at.force {
        let mut raw = Raw::sending(at.address, &Frames::opening(&[]).0);
        raw.send_frames(&call(1));
        let head = framed(&vec![0; TOO_LONG_BYTES])[..5].to_vec();
        raw.send_frames(&Frames::none().add(DATA, 0, 1, &head));
        let part = Frames::none().add(DATA, 0, 1, &vec![0; FRAME_BYTES]);
        // Beyond what flow control allows: the server reads as much as it likes, and has every right to close.
        raw.flood(&part.0, TOO_LONG_BYTES / FRAME_BYTES);
        tally.see("9 MiB", &raw.http2(1), Want::Refused);
    }
    tally
}

/// Each descriptor or entry is two bytes on the wire, and many more wherever room is made for it.
fn too_many(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let descriptors = [0x12, 0].repeat(MANY);
    let entries = field(2, &[0x0a, 0].repeat(MANY));
    let bodies: [(&str, Vec<u8>); 4] = [
        ("descriptors", framed(&descriptors)),
        ("entries of one descriptor", framed(&entries)),
        ("descriptors after a group", framed(&[&[0x7b, 0x7c][..], &descriptors].concat())),
        ("a second message", [framed(&question(b"first")), framed(&descriptors)].concat()),
    ];
    for (what, body) in bodies {
        let mut raw = Raw::sending(at.address, &Frames::opening(&[]).0);
        raw.send_frames(&call(1));
        tally.see(what, &send_body(&mut raw, &body), Want::Refused);
    }
    tally
}

/// Sends a body of the first stream as fast as the server's windows widen, and says what is answered.
fn send_body(raw: &mut Raw, body: &[u8]) -> Seen {
    let mut windows = [WINDOW_BYTES; 2]; // the connection's, and the stream's
    let mut parts = body.chunks(FRAME_BYTES).peekable();
    while let Some(part) = parts.next() {
        while windows.iter().any(|window| *window < part.len()) {
            let frame = match raw.frame() {
                Ok(frame) => frame,
                Err(seen) => return seen,
            };
            match frame.kind {
                WINDOW_UPDATE => {
                    let more = frame.payload.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                    windows[usize::from(frame.stream > 0)] += more;
                }
                SETTINGS if frame.flags & ACK == 0 => {
                    let size = frame.setting(INITIAL_WINDOW_SIZE).map_or(WINDOW_BYTES, |size| size as usize);
                    windows[1] += size.saturating_sub(WINDOW_BYTES);
                }
                HEADERS | RST_STREAM | GOAWAY => return Seen::Refusal("refused early".to_owned()),
                _ => {}
            }
        }
        let flags = if parts.peek().is_none() { END_STREAM } else { 0 };
        raw.send_frames(&Frames::none().add(DATA, flags, 1, part));
        for window in &mut windows {
            *window -= part.len();
        }
    }
    raw.http2(1)
}

fn wrong_protobuf(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let bodies: [(&str, Vec<u8>); 8] = [
        ("a length beyond the end", framed(&[0x0a, 0x7f, b'x'])),
        (
            "an endless number",
            framed(&[0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ),
        ("field number 0", framed(&[0x02, 0x00])),
        ("an end without a group", framed(&[0x0c])),
        ("a wire type that is none", framed(&[0x0f])),
        ("a domain that is a number", framed(&[0x08, 0x01])),
        ("a domain that is no text", framed(&[field(1, b"\xff\xfe"), field(2, b"")].concat())),
        ("nothing", framed(&[])),
    ];
    for (what, body) in bodies {
        tally.see(what, &answer(at, &body), Want::Refused);
    }
    tally
}

fn odd_protobuf(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let plain = question(b"odd");
    let number = |field: u8| [vec![field << 3], vec![0xff; 9], vec![0x01]].concat();
    let bodies: [(&str, Vec<u8>); 5] = [
        ("a value that is no text", question(b"\xc3\x28\xff\x00")),
        ("fields that nobody knows", [plain.clone(), field(14, b"x"), number(15)].concat()),
        ("a cost of 2^64-1, cut to 32 bits", [plain.clone(), number(3)].concat()),
        ("a value of 60 KiB", question(&vec![b'v'; 60 << 10])),
        ("the domain twice", [field(1, b"other"), plain].concat()),
    ];
    for (what, body) in bodies {
        let mut raw = Raw::sending(at.address, &Frames::opening(&[]).0);
        raw.send_frames(&call(1));
        let body = framed(&body);
        let mut parts = body.chunks(FRAME_BYTES).peekable();
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_none() { END_STREAM } else { 0 };
            raw.send_frames(&Frames::none().add(DATA, flags, 1, part));
        }
        tally.see(what, &raw.http2(1), Want::Answered);
    }
    tally
}

fn nested(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let message = vec![0x7b; NESTED]; // the start of group 15, within itself
    let body = framed(&message);
    let mut frames = Frames::opening(&[]).headers(1, END_HEADERS, &fields(PATH));
    for part in body.chunks(FRAME_BYTES) {
        frames = frames.add(DATA, 0, 1, part);
    }
    let frames = frames.add(DATA, END_STREAM, 1, &[]);
    let mut raw = Raw::sending(at.address, &frames.0);
    tally.see("groups", &raw.http2(1), Want::Refused);
    tally
}

fn compressed(at: &Field) -> Tally {
    let mut tally = Tally::default();
    for flag in [1, 2, 0xff] {
        let mut body = framed(&question(b"compressed"));
        body[0] = flag;
        tally.see(&format!("flag {flag}"), &answer(at, &body), Want::Refused);
    }
    tally
}

fn wrong_count(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let one = framed(&question(b"count"));
    for (what, body) in [("none", Vec::new()), ("half a length", one[..3].to_vec())] {
        tally.see(what, &answer(at, &body), Want::Refused);
    }
    // A unary call has one message. Some servers take the first, and some object.
    tally.see("two", &answer(at, &[one.clone(), one].concat()), Want::Spoken);
    tally
}

fn wrong_paths(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let paths = ["/envoy.service.ratelimit.v3.RateLimitService/No", "/no.such.Service/Call", "/", "\\\\"];
    for path in paths {
        let frames = Frames::opening(&[]).headers(1, END_HEADERS, &fields(path));
        let frames = frames.add(DATA, END_STREAM, 1, &framed(&question(b"paths")));
        tally.see(path, &Raw::sending(at.address, &frames.0).http2(1), Want::Refused);
    }
    tally
}
