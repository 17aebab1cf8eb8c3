//! What a client sends on a connection of HTTP/2, in pieces of any length: it is understood as if it had come at once, and what h2 is
//! passed of it is right, whatever it is.

use std::sync::Arc;

use tollgate_http2::frame::{HEADER_BYTES, Head, flag, kind};
use tollgate_http2::hpack::{Decoder, Fields};

use super::super::account::Account;
use super::super::batch::Batch;
use super::super::front::{Front, HEADER_BYTES_MAX, Taken, Violation};
use crate::access::{Attempts, TEST_CLIENT};
use crate::fuzzing::pieces::Lengths;
use crate::fuzzing::with_gate;
use crate::room::Room;
use crate::stream::PREFACE;

/// What h2 has at most to be passed: as much as it takes to stop reading, and one frame more, with all fields that it may name.
const INWARD_BYTES_MAX: usize = (64 << 10) + 2 * HEADER_BYTES_MAX as usize;

/// The empty settings that a client sends first.
const SETTINGS: [u8; HEADER_BYTES] = [0, 0, 0, kind::SETTINGS, 0, 0, 0, 0, 0];

/// The first bytes say how long the pieces are, in turn: see [`Lengths`]. The others are what a client sends after its preface.
pub fn frames(bytes: &[u8]) {
    let Some((lengths, sent)) = bytes.split_first_chunk() else { return };
    assert_eq!(talk(sent, Lengths::new(*lengths)), talk(sent, Lengths::whole()), "pieces make a difference");
}

/// A frame, but for what depends on the time.
type Seen = (u8, u8, u32);

/// What became of a connection: what the client was told, what h2 was passed, and how it ended.
#[derive(Debug, Default, PartialEq)]
struct Talk {
    told: Vec<Seen>,
    passed: Vec<Seen>,
    ended: Option<Violation>,
}

fn talk(sent: &[u8], mut lengths: Lengths) -> Talk {
    with_gate(|gate| {
        let (account, attempts) = (
            Account::open(&Arc::new(Room::unbounded())).expect("no limits"),
            Arc::new(Attempts::new(TEST_CLIENT)),
        );
        let (mut front, mut batch, mut talk) =
            (Front::new(Arc::clone(gate), attempts, account), Batch::default(), Talk::default());
        let (mut kept, mut unsent) = ([PREFACE.as_slice(), &SETTINGS].concat(), sent);
        let mut has_more = true;
        while has_more || !unsent.is_empty() {
            if !has_more {
                let (piece, rest) = unsent.split_at(lengths.next().min(unsent.len()));
                kept.extend_from_slice(piece);
                unsent = rest;
            }
            let taken = front.take(&kept, &mut batch);
            batch.answer(gate, &kept, front.outward());
            assert!(front.inward().len() <= INWARD_BYTES_MAX, "{} bytes for h2", front.inward().len());
            see(front.outward().bytes(), &mut talk.told);
            front.outward().clear();
            let inward = std::mem::take(front.inward());
            see(inward.strip_prefix(PREFACE).unwrap_or(&inward), &mut talk.passed);
            match taken {
                Ok(Taken { bytes, has_more: more }) => {
                    kept.drain(..bytes);
                    has_more = more;
                }
                Err(violation) => {
                    talk.ended = Some(violation);
                    break;
                }
            }
        }
        check_passed(&talk.passed);
        talk
    })
}

/// Whole frames, whose header blocks build on nothing that came before.
fn see(mut bytes: &[u8], seen: &mut Vec<Seen>) {
    let mut block = Vec::new();
    while let Some(head) = Head::read(bytes) {
        let (frame, rest) =
            bytes.split_at_checked(HEADER_BYTES + head.length as usize).expect("a whole frame");
        if matches!(head.kind, kind::HEADERS | kind::CONTINUATION) {
            block.extend_from_slice(&frame[HEADER_BYTES..]);
            if head.has(flag::END_HEADERS) {
                let mut fields = Fields::new(usize::MAX);
                Decoder::new(0).decode(&block, &mut fields).expect("a block that stands for itself");
                block.clear();
            }
        }
        seen.push((head.kind, head.flags, head.stream));
        bytes = rest;
    }
    assert!(bytes.is_empty() && block.is_empty(), "whole frames and blocks");
}

/// Streams are opened in their order, and nothing is passed of those that were not.
fn check_passed(passed: &[Seen]) {
    let mut last = 0;
    for &(kind, _, stream) in passed {
        match kind {
            kind::HEADERS => last = last.max(stream),
            kind::DATA | kind::RST_STREAM | kind::WINDOW_UPDATE => {
                assert!(stream <= last, "{kind} in stream {stream}, which is not open");
            }
            _ => {}
        }
    }
    let opened: Vec<u32> = passed.iter().filter(|seen| seen.0 == kind::HEADERS).map(|seen| seen.2).collect();
    for (at, stream) in opened.iter().enumerate() {
        let is_first = !opened[..at].contains(stream);
        assert!(!is_first || opened[..at].iter().all(|before| before < stream), "{opened:?}");
    }
}
