//! HTTP/2 up to the point where a question is a question: plain calls are taken out here, and all else is passed on to h2.
//!
//! What HTTP/2 may be is much more than what a proxy sends. A plain question is a header and a message in one piece; it is read where
//! it lies, and its answer is written as frames at once. Everything else (other methods, long messages, errors, pings, settings, whatever
//! is out of the ordinary) goes to h2 behind, which sees a connection of its own on which some streams are never opened. So the
//! rules of HTTP/2 are h2's, and what the two must share is kept here:
//!
//! - Header blocks build on each other, so all of them are read here. They are passed on in a form that builds on nothing.
//! - Streams are passed on in the order of their numbers. So a call that waits for its message is passed on before any later one is.
//! - Windows: see [`Outward`] for the client's, which answers spend. The server's own is given back by whoever takes the data.
//!
//! Nothing here reads or writes a socket.

mod outward;
mod passed;
mod plain;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use tollgate_http2::frame::{self, HEADER_BYTES, Head, PAYLOAD_BYTES_MAX, code, flag, kind};
use tollgate_http2::hpack::{self, Decoder, Fields, HpackError};

pub(super) use self::outward::Outward;
use self::passed::Passed;
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
/// A header block as it is sent: all fields, were none of them shortened, and as many pieces as that is worth.
const BLOCK_BYTES_MAX: usize = HEADER_BYTES_MAX as usize;
const BLOCK_PIECES_MAX: usize = 64;
/// Calls that wait for their message. Each may have sent one frame of it.
const HELD_MAX: usize = 64;
/// When so much is to be passed on, nothing more is read.
const INWARD_BYTES_MAX: usize = 64 << 10;
/// Streams of h2's that are open. It allows a quarter of it, but resets those beyond only when it gets to see them.
const PASSED_MAX: usize = 4096;
/// Calls that were reset before their message had come, more than there were answers. See `RESETS_UNSEEN_MAX` of h2's part.
const RESETS_MAX: usize = 128;

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

/// A header block that goes on in the next frame.
#[derive(Debug)]
struct Block {
    head: Head,
    bytes: Vec<u8>,
    pieces: usize,
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
    attempts: Arc<Attempts>,
    /// The last token that was admitted.
    remembered: Remembered,
    has_greeted: bool,
    decoder: Decoder,
    fields: Fields,
    block: Option<Block>,
    /// In the order of their streams.
    held: VecDeque<Held>,
    passed: Passed,
    last_stream: u32,
    resets: usize,
    /// What the client has spent of the server's window and was not given back.
    unreturned_bytes: u32,
    /// For h2.
    inward: Vec<u8>,
    outward: Outward,
}

