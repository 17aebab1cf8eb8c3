//! What is said to a client: answers that were written here, and what h2 says, frame by frame.
//!
//! A client has one window for the data of all streams, which both spend. h2 knows only what it has spent itself. It is given that back
//! as soon as the client's window has room for it: for h2, the window is never wider than the one that every connection begins
//! with, and never narrower for long. What the true window has no room for waits here, and so does what is said after it in any stream.

use http::HeaderMap;
use tollgate_http2::frame::{self, HEADER_BYTES, Head, PAYLOAD_BYTES_MAX, code, flag, kind};
use tollgate_http2::hpack::put_field;

use super::passed::Passed;

/// The window of a connection, and of a stream, before anybody has said anything else.
const WINDOW_BYTES_FIRST: u32 = 65_535;
const WINDOW_BYTES_MAX: i64 = 0x7fff_ffff;
/// The number of a stream that says: all of them.
const ANY_STREAM: u32 = 0x7fff_ffff;
/// What h2 has spent before it is given any of it back.
const OWED_BYTES_MIN: u32 = 16 << 10;
/// The setting that says what encoders may remember, and what they may before it is said.
const HEADER_TABLE_SIZE: u16 = 1;
const TABLE_BYTES_FIRST: u32 = 4096;
/// The setting that says how wide the windows of streams are in the beginning.
const INITIAL_WINDOW_SIZE: u16 = 4;
/// When so much waits, h2 is not asked for more. It has at most its window of data, and all else that it says is short.
const WAITING_BYTES_MAX: usize = 256 << 10;
/// Memory beyond so much is given back when everything is said.
const KEPT_BYTES: usize = 64 << 10;

/// `:status: 200` and the content type, as literals, but for their well-known names.
const HEADER: &[u8; 20] = b"\x88\x0f\x10\x10application/grpc";
/// `grpc-status: 0`, as a literal.
const TRAILERS: &[u8; 15] = b"\x00\x0bgrpc-status\x010";
/// `:status: 431`: the header is too long.
const TOO_LONG: &[u8; 5] = b"\x08\x03431";

#[derive(Debug)]
pub(in super::super) struct Outward {
    has_begun: bool,
    /// Whole frames, to be sent as they are.
    out: Vec<u8>,
    /// Whole frames that wait for the window to widen, the first of them with data.
    waiting: Vec<u8>,
    /// How much of that list was sent and is still in it. Were it taken out at once, a client that widens its window byte by byte would
    /// have all that waits moved for each of them.
    waiting_start: usize,
    /// How much data is in them.
    waiting_bytes: i64,
    /// How much data could be sent after it had waited.
    moved_bytes: u64,
    /// The beginning of a frame, or of a header block, of h2's.
    begun: Vec<u8>,
    /// What the client still takes. Streams of their own have as much as the client's settings say.
    window_bytes: i64,
    stream_window_bytes: u32,
    /// What h2 has spent of the window and was not given back.
    owed_bytes: u32,
    /// Whether the client has asked for less to be remembered than all begin with. That has to be confirmed in the next header block, and
    /// whose that is, h2 cannot know.
    has_small_table: bool,
    /// The last stream that is answered, once the client was told to go.
    last_stream: u32,
}

impl Default for Outward {
    fn default() -> Outward {
        Outward {
            has_begun: false,
            out: Vec::new(),
            waiting: Vec::new(),
            waiting_start: 0,
            waiting_bytes: 0,
            moved_bytes: 0,
            begun: Vec::new(),
            window_bytes: WINDOW_BYTES_FIRST.into(),
            stream_window_bytes: WINDOW_BYTES_FIRST,
            owed_bytes: 0,
            has_small_table: false,
            last_stream: ANY_STREAM,
        }
    }
}

impl Outward {
    /// What can be sent.
    pub(in super::super) fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Whether h2 has said what must be said first.
    pub(in super::super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Forgets what was sent.
    pub(in super::super) fn clear(&mut self) {
        self.out.clear();
        self.out.shrink_to(KEPT_BYTES);
    }

    /// Whether h2 has more to say than the client takes, so that it should not be asked for more.
    pub(in super::super) fn is_full(&self) -> bool {
        self.waiting.len() - self.waiting_start + self.begun.len() >= WAITING_BYTES_MAX
    }

    /// Something that waits for the client to widen its window: how much data that had waited could be sent so far.
    pub(in super::super) fn waits(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.moved_bytes)
    }

