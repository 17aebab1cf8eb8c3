//! HTTP/2 by hand: frames of any kind and length, header fields as literals, and what comes back.

use super::raw::{Raw, Sent};
use super::seen::Seen;

/// What every connection begins with.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;

pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;

/// A server that has asked so often whether anybody is there, and said nothing else, will not say anything else.
const PINGS_MAX: u32 = 4;

/// The first byte of a field block that says 200, from the table that every decoder knows.
const STATUS_200: u8 = 0x88;

/// Frames, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames(pub(super) Vec<u8>);

/// A frame that came back.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frames {
    /// What a client begins with, with these settings.
    pub(super) fn opening(settings: &[(u16, u32)]) -> Frames {
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend(name.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        Frames(PREFACE.to_vec()).add(SETTINGS, 0, 0, &payload)
    }

    pub(super) fn none() -> Frames {
        Frames::default()
    }

    /// One frame more.
    #[must_use]
    pub(super) fn add(mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Frames {
        let length = u32::try_from(payload.len()).expect("a payload of a test");
        self.0.extend(&length.to_be_bytes()[1..]);
        self.0.extend([kind, flags]);
        self.0.extend(stream.to_be_bytes());
        self.0.extend(payload);
        self
    }

    /// The header fields of a request.
    #[must_use]
    pub(super) fn headers(self, stream: u32, flags: u8, fields: &[(&str, &str)]) -> Frames {
        let mut block = Vec::new();
        for (name, value) in fields {
            block.push(0); // a literal that is not to be remembered, with a new name
            put_string(&mut block, name.as_bytes());
            put_string(&mut block, value.as_bytes());
        }
        self.add(HEADERS, flags, stream, &block)
    }
}

/// A string as it is, without the code that would shorten it.
pub(super) fn put_string(block: &mut Vec<u8>, text: &[u8]) {
    put_number(block, 0, 7, text.len());
    block.extend(text);
}

/// A number with a prefix of so many bits, after what stands in the bits before it.
pub(super) fn put_number(block: &mut Vec<u8>, mark: u8, prefix_bits: u8, number: usize) {
    let most = (1_usize << prefix_bits) - 1;
    let byte = |number: usize| u8::try_from(number).expect("less than a byte");
    if number < most {
        return block.push(mark | byte(number));
    }
    block.push(mark | byte(most));
    let mut rest = number - most;
    while rest >= 0x80 {
        block.push(0x80 | byte(rest % 0x80));
        rest /= 0x80;
    }
    block.push(byte(rest));
}

impl Raw {
    pub(super) fn send_frames(&mut self, frames: &Frames) -> Sent {
        self.send(&frames.0)
    }

    pub(super) fn frame(&mut self) -> Result<Frame, Seen> {
        let head = self.bytes(9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        Ok(Frame { kind: head[3], flags: head[4], stream, payload: self.bytes(length)? })
    }

    /// What HTTP/2 makes of a stream, or of all of them: an answer, an error, or a connection that ends.
    pub(super) fn http2(&mut self, stream: u32) -> Seen {
        self.http2_until(stream, |frame| Some(frame.head()))
    }

    /// The error that a stream or the connection ends with, whatever was answered before.
    pub(super) fn http2_error(&mut self, stream: u32) -> Seen {
        self.http2_until(stream, |_| None)
    }

    fn http2_until(&mut self, stream: u32, answer: impl Fn(&Frame) -> Option<Seen>) -> Seen {
        let mut pings = 0;
        while pings < PINGS_MAX {
            let frame = match self.frame() {
                Ok(frame) => frame,
                Err(seen) => return seen,
            };
            match frame.kind {
                GOAWAY if frame.code(4) != 0 => return Seen::Refusal(format!("GOAWAY {}", frame.reason(4))),
                RST_STREAM if frame.stream == stream => {
                    return Seen::Refusal(format!("RST_STREAM {}", frame.reason(0)));
                }
                HEADERS if frame.stream == stream => {
                    if let Some(seen) = answer(&frame) {
                        return seen;
                    }
                }
                PING if frame.flags & ACK == 0 => {
                    pings += 1;
                    self.send_frames(&Frames::none().add(PING, ACK, 0, &frame.payload));
                }
                _ => {}
            }
        }
        Seen::Silent
    }

    /// How many requests the server lets be under way, once it has said so.
    pub(super) fn streams_max(&mut self) -> u32 {
        loop {
            let Ok(frame) = self.frame() else { return 0 };
            if frame.kind == SETTINGS && frame.flags & ACK == 0 {
                return frame.setting(MAX_CONCURRENT_STREAMS).unwrap_or(u32::MAX);
            }
        }
    }

    /// How the whole connection ends. Silence if it does not.
    pub(super) fn http2_end(&mut self) -> Seen {
        self.http2(u32::MAX)
    }
}

impl Frame {
    /// What the head of an answer says. An answer that ends with its head is how gRPC tells an error.
    fn head(&self) -> Seen {
        match (self.payload.first(), self.flags & END_STREAM != 0) {
            (Some(&STATUS_200), false) => Seen::Answer("200".to_owned()),
            (Some(&STATUS_200), true) => Seen::Refusal("gRPC status".to_owned()),
            _ => Seen::Refusal("HTTP status".to_owned()),
        }
    }

    /// The value of a setting.
    pub(super) fn setting(&self, name: u16) -> Option<u32> {
        let settings = self.payload.chunks_exact(6);
        let mut found = settings.filter(|setting| setting[..2] == name.to_be_bytes());
        found.next().and_then(|setting| setting[2..].try_into().ok()).map(u32::from_be_bytes)
    }

    fn code(&self, at: usize) -> u32 {
        let bytes = self.payload.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(u32::MAX, u32::from_be_bytes)
    }

    pub(super) fn reason(&self, at: usize) -> &'static str {
        match self.code(at) {
            0 => "NO_ERROR",
            1 => "PROTOCOL_ERROR",
            2 => "INTERNAL_ERROR",
            3 => "FLOW_CONTROL_ERROR",
            5 => "STREAM_CLOSED",
            6 => "FRAME_SIZE_ERROR",
            7 => "REFUSED_STREAM",
            8 => "CANCEL",
            9 => "COMPRESSION_ERROR",
            11 => "ENHANCE_YOUR_CALM",
            _ => "another error",
        }
    }
}
