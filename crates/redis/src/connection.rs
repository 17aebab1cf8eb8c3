//! One connection to one Redis: made, greeted, and then a stream of commands and of replies in the same order.
//!
//! Nothing is ever sent again here, and nothing is hidden: who uses a connection learns that it broke, and decides.

use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::address::{Credentials, Node};
use crate::tls::Tls;
use crate::wire::{Commands, Replies, Reply, WireError};

/// Room that is made for what arrives.
const READ_BYTES: usize = 64 << 10;
/// The longest first word of an error: one that is longer is no code.
const CODE_BYTES_MAX: usize = 20;

/// How connections are made.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) credentials: Arc<CurrentCredentials>,
    pub(crate) tls: Option<Tls>,
    pub(crate) database: u32,
    /// The longest that connecting, shaking hands and greeting may take together.
    pub(crate) timeout: Duration,
}

/// Who asks, as it is now: passwords change while a process lives, and every new connection takes the one that counts then.
#[derive(Debug, Default)]
pub(crate) struct CurrentCredentials(Mutex<Credentials>);

impl CurrentCredentials {
    /// Begins with these.
    pub(crate) fn new(credentials: Credentials) -> CurrentCredentials {
        CurrentCredentials(Mutex::new(credentials))
    }

    /// From now on, these.
    pub(crate) fn set(&self, credentials: Credentials) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = credentials;
    }

    fn get(&self) -> Credentials {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Why there is no connection, or none any more.
#[derive(Debug, Error)]
pub(crate) enum Broken {
    #[error("no connection within {}", humane(.0))]
    Slow(Duration),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it closed the connection")]
    Closed,
    #[error("what it says is not RESP: {0}")]
    Garbage(#[from] WireError),
    /// It does not let us in. Its own words may repeat what we said, password and all, so only their first is kept.
    #[error("it refuses to let us in: {0}")]
    Unwelcome(String),
    #[error("{0}")]
    Refused(String),
    #[error("a reply that nobody asked for")]
    Unasked,
    #[error("it is not a master")]
    NotMaster,
    #[error("no sentinel knows a master of this name")]
    NoMaster,
    #[error("another node has taken its place")]
    Replaced,
    #[error("no reply for {}", humane(.0))]
    Stalled(Duration),
}

impl Broken {
    /// What tells apart causes that have to be told apart.
    pub(crate) fn kind(&self) -> String {
        let name = match self {
            Broken::Io(error) => return format!("{:?}", error.kind()),
            Broken::Refused(message) | Broken::Unwelcome(message) => error_code(message),
            Broken::Slow(_) => "slow",
            Broken::Closed => "closed",
            Broken::Garbage(_) => "garbage",
            Broken::Unasked => "unasked",
            Broken::NotMaster => "not a master",
            Broken::NoMaster => "no master",
            Broken::Replaced => "replaced",
            Broken::Stalled(_) => "stalled",
        };
        name.to_owned()
    }
}

fn humane(duration: &Duration) -> String {
    format!("{duration:?}")
}

trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// A connection that has been greeted.
pub(crate) struct Connection {
    stream: Box<dyn Transport>,
    replies: Replies,
    pub(crate) outgoing: Commands,
    /// So much of `outgoing` is written.
    written: usize,
    /// Whether what was written may still lie in a buffer, as TLS has one.
    is_flushed: bool,
}

impl Connection {
    /// Connects, says who asks, and chooses the database.
    pub(crate) async fn open(node: &Node, access: &Access) -> Result<Connection, Broken> {
        let opened = timeout(access.timeout, async {
            let stream = TcpStream::connect((node.host.as_str(), node.port)).await?;
            stream.set_nodelay(true)?;
            let stream: Box<dyn Transport> = match &access.tls {
                None => Box::new(stream),
                Some(tls) => Box::new(tls.connect(&node.host, stream).await?),
            };
            let mut connection = Connection {
                stream,
                replies: Replies::default(),
                outgoing: Commands::default(),
                written: 0,
                is_flushed: true,
            };
            connection.greet(access).await?;
            Ok(connection)
        });
        opened.await.unwrap_or(Err(Broken::Slow(access.timeout)))
    }

    async fn greet(&mut self, access: &Access) -> Result<(), Broken> {
        let Credentials { user, password } = access.credentials.get();
        let mut greetings = 0;
        if user.is_some() || password.is_some() {
            let password = password.as_ref().map_or("", |password| password.reveal()).as_bytes();
            match &user {
                Some(user) => self.outgoing.command(&[b"AUTH", user.as_bytes(), password]),
                None => self.outgoing.command(&[b"AUTH", password]),
            }
            greetings += 1;
        }
        if access.database > 0 {
            let database = access.database.to_string();
            self.outgoing.command(&[b"SELECT", database.as_bytes()]);
            greetings += 1;
        }
        self.send().await?;
        for _ in 0..greetings {
            if let Reply::Error(message) = self.receive().await? {
                return Err(Broken::Unwelcome(error_code(&message).to_owned()));
            }
        }
        Ok(())
    }

    /// One command, and its reply. An error of the server is one here too.
    pub(crate) async fn ask(&mut self, words: &[&[u8]]) -> Result<Reply, Broken> {
        self.outgoing.command(words);
        self.send().await?;
        match self.receive().await? {
            Reply::Error(message) => Err(Broken::Refused(message)),
            reply => Ok(reply),
        }
    }

    /// Writes all that is outgoing.
    pub(crate) async fn send(&mut self) -> Result<(), Broken> {
        self.stream.write_all(self.outgoing.bytes()).await?;
        self.outgoing.clear();
        Ok(self.stream.flush().await?)
    }

    /// The next reply.
    pub(crate) async fn receive(&mut self) -> Result<Reply, Broken> {
        loop {
            if let Some(reply) = self.replies.next()? {
                return Ok(reply);
            }
            let room = self.replies.incoming();
            room.reserve(READ_BYTES);
            if self.stream.read_buf(room).await? == 0 {
                return Err(Broken::Closed);
            }
        }
    }

    /// What has arrived and was not looked at.
    pub(crate) fn replies(&mut self) -> &mut Replies {
        &mut self.replies
    }

    /// Reads what has arrived. Ready once there is something new.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let room = self.replies.incoming();
        room.reserve(READ_BYTES);
        // The future keeps nothing between polls: that of the next poll goes on where this one ended.
        match ready!(pin!(self.stream.read_buf(room)).poll(cx))? {
            0 => Poll::Ready(Err(Broken::Closed)),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Writes what is outgoing. Ready once all is written.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        while let Some(rest) = self.outgoing.bytes().get(self.written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(Broken::Closed)),
                count => self.written += count,
            }
            self.is_flushed = false;
        }
        self.outgoing.clear();
        self.written = 0;
        if !self.is_flushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }
}

/// The first word of an error, which says what kind it is.
pub(crate) fn error_code(message: &str) -> &str {
    let code = message.split_whitespace().next().unwrap_or_default();
    let is_code = code.len() <= CODE_BYTES_MAX && code.bytes().all(|byte| byte.is_ascii_uppercase());
    if is_code { code } else { "ERR" }
}
