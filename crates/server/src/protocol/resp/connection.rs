//! One connection: reads, answers everything that it has read, writes all answers at once, and reads again.
//!
//! Clients send many commands without waiting. They are decided in one go between two system calls; and because nothing is read
//! before the answers are written, a client that does not take its answers is not listened to any more, and holds no more memory
//! than the bounds below.

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Sleep;

use super::command::{self, Session};
use super::frame::{COMMAND_BYTES_MAX, Parser};
use super::reply::Replies;
use crate::drain::Drain;
use crate::gate::Gate;
use crate::memory::AccountFull;
use crate::room::{Held, Room};
use crate::stream::close;

/// Room for so much is made before every reading.
const READ_BYTES: usize = 16 << 10;
/// So many bytes of answers are written before more commands are looked at. The last answer may exceed it, by a command's length.
const ANSWERS_BYTES_MAX: usize = 64 << 10;
/// Longest buffer kept for the next commands: one huge command must not cost a megabyte for ever.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// From this length on, the buffer grows no further than to the end of the command.
const LONG_BYTES: usize = 32 << 10;
/// The first buffers of a connection: two readings, and the replies to short commands.
const FIRST_BYTES_MAX: usize = 2 * READ_BYTES + (4 << 10);
/// So much of what a client sends after its last answer is taken from it: closing on unread bytes would destroy answers that are on
/// their way to the client.
const LINGER_BYTES_MAX: usize = 16 << 20;
/// So long a client may take to send the rest of a command that it has begun, and up to twice as long if it was just looked at.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(10);
/// A client that has not said anything for so many times [`COMMAND_TIME_MAX`] is taken to be gone: ten minutes.
const IDLE_LOOKS_MAX: u32 = 60;
/// The same for one in the middle of a command, for one whose place others want, and for one that has yet to authenticate: this one counts
/// from when it came, whatever it says meanwhile.
const WANTED_LOOKS_MAX: u32 = 1;
/// So long a client may take to take the answers that were written.
const ANSWERS_TIME_MAX: Duration = Duration::from_secs(30);
/// So long a server that stops waits for a client to close: what was sent before it could know has arrived by then.
const LINGER_TIME_MAX: Duration = Duration::from_secs(1);
/// So much longer does one that does not stop.
const LINGER_IDLE_MAX: Duration = Duration::from_secs(10);

/// Serves one connection until it closes, breaks the protocol, or the server stops.
pub(super) async fn run<S>(
    mut stream: S,
    (gate, address): (&Gate, IpAddr),
    room: &Arc<Room>,
    mut drain: Drain,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = Connection::new((gate, address), room);
    if let Err(error) = connection.serve(&mut stream, &mut drain).await {
        tracing::debug!(%error, "a RESP connection broke off");
    }
}

/// How a batch of commands ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Batch {
    /// Everything that was read is answered.
    Answered,
    /// There are enough answers to write them first.
    Full,
    /// The client has asked to close.
    Closed,
    /// What comes next cannot be understood.
    Broken,
}

/// Looks at a connection every now and then. A timer for every reading would cost more than the reading.
struct Watchman<'g> {
    room: &'g Room,
    next_look: Pin<Box<Sleep>>,
    /// Looks since the last command of an admitted client was complete.
    looks: u32,
}

impl Watchman<'_> {
    fn new(room: &Room) -> Watchman<'_> {
        Watchman { room, next_look: Box::pin(tokio::time::sleep(COMMAND_TIME_MAX)), looks: 0 }
    }

    /// Comes back when a client has been waited for long enough, which is less if it has to hurry, or if others want its place.
    async fn waited_enough(&mut self, has_to_hurry: bool) {
        loop {
            self.next_look.as_mut().await;
            let next_look = self.next_look.deadline() + COMMAND_TIME_MAX;
            self.next_look.as_mut().reset(next_look);
            self.looks += 1;
            let is_wanted = has_to_hurry || self.room.is_crowded();
            let looks_max = if is_wanted { WANTED_LOOKS_MAX } else { IDLE_LOOKS_MAX };
            if self.looks > looks_max {
                return;
            }
        }
    }
}

