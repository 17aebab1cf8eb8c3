//! Commands to bytes, bytes to replies: RESP, as much of it as is spoken here.
//!
//! Commands are written straight into one buffer, numbers as digits. Replies come in pieces of any size, from a peer that may be anything:
//! every byte is looked at once, nothing is allocated because of a length that was only announced, and what is not RESP
//! is an error, after which the stream cannot be understood any more. Scripts answer with arrays of integers, which are read
//! as such.

#[cfg(test)]
mod tests;

use bytes::{Buf, BytesMut};
use thiserror::Error;

/// The deepest array within arrays.
pub(crate) const DEPTH_MAX: usize = 8;
/// The longest line: errors and status.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 10;
/// The longest string.
pub(crate) const BULK_BYTES_MAX: usize = 1 << 20;
/// The most items that all arrays of one reply have. The slots of a large cluster are the longest reply there is.
pub(crate) const ITEMS_MAX: usize = 1 << 20;
/// Room that is made at once for the items that an array announces.
const ITEMS_EXPECTED_MAX: usize = 1 << 10;

const LINE_END: &[u8] = b"\r\n";

/// Commands on their way.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    bytes: Vec<u8>,
}

/// The arguments of a command whose number is not yet known.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    bytes: Vec<u8>,
    count: usize,
}

impl Arguments {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    pub(crate) fn text(&mut self, text: &[u8]) {
        bulk(&mut self.bytes, text);
        self.count += 1;
    }

    /// One text of several pieces.
    pub(crate) fn joined(&mut self, pieces: &[&[u8]]) {
        header(&mut self.bytes, b'$', pieces.iter().map(|piece| piece.len()).sum());
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
        self.bytes.extend_from_slice(LINE_END);
        self.count += 1;
    }

    pub(crate) fn number(&mut self, number: i64) {
        let mut digits = itoa::Buffer::new();
        self.text(digits.format(number).as_bytes());
    }
}

impl Commands {
    /// A command of a few words.
    pub(crate) fn command(&mut self, words: &[&[u8]]) {
        header(&mut self.bytes, b'*', words.len());
        for word in words {
            bulk(&mut self.bytes, word);
        }
    }

    /// A command whose first words are these, followed by arguments.
    pub(crate) fn command_with(&mut self, words: &[&[u8]], arguments: &Arguments) {
        header(&mut self.bytes, b'*', words.len() + arguments.count);
        for word in words {
            bulk(&mut self.bytes, word);
        }
        self.bytes.extend_from_slice(&arguments.bytes);
    }

    /// Commands that were written elsewhere.
    pub(crate) fn append(&mut self, other: &Commands) {
        self.bytes.extend_from_slice(&other.bytes);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }
}

fn header(bytes: &mut Vec<u8>, mark: u8, length: usize) {
    bytes.push(mark);
    bytes.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    bytes.extend_from_slice(LINE_END);
}

fn bulk(bytes: &mut Vec<u8>, text: &[u8]) {
    header(bytes, b'$', text.len());
    bytes.extend_from_slice(text);
    bytes.extend_from_slice(LINE_END);
}

/// What Redis answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A word, such as OK.
    Status(String),
    /// It cannot, or will not: a code, and a sentence.
    Error(String),
    Integer(i64),
    Text(Vec<u8>),
    Nil,
    /// An array of integers alone; an empty one too.
    Integers(Vec<i64>),
    Array(Vec<Reply>),
}

impl Reply {
    /// The text of a string or a status.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Reply::Text(text) => std::str::from_utf8(text).ok(),
            Reply::Status(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Reply::Integer(number) => Some(*number),
            _ => None,
        }
    }
}

/// What cannot be a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum WireError {
    #[error("no reply begins with {0:#04x}: this is not Redis, or it speaks TLS")]
    Mark(u8),
    #[error("a length or a number is none")]
    Number,
    #[error("a string that does not end where it should")]
    End,
    #[error("a line of more than {LINE_BYTES_MAX} bytes")]
    Line,
    #[error("a string of more than {BULK_BYTES_MAX} bytes")]
    Bulk,
    #[error("more than {ITEMS_MAX} items")]
    Items,
    #[error("arrays more than {DEPTH_MAX} deep")]
    Depth,
}

/// Finds replies in a stream.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    bytes: BytesMut,
    /// No line ends before this.
    scanned: usize,
    /// The string that is being waited for, without its end.
    awaited_bulk: Option<usize>,
    /// The arrays that have begun, the outermost first.
    open: Vec<Open>,
    /// The items that those have announced.
    announced: usize,
    /// An array that nobody needs any more, for its memory.
    spare: Vec<i64>,
}

#[derive(Debug)]
struct Open {
    items: Items,
    missing: usize,
}

#[derive(Debug)]
enum Items {
    Integers(Vec<i64>),
    Mixed(Vec<Reply>),
}

