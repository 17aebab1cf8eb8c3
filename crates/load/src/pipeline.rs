//! A connection on which answers come in the order of the requests: RESP, and HTTP/1.1 with one request at a time.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::protocol::{Garbled, Wire};
use crate::session::{Session, Waiting};
use crate::tally::Answer;
use crate::turns::Turn;

/// What is read at once, if so much has come.
const READ_BYTES: usize = 64 << 10;

/// Why a connection is of no use any more.
#[derive(Debug, Error)]
enum Broken {
    #[error("the connection was closed before an answer came")]
    Closed,
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Garbled(#[from] Garbled),
    #[error("{0}")]
    NotGreeted(String),
}

/// Takes turns until there are no more, over another connection if one breaks.
pub(crate) async fn drive(session: Rc<Session>, wire: Rc<Wire>, first: TcpStream) {
    let mut stream = Some(first);
    while let Some(connected) = stream.take() {
        let mut pipeline = Pipeline::new(&session, &wire);
        let Err(broken) = pipeline.run(connected).await else { return };
        // A server may close a connection on which nothing is asked.
        if !(matches!(broken, Broken::Closed) && pipeline.under_way.is_empty()) {
            session.refuse(&broken.to_string());
        }
        for waiting in pipeline.under_way.drain(..) {
            waiting.fail(&broken);
        }
        stream = session.connect_again().await;
    }
}

struct Pipeline<'a> {
    session: &'a Session,
    wire: &'a Wire,
    /// Bytes to be sent, of which so many have been.
    outbox: Vec<u8>,
    outbox_sent: usize,
    inbox: Vec<u8>,
    /// What was sent and not answered, the oldest first. No more requests than may be under way.
    under_way: VecDeque<Waiting<'a>>,
    requests_under_way: usize,
    greeting_answers_left: usize,
}

impl<'a> Pipeline<'a> {
    fn new(session: &'a Session, wire: &'a Wire) -> Pipeline<'a> {
        Pipeline {
            session,
            wire,
            outbox: wire.greeting.clone(),
            outbox_sent: 0,
            inbox: Vec::with_capacity(READ_BYTES),
            under_way: VecDeque::new(),
            requests_under_way: 0,
            greeting_answers_left: wire.greeting_answers,
        }
    }

    async fn run(&mut self, mut stream: TcpStream) -> Result<(), Broken> {
        let (mut reader, mut writer) = stream.split();
        let turns = &self.session.turns;
        loop {
            while self.has_room()
                && let Some(turn) = turns.try_take()
            {
                self.send(turn);
            }
            if turns.has_ended() && self.under_way.is_empty() {
                return Ok(());
            }
            self.inbox.reserve(READ_BYTES);
            tokio::select! {
                biased; // What is to be sent is late already.
                sent = writer.write(&self.outbox[self.outbox_sent..]), if !self.outbox.is_empty() => {
                    self.outbox_sent += sent?;
                    if self.outbox_sent == self.outbox.len() {
                        self.outbox.clear();
                        self.outbox_sent = 0;
                    }
                }
                read = reader.read_buf(&mut self.inbox) => {
                    if read? == 0 {
                        return Err(Broken::Closed);
                    }
                    self.read_answers()?;
                }
                turn = turns.take(), if self.has_room() && !turns.has_ended() => {
                    if let Some(turn) = turn {
                        self.send(turn);
                    }
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        self.session.has_room(self.requests_under_way)
    }

    fn send(&mut self, turn: Turn) {
        let mut keys = self.session.keys.borrow_mut();
        for _ in 0..turn.requests {
            self.wire.request.write(keys.next(), &mut self.outbox);
        }
        self.under_way.push_back(self.session.send(turn));
        self.requests_under_way += turn.requests as usize;
    }

    /// Everything that has come: one moment for all of it.
    fn read_answers(&mut self) -> Result<(), Broken> {
        let now_ns = self.session.turns.now_ns();
        let mut read_bytes = 0;
        while let Some((answer, length)) = self.wire.read(&self.inbox[read_bytes..])? {
            read_bytes += length;
            self.take_answer(answer, now_ns)?;
        }
        self.inbox.drain(..read_bytes);
        self.session.tally.borrow_mut().received_bytes += read_bytes as u64;
        Ok(())
    }

    fn take_answer(&mut self, answer: Answer, now_ns: u64) -> Result<(), Broken> {
        if self.greeting_answers_left > 0 {
            self.greeting_answers_left -= 1;
            return match answer {
                Answer::Refused(error) => Err(Broken::NotGreeted(error)),
                Answer::Allowed | Answer::Denied => Ok(()),
            };
        }
        let oldest = self.under_way.front_mut().ok_or(Garbled("an answer that nobody asked for"))?;
        self.requests_under_way -= 1;
        if oldest.answer(now_ns, answer) {
            self.under_way.pop_front();
        }
        Ok(())
    }
}
