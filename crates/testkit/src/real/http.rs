//! A client for HTTP/1.1 that does what a test says and nothing else: no retries, no pool, no redirects.
//!
//! One [`Client`] is one connection, so that a test knows how many there are, and can leave one half-way through a request.

use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

/// Longer than any answer takes, shorter than a test may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A connection, kept alive.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<TcpStream>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Such as 200.
    pub status: u16,
    /// Lower-case names and values, in order.
    pub headers: Vec<(String, String)>,
    /// All of it, whatever its transfer encoding.
    pub body: String,
}

/// A first line and the headers after it.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) first: String,
    pub(super) headers: Vec<(String, String)>,
}

/// Asks for something over a connection of its own.
pub fn fetch(address: SocketAddr, path: &str) -> io::Result<Reply> {
    Client::connect(address)?.send("GET", path, &[], "")
}

/// Opens a connection from this address of the machine, which has all that begin with 127.
pub fn connect_from(source: IpAddr, address: SocketAddr) -> io::Result<TcpStream> {
    let family = if source.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket(family, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::new(source, 0))?;
    connect(&socket, &address)?;
    Ok(TcpStream::from(socket))
}

impl Client {
    /// Opens a connection.
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        Client::over(TcpStream::connect_timeout(&address, TIMEOUT)?)
    }

    fn over(stream: TcpStream) -> io::Result<Client> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Client { reader: BufReader::new(stream) })
    }

    /// Opens a connection from this address of the machine.
    pub fn connect_from(source: IpAddr, address: SocketAddr) -> io::Result<Client> {
        Client::over(connect_from(source, address)?)
    }

    /// `GET` without a body. Panics if there is no answer: most tests have nothing else to say then.
    pub fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.send("GET", path, headers, "").unwrap_or_else(|error| panic!("no answer to GET {path}: {error}"))
    }

    /// `POST`. Panics if there is no answer.
    pub fn post(&mut self, path: &str, body: &str) -> Reply {
        self.send("POST", path, &[], body).unwrap_or_else(|error| panic!("no answer to POST {path}: {error}"))
    }

    /// Sends a request and reads its answer.
    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Reply> {
        let length = body.len();
        let mut request = Vec::new();
        write!(request, "{method} {path} HTTP/1.1\r\ncontent-length: {length}\r\n")?;
        if !headers.iter().any(|(name, _)| *name == "host") {
            write!(request, "host: test\r\n")?;
        }
        for (name, value) in headers {
            write!(request, "{name}: {value}\r\n")?;
        }
        write!(request, "\r\n{body}")?;
        self.reader.get_mut().write_all(&request)?;
        if method == "HEAD" { self.read_without_body() } else { self.read() }
    }

    /// Writes part of a request.
    pub fn write(&mut self, part: &str) -> io::Result<()> {
        self.reader.get_mut().write_all(part.as_bytes())
    }

    /// Reads an answer.
    pub fn read(&mut self) -> io::Result<Reply> {
        let reply = self.read_without_body()?;
        let head = Head { first: String::new(), headers: reply.headers };
        let body = read_body(&mut self.reader, &head)?;
        Ok(Reply { headers: head.headers, body: String::from_utf8_lossy(&body).into_owned(), ..reply })
    }

    /// Reads an answer that says how long its body would be, and has none.
    fn read_without_body(&mut self) -> io::Result<Reply> {
        let head = read_head(&mut self.reader)?;
        let status = head.first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| Error::new(ErrorKind::InvalidData, head.first.clone()))?;
        Ok(Reply { status, headers: head.headers, body: String::new() })
    }
}

impl Reply {
    /// The value of a header, which must not appear twice.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values =
            self.headers.iter().filter(|(header, _)| header == name).map(|(_, value)| value.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "{name} twice: {self:#?}");
        value
    }

    /// The value of a header that must be there.
    pub fn the(&self, name: &str) -> &str {
        self.header(name).unwrap_or_else(|| panic!("no {name}: {self:#?}"))
    }
}

/// Reads up to the empty line.
pub(super) fn read_head(reader: &mut impl BufRead) -> io::Result<Head> {
    let first = read_line(reader)?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader)?;
        if line.is_empty() {
            return Ok(Head { first, headers });
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// Reads what comes after a head: a body of a given length, or in chunks, or none.
pub(super) fn read_body(reader: &mut impl BufRead, head: &Head) -> io::Result<Vec<u8>> {
    let header =
        |name: &str| head.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str());
    if header("transfer-encoding") == Some("chunked") {
        return read_chunks(reader);
    }
    let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(body)
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(reader)?;
        let bytes = u64::from_str_radix(&line, 16).map_err(|_| Error::new(ErrorKind::InvalidData, line))?;
        reader.by_ref().take(bytes).read_to_end(&mut body)?;
        read_line(reader)?;
        if bytes == 0 {
            return Ok(body);
        }
    }
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}
