//! Questions that have arrived together, decided in one go.

use bytes::Bytes;
use h2::server::SendResponse;

use super::reply::{self, Replies};
use super::walk::Room;
use super::write::Writer;
use super::{Refusal, message_of};
use crate::gate::Gate;
use crate::metrics::Protocol;

/// So many questions are decided before the answers to them are sent.
const CALLS_MAX: usize = 64;

/// A question that is to be answered by tonic, and who asks.
pub(super) type Unusual = (Bytes, SendResponse<Bytes>);

/// Questions with all that it takes to answer them. The memory is used again for the next ones.
#[derive(Default)]
pub(super) struct Batch {
    /// What was sent: whole bodies.
    bodies: Vec<Bytes>,
    callers: Vec<SendResponse<Bytes>>,
    /// Whose question the request of an index is.
    asking: Vec<usize>,
    room: Room,
    writer: Writer,
    replies: Replies,
}

impl Batch {
    /// Adds a question.
    pub(super) fn push(&mut self, body: Bytes, caller: SendResponse<Bytes>) {
        self.bodies.push(body);
        self.callers.push(caller);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bodies.is_empty()
    }

    /// Whether what is there is to be answered first.
    pub(super) fn is_full(&self) -> bool {
        self.bodies.len() >= CALLS_MAX
    }

    /// Answers all questions, but for the unusual ones: those are handed on.
    pub(super) fn answer(&mut self, gate: &Gate, mut hand_on: impl FnMut(Unusual)) {
        let Batch { bodies, callers, asking, room, writer, replies } = self;
        let settings = gate.settings();
        let mut questions = room.questions();
        for (at, body) in bodies.iter().enumerate() {
            // Metadata repeats the message, so it takes one.
            if !settings.rls_dynamic_metadata && message_of(body).is_some_and(|sent| questions.read(sent)) {
                asking.push(at);
            }
        }
        room.ask(questions, |requests| {
            gate.decide_batch(requests, Protocol::Rls, |index, answer| {
                let Some(caller) = asking.get(index).and_then(|&at| callers.get_mut(at)) else { return };
                match answer {
                    Ok(verdict) => replies.send(caller, writer.answer(verdict, settings)),
                    Err(error) => reply::refuse(caller, Refusal::from(error.clone()).into()),
                }
            });
        });
        let mut answered = asking.drain(..).peekable();
        for (at, (body, caller)) in bodies.drain(..).zip(callers.drain(..)).enumerate() {
            if answered.next_if_eq(&at).is_none() {
                hand_on((body, caller));
            }
        }
    }
}
