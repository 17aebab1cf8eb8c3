//! Clients that take their time: silent ones, slow ones, ones that never listen. The server has to lose its patience, and until then
//! nobody else may notice.

use std::time::Duration;

use super::super::wait::{holds_within, pause_for};
use super::floods::fields;
use super::frames::{DATA, END_HEADERS, Frames};
use super::raw::{Raw, Sent};
use super::seen::{Seen, Tally, Want};
use super::{Attack, Field, Listener, http1, patient, resp};

/// Connections of one attack, times its force.
const CONNECTIONS: usize = 50;
/// How slow a slow client is: one byte each.
const SLOW: Duration = Duration::from_secs(1);
/// After so many bytes the server should have lost its patience.
const SLOW_BYTES_MAX: usize = 30;
/// Longer than any time-out of the server.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) fn attacks() -> Vec<Attack> {
    use Listener::{Admin, Grpc, Http, Resp};
    vec![
        patient(Http, "silent from the start", "closed", silent),
        patient(Http, "silent after an answer", "closed", silent_after_answer),
        patient(Http, "half a head, then silence", "closed", half_a_head),
        patient(Http, "a head, a byte a second", "closed", slow_head),
        patient(Http, "a body, a byte a second", "408", slow_body),
        patient(Http, "HTTP/2, silent from the start", "closed", silent_http2),
        patient(Http, "HTTP/2, a body, a byte a second", "an error", slow_http2_body),
        patient(Http, "never reads its answers", "closed", never_reads),
        patient(Admin, "silent after an answer", "closed", silent_after_answer),
        patient(Admin, "never reads its answers", "closed", never_reads),
        patient(Grpc, "silent from the start", "closed", silent),
        patient(Grpc, "HTTP/2, silent from the start", "closed", silent_http2),
        patient(Grpc, "HTTP/2, a body, a byte a second", "an error", slow_http2_body),
        patient(Resp, "half a command, then silence", "closed", half_a_command),
        patient(Resp, "a command, a byte a second", "closed", slow_command),
        patient(Resp, "never reads its answers", "closed", never_reads),
    ]
}

fn crowd(at: &Field, bytes: &[u8]) -> Vec<Raw> {
    (0..CONNECTIONS * at.force).map(|_| Raw::sending(at.address, bytes)).collect()
}

/// Waits for the end of each.
fn ends(mut raws: Vec<Raw>, want: Want) -> Tally {
    let mut tally = Tally::default();
    for raw in &mut raws {
        let seen = raw.until_closed().0;
        tally.see("a connection", &seen, want);
        if seen == Seen::Silent {
            break; // The others would only be waited for as long.
        }
    }
    tally
}

fn silent(at: &Field) -> Tally {
    ends(crowd(at, b""), Want::Closed)
}

fn silent_http2(at: &Field) -> Tally {
    ends(crowd(at, &Frames::opening(&[]).0), Want::Closed)
}

fn half_a_head(at: &Field) -> Tally {
    ends(crowd(at, b"POST /v1/check HTTP/1.1\r\nhost: hos"), Want::Closed)
}

fn half_a_command(at: &Field) -> Tally {
    ends(crowd(at, b"*2\r\n$4\r\nECHO\r\n$100\r\nhalf"), Want::Closed)
}

fn silent_after_answer(at: &Field) -> Tally {
    ends(crowd(at, b"GET /healthz HTTP/1.1\r\nhost: hostile\r\n\r\n"), Want::Closed)
}

/// Sends each of them a byte a second, until all have had enough.
fn slowly(raws: &mut [Raw], part: &[u8]) {
    for _ in 0..SLOW_BYTES_MAX {
        let going = raws.iter_mut().filter_map(|raw| (raw.send(part) == Sent::All).then_some(())).count();
        if going == 0 {
            return;
        }
        pause_for(SLOW);
    }
}

fn slow_head(at: &Field) -> Tally {
    let mut raws = crowd(at, b"POST /v1/check HTTP/1.1\r\nhost: hostile\r\nx: ");
    slowly(&mut raws, b"s");
    ends(raws, Want::Closed)
}

fn slow_body(at: &Field) -> Tally {
    let mut raws = crowd(at, b"POST /v1/check HTTP/1.1\r\nhost: hostile\r\ncontent-length: 1000\r\n\r\n{");
    slowly(&mut raws, b" ");
    let mut tally = Tally::default();
    for raw in &mut raws {
        // Bytes that came too late may make a reset of the end, which overtakes the answer.
        tally.see("a connection", &raw.http(), Want::Refused);
    }
    tally
}

fn slow_http2_body(at: &Field) -> Tally {
    let opening = Frames::opening(&[]).headers(1, END_HEADERS, &fields(at)).add(DATA, 0, 1, &[0, 0, 0, 1, 0]);
    let mut raws = crowd(at, &opening.0);
    slowly(&mut raws, &Frames::none().add(DATA, 0, 1, b" ").0);
    let mut tally = Tally::default();
    for raw in &mut raws {
        let seen = raw.http2(1);
        tally.see("a stream", &seen, Want::Refused);
        if seen == Seen::Silent {
            break;
        }
    }
    tally
}

fn slow_command(at: &Field) -> Tally {
    let mut raws = crowd(at, b"*2\r\n$4\r\nECHO\r\n$1000\r\n");
    slowly(&mut raws, b"s");
    ends(raws, Want::Closed)
}

/// Asks until nothing goes any more, and never reads. The server must not wait for ever to be rid of its answers.
fn never_reads(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let questions = match at.on {
        Listener::Resp => resp::command(&[b"ECHO", &[b'e'; 200]]).repeat(100),
        Listener::Admin => b"GET /metrics HTTP/1.1\r\nhost: hostile\r\n\r\n".repeat(100),
        _ => http1::post(http1::QUESTION).repeat(100),
    };
    let mut raws: Vec<Raw> = (0..4).map(|_| Raw::connect(at.address)).collect();
    for raw in &mut raws {
        raw.flood(&questions, 10_000);
    }
    holds_within(PATIENCE, || raws.iter_mut().all(|raw| raw.is_broken(&questions)));
    for raw in &mut raws {
        let seen = if raw.is_broken(&questions) { Seen::Closed } else { Seen::Silent };
        tally.see("a connection", &seen, Want::Closed);
    }
    tally
}
