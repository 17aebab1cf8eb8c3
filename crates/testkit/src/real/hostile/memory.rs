//! HTTP/2 that holds memory: calls that cost the client a few bytes and the server many, without a token, for as long as it lasts.

use std::time::Duration;

use super::super::wait::pause_for;
use super::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, PING, RST_STREAM,
    WINDOW_UPDATE, put_number, put_string,
};
use super::raw::{Raw, Sent};
use super::seen::{Seen, Tally, Want};
use super::{Attack, Field, Listener, grpc, patient, quick};

/// Connections of one attack, times its force.
const CONNECTIONS: usize = 8;
/// Calls that are tried on each.
const CALLS: u32 = 1_000;
/// Calls of a connection at a time that a server lets be none of `ShouldRateLimit`.
const OTHER_CALLS_MAX: u64 = 16;
/// Connections that ask about much, whatever the force: one client may hardly have more of them.
const ASKING: usize = 100;
/// So many calls of so many descriptors are as much as a server reads at once, and as it takes in one call.
const CALLS_AT_ONCE: u32 = 34;
const DESCRIPTORS: usize = 128;
/// Entries of a descriptor: as many as a server takes.
const ENTRIES_BYTE: u8 = 32;
/// Enough for all answers of a connection.
const WINDOW_BYTES: u32 = 1 << 24;
/// A field that nearly fills the table that a server keeps for a client.
const LONG_BYTES: usize = 4_000;
/// So often it is named in each header: just short of what a header may have.
const REFERENCES: usize = 15;
/// A client that drips does so once a second, for so long at most: longer than any time-out of the server.
const DRIP_INTERVAL: Duration = Duration::from_secs(1);
const DRIPS_MAX: usize = 45;

const HEALTH: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
/// A request of reflection: the file that describes this service.
const SYMBOL: &[u8] = b"\x22\x2benvoy.service.ratelimit.v3.RateLimitService";

pub(super) fn attacks() -> Vec<Attack> {
    const GRPC: Listener = Listener::Grpc;
    vec![
        quick(
            GRPC,
            "health checks with references to a long field",
            "16 taken, the others refused",
            references,
        ),
        quick(GRPC, "1,000 health checks without a message", "16 taken, the others refused", unfinished),
        quick(GRPC, "1,000 calls of Health/Watch", "16 taken, the others refused", watches),
        quick(
            GRPC,
            "1,000 calls of reflection without a window",
            "16 taken, the others refused",
            reflections,
        ),
        quick(GRPC, "100 connections that ask about much at once", "answers, and nothing kept", asked_much),
        patient(GRPC, "a health check whose message never comes", "an error", no_message),
        patient(GRPC, "reflection, a byte of a stream's window a second", "an error", dripped_stream),
        patient(GRPC, "answers, a byte of the connection's window a second", "GOAWAY", dripped_connection),
    ]
}

/// Opens many connections, and on each many calls. Sees that each connection takes some of them and refuses the others.
fn crowd(at: &Field, opening: &Frames, call: impl Fn(u32) -> Frames) -> Tally {
    let mut tally = Tally::default();
    let streams = || (0..CALLS).map(|index| 2 * index + 3);
    let mut raws: Vec<Raw> = (0..CONNECTIONS * at.force)
        .map(|_| {
            let mut raw = Raw::sending(at.address, &opening.0);
            for stream in streams() {
                if raw.send_frames(&call(stream)) != Sent::All {
                    break;
                }
            }
            raw
        })
        .collect();
    for raw in &mut raws {
        raw.send_frames(&Frames::none().add(PING, 0, 0, b"how far?"));
        match refusals(raw) {
            Ok(refused) => {
                let open = u64::from(CALLS) - refused;
                tally.note("refused", refused);
                if open > OTHER_CALLS_MAX {
                    tally.blame(format!("{open} calls are open on one connection"));
                }
            }
            Err(seen) => tally.see("a connection", &seen, Want::Refused),
        }
    }
    tally
}

/// How many calls were refused until the server has read everything.
fn refusals(raw: &mut Raw) -> Result<u64, Seen> {
    let mut refused = 0;
    loop {
        let frame = raw.frame()?;
        match frame.kind {
            PING if frame.flags & ACK != 0 => return Ok(refused),
            GOAWAY => return Err(Seen::Refusal(format!("GOAWAY {}", frame.reason(4)))),
            HEADERS if frame.flags & END_STREAM != 0 => refused += 1,
            _ => {}
        }
    }
}

/// The header of a call as a block.
fn block(path: &str) -> Vec<u8> {
    Frames::none().headers(1, END_HEADERS, &grpc::fields(path)).0.split_off(9)
}

fn references(at: &Field) -> Tally {
    let mut filling = block(HEALTH);
    put_number(&mut filling, 0x40, 6, 0); // a literal that is to be remembered, with a new name
    put_string(&mut filling, b"x-long");
    put_string(&mut filling, &[b'l'; LONG_BYTES]);
    let opening = Frames::opening(&[]).add(HEADERS, END_HEADERS | END_STREAM, 1, &filling);
    // The path and the content type are remembered as well, so that a call is few bytes. The newest is the first.
    let mut short = block(HEALTH);
    short.resize(short.len() + REFERENCES, 0xbe);
    crowd(at, &opening, |stream| Frames::none().add(HEADERS, END_HEADERS, stream, &short))
}

