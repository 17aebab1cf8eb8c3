//! HTTP/1.1 whose lines end with CR LF, and whose requests end where every program says that they end.
//!
//! hyper takes a bare LF for the end of a line as well. A proxy before the server may not, and then the two see different header fields:
//! that is how a request is smuggled past a proxy. So the bytes are looked at before hyper gets them. What is wrong is made
//! something that hyper refuses with 400.

#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::write_through;

/// So much of a line is looked at. The fields that say how long a body is are shorter.
const LINE_BYTES_MAX: usize = 128;
/// What no header may contain: hyper answers 400 to it.
const FORBIDDEN: u8 = 0;

/// A request cannot be told from the next one without doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doubtful;

/// How long the body of a request is, as far as its header has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Length {
    bytes: Option<u64>,
    is_chunked: bool,
}

/// Where in a request the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the first line, or before it.
    Start,
    Fields,
    /// In a body that has so much left.
    Body(u64),
    /// In the digits of a chunk's size, and then in what follows them on the line.
    Size(Option<u64>),
    Extension(u64),
    Chunk(u64),
    /// In the line end after a chunk, of which so many bytes were seen.
    ChunkEnd(u8),
    Trailers,
    /// Behind something that hyper refuses.
    Refused,
}

/// Follows the requests of a connection.
#[derive(Debug)]
struct Requests {
    place: Place,
    length: Length,
    /// The line so far, without its end.
    line: Vec<u8>,
    /// Whether the line is longer than what is kept of it.
    is_long: bool,
    last: u8,
}

impl Requests {
    fn new() -> Requests {
        Requests { place: Place::Start, length: Length::default(), line: Vec::new(), is_long: false, last: 0 }
    }

    /// Looks at bytes. An error says at which of them it is in doubt.
    fn read(&mut self, bytes: &[u8]) -> Result<(), usize> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if let Place::Body(left) | Place::Chunk(left) = self.place {
                let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - at);
                self.skip(left - skipped as u64);
                at += skipped;
                continue;
            }
            self.take(byte).map_err(|Doubtful| at)?;
            at += 1;
        }
        Ok(())
    }

    /// So much is left of a body or of a chunk.
    fn skip(&mut self, left: u64) {
        self.place = match (self.place, left) {
            (Place::Body(_), 0) => Place::Start,
            (Place::Body(_), _) => Place::Body(left),
            (_, 0) => Place::ChunkEnd(0),
            _ => Place::Chunk(left),
        };
    }

    fn take(&mut self, byte: u8) -> Result<(), Doubtful> {
        let before = std::mem::replace(&mut self.last, byte);
        if byte == b'\n' && before != b'\r' && self.place != Place::Refused {
            return Err(Doubtful);
        }
        match self.place {
            Place::Start | Place::Fields | Place::Trailers => match byte {
                b'\n' => return self.end_line(),
                _ if self.line.len() < LINE_BYTES_MAX => self.line.push(byte),
                _ => self.is_long = true,
            },
            Place::Size(size) => self.place = next_of_size(size, byte)?,
            Place::Extension(0) if byte == b'\n' => self.place = Place::Trailers,
            Place::Extension(size) if byte == b'\n' => self.place = Place::Chunk(size),
            Place::ChunkEnd(0) if byte == b'\r' => self.place = Place::ChunkEnd(1),
            Place::ChunkEnd(1) if byte == b'\n' => self.place = Place::Size(None),
            Place::ChunkEnd(_) => return Err(Doubtful),
            Place::Extension(_) | Place::Body(_) | Place::Chunk(_) | Place::Refused => {}
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), Doubtful> {
        let line = std::mem::take(&mut self.line);
        let is_long = std::mem::take(&mut self.is_long);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        match (self.place, line.is_empty() && !is_long) {
            (Place::Start, false) => (self.place, self.length) = (Place::Fields, Length::default()),
            (Place::Fields, false) => self.length.hear(line, is_long)?,
            (Place::Fields, true) => {
                self.place = match self.length {
                    Length { is_chunked: true, bytes: None } => Place::Size(None),
                    Length { is_chunked: true, bytes: Some(_) } => return Err(Doubtful),
                    Length { bytes: None | Some(0), .. } => Place::Start,
                    Length { bytes: Some(bytes), .. } => Place::Body(bytes),
                }
            }
            (Place::Trailers, true) => self.place = Place::Start,
            _ => {}
        }
        Ok(())
    }
}

impl Length {
    /// Hears a field, which may say how long the body is.
    fn hear(&mut self, line: &[u8], is_long: bool) -> Result<(), Doubtful> {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { return Ok(()) };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        // hyper refuses a name that has white space at its end.
        let is_length = name.trim_ascii().eq_ignore_ascii_case(b"content-length");
        let is_coding = name.trim_ascii().eq_ignore_ascii_case(b"transfer-encoding");
        if is_length {
            let bytes = number(value).filter(|_| !is_long).ok_or(Doubtful)?;
            if self.bytes.replace(bytes).is_some_and(|before| before != bytes) {
                return Err(Doubtful);
            }
        }
        if is_coding {
            let is_known = value.eq_ignore_ascii_case(b"chunked") && !is_long && !self.is_chunked;
            self.is_chunked = true;
            return if is_known { Ok(()) } else { Err(Doubtful) };
        }
        Ok(())
    }
}

/// Digits alone.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

fn next_of_size(size: Option<u64>, byte: u8) -> Result<Place, Doubtful> {
    match (char::from(byte).to_digit(16), size) {
        (Some(digit), size) => {
            let size = size.unwrap_or(0).checked_mul(16).ok_or(Doubtful)?;
            Ok(Place::Size(Some(size + u64::from(digit))))
        }
        (None, Some(size)) => Ok(Place::Extension(size)),
        (None, None) => Err(Doubtful),
    }
}

/// A connection of HTTP/1.1.
#[derive(Debug)]
pub(super) struct Strict<S> {
    io: S,
    requests: Requests,
}

impl<S> Strict<S> {
    pub(super) fn new(io: S) -> Strict<S> {
        Strict { io, requests: Requests::new() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Strict<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Strict { io, requests } = self.get_mut();
        let start = buffer.filled().len();
        ready!(Pin::new(io).poll_read(context, buffer))?;
        let read = buffer.filled_mut().get_mut(start..).unwrap_or_default();
        let Err(at) = requests.read(read) else { return Poll::Ready(Ok(())) };
        let is_head = matches!(requests.place, Place::Start | Place::Fields);
        requests.place = Place::Refused;
        if !is_head {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        if let Some(byte) = read.get_mut(at) {
            *byte = FORBIDDEN;
        }
        Poll::Ready(Ok(()))
    }
}

write_through!(Strict);
