//! HTTP/2 frames in masses, or with numbers that overflow: against gRPC and against HTTP, which both speak it.

use super::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, PADDED, PING, PRIORITY,
    PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, put_number, put_string,
};
use super::raw::{Raw, Sent};
use super::seen::{Seen, Tally, Want};
use super::{Attack, Field, Listener, grpc, quick};

/// Frames that a flood consists of, times its force.
const FLOOD: usize = 100_000;
/// So many frames are sent at once.
const AT_ONCE: usize = 1_000;
/// The largest window that there may be.
const WINDOW_MAX: u32 = (1 << 31) - 1;
/// The table of header fields that a server keeps for a client, unless it says otherwise.
const TABLE_BYTES: usize = 4096;
/// References to it that fit a frame.
const REFERENCES: usize = 16_000;

pub(super) fn attacks() -> Vec<Attack> {
    let both =
        |name, expected, act| [Listener::Grpc, Listener::Http].map(|on| quick(on, name, expected, act));
    [
        both("rapid reset", "GOAWAY", rapid_reset),
        both("CONTINUATION flood", "GOAWAY, or closed", continuations),
        both("PING flood, nothing read", "held back, or closed", pings),
        both("SETTINGS flood, nothing read", "held back, or closed", settings),
        both("empty DATA flood", "GOAWAY, or closed", empty_data),
        both("PRIORITY flood", "taken or closed", priorities),
        both("windows that overflow, or do not grow", "an error", windows),
        both("header bomb", "an error", header_bomb),
        both("frames out of place", "an error", out_of_place),
        both("requests against the rules of HTTP/2", "an error", bad_requests),
    ]
    .into_iter()
    .flatten()
    .chain([quick(
        Listener::Grpc,
        "SETTINGS flood over 1,000 calls",
        "GOAWAY, or closed",
        settings_over_calls,
    )])
    .collect()
}

/// A request that both listeners understand as far as its head.
pub(super) fn fields(at: &Field) -> [(&'static str, &'static str); 6] {
    match at.on {
        Listener::Grpc => grpc::fields("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
        _ => grpc::fields("/v1/check"),
    }
}

fn open(at: &Field) -> Raw {
    Raw::sending(at.address, &Frames::opening(&[]).0)
}

/// Odd numbers, each used once.
fn streams() -> impl Iterator<Item = u32> {
    (1..u32::MAX >> 1).step_by(2)
}

/// Sends frames by the thousand without reading, and says how far the server took them.
fn flood(raw: &mut Raw, at: &Field, frame: impl Fn(Frames, u32) -> Frames) -> Sent {
    let mut streams = streams();
    for _ in 0..FLOOD * at.force / AT_ONCE {
        let frames = streams.by_ref().take(AT_ONCE).fold(Frames::none(), &frame);
        let sent = raw.send_frames(&frames);
        if sent != Sent::All {
            return sent;
        }
    }
    Sent::All
}

/// What becomes of a connection after a flood. One that was taken whole must still be of use, or come to an end.
fn after(raw: &mut Raw, sent: Sent) -> Seen {
    match sent {
        Sent::Stalled => Seen::Stalled,
        Sent::All | Sent::Closed => {
            raw.send_frames(&Frames::none().add(PING, 0, 0, b"are you?"));
            loop {
                match raw.frame() {
                    Ok(frame) if frame.kind == PING && frame.flags & ACK != 0 => {
                        return Seen::Answer("took all".to_owned());
                    }
                    Ok(frame) if frame.kind == GOAWAY => {
                        return Seen::Refusal(format!("GOAWAY {}", frame.reason(4)));
                    }
                    Ok(_) => {}
                    Err(seen) => return seen,
                }
            }
        }
    }
}

fn rapid_reset(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let mut raw = open(at);
    let fields = fields(at);
    let sent = flood(&mut raw, at, |frames, stream| {
        let frames = frames.headers(stream, END_HEADERS, &fields);
        frames.add(RST_STREAM, 0, stream, &8_u32.to_be_bytes())
    });
    tally.see("resets", &after(&mut raw, sent), Want::Refused);
    tally
}

fn continuations(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let mut field = vec![0];
    put_string(&mut field, b"x-more");
    put_string(&mut field, &[b'a'; 1000]);
    for (what, part) in [("full", field.as_slice()), ("empty", &[])] {
        let mut raw = open(at);
        raw.send_frames(&Frames::none().headers(1, 0, &fields(at)));
        let sent = flood(&mut raw, at, |frames, _| frames.add(CONTINUATION, 0, 1, part));
        tally.see(what, &after(&mut raw, sent), Want::Refused);
    }
    tally
}

fn pings(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let mut raw = open(at);
    // So many that their answers fill every buffer between.
    let frames = (0..AT_ONCE).fold(Frames::none(), |frames, _| frames.add(PING, 0, 0, b"flooding"));
    let sent = raw.flood(&frames.0, 2_000);
    tally.see("pings", &sent.into(), Want::HeldBack);
    tally
}

fn settings(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let mut raw = open(at);
    let frames =
        (0..AT_ONCE).fold(Frames::none(), |frames, _| frames.add(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 9]));
    let sent = raw.flood(&frames.0, 3_000);
    tally.see("settings", &sent.into(), Want::HeldBack);
    tally
}

