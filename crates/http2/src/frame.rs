//! Frames: nine bytes that say what follows, how much of it, and on which stream.

#[cfg(test)]
mod tests;

/// The length of a frame's header.
pub const HEADER_BYTES: usize = 9;
/// The longest payload that a peer may send, unless it was told that it may send more.
pub const PAYLOAD_BYTES_MAX: usize = 16_384;

/// The bits of a length.
const LENGTH_MASK: u32 = 0x00ff_ffff;
/// The bits of a stream's number or of a window. The highest bit is reserved, and what it says is ignored.
const LOW_31_BITS: u32 = 0x7fff_ffff;
/// What the flag `PRIORITY` puts before a header block: a stream's number and a weight.
const PRIORITY_BYTES: usize = 5;

/// What a frame is for.
#[allow(missing_docs)]
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// What a frame's flags mean, which depends on its kind.
#[allow(missing_docs)]
pub mod flag {
    pub const END_STREAM: u8 = 0x1;
    /// Of `SETTINGS` and `PING`.
    pub const ACK: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

/// Why a stream or a connection ends.
#[allow(missing_docs)]
pub mod code {
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    pub const STREAM_CLOSED: u32 = 5;
    pub const FRAME_SIZE_ERROR: u32 = 6;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
    pub const COMPRESSION_ERROR: u32 = 9;
    pub const ENHANCE_YOUR_CALM: u32 = 11;
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// How long the payload is, in 24 bits.
    pub length: u32,
    /// One of [`kind`], or one that is not known.
    pub kind: u8,
    /// Some of [`flag`], and whatever else was sent.
    pub flags: u8,
    /// 31 bits. Zero is the connection itself.
    pub stream: u32,
}

impl Head {
    /// The header that `bytes` begin with. None if they are fewer than [`HEADER_BYTES`].
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Head> {
        let &[l0, l1, l2, kind, flags, s0, s1, s2, s3] = bytes.first_chunk::<HEADER_BYTES>()?;
        let length = u32::from_be_bytes([0, l0, l1, l2]);
        let stream = u32::from_be_bytes([s0, s1, s2, s3]) & LOW_31_BITS;
        Some(Head { length, kind, flags, stream })
    }

    /// Writes the header. Of the length 24 bits are written, of the stream's number 31.
    #[inline]
    pub fn put(&self, out: &mut Vec<u8>) {
        let [_, l0, l1, l2] = (self.length & LENGTH_MASK).to_be_bytes();
        let [s0, s1, s2, s3] = (self.stream & LOW_31_BITS).to_be_bytes();
        out.extend_from_slice(&[l0, l1, l2, self.kind, self.flags, s0, s1, s2, s3]);
    }

    /// Whether a flag is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The payload of `DATA` or `HEADERS` without its padding and priority. An error says which [`code`] the connection has to end with: the
/// frame is too short for what its flags announce, or is padded with more than it holds.
#[inline]
pub fn unpadded(head: Head, payload: &[u8]) -> Result<&[u8], u32> {
    let mut rest = payload;
    let mut padding_bytes = 0;
    if head.has(flag::PADDED) {
        let (&length, after) = rest.split_first().ok_or(code::FRAME_SIZE_ERROR)?;
        (padding_bytes, rest) = (usize::from(length), after);
    }
    if head.kind == kind::HEADERS && head.has(flag::PRIORITY) {
        rest = rest.get(PRIORITY_BYTES..).ok_or(code::FRAME_SIZE_ERROR)?;
    }
    let end = rest.len().checked_sub(padding_bytes).ok_or(code::PROTOCOL_ERROR)?;
    rest.get(..end).ok_or(code::PROTOCOL_ERROR)
}

/// Writes that the peer may send so many bytes more, on a stream or, on stream zero, in all.
pub fn put_window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    Head { length: 4, kind: kind::WINDOW_UPDATE, flags: 0, stream }.put(out);
    out.extend_from_slice(&(bytes & LOW_31_BITS).to_be_bytes());
}

/// Writes that a stream ends at once, and why: one of [`code`].
pub fn put_reset(out: &mut Vec<u8>, stream: u32, code: u32) {
    Head { length: 4, kind: kind::RST_STREAM, flags: 0, stream }.put(out);
    out.extend_from_slice(&code.to_be_bytes());
}

/// Writes that the connection ends after a stream, and why: one of [`code`].
pub fn put_goaway(out: &mut Vec<u8>, last_stream: u32, code: u32) {
    Head { length: 8, kind: kind::GOAWAY, flags: 0, stream: 0 }.put(out);
    out.extend_from_slice(&(last_stream & LOW_31_BITS).to_be_bytes());
    out.extend_from_slice(&code.to_be_bytes());
}
