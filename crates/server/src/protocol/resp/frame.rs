//! Bytes to commands: arrays of bulk strings as clients send them, and lines as people type them.
//!
//! Bytes arrive in pieces. What has been understood of a command is kept, so that every byte is looked at once however many pieces
//! there are, and nothing is allocated because of a length that was only announced. A command does not nest: an array within one is
//! an error at its first byte. Errors have Redis's own texts, and after one the stream cannot be understood any more.

mod inline;
#[cfg(test)]
mod tests;

use std::ops::Range;

use thiserror::Error;

/// The longest command, with all its headers.
pub(super) const COMMAND_BYTES_MAX: usize = 1 << 20;
/// The most arguments of a command, its name among them.
pub(super) const ARGUMENTS_MAX: usize = 1024;
/// The longest line that is a command.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;
/// The same three for clients that have yet to authenticate: as in Redis, and enough to do so.
pub(super) const STRANGER_ARGUMENT_BYTES_MAX: usize = 16 << 10;
pub(super) const STRANGER_ARGUMENTS_MAX: usize = 10;
pub(super) const STRANGER_LINE_BYTES_MAX: usize = 16 << 10;
/// The longest header, with its mark and its end: room for any 64-bit number.
pub(super) const HEADER_BYTES_MAX: usize = 32;

const LINE_END: &[u8] = b"\r\n";

/// Why a stream cannot be understood any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum ProtocolError {
    #[error("Protocol error: too big mbulk count string")]
    ArrayHeader,
    #[error("Protocol error: invalid multibulk length")]
    ArrayLength,
    #[error("Protocol error: expected '$', got '{}'", std::ascii::escape_default(*.got))]
    NotABulk { got: u8 },
    #[error("Protocol error: too big bulk count string")]
    BulkHeader,
    #[error("Protocol error: invalid bulk length")]
    BulkLength,
    #[error("Protocol error: unauthenticated multibulk length")]
    StrangerArrayLength,
    #[error("Protocol error: unauthenticated bulk length")]
    StrangerBulkLength,
    #[error("Protocol error: too big inline request")]
    LineLength,
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
}

/// The arguments of one command, the first of which is its name.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a> {
    bytes: &'a [u8],
    ranges: &'a [Range<usize>],
}

impl<'a> Arguments<'a> {
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.bytes.get(self.ranges.get(index)?.clone())
    }

    /// All from an index on.
    pub(super) fn from(&self, index: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (bytes, ranges) = (self.bytes, self.ranges.get(index..).unwrap_or_default());
        ranges.iter().filter_map(|range| bytes.get(range.clone()))
    }
}

/// Finds commands in a stream, one after the other.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// Where the arguments of the command are: in its bytes, or in `unquoted`.
    ranges: Vec<Range<usize>>,
    /// The arguments of a line, side by side and without their quotes.
    unquoted: Vec<u8>,
    is_line: bool,
    /// Everything of the command before this was looked at.
    at: usize,
    awaited: Awaited,
    /// Whether the client has yet to authenticate, and so has less room.
    is_stranger: bool,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default)]
enum Awaited {
    #[default]
    Command,
    LineEnd,
    BulkHeader {
        left: usize,
    },
    BulkBody {
        left: usize,
        length: usize,
    },
}

impl Parser {
    /// Gives less room from the next command on, or all of it.
    pub(super) fn expect(&mut self, is_stranger: bool) {
        self.is_stranger = is_stranger;
    }

    /// Goes on with the command at the start of `input`, of which earlier calls may have seen a shorter piece. Once it is complete,
    /// says how long it was; its arguments can be had until the next call, which is about the command after it.
    pub(super) fn parse(&mut self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        if !self.is_stranger
            && matches!(self.awaited, Awaited::Command)
            && let Some(length) = self.whole(input)
        {
            return Ok(Some(length));
        }
        loop {
            let complete = match self.awaited {
                Awaited::Command => self.start(input)?,
                Awaited::LineEnd => self.line(input)?,
                Awaited::BulkHeader { left: 0 } => Some(true),
                Awaited::BulkHeader { left } => self.bulk_header(input, left)?,
                Awaited::BulkBody { left, length } => self.bulk_body(input, left, length)?,
            };
            match complete {
                None => return Ok(None),
                Some(false) => {}
                Some(true) => {
                    self.awaited = Awaited::Command;
                    return Ok(Some(self.at));
                }
            }
        }
    }

    /// How long the command is at least that was begun, as far as it has said so.
    pub(super) fn announced_bytes(&self) -> usize {
        match self.awaited {
            Awaited::BulkBody { length, .. } => self.at + length + LINE_END.len(),
            _ => self.at,
        }
    }

    /// The arguments of the command that was just found at the start of `input`. There are none in an empty line or array.
    pub(super) fn arguments<'a>(&'a self, input: &'a [u8]) -> Arguments<'a> {
        Arguments { bytes: if self.is_line { &self.unquoted } else { input }, ranges: &self.ranges }
    }

    /// Finds a command that is there as a whole and has nothing unusual about it: an array of less than a hundred strings, each shorter
    /// than a hundred bytes. That is nearly every command, and takes half the time of the steps below, which are left all others.
    fn whole(&mut self, input: &[u8]) -> Option<usize> {
        let (count, mut at) = short_header(input, 0, b'*').filter(|&(count, _)| count > 0)?;
        self.ranges.clear();
        for _ in 0..count {
            let (length, start) = short_header(input, at, b'$')?;
            let end = start + length;
            if input.get(end..end + LINE_END.len())? != LINE_END {
                return None;
            }
            self.ranges.push(start..end);
            at = end + LINE_END.len();
        }
        self.is_line = false;
        self.at = at;
        Some(at)
    }