fn unfinished(at: &Field) -> Tally {
    let call = |stream| Frames::none().headers(stream, END_HEADERS, &grpc::fields(HEALTH));
    crowd(at, &Frames::opening(&[]), call)
}

fn watches(at: &Field) -> Tally {
    let call = |stream| {
        let frames = Frames::none().headers(stream, END_HEADERS, &grpc::fields(WATCH));
        frames.add(DATA, END_STREAM, stream, &grpc::framed(&[]))
    };
    crowd(at, &Frames::opening(&[]), call)
}

fn reflections(at: &Field) -> Tally {
    crowd(at, &Frames::opening(&[(INITIAL_WINDOW_SIZE, 0)]), reflection)
}

fn reflection(stream: u32) -> Frames {
    let frames = Frames::none().headers(stream, END_HEADERS, &grpc::fields(REFLECTION));
    frames.add(DATA, 0, stream, &grpc::framed(SYMBOL))
}

/// Each connection asks about as many descriptors and entries at once as fit what a server reads at once, and stays.
fn asked_much(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let descriptors = [&b"\x0a\x07hostile"[..], &[0x12, 0].repeat(DESCRIPTORS)].concat();
    let entries = [&[0x12, 2 * ENTRIES_BYTE][..], &[0x0a, 0].repeat(ENTRIES_BYTE.into())].concat();
    let entries = [&b"\x0a\x07hostile"[..], &entries.repeat(DESCRIPTORS - 8)].concat();
    let opening = Frames::opening(&[]).add(WINDOW_UPDATE, 0, 0, &WINDOW_BYTES.to_be_bytes());
    let asked = |frames, call: u32| grpc::ask(frames, 2 * call + 3, &grpc::framed(&descriptors));
    let many = (0..CALLS_AT_ONCE).fold(Frames::none(), asked);
    let last = 2 * CALLS_AT_ONCE + 3;
    let mut raws = Vec::new();
    for _ in 0..ASKING {
        let mut raw = Raw::sending(at.address, &opening.0);
        // The server has read what came before when it has answered this.
        raw.send_frames(&grpc::ask(Frames::none(), 1, &grpc::framed(&descriptors)));
        raw.http2(1);
        raw.send_frames(&many);
        raw.http2(last - 2);
        raw.send_frames(&grpc::ask(Frames::none(), last, &grpc::framed(&entries)));
        tally.see("a connection", &raw.http2(last), Want::Answered);
        raws.push(raw);
    }
    tally
}

fn no_message(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let begun = Frames::opening(&[]).headers(1, END_HEADERS, &grpc::fields(HEALTH));
    let mut raws: Vec<Raw> = (0..CONNECTIONS).map(|_| Raw::sending(at.address, &begun.0)).collect();
    for raw in &mut raws {
        let seen = raw.http2(1);
        tally.see("a call", &seen, Want::Told("gRPC status"));
        if seen == Seen::Silent {
            break; // The others would only be waited for as long.
        }
    }
    tally
}

/// Widens a window by one byte a second until the server ends the stream or the connection.
fn drip(raw: &mut Raw, stream: u32) -> Seen {
    let drop = Frames::none().add(WINDOW_UPDATE, 0, stream, &1_u32.to_be_bytes());
    for _ in 0..DRIPS_MAX {
        if raw.send_frames(&drop) == Sent::Closed {
            break;
        }
        pause_for(DRIP_INTERVAL);
    }
    // If the server had enough, it has said so by now.
    raw.send_frames(&Frames::none().add(PING, 0, 0, b"and now?"));
    loop {
        match raw.frame() {
            Ok(frame) if frame.kind == RST_STREAM && frame.stream == stream => {
                return Seen::Refusal(format!("RST_STREAM {}", frame.reason(0)));
            }
            Ok(frame) if frame.kind == GOAWAY => {
                return Seen::Refusal(format!("GOAWAY {}", frame.reason(4)));
            }
            Ok(frame) if frame.kind == PING && frame.flags & ACK != 0 => {
                return Seen::Answer("still sending".to_owned());
            }
            Ok(_) => {}
            Err(seen) => return seen,
        }
    }
}

fn dripped_stream(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let mut raw = Raw::sending(at.address, &Frames::opening(&[(INITIAL_WINDOW_SIZE, 0)]).0);
    raw.send_frames(&reflection(1));
    tally.see("reflection", &drip(&mut raw, 1), Want::Told("RST_STREAM CANCEL"));
    tally
}

fn dripped_connection(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let mut raw = Raw::sending(at.address, &Frames::opening(&[]).0);
    let body = grpc::framed(&grpc::question(b"drip"));
    // Far more answers than fit the window that every connection begins with.
    for stream in (0..CALLS).map(|index| 2 * index + 1) {
        raw.send_frames(&grpc::ask(Frames::none(), stream, &body));
    }
    tally.see("the connection", &drip(&mut raw, 0), Want::Told("GOAWAY ENHANCE_YOUR_CALM"));
    tally
}
