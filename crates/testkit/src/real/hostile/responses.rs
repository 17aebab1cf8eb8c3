//! Responses that a client asks for and does not take: whole requests on as many streams as may be, with a window of no byte or of one,
//! on many connections.

use std::thread;

use super::super::tollgate::Tollgate;
use super::floods::fields;
use super::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, Frames, HEADERS, INITIAL_WINDOW_SIZE, PING, RST_STREAM,
};
use super::raw::{Raw, Sent};
use super::seen::{Seen, Tally, Want};
use super::{Attack, Field, Listener, patient, quick};

/// Connections of one attack, times its force.
const CONNECTIONS: usize = 60;
/// Requests on each: nearly as many as a server takes at once.
const REQUESTS: u32 = 127;
/// The descriptors of a long question, each of which is answered.
const DESCRIPTORS: usize = 128;
/// What a server of 256 MiB may hold of them: what one client may hold, and what the allocator adds.
const PEAK_BYTES_MAX: u64 = 64 << 20;
/// Connections that stall.
const STALLED: usize = 14;
/// A server that has asked so often whether a client is there does not close the connection.
const PINGS_MAX: usize = 7;

pub(super) fn attacks() -> Vec<Attack> {
    use Listener::{Admin, Http};
    let untaken = |on, name, act| quick(on, name, "bounded, or GOAWAY", act).costing(PEAK_BYTES_MAX);
    vec![
        untaken(Http, "short answers without a window", short_answers),
        untaken(Http, "refusals of wrong hosts without a window", wrong_hosts),
        untaken(Http, "answers to 128 descriptors, a window of one byte", long_answers),
        untaken(Admin, "the OpenAPI document, a window of one byte", documents),
        untaken(Admin, "metrics, a window of one byte", metrics),
        untaken(Admin, "the configuration, a window of one byte", configuration),
        patient(Http, "takes none of its responses, answers every PING", "closed", stalled),
    ]
}

/// Asks on all streams of many connections, and takes nothing. The server may refuse and close, but not fall silent.
fn ask_all(
    at: &Field,
    (connections, requests): (usize, u32),
    window: u32,
    request: impl Fn(u32) -> Frames,
) -> Tally {
    let mut tally = Tally::default();
    let opening = Frames::opening(&[(INITIAL_WINDOW_SIZE, window)]);
    let mut raws: Vec<Raw> = (0..connections * at.force)
        .map(|_| {
            let mut raw = Raw::sending(at.address, &opening.0);
            raw.streams_max(); // The windows of the server come with its settings.
            for stream in (0..requests).map(|index| 2 * index + 1) {
                if raw.send_frames(&request(stream)) != Sent::All {
                    break;
                }
            }
            raw
        })
        .collect();
    for raw in &mut raws {
        tally.see("a connection", &until_answered(raw, requests), Want::Spoken);
    }
    tally
}

/// Reads until all requests are answered or refused. No window is needed for that.
fn until_answered(raw: &mut Raw, requests: u32) -> Seen {
    let mut answered = 0;
    while answered < requests {
        match raw.frame() {
            Ok(frame) if frame.kind == HEADERS || frame.kind == RST_STREAM => answered += 1,
            Ok(frame) if frame.kind == PING && frame.flags & ACK == 0 => {
                raw.send_frames(&Frames::none().add(PING, ACK, 0, &frame.payload));
            }
            Ok(_) => {}
            Err(seen) => return seen,
        }
    }
    Seen::Answer("still there".to_owned())
}

fn get(stream: u32, path: &str, more: &[(&str, &str)]) -> Frames {
    get_at("hostile", stream, path, more)
}

fn get_at(host: &str, stream: u32, path: &str, more: &[(&str, &str)]) -> Frames {
    let fields = [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", host)];
    Frames::none().headers(stream, END_HEADERS | END_STREAM, &[&fields, more].concat())
}

fn long_answers(at: &Field) -> Tally {
    let descriptor = |index| format!(r#"{{"entries":[{{"key":"user","value":"{index}"}}]}}"#);
    let descriptors: Vec<String> = (0..DESCRIPTORS).map(descriptor).collect();
    let body = format!(r#"{{"domain":"hostile","descriptors":[{}]}}"#, descriptors.join(","));
    ask_all(at, (CONNECTIONS, REQUESTS), 1, |stream| {
        let frames = Frames::none().headers(stream, END_HEADERS, &fields(at));
        frames.add(DATA, END_STREAM, stream, body.as_bytes())
    })
}

fn short_answers(at: &Field) -> Tally {
    ask_all(at, (2 * CONNECTIONS, REQUESTS), 0, |stream| get(stream, "/healthz", &[]))
}

fn wrong_hosts(at: &Field) -> Tally {
    ask_all(at, (2 * CONNECTIONS, REQUESTS), 0, |stream| get(stream, "/healthz", &[("host", "a@b")]))
}

/// The admin listener takes few connections of one client.
const ADMIN_CONNECTIONS: usize = 24;

fn documents(at: &Field) -> Tally {
    let host = at.address.to_string();
    ask_all(at, (ADMIN_CONNECTIONS, REQUESTS), 1, |stream| {
        get_at(&host, stream, "/admin/v1/openapi.json", &[])
    })
}

fn metrics(at: &Field) -> Tally {
    ask_all(at, (ADMIN_CONNECTIONS, REQUESTS), 1, |stream| get(stream, "/metrics", &[]))
}

fn configuration(at: &Field) -> Tally {
    ask_all(at, (ADMIN_CONNECTIONS, REQUESTS), 1, |stream| get(stream, "/config", &[]))
}

/// Asks the admin API for a path with a valid token on many streams of 8 connections, as fast as one token may, and takes one byte of
/// each response. Says what became of it.
pub fn ask_admin_without_reading(tollgate: &Tollgate, path: &str) -> Tally {
    const CONNECTIONS: usize = 8;
    const REQUESTS: u32 = 24;
    let (address, token) = (tollgate.admin(), format!("Bearer {}", tollgate.admin_token()));
    let (at, host) = (Field { address, on: Listener::Admin, force: 1 }, address.to_string());
    let fields = [("authorization", token.as_str())];
    ask_all(&at, (CONNECTIONS, REQUESTS), 1, |stream| get_at(&host, stream, path, &fields))
}

/// Asks once on each connection. All of them must be closed, although they answer when asked whether they are there.
fn stalled(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let opening = Frames::opening(&[(INITIAL_WINDOW_SIZE, 0)]).0;
    let bytes = [opening, get(1, "/healthz", &[]).0].concat();
    let raws: Vec<Raw> = (0..STALLED * at.force).map(|_| Raw::sending(at.address, &bytes)).collect();
    let waiting: Vec<_> = raws.into_iter().map(|raw| thread::spawn(|| pong_until_closed(raw))).collect();
    for thread in waiting {
        let seen = thread.join().unwrap_or(Seen::Silent);
        tally.see("a connection", &seen, Want::Closed);
    }
    tally
}

fn pong_until_closed(mut raw: Raw) -> Seen {
    let mut pings = 0;
    while pings < PINGS_MAX {
        match raw.frame() {
            Ok(frame) if frame.kind == PING && frame.flags & ACK == 0 => {
                pings += 1;
                raw.send_frames(&Frames::none().add(PING, ACK, 0, &frame.payload));
            }
            Ok(_) => {}
            Err(seen) => return seen,
        }
    }
    Seen::Silent
}