impl Replies {
    /// Where bytes that have arrived are put.
    pub(crate) fn incoming(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Gives the memory of an array back.
    pub(crate) fn recycle(&mut self, mut integers: Vec<i64>) {
        if integers.capacity() > self.spare.capacity() && integers.capacity() <= 16 * ITEMS_EXPECTED_MAX {
            integers.clear();
            self.spare = integers;
        }
    }

    /// The next reply, if all of it has arrived.
    pub(crate) fn next(&mut self) -> Result<Option<Reply>, WireError> {
        while let Some(item) = self.item()? {
            if let Some(reply) = self.place(item) {
                self.announced = 0;
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    /// Puts an item where it belongs; gives it back if it is a whole reply.
    fn place(&mut self, mut item: Reply) -> Option<Reply> {
        while let Some(top) = self.open.last_mut() {
            top.items.push(item);
            top.missing -= 1;
            if top.missing > 0 {
                return None;
            }
            item = self.open.pop()?.items.into_reply();
        }
        Some(item)
    }

    /// One item, which is never an array with items of its own: that is opened, and the first of its items looked for.
    fn item(&mut self) -> Result<Option<Reply>, WireError> {
        loop {
            if let Some(length) = self.awaited_bulk {
                return self.bulk(length);
            }
            let Some(end) = self.line_end()? else { return Ok(None) };
            let line = Line::read(self.bytes.get(..end).unwrap_or_default())?;
            self.bytes.advance(end + LINE_END.len());
            match line {
                Line::Item(reply) => return Ok(Some(reply)),
                Line::Bulk(length) => self.awaited_bulk = Some(length),
                Line::Array(length) => self.open(length)?,
            }
        }
    }

    fn open(&mut self, length: usize) -> Result<(), WireError> {
        if self.open.len() == DEPTH_MAX {
            return Err(WireError::Depth);
        }
        self.announced = self.announced.saturating_add(length);
        if self.announced > ITEMS_MAX {
            return Err(WireError::Items);
        }
        let mut integers = std::mem::take(&mut self.spare);
        integers.reserve(length.min(ITEMS_EXPECTED_MAX));
        self.open.push(Open { items: Items::Integers(integers), missing: length });
        Ok(())
    }

    fn bulk(&mut self, length: usize) -> Result<Option<Reply>, WireError> {
        if self.bytes.len() < length + LINE_END.len() {
            return Ok(None);
        }
        self.awaited_bulk = None;
        let (text, rest) = self.bytes.split_at(length);
        if !rest.starts_with(LINE_END) {
            return Err(WireError::End);
        }
        let text = text.to_vec();
        self.bytes.advance(length + LINE_END.len());
        Ok(Some(Reply::Text(text)))
    }

    /// Where the first line ends.
    fn line_end(&mut self) -> Result<Option<usize>, WireError> {
        let unseen = self.bytes.get(self.scanned..).unwrap_or_default();
        let found = unseen.iter().position(|byte| *byte == b'\n');
        if self.scanned == 0
            && let Some(first) = unseen.first()
            && !b":+-_$*".contains(first)
        {
            return Err(WireError::Mark(*first)); // Before a line's end, which garbage may never have.
        }
        let end = found.map_or(self.bytes.len(), |offset| self.scanned + offset);
        if end > LINE_BYTES_MAX {
            return Err(WireError::Line);
        }
        self.scanned = if found.is_some() { 0 } else { end };
        match found {
            None => Ok(None),
            Some(_) if end > 0 && self.bytes.get(end - 1) == Some(&b'\r') => Ok(Some(end - 1)),
            Some(_) => Err(WireError::End),
        }
    }
}

/// What a line says.
enum Line {
    Item(Reply),
    /// A string of so many bytes follows.
    Bulk(usize),
    /// So many items follow.
    Array(usize),
}

impl Line {
    fn read(line: &[u8]) -> Result<Line, WireError> {
        let (mark, rest) = line.split_first().ok_or(WireError::Mark(b'\r'))?;
        let text = || String::from_utf8_lossy(rest).into_owned();
        Ok(match mark {
            b':' => Line::Item(Reply::Integer(number(rest)?)),
            b'+' => Line::Item(Reply::Status(text())),
            b'-' => Line::Item(Reply::Error(text())),
            b'_' => Line::Item(Reply::Nil),
            b'$' => match length(rest)? {
                None => Line::Item(Reply::Nil),
                Some(length) if length > BULK_BYTES_MAX => return Err(WireError::Bulk),
                Some(length) => Line::Bulk(length),
            },
            b'*' => match length(rest)? {
                None => Line::Item(Reply::Nil),
                Some(0) => Line::Item(Reply::Integers(Vec::new())),
                Some(length) => Line::Array(length),
            },
            other => return Err(WireError::Mark(*other)),
        })
    }
}

impl Items {
    fn push(&mut self, item: Reply) {
        match (&mut *self, item) {
            (Items::Integers(integers), Reply::Integer(number)) => integers.push(number),
            (Items::Integers(integers), item) => {
                let mut mixed: Vec<Reply> = integers.drain(..).map(Reply::Integer).collect();
                mixed.push(item);
                *self = Items::Mixed(mixed);
            }
            (Items::Mixed(mixed), item) => mixed.push(item),
        }
    }

    fn into_reply(self) -> Reply {
        match self {
            Items::Integers(integers) => Reply::Integers(integers),
            Items::Mixed(mixed) => Reply::Array(mixed),
        }
    }
}

/// A length, or nothing for -1.
fn length(digits: &[u8]) -> Result<Option<usize>, WireError> {
    match number(digits)? {
        -1 => Ok(None),
        length => usize::try_from(length).map(Some).map_err(|_| WireError::Number),
    }
}

fn number(digits: &[u8]) -> Result<i64, WireError> {
    let (is_negative, digits) = match digits.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, digits),
    };
    if digits.is_empty() {
        return Err(WireError::Number);
    }
    // Counted downwards: there is one negative number more.
    let mut number = 0_i64;
    for digit in digits {
        let digit = i64::from(digit.wrapping_sub(b'0'));
        if digit > 9 {
            return Err(WireError::Number);
        }
        number = number.checked_mul(10).and_then(|n| n.checked_sub(digit)).ok_or(WireError::Number)?;
    }
    if is_negative { Ok(number) } else { number.checked_neg().ok_or(WireError::Number) }
}
