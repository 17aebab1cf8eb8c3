//! RESP: commands that are cut short, announce too much, nest, or do not stop to listen.

use super::raw::Raw;
use super::seen::{Seen, Tally, Want};
use super::{Attack, Field, Listener, quick};

/// Longer than any command may be.
const TOO_LONG_BYTES: usize = 2 << 20;
/// Deeper than any stack would follow.
const NESTED: usize = 100_000;
/// So many commands are sent without reading one answer: far more than all buffers between can hold.
const PIPELINED: usize = 400_000;

pub(super) fn attacks() -> Vec<Attack> {
    const RESP: Listener = Listener::Resp;
    vec![
        quick(RESP, "a command, cut at every byte", "no answer", cut),
        quick(RESP, "lengths beyond all bounds", "an error, then closed", lengths),
        quick(RESP, "a line without an end", "an error, then closed", endless_line),
        quick(RESP, "arrays nested 100,000 deep", "an error, then closed", nested),
        quick(RESP, "bulks that do not end where they say", "an error, then closed", bad_ends),
        quick(RESP, "costs beyond u64, NaN, floats", "an error", wrong_costs),
        quick(RESP, "costs at the edges of u64", "an answer", edge_costs),
        quick(RESP, "bytes that are no text", "an error or an answer", not_text),
        quick(RESP, "a pipeline without reading", "held back", pipeline),
        quick(RESP, "a long pipeline, then half-closed", "all answers", half_closed),
    ]
}

/// A command as clients send it.
pub(super) fn command(arguments: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend(*argument);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// An error, and nothing more.
fn broken(at: &Field, tally: &mut Tally, what: &str, bytes: &[u8]) {
    let mut raw = Raw::sending(at.address, bytes);
    let seen = raw.resp();
    // A reset may overtake the error where not all was read.
    let want = if bytes.len() < 64 << 10 { Want::Told("-ERR Protocol error") } else { Want::Refused };
    tally.see(what, &seen, want);
    if seen != Seen::Closed {
        raw.finish();
        tally.see("the end", &raw.until_closed().0, Want::Closed);
    }
}

fn cut(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let whole = command(&[b"TG.CHECK", b"plenty", b"cut", b"1"]);
    for length in 0..whole.len() {
        let mut raw = Raw::sending(at.address, &whole[..length]);
        raw.finish();
        tally.see(&format!("cut at {length}"), &raw.resp(), Want::Closed);
    }
    tally.see("whole", &Raw::sending(at.address, &whole).resp(), Want::Answered);
    tally
}

fn lengths(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let cases: [&[u8]; 10] = [
        b"*2147483647\r\n",
        b"*9223372036854775807\r\n",
        b"*18446744073709551616\r\n",
        b"*1025\r\n",
        b"*1\r\n$536870912\r\n",
        b"*1\r\n$9223372036854775807\r\n",
        b"*1\r\n$18446744073709551615\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$1048577\r\n",
        b"*00000000000000000000000000000000000000001\r\n",
    ];
    for bytes in cases {
        broken(at, &mut tally, &String::from_utf8_lossy(bytes), bytes);
    }
    tally
}

fn endless_line(at: &Field) -> Tally {
    let mut tally = Tally::default();
    for _ in 0..at.force {
        broken(at, &mut tally, "a line", &vec![b'a'; TOO_LONG_BYTES]);
        let bulk = [b"*2\r\n$1048000\r\n".as_slice(), &vec![b'a'; TOO_LONG_BYTES]].concat();
        broken(at, &mut tally, "a bulk", &bulk);
    }
    tally
}

fn nested(at: &Field) -> Tally {
    let mut tally = Tally::default();
    broken(at, &mut tally, "arrays", &b"*1\r\n".repeat(NESTED));
    broken(at, &mut tally, "a map", b"*1\r\n%1\r\n+a\r\n+b\r\n");
    tally
}

fn bad_ends(at: &Field) -> Tally {
    let mut tally = Tally::default();
    for bytes in
        [b"*1\r\n$4\r\nPINGxx\r\n".as_slice(), b"*1\r\n$3\r\nPING\r\n", b"*1\r\n:1\r\n", b"\"PING\r\n"]
    {
        broken(at, &mut tally, &String::from_utf8_lossy(bytes), bytes);
    }
    tally
}

fn cost(at: &Field, cost: &[u8]) -> Seen {
    Raw::sending(at.address, &command(&[b"TG.CHECK", b"two-an-hour", b"costs", cost])).resp()
}

fn wrong_costs(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let costs: [&[u8]; 10] =
        [b"18446744073709551616", b"-1", b"1.5", b"1e3", b"NaN", b"nan", b"inf", b"", b" 1", b"\xff"];
    for text in costs {
        tally.see(&String::from_utf8_lossy(text), &cost(at, text), Want::Told("-ERR"));
    }
    let throttle: [[&[u8]; 4]; 5] = [
        [b"18446744073709551616", b"1", b"1", b"1"],
        [b"1", b"-1", b"1", b"1"],
        [b"1", b"1", b"0", b"1"],
        [b"1", b"1", b"NaN", b"1"],
        [b"1", b"1", b"1", b"1.5"],
    ];
    for [burst, count, period, quantity] in throttle {
        let bytes = command(&[b"CL.THROTTLE", b"costs", burst, count, period, quantity]);
        tally.see("CL.THROTTLE", &Raw::sending(at.address, &bytes).resp(), Want::Told("-ERR"));
    }
    tally
}

fn edge_costs(at: &Field) -> Tally {
    let mut tally = Tally::default();
    for text in [b"18446744073709551615".as_slice(), b"9223372036854775808", b"0", b"18446744073709551615"] {
        tally.see(&String::from_utf8_lossy(text), &cost(at, text), Want::Answered);
    }
    let most = b"9223372036854775807".as_slice();
    for [burst, count, period, quantity] in
        [[most, most, b"1", most], [b"0", b"1", most, b"1"], [b"0", most, most, b"0"]]
    {
        let bytes = command(&[b"CL.THROTTLE", b"edges", burst, count, period, quantity]);
        tally.see("CL.THROTTLE", &Raw::sending(at.address, &bytes).resp(), Want::Spoken);
    }
    tally
}

fn not_text(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let key = command(&[b"TG.CHECK", b"plenty", b"\xff\x00\xfe"]);
    tally.see("a key", &Raw::sending(at.address, &key).resp(), Want::Answered);
    for bytes in [command(&[b"TG.CHECK", b"\xff\xfe", b"x"]), command(&[b"\xff\x00"]), command(&[b""])] {
        tally.see("a name", &Raw::sending(at.address, &bytes).resp(), Want::Told("-ERR"));
    }
    tally
}

fn pipeline(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let commands = command(&[b"ECHO", &[b'e'; 200]]).repeat(100);
    let mut unread = Vec::new();
    for _ in 0..2 * at.force {
        let mut raw = Raw::connect(at.address);
        let sent = raw.flood(&commands, PIPELINED / 100);
        tally.see("a pipeline", &sent.into(), Want::HeldBack);
        unread.push(raw);
    }
    tally
}

fn half_closed(at: &Field) -> Tally {
    const COMMANDS: usize = 10_000;
    let mut tally = Tally::default();
    let mut raw = Raw::sending(at.address, &b"PING\r\n".repeat(COMMANDS));
    raw.finish();
    let (seen, bytes) = raw.until_closed();
    tally.see("the end", &seen, Want::Closed);
    if bytes != (COMMANDS * b"+PONG\r\n".len()) as u64 {
        tally.blame(format!("{bytes} bytes of answers"));
    }
    tally
}