    /// What the buffers hold that can be sent.
    pub(super) fn sent_bytes(&self) -> usize {
        self.out.capacity() + self.begun.capacity()
    }

    /// What the buffer holds that waits for a window.
    pub(super) fn waiting_buffer_bytes(&self) -> usize {
        self.waiting.capacity()
    }

    /// Whether a stream's window may be so much wider than the client's settings say.
    pub(super) fn has_window_for(&self, widened_bytes: u32) -> bool {
        i64::from(self.stream_window_bytes) + i64::from(widened_bytes) <= WINDOW_BYTES_MAX
    }

    /// Whether answers do not have to wait, as far as one can know beforehand.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.is_empty() && self.stream_window_bytes >= WINDOW_BYTES_FIRST && !self.has_small_table
    }

    /// Whether the client was told which streams are still answered, so that h2 takes up no others.
    pub(super) fn is_closing(&self) -> bool {
        self.last_stream != ANY_STREAM
    }

    /// Whether a new stream is still taken up.
    pub(super) fn is_taking(&self, stream: u32) -> bool {
        stream <= self.last_stream
    }

    /// Says an answer: a message with its prefix. False, and nothing is said, if no stream has room for it.
    pub(in super::super) fn answer(&mut self, stream: u32, message: &[u8]) -> bool {
        if message.len() > self.stream_window_bytes as usize {
            return false;
        }
        self.put_block(stream, flag::END_HEADERS, HEADER);
        for piece in message.chunks(PAYLOAD_BYTES_MAX) {
            let length = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            self.put_data(Head { length, kind: kind::DATA, flags: 0, stream }, piece);
        }
        self.put_block(stream, flag::END_HEADERS | flag::END_STREAM, TRAILERS);
        true
    }

    /// Says an error that is nothing but a header, with the fields of gRPC.
    pub(in super::super) fn refuse(&mut self, stream: u32, fields: &HeaderMap) {
        let block = grpc_block(fields);
        self.put_block(stream, flag::END_HEADERS | flag::END_STREAM, &block);
    }

    /// Says that a header is too long, in a stream of which nothing was answered yet. The client need not send the rest.
    pub(super) fn refuse_header(&mut self, stream: u32) {
        self.put_unanswered(stream, false, TOO_LONG);
    }

    /// The same with an error of gRPC.
    pub(super) fn refuse_unanswered(&mut self, stream: u32, has_client_ended: bool, fields: &HeaderMap) {
        let block = grpc_block(fields);
        self.put_unanswered(stream, has_client_ended, &block);
    }

    /// Ends a stream of which nothing was answered yet. It need not wait for what waits, which is of other streams: were it to, a client
    /// without a window could have the server hold any number of refusals.
    pub(super) fn reset_unanswered(&mut self, stream: u32, code: u32) {
        frame::put_reset(&mut self.out, stream, code);
    }

    fn put_unanswered(&mut self, stream: u32, has_client_ended: bool, block: &[u8]) {
        if self.has_small_table {
            // The next header block has to confirm the size of the table, and it must be one of h2's.
            return self.reset_unanswered(stream, code::REFUSED_STREAM);
        }
        put_headers(&mut self.out, stream, flag::END_HEADERS | flag::END_STREAM, block);
        if !has_client_ended {
            self.reset_unanswered(stream, code::NO_ERROR);
        }
    }

    /// Says that nothing more will come in a stream.
    pub(super) fn reset(&mut self, stream: u32, code: u32) {
        frame::put_reset(self.place(), stream, code);
    }

    /// Says that the connection ends, and why. Of those that were taken up, this stream was the last that the client has opened.
    pub(super) fn end(&mut self, last_opened: u32, code: u32) {
        frame::put_goaway(&mut self.out, last_opened.min(self.last_stream), code);
    }

    /// Says how much more the client may send.
    pub(super) fn give_back(&mut self, bytes: u32) {
        frame::put_window_update(&mut self.out, 0, bytes);
    }

    /// Hears what the client says about itself. What is wrong in it, h2 says.
    pub(super) fn hear_settings(&mut self, head: Head, payload: &[u8]) {
        if head.has(flag::ACK) {
            return;
        }
        for setting in payload.chunks_exact(6) {
            let [a, b, value @ ..] = setting else { return };
            let Ok(value) = <[u8; 4]>::try_from(value).map(u32::from_be_bytes) else { return };
            match u16::from_be_bytes([*a, *b]) {
                HEADER_TABLE_SIZE => self.has_small_table |= value < TABLE_BYTES_FIRST,
                INITIAL_WINDOW_SIZE => self.stream_window_bytes = value,
                _ => {}
            }
        }
    }

    /// The client takes so much more. False if that is more than there can be.
    pub(super) fn widen(&mut self, bytes: u32) -> bool {
        self.window_bytes += i64::from(bytes);
        self.send_waiting();
        self.window_bytes <= WINDOW_BYTES_MAX
    }

    /// How much h2 is to be given back of what it has spent: as much as there is room for in the client's window, which what waits will
    /// spend first. Whoever asks tells it.
    pub(super) fn settle(&mut self) -> u32 {
        if self.owed_bytes < OWED_BYTES_MIN {
            return 0;
        }
        let has_bytes = i64::from(WINDOW_BYTES_FIRST.saturating_sub(self.owed_bytes));
        let room_bytes =
            (self.window_bytes - self.waiting_bytes - has_bytes).clamp(0, self.owed_bytes.into());
        let given_bytes = u32::try_from(room_bytes).unwrap_or_default();
        self.owed_bytes -= given_bytes;
        given_bytes
    }

    fn send_waiting(&mut self) {
        let mut sent = self.waiting_start;
        while let Some(head) = self.waiting.get(sent..).and_then(Head::read) {
            let (start, length) = (sent + HEADER_BYTES, head.length as usize);
            let Some(payload) = self.waiting.get(start..start + length) else { break };
            if head.kind != kind::DATA {
                head.put(&mut self.out);
                self.out.extend_from_slice(payload);
                sent = start + length;
                continue;
            }
            let (part, rest) = split(head, self.window_bytes);
            let Some(part) = part else { break };
            part.put(&mut self.out);
            self.out.extend_from_slice(&payload[..part.length as usize]);
            self.window_bytes -= i64::from(part.length);
            self.waiting_bytes -= i64::from(part.length);
            self.moved_bytes += u64::from(part.length);
            let Some(rest) = rest else {
                sent = start + length;
                continue;
            };
            // What was sent leaves room for another head.
            sent += part.length as usize;
            let mut head = Vec::with_capacity(HEADER_BYTES);
            rest.put(&mut head);
            self.waiting[sent..sent + HEADER_BYTES].copy_from_slice(&head);
            break;
        }
        self.waiting_start = sent;
        if 2 * sent >= self.waiting.len() {
            self.waiting.drain(..sent);
            self.waiting.shrink_to(KEPT_BYTES);
            self.waiting_start = 0;
        }
    }

    /// Where a frame without data goes that belongs to a stream. What waits is not overtaken: it may be of the same stream.
    fn place(&mut self) -> &mut Vec<u8> {
        if self.waiting.is_empty() { &mut self.out } else { &mut self.waiting }
    }

    /// Says data, as far as there is room for it. The rest waits.
    fn put_data(&mut self, head: Head, payload: &[u8]) {
        let (part, rest) =
            if self.waiting.is_empty() { split(head, self.window_bytes) } else { (None, Some(head)) };
        let (now, later) = payload.split_at(part.map_or(0, |part| part.length as usize));
        if let Some(part) = part {
            part.put(&mut self.out);
            self.out.extend_from_slice(now);
            self.window_bytes -= i64::from(part.length);
        }
        if let Some(rest) = rest {
            rest.put(&mut self.waiting);
            self.waiting.extend_from_slice(later);
            self.waiting_bytes += i64::from(rest.length);
        }
    }

    fn put_block(&mut self, stream: u32, flags: u8, block: &[u8]) {
        put_headers(self.place(), stream, flags, block);
    }

    /// Takes what h2 says. `last_opened` is the last stream that the client has opened.
    pub(super) fn relay(&mut self, said: &[u8], passed: &mut Passed, last_opened: u32) {
        let mut begun = std::mem::take(&mut self.begun);
        begun.extend_from_slice(said);
        let mut start = 0;
        while let Some(length) = whole_frames(&begun[start..]) {
            self.relay_frames(&begun[start..start + length], passed, last_opened);
            start += length;
        }
        begun.drain(..start);
        self.begun = begun;
    }

    /// Takes a frame of h2's, or the frames of a header block.
    fn relay_frames(&mut self, frames: &[u8], passed: &mut Passed, last_opened: u32) {
        self.has_begun = true;
        let Some(head) = Head::read(frames) else { return };
        match head.kind {
            kind::DATA => {
                self.owed_bytes += head.length;
                self.put_data(head, &frames[HEADER_BYTES..]);
                passed.say(head.stream, head.has(flag::END_STREAM));
            }
            kind::GOAWAY => self.relay_goaway(head, frames, passed, last_opened),
            // How much the client may send has nothing to do with what it takes.
            kind::WINDOW_UPDATE => self.out.extend_from_slice(frames),
            _ if head.stream == 0 => self.out.extend_from_slice(frames),
            kind => {
                self.place().extend_from_slice(frames);
                match kind {
                    kind::HEADERS => passed.say(head.stream, head.has(flag::END_STREAM)),
                    kind::RST_STREAM => drop(passed.end(head.stream)),
                    _ => {}
                }
            }
        }
    }

    /// h2 does not know of the streams that were answered here. Were the client not told of them, it would ask again elsewhere. Those that
    /// h2 has not taken up, it never will: they are for the client to ask again.
    fn relay_goaway(&mut self, head: Head, frame: &[u8], passed: &mut Passed, last_opened: u32) {
        let Some((last, rest)) = frame[HEADER_BYTES..].split_first_chunk::<4>() else { return };
        let mut last = u32::from_be_bytes(*last) & ANY_STREAM;
        if last != ANY_STREAM {
            for stream in passed.end_after(last) {
                self.reset(stream, code::REFUSED_STREAM);
            }
            last = last.max(last_opened).min(self.last_stream);
            self.last_stream = last;
        }
        head.put(&mut self.out);
        self.out.extend_from_slice(&last.to_be_bytes());
        self.out.extend_from_slice(rest);
    }
}

