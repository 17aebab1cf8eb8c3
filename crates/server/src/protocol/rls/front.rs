//! HTTP/2 up to the point where a question is a question: plain calls are taken out here, and all else is passed on to h2.
//!
//! What HTTP/2 may be is much more than what a proxy sends. A plain question is a header and a message in one piece; it is read where
//! it lies, and its answer is written as frames at once. Everything else (other methods, long messages, errors, pings, settings, whatever
//! is out of the ordinary) goes to h2 behind, which sees a connection of its own on which some streams are never opened. So the
//! rules of HTTP/2 are h2's, and what the two must share is kept here:
//!
//! - Header blocks build on each other, so all of them are read here. Of a call that is passed on, the fields that something behind
//!   reads are passed on, in a form that builds on nothing.
//! - What RFC 9113 forbids is refused here where h2 would take it, or would end a connection for what is the error of one stream.
//! - Streams are passed on in the order of their numbers. So a call that waits for its message is passed on before any later one is.
//! - Windows: see [`Outward`] for the client's, which answers spend. The server's own is given back by whoever takes the data.
//!
//! Nothing here reads or writes a socket.

mod headers;
mod outward;
mod passed;
mod request;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_http2::frame::{self, HEADER_BYTES, Head, PAYLOAD_BYTES_MAX, code, flag, kind};
use tollgate_http2::hpack::{Decoder, Fields};

use self::headers::Block;
pub(super) use self::outward::Outward;
use self::passed::{Call, Passed};
use super::account::{Account, STREAM_BYTES};
use super::batch::{Batch, Body};
use super::message_of;
use crate::access::{Attempts, Remembered, Scope};
use crate::gate::Gate;
use crate::stream::PREFACE;

/// All header fields of a request together.
pub(super) const HEADER_BYTES_MAX: u32 = 64 << 10;
/// What a client may send before it is read.
pub(super) const WINDOW_BYTES: u32 = 1 << 20;
/// What is left of it when more is granted.
const WINDOW_BYTES_LOW: u32 = WINDOW_BYTES / 2;
/// What encoders may remember, unless they are told otherwise; and h2 tells them nothing.
const TABLE_BYTES: usize = 4096;
/// A setting: its name and its value.
const SETTING_BYTES: u32 = 6;
/// What a PING carries.
const PING_BYTES: u32 = 8;
/// Calls that wait for their message. Each may have sent one frame of it.
const HELD_MAX: usize = 64;
/// When so much is to be passed on, nothing more is read.
const INWARD_BYTES_MAX: usize = 64 << 10;
/// Streams of h2's that are open. It allows a quarter of it, but resets those beyond only when it gets to see them.
const PASSED_MAX: usize = 4096;
/// Calls of a connection at a time that are none of `ShouldRateLimit`: health, reflection, methods that do not exist. A client that needs
/// more than a few means harm.
const OTHER_CALLS_MAX: usize = 16;
/// What a client may send in such a call.
const OTHER_BODY_BYTES_MAX: usize = super::SMALL_MESSAGE_BYTES_MAX + super::PREFIX_BYTES;
/// Calls that the client has reset before their message had come or the server because they were malformed, more than there were
/// answers. See `RESETS_UNSEEN_MAX` of h2's part.
const RESETS_MAX: usize = 128;

/// SETTINGS frames of a client within [`SETTINGS_INTERVAL`]: h2 goes through all open streams for each. Clients send one at first, and
/// those that estimate their bandwidth up to 20 more in all.
const SETTINGS_MAX: usize = 32;
const SETTINGS_INTERVAL: Duration = Duration::from_secs(1);

/// Why a connection cannot go on: a code of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation(pub(super) u32);

/// A call whose message is not there yet, or not its end.
#[derive(Debug)]
struct Held {
    stream: u32,
    /// What was shown to be let in, if anything had to be.
    token: Option<Box<[u8]>>,
    /// What that token is bounded to, if it is.
    scope: Option<Arc<Scope>>,
    /// The whole message. Empty, as long as it has not come.
    body: Vec<u8>,
    /// How much wider than others the client has made its window.
    widened_bytes: u32,
}