struct Connection<'g> {
    /// What was read and not yet answered.
    input: Vec<u8>,
    parser: Parser,
    session: Session<'g>,
    replies: Replies,
    watchman: Watchman<'g>,
    /// What both buffers take.
    held: Held,
}

impl<'g> Connection<'g> {
    fn new((gate, address): (&'g Gate, IpAddr), room: &'g Arc<Room>) -> Connection<'g> {
        Connection {
            input: Vec::new(),
            parser: Parser::default(),
            session: Session::new(gate, address),
            replies: Replies::default(),
            watchman: Watchman::new(room),
            held: Held::new(Arc::clone(room), FIRST_BYTES_MAX),
        }
    }

    async fn serve<S>(&mut self, stream: &mut S, drain: &mut Drain) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut is_last = false;
        loop {
            let batch = self.answer();
            self.session.fill_gaps(&mut self.replies).await;
            if !self.write(stream).await? {
                return Ok(());
            }
            match batch {
                Batch::Full => continue,
                Batch::Answered if !is_last => {}
                Batch::Answered | Batch::Closed | Batch::Broken => return self.linger(stream, drain).await,
            }
            // What a client has sent already is answered even if the server stops, but only once: it may never cease.
            is_last = drain.has_begun();
            if let Err(account_full) = self.make_room() {
                self.replies.error(format_args!("ERR {account_full}"));
                self.write(stream).await?;
                return self.linger(stream, drain).await;
            }
            if !self.read(stream, drain).await? {
                return self.linger(stream, drain).await;
            }
        }
    }

    /// Writes the answers that there are. False if a stranger has taken its time with them.
    async fn write<S>(&mut self, stream: &mut S) -> io::Result<bool>
    where
        S: AsyncWrite + Unpin,
    {
        if self.replies.as_bytes().is_empty() {
            return Ok(true);
        }
        let is_stranger = !self.session.is_admitted();
        let written = async {
            stream.write_all(self.replies.as_bytes()).await?;
            stream.flush().await // TLS may hold some of it back.
        };
        tokio::select! {
            biased;
            written = tokio::time::timeout(ANSWERS_TIME_MAX, written) => written??,
            () = self.watchman.waited_enough(is_stranger), if is_stranger => return Ok(false),
        }
        self.replies.clear(KEPT_BYTES_MAX);
        Ok(true)
    }

    /// Counts what is held if the buffer of commands has this capacity. Between two readings nothing need be counted: a long answer
    /// repeats a command, whose memory is given back and counts on until the answer is written.
    fn count(&self, capacity: usize) -> Result<(), AccountFull> {
        self.held.set(capacity + self.replies.capacity())
    }

    /// Makes room for the next reading, if others have left any.
    fn make_room(&mut self) -> Result<(), AccountFull> {
        let length = self.input.len();
        let capacity = wanted_capacity(length, self.input.capacity(), self.parser.announced_bytes());
        let counted = self.count(capacity);
        match counted {
            Ok(()) => self.input.reserve_exact(capacity - length),
            Err(AccountFull) => self.forget_input(),
        }
        counted
    }

    fn forget_input(&mut self) {
        self.input = Vec::new();
        let _ = self.count(0); // Less is never refused.
    }

    /// Answers the commands that were read.
    fn answer(&mut self) -> Batch {
        let (mut done, was_admitted) = (0, self.session.is_admitted());
        let batch = loop {
            if self.replies.as_bytes().len() >= ANSWERS_BYTES_MAX || self.session.has_many_gaps() {
                break Batch::Full;
            }
            let rest = &self.input[done..];
            self.parser.expect(!self.session.is_admitted());
            match self.parser.parse(rest) {
                Ok(Some(length)) => {
                    command::run(&mut self.session, self.parser.arguments(rest), &mut self.replies);
                    done += length;
                }
                Ok(None) => break Batch::Answered,
                Err(error) => {
                    tracing::debug!(%error, "a client does not speak RESP");
                    self.session.settle(&mut self.replies);
                    self.replies.error(format_args!("ERR {error}"));
                    break Batch::Broken;
                }
            }
            if self.session.is_over() {
                break Batch::Closed;
            }
        };
        self.session.settle(&mut self.replies);
        if done > 0 {
            self.input.drain(..done);
            // Strangers could otherwise keep their places by asking what they are not answered.
            if was_admitted || self.session.is_admitted() {
                self.watchman.looks = 0;
            }
            if self.input.capacity() > KEPT_BYTES_MAX && self.input.len() <= READ_BYTES {
                self.input.shrink_to(KEPT_BYTES_MAX);
            }
        }
        batch
    }

    /// Reads what there is, or waits for it. False if nothing will come any more, or the server stops.
    async fn read<S>(&mut self, stream: &mut S, drain: &mut Drain) -> io::Result<bool>
    where
        S: AsyncRead + Unpin,
    {
        let (is_begun, is_stranger) = (!self.input.is_empty(), !self.session.is_admitted());
        let mut waited_enough = pin!(self.watchman.waited_enough(is_begun || is_stranger));
        // A stranger that never ceases to send is not listened to for ever: its time comes before its bytes.
        let is_late = is_stranger
            && poll_fn(|context| Poll::Ready(waited_enough.as_mut().poll(context).is_ready())).await;
        if is_late {
            tracing::debug!("a client did not authenticate in time");
            return Ok(false);
        }
        tokio::select! {
            biased; // What is there already is taken even if the server stops.
            read = stream.read_buf(&mut self.input) => read.map(|bytes| bytes > 0),
            () = waited_enough => {
                tracing::debug!(is_begun, is_stranger, "a client was waited for long enough");
                Ok(false)
            }
            () = drain.begun() => Ok(false),
        }
    }

    /// Closes so that the client gets to see what was written. If it does not close in turn, it is not waited for: not for long, and
    /// hardly at all when the server stops.
    async fn linger<S>(&mut self, stream: &mut S, drain: &mut Drain) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.forget_input();
        close(stream, ANSWERS_TIME_MAX).await?;
        let has_waited = async {
            // Whichever comes first.
            let _ = tokio::time::timeout(LINGER_IDLE_MAX, drain.begun()).await;
            tokio::time::sleep(LINGER_TIME_MAX).await;
        };
        tokio::select! {
            biased;
            taken = self.take_rest(stream) => taken,
            () = has_waited => Ok(()),
        }
    }

    /// Takes what a client still sends, for nothing.
    async fn take_rest<S>(&mut self, stream: &mut S) -> io::Result<()>
    where
        S: AsyncRead + Unpin,
    {
        let mut taken_bytes = 0;
        while taken_bytes < LINGER_BYTES_MAX {
            self.input.clear();
            self.input.reserve(READ_BYTES);
            match stream.read_buf(&mut self.input).await? {
                0 => break,
                bytes => taken_bytes += bytes,
            }
        }
        Ok(())
    }
}

/// How long the buffer has to be for the next reading. Short commands get plenty. A long one gets about twice what has arrived of it, but
/// not beyond the end that it has announced: memory is neither taken on a client's word nor doubled for its last bytes.
fn wanted_capacity(length: usize, capacity: usize, announced: usize) -> usize {
    let is_long = length >= LONG_BYTES;
    let missing = announced.saturating_sub(length);
    let least = if is_long && missing > 0 { missing.min(READ_BYTES) } else { READ_BYTES };
    if capacity - length >= least {
        return capacity;
    }
    if !is_long {
        return (length + least).next_power_of_two();
    }
    let end = if missing > 0 { announced } else { COMMAND_BYTES_MAX };
    (2 * length).min(end).max(length + least)
}
