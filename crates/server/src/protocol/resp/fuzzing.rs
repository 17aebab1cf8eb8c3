//! A RESP stream that arrives in pieces of any length: every command has one answer, the same as if it had all come at once.

#![allow(clippy::expect_used, clippy::panic)] // That is how a target says that it has found something.

mod answers;

use std::sync::Arc;

use super::connection;
use super::frame::{Parser, ProtocolError};
use crate::access::TEST_CLIENT;
use crate::drain::Stopper;
use crate::fuzzing::pieces::{Lengths, Pieces};
use crate::fuzzing::{block_on, with_gate};
use crate::room::Room;
use answers::{Answer, read_all};

/// The first bytes say how long the pieces are, in turn: see [`Lengths`]. The others are what a client sends.
pub fn resp(bytes: &[u8]) {
    let Some((lengths, stream)) = bytes.split_first_chunk() else { return };
    let heard = hear(stream, Lengths::whole());
    assert_eq!(heard, hear(stream, Lengths::new(*lengths)), "pieces make a difference");

    let answers = talk(stream, Lengths::whole());
    assert_eq!(answers.len(), heard.answers(), "{answers:?} to {heard:?}");
    assert_eq!(answers, talk(stream, Lengths::new(*lengths)), "pieces make a difference to {heard:?}");
}

/// What there is in a stream.
#[derive(Debug, PartialEq)]
struct Heard {
    commands: Vec<Vec<Vec<u8>>>,
    error: Option<ProtocolError>,
}

fn hear(stream: &[u8], mut lengths: Lengths) -> Heard {
    let mut heard = Heard { commands: Vec::new(), error: None };
    let (mut parser, mut start, mut end) = (Parser::default(), 0, 0);
    while end < stream.len() {
        end = end.saturating_add(lengths.next()).min(stream.len());
        loop {
            let input = &stream[start..end];
            match parser.parse(input) {
                Ok(Some(length)) => {
                    let arguments = parser.arguments(input);
                    heard.commands.push(arguments.from(0).map(<[u8]>::to_vec).collect());
                    start += length;
                }
                Ok(None) => break,
                Err(error) => return Heard { error: Some(error), ..heard },
            }
        }
    }
    heard
}

impl Heard {
    /// How many answers there must be: one for each command and one for an error, up to where the connection is closed.
    fn answers(&self) -> usize {
        let mut count = 0;
        for name in self.commands.iter().filter_map(|arguments| arguments.first()) {
            match name.to_ascii_lowercase().as_slice() {
                b"quit" => return count + 1,
                b"post" | b"host:" => return count, // A browser.
                _ => count += 1,
            }
        }
        count + usize::from(self.error.is_some())
    }
}

/// What a client is answered that sends this and nothing more.
fn talk(stream: &[u8], lengths: Lengths) -> Vec<Answer> {
    let (stopper, mut pieces) = (Stopper::new(), Pieces::new(stream, lengths));
    let room = Arc::new(Room::unbounded());
    with_gate(|gate| block_on(connection::run(&mut pieces, (gate, TEST_CLIENT), &room, stopper.drain())));
    read_all(pieces.written())
}