impl Front {
    pub(super) fn new(gate: Arc<Gate>, attempts: Arc<Attempts>) -> Front {
        Front {
            gate,
            attempts,
            remembered: Remembered::default(),
            has_greeted: false,
            decoder: Decoder::new(TABLE_BYTES),
            fields: Fields::new(HEADER_BYTES_MAX as usize),
            block: None,
            held: VecDeque::new(),
            passed: Passed::default(),
            last_stream: 0,
            resets: 0,
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
        let Head { kind, stream, .. } = frame.head;
        if self.block.is_some() || kind == kind::CONTINUATION {
            return self.take_continuation(frame);
        }
        match kind {
            kind::HEADERS => self.take_headers(frame),
            kind::DATA => self.take_data(frame, batch),
            kind::RST_STREAM => self.take_reset(frame),
            kind::WINDOW_UPDATE => self.take_window_update(frame),
            // It was never of much use, and is not in use any more.
            kind::PRIORITY if stream != 0 => Ok(()),
            kind::SETTINGS => {
                self.outward.hear_settings(frame.head, frame.payload);
                self.pass(frame.whole);
                Ok(())
            }
            _ => {
                self.pass(frame.whole);
                Ok(())
            }
        }
    }

    fn take_headers(&mut self, frame: Frame<'_>) -> Result<(), Violation> {
        let Head { stream, .. } = frame.head;
        let Some(piece) = frame::unpadded(frame.head, frame.payload).filter(|_| stream % 2 == 1) else {
            return Err(Violation(code::PROTOCOL_ERROR));
        };
        if frame.head.has(flag::END_HEADERS) {
            return self.take_block(frame.head, piece);
        }
        self.block = Some(Block { head: frame.head, bytes: piece.to_vec(), pieces: 1 });
        Ok(())
    }

    fn take_continuation(&mut self, frame: Frame<'_>) -> Result<(), Violation> {
        let Head { kind, stream, .. } = frame.head;
        let begun =
            self.block.take().filter(|block| kind == kind::CONTINUATION && block.head.stream == stream);
        let mut block = begun.ok_or(Violation(code::PROTOCOL_ERROR))?;
        block.bytes.extend_from_slice(frame.payload);
        block.pieces += 1;
        if block.bytes.len() > BLOCK_BYTES_MAX || block.pieces > BLOCK_PIECES_MAX {
            return Err(Violation(code::ENHANCE_YOUR_CALM));
        }
        if frame.head.has(flag::END_HEADERS) {
            return self.take_block(block.head, &block.bytes);
        }
        self.block = Some(block);
        Ok(())
    }

    /// Takes a whole header block.
    fn take_block(&mut self, head: Head, block: &[u8]) -> Result<(), Violation> {
        self.decoder.decode(block, &mut self.fields).map_err(|error| match error {
            HpackError::TooLong => Violation(code::ENHANCE_YOUR_CALM),
            _ => Violation(code::COMPRESSION_ERROR),
        })?;
        let (stream, is_end) = (head.stream, head.has(flag::END_STREAM));
        if stream <= self.last_stream {
            return self.take_trailers(stream, is_end);
        }
        self.last_stream = stream;
        if !self.outward.is_taking(stream) {
            return Ok(()); // Whoever was told to go asks elsewhere.
        }
        if self.fields.is_too_long() {
            self.outward.refuse_header(stream);
            return Ok(());
        }
        let may_wait = !is_end && self.held.len() < HELD_MAX && self.outward.has_room();
        if may_wait
            && !self.attempts.is_over()
            && let Some(admitted) = plain::read(&self.fields, &self.gate, &mut self.remembered)
        {
            let (token, scope) = (admitted.token.map(Box::from), admitted.scope);
            self.held.push_back(Held { stream, token, scope, body: Vec::new(), widened_bytes: 0 });
            return Ok(());
        }
        if self.passed.len() >= PASSED_MAX {
            return Err(Violation(code::ENHANCE_YOUR_CALM));
        }
        self.pass_held(stream);
        self.passed.begin(stream, is_end);
        self.pass_fields(stream, is_end);
        Ok(())
    }

    /// Takes the fields after a message, with which it ends. Nobody wants to know them, but h2 wants to see them.
    fn take_trailers(&mut self, stream: u32, is_end: bool) -> Result<(), Violation> {
        self.pass_held(stream);
        if !self.passed.is_open(stream) {
            // They may have been under way when the server had said all. A new call must not come in an old stream.
            let is_call = self.fields.iter().any(|(name, _)| name.starts_with(b":"));
            return if is_call || !is_end { Err(Violation(code::STREAM_CLOSED)) } else { Ok(()) };
        }
        if !self.fields.is_too_long() {
            self.passed.hear(stream, is_end);
            self.pass_fields(stream, is_end);
            return Ok(());
        }
        Err(Violation(code::ENHANCE_YOUR_CALM))
    }

    fn take_data(&mut self, frame: Frame<'_>, batch: &mut Batch) -> Result<(), Violation> {
        let Head { stream, length, .. } = frame.head;
        if let Ok(at) = self.held.binary_search_by_key(&stream, |held| held.stream) {
            if self.take_message(at, frame, batch) {
                return Ok(());
            }
            self.pass_held(stream);
        }
        if self.passed.is_open(stream) {
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
            self.resets += 1;
            return if self.resets > RESETS_MAX { Err(Violation(code::ENHANCE_YOUR_CALM)) } else { Ok(()) };
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
        let bytes = match <[u8; 4]>::try_from(frame.payload).map(|bytes| u32::from_be_bytes(bytes) << 1 >> 1)
        {
            Err(_) => return Err(Violation(code::FRAME_SIZE_ERROR)),
            // Of a stream, it would be that stream's error alone. Nobody makes it.
            Ok(0) => return Err(Violation(code::PROTOCOL_ERROR)),
            Ok(bytes) => bytes,
        };
        if stream == 0 {
            if !self.outward.widen(bytes) {
                return Err(Violation(code::FLOW_CONTROL_ERROR));
            }
            self.settle();
        } else if let Ok(at) = self.held.binary_search_by_key(&stream, |held| held.stream) {
            // It has room enough for an answer from here. h2 is told, should it have to answer.
            if let Some(held) = self.held.get_mut(at) {
                held.widened_bytes = held.widened_bytes.saturating_add(bytes);
            }
        } else if self.passed.is_open(stream) {
            self.pass(frame.whole);
        } else if stream > self.last_stream {
            return Err(Violation(code::PROTOCOL_ERROR));
        }
        Ok(())
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
            let Some(Held { stream, token, body, widened_bytes, .. }) = self.held.pop_front() else { return };
            if self.outward.is_closing() {
                self.outward.reset(stream, code::REFUSED_STREAM);
                self.give_back(u32::try_from(body.len()).unwrap_or(u32::MAX));
                continue;
            }
            self.passed.begin(stream, false);
            put_block(&mut self.inward, stream, false, |out| plain::put(out, token.as_deref()));
            if widened_bytes > 0 {
                frame::put_window_update(&mut self.inward, stream, widened_bytes);
            }
            if !body.is_empty() {
                let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
                Head { length, kind: kind::DATA, flags: 0, stream }.put(&mut self.inward);
                self.inward.extend_from_slice(&body);
            }
        }
    }

    /// Passes on the fields that were just read.
    fn pass_fields(&mut self, stream: u32, is_end: bool) {
        let fields = &self.fields;
        put_block(&mut self.inward, stream, is_end, |out| {
            fields.iter().for_each(|(name, value)| hpack::put_field(out, name, value));
        });
    }
}

/// Writes a header block, in as many frames as it takes.
fn put_block(out: &mut Vec<u8>, stream: u32, is_end: bool, put: impl FnOnce(&mut Vec<u8>)) {
    let mut block = Vec::new();
    put(&mut block);
    let (mut kind, mut flags) = (kind::HEADERS, if is_end { flag::END_STREAM } else { 0 });
    let mut rest = block.as_slice();
    loop {
        let (piece, after) = rest.split_at(rest.len().min(PAYLOAD_BYTES_MAX));
        if after.is_empty() {
            flags |= flag::END_HEADERS;
        }
        let length = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        Head { length, kind, flags, stream }.put(out);
        out.extend_from_slice(piece);
        if after.is_empty() {
            return;
        }
        (rest, kind, flags) = (after, kind::CONTINUATION, 0);
    }
}
