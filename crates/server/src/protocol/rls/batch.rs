//! Questions that have arrived together, decided in one go.

use std::ops::Range;
use std::sync::Arc;

use prost::Message;
use tonic::Status;

use super::front::Outward;
use super::walk::Room;
use super::wire::RateLimitRequest;
use super::write::Writer;
use super::{Refusal, encode, message_of};
use crate::access::Scope;
use crate::gate::Gate;
use crate::metrics::Protocol;

/// So many questions are decided before the answers to them are sent.
const CALLS_MAX: usize = 64;

/// A message with its prefix.
#[derive(Debug)]
pub(super) enum Body {
    /// It lies in what was just read.
    Read(Range<usize>),
    /// It came earlier than the end of its stream.
    Kept(Vec<u8>),
}

/// A question, and the stream that it came in.
struct Call {
    stream: u32,
    /// What the caller's token is bounded to, if it is.
    scope: Option<Arc<Scope>>,
    body: Body,
}

/// Questions with all that it takes to answer them. The memory is used again for the next ones.
#[derive(Default)]
pub(super) struct Batch {
    calls: Vec<Call>,
    /// Whose question the request of an index is.
    asking: Vec<usize>,
    room: Room,
    writer: Writer,
}

impl Batch {
    /// Adds a question that came in a stream.
    pub(super) fn push(&mut self, stream: u32, scope: Option<Arc<Scope>>, body: Body) {
        self.calls.push(Call { stream, scope, body });
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether what is there is to be answered first.
    pub(super) fn is_full(&self) -> bool {
        self.calls.len() >= CALLS_MAX
    }

    /// Answers all questions. `read` is what they were found in.
    pub(super) fn answer(&mut self, gate: &Gate, read: &[u8], outward: &mut Outward) {
        let Batch { calls, asking, room, writer } = self;
        let settings = gate.settings();
        let mut questions = room.questions();
        for (at, Call { scope, body, .. }) in calls.iter().enumerate() {
            // Metadata repeats the message, so it takes one. What a scope has to permit is decided one by one.
            if !settings.rls_dynamic_metadata && scope.is_none() && questions.read(body.message(read)) {
                asking.push(at);
            }
        }
        room.ask(questions, |requests| {
            gate.decide_batch(requests, Protocol::Rls, |index, answer| {
                let Some(Call { stream, .. }) = asking.get(index).and_then(|&at| calls.get(at)) else {
                    return;
                };
                match answer {
                    Ok(verdict) => send(outward, *stream, writer.answer(verdict, settings)),
                    Err(error) => refuse(outward, *stream, Refusal::from(error.clone()).into()),
                }
            });
        });
        let mut answered = asking.drain(..).peekable();
        for (at, Call { stream, scope, body }) in calls.drain(..).enumerate() {
            if answered.next_if_eq(&at).is_none() {
                match answer_unusual((gate, scope.as_deref()), body.message(read), writer) {
                    Ok(message) => send(outward, stream, message),
                    Err(status) => refuse(outward, stream, status),
                }
            }
        }
    }
}

impl Body {
    fn message<'a>(&'a self, read: &'a [u8]) -> &'a [u8] {
        let body = match self {
            Body::Read(lies) => read.get(lies.clone()).unwrap_or_default(),
            Body::Kept(body) => body,
        };
        message_of(body).unwrap_or_default()
    }
}

/// Answers a question by way of messages, as tonic does and in its words.
fn answer_unusual<'a>(
    (gate, scope): (&Gate, Option<&Scope>),
    sent: &[u8],
    writer: &'a mut Writer,
) -> Result<&'a [u8], Status> {
    super::check_bounds(gate, sent)?;
    let message = RateLimitRequest::decode(sent).map_err(|error| Status::internal(error.to_string()))?;
    // Nothing has to be waited for: where something may, no question comes this way.
    let (verdict, _) = super::begin((gate, scope), (&message, None), Protocol::Rls)?.conclude(&[]);
    let mut response = super::respond(gate, &message, &verdict);
    if !verdict.allowed() {
        encode::tell_denied(&mut response, &verdict);
    }
    Ok(writer.encoded(&response))
}

fn send(outward: &mut Outward, stream: u32, message: &[u8]) {
    if !outward.answer(stream, message) {
        let text = format!("the answer has {} bytes, and the client's window is less", message.len());
        refuse(outward, stream, Status::resource_exhausted(text));
    }
}

fn refuse(outward: &mut Outward, stream: u32, status: Status) {
    outward.refuse(stream, status.into_http::<()>().headers());
}