/// A frame, and where its payload lies in what was read.
#[derive(Clone, Copy)]
struct Frame<'a> {
    head: Head,
    /// With its head.
    whole: &'a [u8],
    payload: &'a [u8],
    payload_start: usize,
}

/// How much was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) bytes: usize,
    /// Whether there is more that can be taken as soon as the batch is answered and all is passed on.
    pub(super) has_more: bool,
}

/// How far a connection has been read, and what it has to say.
pub(super) struct Front {
    gate: Arc<Gate>,
    account: Account,
    attempts: Arc<Attempts>,
    /// The last token that was admitted.
    remembered: Remembered,
    has_greeted: bool,
    /// Whether the client has sent its settings, which come before anything else.
    has_settings: bool,
    decoder: Decoder,
    fields: Fields,
    block: Option<Block>,
    /// In the order of their streams.
    held: VecDeque<Held>,
    passed: Passed,
    last_stream: u32,
    /// From this stream to the last one, the client has left none out.
    gapless_from: u32,
    resets: usize,
    /// SETTINGS frames since a moment.
    settings: (usize, Instant),
    /// What the client has spent of the server's window and was not given back.
    unreturned_bytes: u32,
    /// For h2.
    inward: Vec<u8>,
    outward: Outward,
}

impl Front {
    pub(super) fn new(gate: Arc<Gate>, attempts: Arc<Attempts>, account: Account) -> Front {
        Front {
            gate,
            account,
            attempts,
            remembered: Remembered::default(),
            has_greeted: false,
            has_settings: false,
            decoder: Decoder::new(TABLE_BYTES),
            fields: Fields::new(HEADER_BYTES_MAX as usize),
            block: None,
            held: VecDeque::new(),
            passed: Passed::default(),
            last_stream: 0,
            gapless_from: 1,
            resets: 0,
            settings: (0, Instant::now()),
            unreturned_bytes: 0,
            inward: Vec::new(),
            outward: Outward::default(),
        }
    }

    /// What is to be passed on to h2.
    pub(super) fn inward(&mut self) -> &mut Vec<u8> {
        &mut self.inward
    }

    /// What is to be said to the client.
    pub(super) fn outward(&mut self) -> &mut Outward {
        &mut self.outward
    }

    /// Whether no more should be read before something was passed on.
    pub(super) fn is_full(&self) -> bool {
        self.inward.len() >= INWARD_BYTES_MAX
    }

    /// Whether calls wait for their messages.
    pub(super) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// What the buffers hold: what the client has not finished, and what it does not take.
    pub(super) fn buffer_bytes(&self) -> usize {
        self.stuck_bytes() + self.inward.capacity() + self.outward.sent_bytes()
    }

    /// What of that it is for the client to go on with: messages and header blocks without an end, and answers without a window.
    pub(super) fn stuck_bytes(&self) -> usize {
        let held_bytes: usize = self.held.iter().map(|held| held.body.capacity()).sum();
        let block_bytes = self.block.as_ref().map_or(0, Block::bytes);
        held_bytes + block_bytes + self.outward.waiting_buffer_bytes()
    }

    /// Takes the frames that are whole. Questions are put into the batch, by where they lie. Stops when the batch is full or much is to be
    /// passed on.
    pub(super) fn take(&mut self, read: &[u8], batch: &mut Batch) -> Result<Taken, Violation> {
        let mut bytes = 0;
        if !self.has_greeted {
            let Some(preface) = read.get(..PREFACE.len()) else {
                return Ok(Taken { bytes, has_more: false });
            };
            self.inward.extend_from_slice(preface);
            (self.has_greeted, bytes) = (true, PREFACE.len());
        }
        while let Some(head) = read.get(bytes..).and_then(Head::read) {
            let length = usize::try_from(head.length).unwrap_or(usize::MAX);
            if length > PAYLOAD_BYTES_MAX {
                return Err(Violation(code::FRAME_SIZE_ERROR));
            }
            let (payload_start, end) = (bytes + HEADER_BYTES, bytes + HEADER_BYTES + length);
            let (Some(whole), Some(payload)) = (read.get(bytes..end), read.get(payload_start..end)) else {
                break;
            };
            // Settings change what the answers to all later questions must heed, and to no earlier one.
            let is_turn = head.kind == kind::SETTINGS && !batch.is_empty();
            if is_turn || batch.is_full() || self.is_full() {
                return Ok(Taken { bytes, has_more: true });
            }
            self.take_frame(Frame { head, whole, payload, payload_start }, batch)?;
            bytes = end;
        }
        Ok(Taken { bytes, has_more: false })
    }

