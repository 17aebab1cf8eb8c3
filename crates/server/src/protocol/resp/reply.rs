//! Answers to bytes, in the version of the protocol that the client has chosen.
//!
//! RESP2 has no maps, sets or texts with a format: there they are arrays and plain strings, as Redis sends them.

#[cfg(test)]
mod tests;

use std::fmt::Display;

/// The longest text of an error. What clients have sent may be part of it.
pub(super) const ERROR_BYTES_MAX: usize = 1024;

const END: &[u8] = b"\r\n";

/// The version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    /// What every client begins with.
    #[default]
    Resp2,
    Resp3,
}

impl Version {
    pub(super) fn number(self) -> i64 {
        match self {
            Version::Resp2 => 2,
            Version::Resp3 => 3,
        }
    }
}

/// Answers that are ready to be written.
#[derive(Debug, Default)]
pub(super) struct Replies {
    bytes: Vec<u8>,
    version: Version,
}

impl Replies {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The memory they take.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Forgets what was written, and memory beyond `kept_bytes`.
    pub(super) fn clear(&mut self, kept_bytes: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(kept_bytes);
    }

    /// All that was written, which is written no more.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Answers that were written before.
    pub(super) fn raw(&mut self, written: &[u8]) {
        self.bytes.extend_from_slice(written);
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// What all answers from now on are written in.
    pub(super) fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    /// A short text of ours.
    pub(super) fn simple(&mut self, text: &'static str) {
        self.line(b'+', text.as_bytes());
    }

    pub(super) fn ok(&mut self) {
        self.simple("OK");
    }

    /// An error. Its text begins with a code such as `ERR`; it becomes one line, and not a long one.
    pub(super) fn error(&mut self, text: impl Display) {
        let text = text.to_string();
        let cut = text.floor_char_boundary(ERROR_BYTES_MAX);
        let text = text[..cut].replace(['\r', '\n'], " ");
        self.line(b'-', text.as_bytes());
    }

    pub(super) fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.length(b'$', bytes.len());
        self.bytes.reserve(bytes.len() + END.len()); // At once: the end alone would double what a long one takes.
        self.bytes.extend_from_slice(bytes);
        self.end();
    }

    /// A text for people.
    pub(super) fn text(&mut self, text: &str) {
        const FORMAT: &[u8] = b"txt:";
        match self.version {
            Version::Resp2 => self.bulk(text.as_bytes()),
            Version::Resp3 => {
                self.length(b'=', FORMAT.len() + text.len());
                self.bytes.extend_from_slice(FORMAT);
                self.bytes.extend_from_slice(text.as_bytes());
                self.end();
            }
        }
    }

    /// Nothing, where a string would stand.
    pub(super) fn nil(&mut self) {
        self.nothing(b"$-1\r\n");
    }

    /// Nothing, where an array would stand.
    pub(super) fn nil_array(&mut self) {
        self.nothing(b"*-1\r\n");
    }

    /// The start of an array: so many answers are its elements.
    pub(super) fn array(&mut self, length: usize) {
        self.length(b'*', length);
    }

    /// The start of a map: so many pairs of answers are its entries.
    pub(super) fn map(&mut self, entries: usize) {
        match self.version {
            Version::Resp2 => self.length(b'*', 2 * entries),
            Version::Resp3 => self.length(b'%', entries),
        }
    }

    /// The start of a set.
    pub(super) fn set(&mut self, length: usize) {
        match self.version {
            Version::Resp2 => self.length(b'*', length),
            Version::Resp3 => self.length(b'~', length),
        }
    }

    fn nothing(&mut self, in_resp2: &[u8]) {
        match self.version {
            Version::Resp2 => self.bytes.extend_from_slice(in_resp2),
            Version::Resp3 => self.bytes.extend_from_slice(b"_\r\n"),
        }
    }

    fn length(&mut self, mark: u8, length: usize) {
        self.number(mark, length);
    }

    fn number(&mut self, mark: u8, number: impl itoa::Integer) {
        match *itoa::Buffer::new().format(number).as_bytes() {
            // Most numbers are short. Of a length that is known beforehand, they are put there in one piece.
            [one] => self.bytes.extend_from_slice(&[mark, one, b'\r', b'\n']),
            [ten, one] => self.bytes.extend_from_slice(&[mark, ten, one, b'\r', b'\n']),
            ref digits => self.line(mark, digits),
        }
    }

    fn line(&mut self, mark: u8, text: &[u8]) {
        self.bytes.push(mark);
        self.bytes.extend_from_slice(text);
        self.end();
    }

    fn end(&mut self) {
        self.bytes.extend_from_slice(END);
    }
}
