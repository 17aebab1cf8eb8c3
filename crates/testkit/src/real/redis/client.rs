//! A plain client, for tests that want to see what Redis itself holds: one command at a time, and nothing is done behind one's back.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any answer takes that comes at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection.
#[derive(Debug)]
pub struct RedisClient {
    stream: BufReader<TcpStream>,
}

/// What Redis answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A word, such as `OK`.
    Simple(String),
    /// It could not.
    Error(String),
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Several.
    Array(Vec<Reply>),
    /// Nothing there.
    Nil,
}

impl RedisClient {
    /// A connection to this address.
    pub fn connect(address: SocketAddr) -> io::Result<RedisClient> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(RedisClient { stream: BufReader::new(stream) })
    }

    /// The same connection once more, for a thread that sends while another receives.
    pub fn try_clone(&self) -> io::Result<RedisClient> {
        Ok(RedisClient { stream: BufReader::new(self.stream.get_ref().try_clone()?) })
    }

    /// Sends a command and waits for its answer. Panics if the connection breaks.
    pub fn command(&mut self, arguments: &[&[u8]]) -> Reply {
        self.try_command(arguments).unwrap_or_else(|error| panic!("redis does not answer: {error}"))
    }

    /// As [`RedisClient::command`], of words with spaces between.
    pub fn run(&mut self, line: &str) -> Reply {
        let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
        self.command(&words)
    }

    /// As [`RedisClient::command`], where the connection may break.
    pub fn try_command(&mut self, arguments: &[&[u8]]) -> io::Result<Reply> {
        self.send(arguments)?;
        self.receive()
    }

    /// Sends a command whose answer is received later.
    pub fn send(&mut self, arguments: &[&[u8]]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            bytes.extend(format!("${}\r\n", argument.len()).bytes());
            bytes.extend(*argument);
            bytes.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)
    }

    /// The next answer.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let Some(line) = line.strip_suffix("\r\n") else {
            return Err(ErrorKind::UnexpectedEof.into());
        };
        let rest = line.get(1..).unwrap_or_default();
        Ok(match line.as_bytes().first() {
            Some(b'+') => Reply::Simple(rest.to_owned()),
            Some(b'-') => Reply::Error(rest.to_owned()),
            Some(b':') => Reply::Integer(number(rest)?),
            Some(b'$') => match usize::try_from(number(rest)?) {
                Ok(length) => Reply::Bulk(self.bytes(length)?),
                Err(_) => Reply::Nil,
            },
            Some(b'*') => match usize::try_from(number(rest)?) {
                Ok(length) => Reply::Array((0..length).map(|_| self.receive()).collect::<Result<_, _>>()?),
                Err(_) => Reply::Nil,
            },
            _ => return Err(io::Error::new(ErrorKind::InvalidData, line.to_owned())),
        })
    }

    fn bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| io::Error::new(ErrorKind::InvalidData, text.to_owned()))
}

impl Reply {
    /// The number that it is. Panics if it is none.
    pub fn integer(&self) -> i64 {
        match self {
            Reply::Integer(number) => *number,
            other => panic!("not a number: {other:?}"),
        }
    }

    /// The text of a word or of bytes. Panics if it is neither.
    pub fn text(&self) -> String {
        match self {
            Reply::Simple(text) => text.clone(),
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("not a text: {other:?}"),
        }
    }
}
