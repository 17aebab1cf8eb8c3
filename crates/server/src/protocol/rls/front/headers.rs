//! Header blocks: how they are put together from frames, what becomes of the calls that they begin, and trailers.

use std::sync::Arc;

use tollgate_http2::frame::{self, Head, PAYLOAD_BYTES_MAX, code, flag, kind};
use tollgate_http2::hpack::HpackError;

use super::passed::Call;
use super::request::{self, Request};
use super::{
    Frame, Front, HEADER_BYTES_MAX, HELD_MAX, Held, OTHER_CALLS_MAX, PASSED_MAX, STREAM_BYTES, Violation,
};
use crate::access::Scope;

/// A header block as it is sent: all fields, were none of them shortened, and as many pieces as that is worth.
pub(super) const BLOCK_BYTES_MAX: usize = HEADER_BYTES_MAX as usize;
pub(super) const BLOCK_PIECES_MAX: usize = 64;
/// What is passed on of a header. Paths and tokens are far shorter.
pub(super) const PASSED_BLOCK_BYTES_MAX: usize = 8 << 10;

/// A header block that goes on in the next frame.
#[derive(Debug)]
pub(super) struct Block {
    head: Head,
    bytes: Vec<u8>,
    pieces: usize,
}

impl Block {
    /// What it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// What becomes of a call.
enum Course {
    /// It waits here for its message.
    Wait { token: Option<Box<[u8]>>, scope: Option<Arc<Scope>> },
    /// h2 answers it.
    Pass { is_question: bool, block: Vec<u8> },
}

impl Front {
    pub(super) fn take_headers(&mut self, frame: Frame<'_>) -> Result<(), Violation> {
        if frame.head.stream.is_multiple_of(2) {
            return Err(Violation(code::PROTOCOL_ERROR));
        }
        let piece = frame::unpadded(frame.head, frame.payload).map_err(Violation)?;
        if frame.head.has(flag::END_HEADERS) {
            return self.take_block(frame.head, piece);
        }
        self.block = Some(Block { head: frame.head, bytes: piece.to_vec(), pieces: 1 });
        Ok(())
    }

    pub(super) fn take_continuation(&mut self, frame: Frame<'_>) -> Result<(), Violation> {
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
        let taken = if stream > self.last_stream {
            self.take_request(stream, is_end)
        } else {
            self.take_trailers(stream, is_end)
        };
        self.fields.shrink();
        taken
    }

    /// Takes the header of a new call.
    fn take_request(&mut self, stream: u32, is_end: bool) -> Result<(), Violation> {
        let is_next = if self.last_stream == 0 { stream == 1 } else { stream == self.last_stream + 2 };
        if !is_next {
            self.gapless_from = stream;
        }
        self.last_stream = stream;
        if !self.outward.is_taking(stream) {
            return Ok(()); // A client that was told to go asks elsewhere.
        }
        if self.fields.is_too_long() {
            self.outward.refuse_header(stream);
            return Ok(());
        }
        let is_short = !is_end && self.held.len() < HELD_MAX && self.outward.has_room();
        let may_wait = is_short && !self.attempts.is_over();
        match self.judge(may_wait) {
            Err(request::Malformed) => self.reject(stream, code::PROTOCOL_ERROR),
            Ok(Course::Wait { token, scope }) => {
                self.held.push_back(Held { stream, token, scope, body: Vec::new(), widened_bytes: 0 });
                Ok(())
            }
            Ok(Course::Pass { is_question, block }) => self.pass_call(stream, is_end, is_question, &block),
        }
    }

    fn judge(&mut self, may_wait: bool) -> Result<Course, request::Malformed> {
        let Front { fields, gate, remembered, .. } = self;
        let request = Request::read(fields)?;
        if may_wait && let Some(admitted) = request.admitted(gate, remembered) {
            return Ok(Course::Wait { token: admitted.token.map(Box::from), scope: admitted.scope });
        }
        let mut block = Vec::new();
        request.put(&mut block);
        Ok(Course::Pass { is_question: request.is_question(), block })
    }

    /// Passes a call on to h2, as far as there is room for it.
    fn pass_call(
        &mut self,
        stream: u32,
        is_end: bool,
        is_question: bool,
        block: &[u8],
    ) -> Result<(), Violation> {
        if self.passed.len() >= PASSED_MAX {
            return Err(Violation(code::ENHANCE_YOUR_CALM));
        }
        if block.len() > PASSED_BLOCK_BYTES_MAX {
            self.outward.refuse_header(stream);
            return Ok(());
        }
        if !is_question && self.passed.others() >= OTHER_CALLS_MAX {
            let why = format!(
                "a connection may have {OTHER_CALLS_MAX} calls at a time that are not of ShouldRateLimit"
            );
            self.refuse(stream, is_end, &why);
            return Ok(());
        }
        match self.account.take(is_question, STREAM_BYTES + block.len()) {
            Ok(share) => {
                self.pass_held(stream);
                self.passed.begin(stream, Call::new(is_question, is_end, share));
                put_block(&mut self.inward, stream, is_end, block);
            }
            Err(error) => self.refuse(stream, is_end, &error.to_string()),
        }
        Ok(())
    }

    /// Takes the fields after a message, with which it ends. Nothing behind reads them, so h2 is told of the end alone.
    fn take_trailers(&mut self, stream: u32, is_end: bool) -> Result<(), Violation> {
        self.pass_held(stream);
        let Some(call) = self.passed.get_mut(stream) else { return self.take_late(stream, is_end) };
        if call.has_client_ended {
            return Err(Violation(code::STREAM_CLOSED));
        }
        if self.fields.is_too_long() {
            return Err(Violation(code::ENHANCE_YOUR_CALM));
        }
        if !is_end || request::check_trailers(&self.fields).is_err() {
            return self.reject_passed(stream);
        }
        self.passed.hear(stream, true);
        Head { length: 0, kind: kind::DATA, flags: flag::END_STREAM, stream }.put(&mut self.inward);
        Ok(())
    }

    /// Takes fields in a stream that is not open any more. Trailers may have been under way when the server had said all. A new call must
    /// not come in an old stream, nor in one that the client has left out.
    fn take_late(&mut self, stream: u32, is_end: bool) -> Result<(), Violation> {
        let is_call = self.fields.iter().any(|(name, _)| name.starts_with(b":"));
        match (is_call || !is_end, stream < self.gapless_from) {
            (false, _) => Ok(()),
            (true, false) => Err(Violation(code::STREAM_CLOSED)),
            (true, true) => Err(Violation(code::PROTOCOL_ERROR)),
        }
    }
}

/// Writes a header block, in as many frames as it takes.
pub(super) fn put_block(out: &mut Vec<u8>, stream: u32, is_end: bool, block: &[u8]) {
    let (mut kind, mut flags) = (kind::HEADERS, if is_end { flag::END_STREAM } else { 0 });
    let mut rest = block;
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