fn put_headers(out: &mut Vec<u8>, stream: u32, flags: u8, block: &[u8]) {
    let length = u32::try_from(block.len()).unwrap_or(u32::MAX);
    Head { length, kind: kind::HEADERS, flags, stream }.put(out);
    out.extend_from_slice(block);
}

/// The header of an answer of gRPC that is nothing but a header.
fn grpc_block(fields: &HeaderMap) -> Vec<u8> {
    let mut block = vec![0x88]; // `:status: 200`
    for (name, value) in fields {
        put_field(&mut block, name.as_str().as_bytes(), value.as_bytes());
    }
    block
}

/// The part of a data frame that a window has room for, and the rest. Only the last part is the end of its stream.
fn split(head: Head, window_bytes: i64) -> (Option<Head>, Option<Head>) {
    let length = u32::try_from(window_bytes.clamp(0, head.length.into())).unwrap_or_default();
    if length == head.length {
        return (Some(head), None);
    }
    let part = Head { length, flags: head.flags & !flag::END_STREAM, ..head };
    let rest = Head { length: head.length - length, ..head };
    ((length > 0).then_some(part), Some(rest))
}

/// The length of the first frame; or of all frames of a header block, between which nothing else may be said. Nothing, if it is not
/// all there.
fn whole_frames(said: &[u8]) -> Option<usize> {
    let mut end = 0;
    loop {
        let head = Head::read(said.get(end..)?)?;
        end += HEADER_BYTES + head.length as usize;
        let is_block = matches!(head.kind, kind::HEADERS | kind::CONTINUATION);
        if !is_block || head.has(flag::END_HEADERS) {
            return (end <= said.len()).then_some(end);
        }
    }
}