    /// Passes on all calls that wait for their messages.
    pub(super) fn release(&mut self) {
        self.pass_held(u32::MAX);
    }

    /// Takes what h2 has to say.
    pub(super) fn relay(&mut self, said: &[u8]) {
        let open = self.passed.len();
        self.outward.relay(said, &mut self.passed, self.last_stream);
        self.has_answered(open.saturating_sub(self.passed.len()));
        self.settle();
    }

    /// Says why the connection ends.
    pub(super) fn end(&mut self, violation: Violation) {
        self.outward.end(self.last_stream, violation.0);
    }

    /// Counts questions that have been answered.
    pub(super) fn has_answered(&mut self, count: usize) {
        self.resets = self.resets.saturating_sub(count);
    }

    fn take_frame(&mut self, frame: Frame<'_>, batch: &mut Batch) -> Result<(), Violation> {
        let Head { kind, .. } = frame.head;
        if !self.has_settings {
            self.has_settings = kind == kind::SETTINGS && !frame.head.has(flag::ACK);
            if !self.has_settings {
                return Err(Violation(code::PROTOCOL_ERROR));
            }
        }
        if self.block.is_some() || kind == kind::CONTINUATION {
            return self.take_continuation(frame);
        }
        match kind {
            kind::HEADERS => self.take_headers(frame),
            kind::DATA => self.take_data(frame, batch),
            kind::RST_STREAM => self.take_reset(frame),
            kind::WINDOW_UPDATE => self.take_window_update(frame),
            kind::PRIORITY | kind::GOAWAY => self.take_ignored(frame),
            kind::PUSH_PROMISE => Err(Violation(code::PROTOCOL_ERROR)),
            kind::SETTINGS => self.take_settings(frame),
            kind::PING => self.take_ping(frame),
            // Extensions, which nothing here knows.
            _ => Ok(()),
        }
    }

    fn take_settings(&mut self, frame: Frame<'_>) -> Result<(), Violation> {
        let Head { stream, length, .. } = frame.head;
        if stream != 0 {
            return Err(Violation(code::PROTOCOL_ERROR));
        }
        if !length.is_multiple_of(SETTING_BYTES) || (frame.head.has(flag::ACK) && length > 0) {
            return Err(Violation(code::FRAME_SIZE_ERROR));
        }
        self.count_settings()?;
        self.outward.hear_settings(frame.head, frame.payload);
        // h2 sees to the windows of the streams that it knows.
        let is_too_wide = |held: &Held| !self.outward.has_window_for(held.widened_bytes);
        if !self.outward.has_window_for(0) || self.held.iter().any(is_too_wide) {
            return Err(Violation(code::FLOW_CONTROL_ERROR));
        }
        self.pass(frame.whole);
        Ok(())
    }

    fn count_settings(&mut self) -> Result<(), Violation> {
        let (count, since) = &mut self.settings;
        if since.elapsed() >= SETTINGS_INTERVAL {
            (*count, *since) = (0, Instant::now());
        }
        *count += 1;
        if *count > SETTINGS_MAX { Err(Violation(code::ENHANCE_YOUR_CALM)) } else { Ok(()) }
    }

    fn take_ping(&mut self, frame: Frame<'_>) -> Result<(), Violation> {
        match frame.head {
            Head { stream: 1.., .. } => Err(Violation(code::PROTOCOL_ERROR)),
            Head { length: PING_BYTES, .. } => {
                self.pass(frame.whole);
                Ok(())
            }
            _ => Err(Violation(code::FRAME_SIZE_ERROR)),
        }
    }

    /// Takes a frame that changes nothing here: priorities are not in use any more, and that a client goes is for h2 to know.
    fn take_ignored(&mut self, frame: Frame<'_>) -> Result<(), Violation> {
        let Head { kind, stream, length, .. } = frame.head;
        let is_priority = kind == kind::PRIORITY;
        if is_priority == (stream == 0) {
            return Err(Violation(code::PROTOCOL_ERROR));
        }
        match (is_priority, length) {
            (true, 5) => Ok(()),
            (false, 8..) => {
                self.pass(frame.whole);
                Ok(())
            }
            _ => Err(Violation(code::FRAME_SIZE_ERROR)),
        }
    }