/// Each change of the windows of streams concerns all that are open.
fn settings_over_calls(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let mut raw = open(at);
    let calls = streams()
        .take(AT_ONCE)
        .fold(Frames::none(), |frames, stream| frames.headers(stream, END_HEADERS, &fields(at)));
    raw.send_frames(&calls);
    let sent = flood(&mut raw, at, |frames, stream| {
        let window = if stream % 4 == 1 { 1 } else { WINDOW_MAX };
        frames.add(SETTINGS, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat())
    });
    tally.see("settings", &after(&mut raw, sent), Want::Refused);
    tally
}

fn empty_data(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let mut raw = open(at);
    raw.send_frames(&Frames::none().headers(1, END_HEADERS, &fields(at)));
    let sent = flood(&mut raw, at, |frames, _| frames.add(DATA, 0, 1, &[]));
    tally.see("nothing", &after(&mut raw, sent), Want::Refused);
    tally
}

fn priorities(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let mut raw = open(at);
    let sent = flood(&mut raw, at, |frames, stream| frames.add(PRIORITY, 0, stream, &[0, 0, 0, 0, 9]));
    tally.see("priorities", &after(&mut raw, sent), Want::Spoken);
    let mut raw = open(at);
    let sent = flood(&mut raw, at, |frames, _| frames.add(0xee, 0, 0, b"nobody knows this frame"));
    tally.see("unknown frames", &after(&mut raw, sent), Want::Spoken);
    tally
}

fn windows(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let open_stream = || Frames::none().headers(1, END_HEADERS, &fields(at));
    let cases = [
        ("the connection's overflows", Frames::none().add(WINDOW_UPDATE, 0, 0, &WINDOW_MAX.to_be_bytes())),
        ("the connection's does not grow", Frames::none().add(WINDOW_UPDATE, 0, 0, &[0; 4])),
        ("a stream's overflows", open_stream().add(WINDOW_UPDATE, 0, 1, &WINDOW_MAX.to_be_bytes())),
        ("a stream's does not grow", open_stream().add(WINDOW_UPDATE, 0, 1, &[0; 4])),
        ("all streams' overflow", open_stream().add(SETTINGS, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff])),
    ];
    for (what, frames) in cases {
        let mut raw = open(at);
        raw.send_frames(&frames);
        tally.see(what, &raw.http2(1), Want::Refused);
    }
    tally
}