    // Each step says whether the command is complete, or nothing if it needs more bytes.

    fn start(&mut self, input: &[u8]) -> Result<Option<bool>, ProtocolError> {
        self.ranges.clear();
        self.at = 0;
        let Some(&mark) = input.first() else { return Ok(None) };
        self.is_line = mark != b'*';
        if self.is_line {
            self.awaited = Awaited::LineEnd;
            return Ok(Some(false));
        }
        let Some(digits) = header(input, ProtocolError::ArrayHeader)? else { return Ok(None) };
        let count = number(digits).ok_or(ProtocolError::ArrayLength)?;
        // Redis passes by empty and negative arrays.
        let left = usize::try_from(count.max(0)).map_err(|_| ProtocolError::ArrayLength)?;
        if left > ARGUMENTS_MAX {
            return Err(ProtocolError::ArrayLength);
        }
        if self.is_stranger && left > STRANGER_ARGUMENTS_MAX {
            return Err(ProtocolError::StrangerArrayLength);
        }
        self.at = 1 + digits.len() + LINE_END.len();
        self.awaited = Awaited::BulkHeader { left };
        Ok(Some(false))
    }

    fn bulk_header(&mut self, input: &[u8], left: usize) -> Result<Option<bool>, ProtocolError> {
        let rest = input.get(self.at..).unwrap_or_default();
        match rest.first() {
            None => return Ok(None),
            Some(b'$') => {}
            Some(&got) => return Err(ProtocolError::NotABulk { got }),
        }
        let Some(digits) = header(rest, ProtocolError::BulkHeader)? else { return Ok(None) };
        let length = number(digits).and_then(|length| usize::try_from(length).ok());
        let at = self.at + 1 + digits.len() + LINE_END.len();
        let fits = |&length: &usize| {
            length <= COMMAND_BYTES_MAX && at + length + LINE_END.len() <= COMMAND_BYTES_MAX
        };
        let length = length.filter(fits).ok_or(ProtocolError::BulkLength)?;
        if self.is_stranger && length > STRANGER_ARGUMENT_BYTES_MAX {
            return Err(ProtocolError::StrangerBulkLength);
        }
        self.at = at;
        self.awaited = Awaited::BulkBody { left, length };
        Ok(Some(false))
    }

    fn bulk_body(&mut self, input: &[u8], left: usize, length: usize) -> Result<Option<bool>, ProtocolError> {
        let end = self.at + length;
        let Some(after) = input.get(end..end + LINE_END.len()) else { return Ok(None) };
        if after != LINE_END {
            return Err(ProtocolError::BulkLength); // It does not end where its length says.
        }
        self.ranges.push(self.at..end);
        self.at = end + LINE_END.len();
        self.awaited = Awaited::BulkHeader { left: left - 1 };
        Ok(Some(false))
    }

    fn line(&mut self, input: &[u8]) -> Result<Option<bool>, ProtocolError> {
        let unseen = input.get(self.at..).unwrap_or_default();
        let found = unseen.iter().position(|&byte| byte == b'\n');
        let end = self.at + found.unwrap_or(unseen.len());
        if end > if self.is_stranger { STRANGER_LINE_BYTES_MAX } else { LINE_BYTES_MAX } {
            return Err(ProtocolError::LineLength);
        }
        self.at = end;
        if found.is_none() {
            return Ok(None);
        }
        let line = input.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        inline::split(line, &mut self.unquoted, &mut self.ranges)?;
        self.at = end + 1;
        Ok(Some(true))
    }
}

/// A header whose number has one digit or two: the number, and where the header ends.
#[inline]
fn short_header(input: &[u8], at: usize, mark: u8) -> Option<(usize, usize)> {
    let digit = |byte: u8| usize::from(byte.wrapping_sub(b'0'));
    match *input.get(at..at + 5)?.first_chunk::<5>()? {
        [first, one, b'\r', b'\n', _] if first == mark && digit(one) <= 9 => Some((digit(one), at + 4)),
        [first, ten, one, b'\r', b'\n']
            if first == mark && (1..=9).contains(&digit(ten)) && digit(one) <= 9 =>
        {
            Some((10 * digit(ten) + digit(one), at + 5))
        }
        _ => None,
    }
}

/// What stands between the mark at the start and the end of a line, once that is there.
fn header(input: &[u8], too_long: ProtocolError) -> Result<Option<&[u8]>, ProtocolError> {
    let window = &input[..input.len().min(HEADER_BYTES_MAX)];
    match window.windows(LINE_END.len()).position(|pair| pair == LINE_END) {
        Some(end) => Ok(window.get(1..end)),
        None if input.len() >= HEADER_BYTES_MAX => Err(too_long),
        None => Ok(None),
    }
}

/// A number as Redis takes it: no plus, no spaces, no zeros in front.
fn number(digits: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match digits.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, digits),
    };
    if digits.is_empty() || (digits.starts_with(b"0") && (digits.len() > 1 || is_negative)) {
        return None;
    }
    let magnitude = digits.iter().try_fold(0_i64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if is_negative { -magnitude } else { magnitude })
}