    fn take_data(&mut self, frame: Frame<'_>, batch: &mut Batch) -> Result<(), Violation> {
        let Head { stream, length, .. } = frame.head;
        if frame.head.has(flag::PADDED) {
            frame::unpadded(frame.head, frame.payload).map_err(Violation)?;
        }
        if let Ok(at) = self.held.binary_search_by_key(&stream, |held| held.stream) {
            if self.take_message(at, frame, batch) {
                return Ok(());
            }
            self.pass_held(stream);
        }
        if let Some(call) = self.passed.get_mut(stream) {
            if call.has_client_ended {
                return Err(Violation(code::STREAM_CLOSED));
            }
            // The task that waits for the message of a question counts it.
            if !call.is_question && !call.has_room_for(length as usize, OTHER_BODY_BYTES_MAX) {
                self.give_back(length);
                return self.reject_passed(stream);
            }
            self.passed.hear(stream, frame.head.has(flag::END_STREAM));
            self.pass(frame.whole);
            return Ok(());
        }
        if stream == 0 || stream > self.last_stream {
            return Err(Violation(code::PROTOCOL_ERROR));
        }
        self.give_back(length);
        Ok(())
    }

    /// Takes data of a call that waits for it. False if it is not such that it can be taken here.
    fn take_message(&mut self, at: usize, frame: Frame<'_>, batch: &mut Batch) -> bool {
        let Frame { head, payload, payload_start, .. } = frame;
        let is_plain = !head.has(flag::PADDED) && self.outward.has_room();
        let Some(held) = self.held.get_mut(at).filter(|_| is_plain) else { return false };
        let is_end = head.has(flag::END_STREAM);
        if held.body.is_empty() {
            if message_of(payload).is_none() {
                return false;
            }
            if !is_end {
                held.body.extend_from_slice(payload);
                return true;
            }
        } else if !(is_end && payload.is_empty()) {
            return false;
        }
        let (body, scope) = (std::mem::take(&mut held.body), held.scope.take());
        let bytes = body.len() + payload.len();
        let lies = payload_start..payload_start + payload.len();
        batch.push(head.stream, scope, if body.is_empty() { Body::Read(lies) } else { Body::Kept(body) });
        self.held.remove(at);
        self.give_back(u32::try_from(bytes).unwrap_or(u32::MAX));
        true
    }

    fn take_reset(&mut self, frame: Frame<'_>) -> Result<(), Violation> {
        let Head { stream, length, .. } = frame.head;
        if length != 4 {
            return Err(Violation(code::FRAME_SIZE_ERROR));
        }
        if let Ok(at) = self.held.binary_search_by_key(&stream, |held| held.stream) {
            let bytes = self.held.remove(at).map_or(0, |held| held.body.len());
            self.give_back(u32::try_from(bytes).unwrap_or(u32::MAX));
            return self.count_reset();
        }
        if self.passed.end(stream) {
            self.pass(frame.whole);
        } else if stream == 0 || stream > self.last_stream {
            return Err(Violation(code::PROTOCOL_ERROR));
        }
        Ok(())
    }

    fn take_window_update(&mut self, frame: Frame<'_>) -> Result<(), Violation> {
        let Head { stream, .. } = frame.head;
        let Ok(bytes) = <[u8; 4]>::try_from(frame.payload) else {
            return Err(Violation(code::FRAME_SIZE_ERROR));
        };
        let bytes = u32::from_be_bytes(bytes) << 1 >> 1;
        if stream == 0 {
            if bytes == 0 {
                return Err(Violation(code::PROTOCOL_ERROR));
            }
            if !self.outward.widen(bytes) {
                return Err(Violation(code::FLOW_CONTROL_ERROR));
            }
            self.settle();
        } else if let Ok(at) = self.held.binary_search_by_key(&stream, |held| held.stream) {
            return self.widen_held(at, bytes);
        } else if self.passed.get_mut(stream).is_some() {
            if bytes == 0 {
                return self.reject_passed(stream);
            }
            self.pass(frame.whole);
        } else if stream > self.last_stream {
            return Err(Violation(code::PROTOCOL_ERROR));
        }
        Ok(())
    }

