//! A socket with no manners: sends any bytes, and reads as far as it needs to know what the server made of them.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use super::super::http::connect_from;
use super::seen::Seen;

/// Longer than any time-out of the server: whoever hears nothing for so long never will.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
/// A server that takes nothing for so long has stopped reading.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest line that is read.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A connection.
#[derive(Debug)]
pub(super) struct Raw {
    reader: BufReader<TcpStream>,
}

/// How sending went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// All of it.
    All,
    /// The server takes no more.
    Stalled,
    /// The server has closed.
    Closed,
}

impl Raw {
    /// Opens a connection. A server that takes none is gone, and there is nothing more to say.
    pub(super) fn connect(address: SocketAddr) -> Raw {
        Raw::try_connect(address).unwrap_or_else(|error| panic!("no connection to {address}: {error}"))
    }

    /// The same from this address of the machine.
    pub(super) fn connect_from(source: IpAddr, address: SocketAddr) -> Raw {
        let connected = connect_from(source, address).and_then(Raw::over);
        connected.unwrap_or_else(|error| panic!("no connection to {address}: {error}"))
    }

    fn try_connect(address: SocketAddr) -> io::Result<Raw> {
        Raw::over(TcpStream::connect_timeout(&address, READ_TIMEOUT)?)
    }

    fn over(stream: TcpStream) -> io::Result<Raw> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(Raw { reader: BufReader::new(stream) })
    }

    /// A connection that has sent this.
    pub(super) fn sending(address: SocketAddr, bytes: &[u8]) -> Raw {
        let mut raw = Raw::connect(address);
        raw.send(bytes);
        raw
    }

    /// Sends bytes. That the server has closed is no error: it may well have had enough.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Sent {
        match self.reader.get_mut().write_all(bytes) {
            Ok(()) => Sent::All,
            Err(error) if is_timeout(&error) => Sent::Stalled,
            Err(_) => Sent::Closed,
        }
    }

    /// Sends the same bytes again and again, without ever reading, until the server takes no more, or so often.
    pub(super) fn flood(&mut self, bytes: &[u8], times: usize) -> Sent {
        (0..times).map(|_| self.send(bytes)).find(|sent| *sent != Sent::All).unwrap_or(Sent::All)
    }

    /// Says that nothing more will come.
    pub(super) fn finish(&mut self) {
        // An error means that the server has closed already.
        let _ = self.reader.get_ref().shutdown(Shutdown::Write);
    }

    /// Breaks off, so that the server sees a reset instead of an end.
    pub(super) fn reset(self) {
        let _ = set_socket_linger(self.reader.get_ref(), Some(Duration::ZERO));
    }

    /// Whether the server has closed, asked without reading what it has sent.
    pub(super) fn is_broken(&mut self, bytes: &[u8]) -> bool {
        let stream = self.reader.get_mut();
        let written = stream.set_nonblocking(true).and_then(|()| stream.write(bytes));
        let is_broken = matches!(&written, Err(error) if error.kind() != ErrorKind::WouldBlock);
        let _ = stream.set_nonblocking(false);
        is_broken
    }

    /// Reads one line, without its end.
    pub(super) fn line(&mut self) -> Result<Vec<u8>, Seen> {
        let mut line = Vec::new();
        match self.reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) => Err(Seen::Closed),
            Ok(_) => Ok(line.trim_ascii_end().to_vec()),
            Err(error) => Err(failure(&error)),
        }
    }

    /// Reads just so many bytes.
    pub(super) fn bytes(&mut self, count: usize) -> Result<Vec<u8>, Seen> {
        let mut bytes = vec![0; count];
        self.reader.read_exact(&mut bytes).map_err(|error| failure(&error))?;
        Ok(bytes)
    }

    /// Reads until the server closes, and says how much came. Silence if it never does.
    pub(super) fn until_closed(&mut self) -> (Seen, u64) {
        let mut total_bytes = 0;
        let mut buffer = vec![0; 64 << 10];
        loop {
            match self.reader.read(&mut buffer) {
                Ok(0) => return (Seen::Closed, total_bytes),
                Ok(bytes) => total_bytes += bytes as u64,
                Err(error) => return (failure(&error), total_bytes),
            }
        }
    }

    /// What HTTP/1.1 answers.
    pub(super) fn http(&mut self) -> Seen {
        let line = match self.line() {
            Ok(line) => String::from_utf8_lossy(&line).into_owned(),
            Err(seen) => return seen,
        };
        match line.strip_prefix("HTTP/1.1 ").or_else(|| line.strip_prefix("HTTP/1.0 ")).map(|rest| &rest[..3])
        {
            Some(status @ ("100" | "200" | "204" | "429")) => Seen::Answer(status.to_owned()),
            Some(status) => Seen::Refusal(status.to_owned()),
            None => Seen::Answer(format!("not HTTP: {line}")),
        }
    }

    /// What RESP answers.
    pub(super) fn resp(&mut self) -> Seen {
        match self.line() {
            Ok(line) if line.starts_with(b"-") => Seen::Refusal(String::from_utf8_lossy(&line).into_owned()),
            Ok(line) => Seen::Answer(String::from_utf8_lossy(&line).into_owned()),
            Err(seen) => seen,
        }
    }
}

impl From<Sent> for Seen {
    fn from(sent: Sent) -> Seen {
        match sent {
            Sent::All => Seen::Answer("took all".to_owned()),
            Sent::Stalled => Seen::Stalled,
            Sent::Closed => Seen::Closed,
        }
    }
}

fn failure(error: &io::Error) -> Seen {
    if is_timeout(error) { Seen::Silent } else { Seen::Closed }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
