//! What needs no protocol: many connections, short ones, broken ones, nonsense, and the wrong protocol at every door.

use super::raw::Raw;
use super::seen::{Seen, Tally, Want};
use super::{Attack, Field, Listener, frames, http1, quick, resp};

/// Connections of one attack, times its force.
const CHURN: usize = 2_000;
/// Random bytes of one connection.
const NONSENSE_BYTES: usize = 4 << 10;

const ALL: [Listener; 4] = [Listener::Http, Listener::Grpc, Listener::Resp, Listener::Admin];

/// The first bytes of somebody who wants TLS.
const TLS_HELLO: &[u8] =
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03hello, is anybody there who speaks TLS?\r\n\r\n";

pub(super) fn attacks() -> Vec<Attack> {
    let all = |name, expected, act| ALL.map(|on| quick(on, name, expected, act));
    [
        all("2,000 connections, closed or reset at once", "nothing left", churn),
        all("nonsense", "an error, or closed", nonsense),
        all("the wrong protocol", "an error, or closed", wrong_protocol),
    ]
    .concat()
}

fn churn(at: &Field) -> Tally {
    let mut tally = Tally::default();
    for turn in 0..CHURN * at.force {
        let mut raw = Raw::connect(at.address);
        if turn % 3 == 1 {
            raw.send(beginning(at.on));
        }
        match turn % 2 {
            0 => drop(raw),
            _ => raw.reset(),
        }
    }
    tally.note("connections", (CHURN * at.force) as u64);
    tally
}

/// How a client of this listener begins.
fn beginning(on: Listener) -> &'static [u8] {
    match on {
        Listener::Http | Listener::Admin => b"GET /healthz HTT",
        Listener::Grpc => frames::PREFACE,
        Listener::Resp => b"*2\r\n$4\r\nEC",
    }
}

fn nonsense(at: &Field) -> Tally {
    let mut tally = Tally::default();
    for seed in 1..=50 * at.force as u64 {
        let bytes: Vec<u8> = noise(seed).take(NONSENSE_BYTES).collect();
        let mut raw = Raw::sending(at.address, &bytes);
        raw.finish();
        let seen = first(at.on, &mut raw);
        tally.see(&format!("seed {seed}"), &seen, Want::Refused);
        if at.on == Listener::Http && seed % 2 == 0 {
            let body: Vec<u8> = noise(seed).take(500).collect();
            tally.see("a body", &Raw::sending(at.address, &http1::post(&body)).http(), Want::Told("400"));
        }
    }
    tally
}

/// Bytes that mean nothing, the same ones for the same seed.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
}

fn wrong_protocol(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let request = http1::post(http1::QUESTION);
    let command = resp::command(&[b"PING"]);
    let hello = [frames::PREFACE, b"\0\0\0\x04\0\0\0\0\0"].concat();
    let mut cases = vec![("TLS", TLS_HELLO)];
    match at.on {
        Listener::Http | Listener::Admin => {
            cases.extend([("RESP", command.as_slice()), ("a line", b"PING\r\n")]);
        }
        Listener::Grpc => cases.extend([("HTTP/1.1", request.as_slice()), ("RESP", &command)]),
        Listener::Resp => cases.extend([("HTTP/1.1", request.as_slice()), ("HTTP/2", &hello)]),
    }
    for (what, bytes) in cases {
        let mut raw = Raw::sending(at.address, bytes);
        raw.finish();
        tally.see(what, &first(at.on, &mut raw), Want::Refused);
    }
    tally
}

/// What comes first, in the listener's own protocol.
fn first(on: Listener, raw: &mut Raw) -> Seen {
    match on {
        Listener::Http | Listener::Admin => raw.http(),
        Listener::Grpc => raw.http2_end(),
        Listener::Resp => raw.resp(),
    }
}
