//! Many connections that each send most of the longest request there is, and keep its end to themselves: each is within its bounds, and
//! all together would take a gigabyte.

use super::raw::Raw;
use super::seen::{Seen, Tally, Want};
use super::{Attack, Field, Listener, http1, quick};

/// Connections of one attack, times its force.
const CONNECTIONS: usize = 1_000;
/// What each sends: nearly as much as a request may have.
const LONG_BYTES: usize = 1_000_000;
/// What a listener gives to long requests (64 MiB), what its connections hold besides, and what the allocator adds to both: the first
/// alone may well become twice as much.
const PEAK_BYTES_MAX: u64 = 256 << 20;

pub(super) fn attacks() -> Vec<Attack> {
    let costly = |attack: Attack| attack.costing(PEAK_BYTES_MAX);
    vec![
        costly(quick(
            Listener::Resp,
            "1,000 commands of 1 MB, half-sent",
            "some wait, most refused",
            commands,
        )),
        costly(quick(Listener::Http, "1,000 bodies of 1 MB, half-sent", "some wait, most refused", bodies)),
    ]
}

fn commands(at: &Field) -> Tally {
    let end = b"the end\r\n";
    let length = LONG_BYTES + end.len() - b"\r\n".len();
    let beginning = format!("*2\r\n$4\r\nECHO\r\n${length}\r\n");
    hoard(at, beginning.as_bytes(), end, Raw::resp)
}

fn bodies(at: &Field) -> Tally {
    let length = LONG_BYTES + http1::QUESTION.len();
    let beginning = format!("POST /v1/check HTTP/1.1\r\nhost: hostile\r\ncontent-length: {length}\r\n\r\n");
    hoard(at, beginning.as_bytes(), http1::QUESTION, Raw::http)
}

/// Sends everything but the end on all connections, then the end: those for which there was room are answered.
fn hoard(at: &Field, beginning: &[u8], end: &[u8], first: fn(&mut Raw) -> Seen) -> Tally {
    let begun = [beginning, &vec![b' '; LONG_BYTES]].concat();
    let raws: Vec<Raw> = (0..CONNECTIONS * at.force).map(|_| Raw::sending(at.address, &begun)).collect();
    let (mut tally, mut answered) = (Tally::default(), 0);
    for mut raw in raws {
        raw.send(end);
        let seen = first(&mut raw);
        answered += usize::from(matches!(seen, Seen::Answer(_)));
        // A reset may overtake the refusal where not all was read.
        tally.see("a connection", &seen, Want::Spoken);
    }
    if answered == 0 || answered == CONNECTIONS * at.force {
        tally.blame(format!("{answered} were answered"));
    }
    tally
}