/// One field is put into the table that the server keeps, and named thousands of times in one head.
fn header_bomb(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let plain = Frames::none().headers(1, END_STREAM | END_HEADERS, &fields(at));
    let head = &plain.0[9..];
    let mut block = head.to_vec();
    put_number(&mut block, 0x40, 6, 0); // a literal that is to be remembered, with a new name
    put_string(&mut block, b"x-bomb");
    put_string(&mut block, &[b'b'; TABLE_BYTES - 64]);
    let filling = Frames::none().add(HEADERS, END_STREAM | END_HEADERS, 1, &block);
    let mut bomb = head.to_vec();
    bomb.resize(bomb.len() + REFERENCES, 0xbe); // the newest field of the table
    let bomb_on = |stream| Frames::none().add(HEADERS, END_STREAM | END_HEADERS, stream, &bomb);
    let mut raw = open(at);
    raw.send_frames(&filling);
    raw.http2(1);
    raw.send_frames(&bomb_on(3));
    tally.see("a bomb", &raw.http2(3), Want::Refused);
    // And a hundred at once, on a connection that may take none of them.
    let mut raw = open(at);
    raw.send_frames(&filling);
    for stream in streams().skip(1).take(100 * at.force) {
        raw.send_frames(&bomb_on(stream));
    }
    tally.see("a hundred bombs", &raw.http2(3), Want::Refused);
    tally
}

fn out_of_place(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let oversized = [0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1];
    let cases = [
        ("data on the connection", Frames::none().add(DATA, 0, 0, b"x")),
        ("data on a stream never opened", Frames::none().add(DATA, 0, 7, b"x")),
        ("an even stream", Frames::none().headers(2, END_HEADERS, &fields(at))),
        ("a push from a client", Frames::none().add(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])),
        ("a continuation of nothing", Frames::none().add(CONTINUATION, END_HEADERS, 1, &[])),
        ("half a setting", Frames::none().add(SETTINGS, 0, 0, &[0, 1, 0])),
        ("settings on a stream", Frames::none().add(SETTINGS, 0, 1, &[])),
        ("a short ping", Frames::none().add(PING, 0, 0, b"short")),
        ("a reset of a stream never opened", Frames::none().add(RST_STREAM, 0, 9, &[0; 4])),
        ("a frame of 16 MiB", Frames(oversized.to_vec())),
        (
            "a field of the table that is not there",
            Frames::none().add(HEADERS, END_HEADERS, 1, &[0xff, 0xff, 0x7f]),
        ),
        ("a number without an end", Frames::none().add(HEADERS, END_HEADERS, 1, &[0xff; 64])),
        ("padding beyond the frame", Frames::none().add(HEADERS, END_HEADERS | PADDED, 1, &[0xff, 0])),
    ];
    for (what, frames) in cases {
        let mut raw = open(at);
        raw.send_frames(&frames);
        tally.see(what, &raw.http2(frames_stream(&frames)), Want::Refused);
    }
    tally
}

fn frames_stream(frames: &Frames) -> u32 {
    u32::from_be_bytes([frames.0[5], frames.0[6], frames.0[7], frames.0[8]]).max(1)
}

fn bad_requests(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let [method, scheme, path, authority, ..] = fields(at);
    let cases: [(&str, Vec<(&str, &str)>); 7] = [
        ("no method", vec![scheme, path, authority]),
        ("no path", vec![method, scheme, authority]),
        ("two paths", vec![method, scheme, path, path, authority]),
        ("a field in capitals", vec![method, scheme, path, authority, ("X-Upper", "1")]),
        ("a connection field", vec![method, scheme, path, authority, ("connection", "close")]),
        ("a pseudo field too late", vec![method, scheme, ("x", "1"), path, authority]),
        ("a line feed in a value", vec![method, scheme, path, authority, ("x", "a\r\nb: c")]),
    ];
    for (what, fields) in cases {
        let mut raw = open(at);
        raw.send_frames(&Frames::none().headers(1, END_HEADERS | END_STREAM, &fields));
        tally.see(what, &raw.http2(1), Want::Refused);
    }
    tally
}
