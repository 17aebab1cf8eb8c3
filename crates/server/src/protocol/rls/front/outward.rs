//! What is said to a client: answers that were written here, and what h2 says, frame by frame.
//!
//! A client has one window for the data of all streams, which both spend. h2 knows only what it has spent itself, so it is given
//! back as much of what the client grants, and no more: for h2, the window is never wider than the one that every connection begins
//! with. What exceeds the true window waits here, which is at most that much of h2's, and the answers of one batch.

use http::HeaderMap;
use tollgate_http2::frame::{self, HEADER_BYTES, Head, PAYLOAD_BYTES_MAX, code, flag, kind};
use tollgate_http2::hpack::put_field;

use super::passed::Passed;

/// The window of a connection, and of a stream, before anybody has said anything else.
const WINDOW_BYTES_FIRST: u32 = 65_535;
const WINDOW_BYTES_MAX: i64 = 0x7fff_ffff;
/// The number of a stream that says: all of them.
const ANY_STREAM: u32 = 0x7fff_ffff;
/// The setting that says how wide the windows of streams are in the beginning.
const INITIAL_WINDOW_SIZE: u16 = 4;
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
    /// The beginning of a frame, or of a header block, of h2's.
    begun: Vec<u8>,
    /// What the client still takes. Streams of their own have as much as the client's settings say.
    window_bytes: i64,
    stream_window_bytes: u32,
    /// What h2 has spent of the window and was not given back.
    owed_bytes: u32,
    /// The last stream that is answered, once the client was told to go.
    last_stream: u32,
}

impl Default for Outward {
    fn default() -> Outward {
        Outward {
            has_begun: false,
            out: Vec::new(),
            waiting: Vec::new(),
            begun: Vec::new(),
            window_bytes: WINDOW_BYTES_FIRST.into(),
            stream_window_bytes: WINDOW_BYTES_FIRST,
            owed_bytes: 0,
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
        self.waiting.len() + self.begun.len() >= 4 * KEPT_BYTES
    }

    /// Whether answers do not have to wait, as far as one can know beforehand.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.is_empty() && self.stream_window_bytes >= WINDOW_BYTES_FIRST
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
            let place = self.place(length);
            Head { length, kind: kind::DATA, flags: 0, stream }.put(place);
            place.extend_from_slice(piece);
        }
        self.put_block(stream, flag::END_HEADERS | flag::END_STREAM, TRAILERS);
        true
    }

    /// Says an error that is nothing but a header, with the fields of gRPC.
    pub(in super::super) fn refuse(&mut self, stream: u32, fields: &HeaderMap) {
        let mut block = vec![0x88]; // `:status: 200`
        for (name, value) in fields {
            put_field(&mut block, name.as_str().as_bytes(), value.as_bytes());
        }
        self.put_block(stream, flag::END_HEADERS | flag::END_STREAM, &block);
    }

    /// Says that a header is too long. The client need not send the rest.
    pub(super) fn refuse_header(&mut self, stream: u32) {
        self.put_block(stream, flag::END_HEADERS | flag::END_STREAM, TOO_LONG);
        frame::put_reset(self.place(0), stream, code::NO_ERROR);
    }

    /// Says that the connection ends, and why. Streams up to this one were taken up.
    pub(super) fn end(&mut self, last_stream: u32, code: u32) {
        frame::put_goaway(&mut self.out, last_stream, code);
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
            if let [a, b, value @ ..] = setting
                && u16::from_be_bytes([*a, *b]) == INITIAL_WINDOW_SIZE
                && let Ok(value) = <[u8; 4]>::try_from(value)
            {
                self.stream_window_bytes = u32::from_be_bytes(value);
            }
        }
    }

    /// The client takes so much more: how much of that h2 is to be told. Nothing, if that is more than there can be.
    pub(super) fn widen(&mut self, bytes: u32) -> Option<u32> {
        self.window_bytes += i64::from(bytes);
        if self.window_bytes > WINDOW_BYTES_MAX {
            return None;
        }
        self.send_waiting();
        let told = bytes.min(self.owed_bytes);
        self.owed_bytes -= told;
        Some(told)
    }

    fn send_waiting(&mut self) {
        let mut sent = 0;
        while let Some(head) = self.waiting.get(sent..).and_then(Head::read) {
            if head.kind == kind::DATA {
                if i64::from(head.length) > self.window_bytes {
                    break;
                }
                self.window_bytes -= i64::from(head.length);
            }
            sent += HEADER_BYTES + head.length as usize;
        }
        self.out.extend(self.waiting.drain(..sent.min(self.waiting.len())));
    }

    /// Where a frame goes that belongs to a stream and has so much data. What waits is not overtaken: it may be of the same stream.
    fn place(&mut self, data_bytes: u32) -> &mut Vec<u8> {
        if self.waiting.is_empty() && i64::from(data_bytes) <= self.window_bytes {
            self.window_bytes -= i64::from(data_bytes);
            return &mut self.out;
        }
        &mut self.waiting
    }

    fn put_block(&mut self, stream: u32, flags: u8, block: &[u8]) {
        let length = u32::try_from(block.len()).unwrap_or(u32::MAX);
        let place = self.place(0);
        Head { length, kind: kind::HEADERS, flags, stream }.put(place);
        place.extend_from_slice(block);
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
                self.place(head.length).extend_from_slice(frames);
                passed.say(head.stream, head.has(flag::END_STREAM));
            }
            kind::GOAWAY => self.relay_goaway(head, frames, last_opened),
            // How much the client may send has nothing to do with what it takes.
            kind::WINDOW_UPDATE => self.out.extend_from_slice(frames),
            _ if head.stream == 0 => self.out.extend_from_slice(frames),
            kind => {
                self.place(0).extend_from_slice(frames);
                match kind {
                    kind::HEADERS => passed.say(head.stream, head.has(flag::END_STREAM)),
                    kind::RST_STREAM => drop(passed.end(head.stream)),
                    _ => {}
                }
            }
        }
    }

    /// h2 does not know of the streams that were answered here. Were the client not told of them, it would ask again elsewhere.
    fn relay_goaway(&mut self, head: Head, frame: &[u8], last_opened: u32) {
        let Some((last, rest)) = frame[HEADER_BYTES..].split_first_chunk::<4>() else { return };
        let last = match u32::from_be_bytes(*last) & ANY_STREAM {
            ANY_STREAM => ANY_STREAM,
            last => {
                self.last_stream = last.max(last_opened);
                self.last_stream
            }
        };
        head.put(&mut self.out);
        self.out.extend_from_slice(&last.to_be_bytes());
        self.out.extend_from_slice(rest);
    }
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