    /// A call that waits has room enough for an answer from here. h2 is told, should it have to answer.
    fn widen_held(&mut self, at: usize, bytes: u32) -> Result<(), Violation> {
        let Some(held) = self.held.get_mut(at) else { return Ok(()) };
        held.widened_bytes = held.widened_bytes.saturating_add(bytes);
        let (stream, is_right) = (held.stream, self.outward.has_window_for(held.widened_bytes));
        if bytes > 0 && is_right {
            return Ok(());
        }
        let body_bytes = self.held.remove(at).map_or(0, |held| held.body.len());
        self.give_back(u32::try_from(body_bytes).unwrap_or(u32::MAX));
        self.reject(stream, if bytes == 0 { code::PROTOCOL_ERROR } else { code::FLOW_CONTROL_ERROR })
    }

    /// Ends a stream of which nothing was answered and h2 knows nothing, because of what the client has sent in it.
    fn reject(&mut self, stream: u32, code: u32) -> Result<(), Violation> {
        self.outward.reset_unanswered(stream, code);
        self.count_reset()
    }

    /// Has h2 end a stream with `PROTOCOL_ERROR`. It may have answered already, so it has to be h2 that does, and this makes it: fields
    /// within a message.
    fn reject_passed(&mut self, stream: u32) -> Result<(), Violation> {
        Head { length: 0, kind: kind::HEADERS, flags: flag::END_HEADERS, stream }.put(&mut self.inward);
        self.count_reset()
    }

    fn count_reset(&mut self) -> Result<(), Violation> {
        self.resets += 1;
        if self.resets > RESETS_MAX { Err(Violation(code::ENHANCE_YOUR_CALM)) } else { Ok(()) }
    }

    /// Gives h2 back what it has spent of the client's window, as far as that has room.
    fn settle(&mut self) {
        let given_bytes = self.outward.settle();
        if given_bytes > 0 {
            frame::put_window_update(&mut self.inward, 0, given_bytes);
        }
    }

    fn give_back(&mut self, bytes: u32) {
        self.unreturned_bytes = self.unreturned_bytes.saturating_add(bytes);
        if self.unreturned_bytes >= WINDOW_BYTES_LOW {
            self.outward.give_back(std::mem::take(&mut self.unreturned_bytes));
        }
    }

    fn pass(&mut self, frame: &[u8]) {
        self.inward.extend_from_slice(frame);
    }

    /// Passes on those calls that wait for their message and do not come after this stream.
    fn pass_held(&mut self, stream: u32) {
        while self.held.front().is_some_and(|held| held.stream <= stream) {
            let Some(held) = self.held.pop_front() else { return };
            if self.outward.is_closing() {
                self.outward.reset(held.stream, code::REFUSED_STREAM);
                self.give_back(u32::try_from(held.body.len()).unwrap_or(u32::MAX));
                continue;
            }
            match self.account.take(true, STREAM_BYTES) {
                Ok(share) => self.pass_one(held, Call::new(true, false, share)),
                Err(error) => {
                    self.give_back(u32::try_from(held.body.len()).unwrap_or(u32::MAX));
                    self.refuse(held.stream, false, &error.to_string());
                }
            }
        }
    }

    fn pass_one(&mut self, held: Held, call: Call) {
        let Held { stream, token, body, widened_bytes, .. } = held;
        self.passed.begin(stream, call);
        let mut block = Vec::new();
        request::put_question(&mut block, token.as_deref());
        headers::put_block(&mut self.inward, stream, false, &block);
        if widened_bytes > 0 {
            frame::put_window_update(&mut self.inward, stream, widened_bytes);
        }
        if !body.is_empty() {
            let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
            Head { length, kind: kind::DATA, flags: 0, stream }.put(&mut self.inward);
            self.inward.extend_from_slice(&body);
        }
    }

    /// Tells a client that there is no room for its call, of which nothing was answered yet.
    fn refuse(&mut self, stream: u32, has_client_ended: bool, why: &str) {
        let status = tonic::Status::resource_exhausted(why).into_http::<()>();
        self.outward.refuse_unanswered(stream, has_client_ended, status.headers());
    }
}
