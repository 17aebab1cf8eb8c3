//! What all connections of a run share: whose turn it is, for which key, and what came of it.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::Duration;
use std::{fmt, io};

use tokio::net::TcpStream;

use crate::keys::KeyStream;
use crate::plan::Moment;
use crate::tally::{Answer, Tally};
use crate::turns::{Turn, Turns};

/// Refusals, without a single decision, after which nothing else is to be expected.
const REFUSALS_MAX: u64 = 10;
/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// After a connection broke: at once would only burn the processor.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// A run, as its connections see it.
pub(crate) struct Session {
    pub(crate) address: SocketAddr,
    pub(crate) turns: Turns,
    pub(crate) tally: RefCell<Tally>,
    pub(crate) keys: RefCell<KeyStream>,
    /// What was planned before is not counted.
    pub(crate) warmup_ns: u64,
    /// How many requests may be under way on a connection before it takes a turn.
    pub(crate) before_turn_max: usize,
    pub(crate) last_answer_ns: Cell<u64>,
    pub(crate) has_decisions: Cell<bool>,
    pub(crate) refusals: Cell<u64>,
}

impl Session {
    /// Connects. Whoever was connected before waits a little first, and tries until the run is over.
    pub(crate) async fn connect_again(&self) -> Option<TcpStream> {
        while !self.turns.has_ended() {
            tokio::time::sleep(RECONNECT_PAUSE).await;
            if let Ok(stream) = connect(self.address).await {
                return Some(stream);
            }
        }
        None
    }

    /// Whether a connection with so many requests under way takes a turn.
    pub(crate) fn has_room(&self, under_way: usize) -> bool {
        under_way <= self.before_turn_max
    }

    /// A turn is being taken.
    pub(crate) fn send(&self, turn: Turn) -> Waiting<'_> {
        if turn.planned_ns >= self.warmup_ns {
            self.tally.borrow_mut().send(turn.requests, self.waited_ns(turn));
        }
        Waiting { session: self, turn }
    }

    /// A request of this turn is answered now.
    fn answer(&self, turn: Turn, now_ns: u64, answer: Answer) {
        match &answer {
            Answer::Refused(error) => self.refuse(error),
            Answer::Allowed | Answer::Denied => self.has_decisions.set(true),
        }
        if turn.planned_ns >= self.warmup_ns {
            self.last_answer_ns.set(now_ns);
            self.tally.borrow_mut().answer(answer, now_ns.saturating_sub(turn.planned_ns));
        }
    }

    fn waited_ns(&self, turn: Turn) -> u64 {
        self.turns.now_ns().saturating_sub(turn.planned_ns)
    }

    /// The server has no decision to give. If it never has one, the run ends.
    pub(crate) fn refuse(&self, error: &str) {
        self.tally.borrow_mut().first_error.get_or_insert_with(|| error.to_owned());
        self.refusals.set(self.refusals.get() + 1);
        if !self.has_decisions.get() && self.refusals.get() >= REFUSALS_MAX {
            self.turns.end();
        }
    }

    /// Counts what was due and not sent, as late as it is by now.
    pub(crate) fn give_up(&self) {
        let now_ns = self.turns.now_ns();
        let mut tally = self.tally.borrow_mut();
        self.turns.give_up(|Moment { at_ns, requests }| {
            if at_ns >= self.warmup_ns {
                // What falls due at the very end may do so after the clock was read.
                tally.give_up_unsent(requests, now_ns.saturating_sub(at_ns));
            }
        });
    }

    /// How long the part that counts took: up to the last answer, or until no more were asked for if the last did not come.
    pub(crate) fn elapsed(&self) -> Duration {
        let last_ns = self.last_answer_ns.get().max(self.turns.last_due_ns());
        Duration::from_nanos(last_ns.saturating_sub(self.warmup_ns))
    }
}

/// Requests of a turn that were sent and not answered yet. Whoever drops it has given them up: they count as late as they are then.
pub(crate) struct Waiting<'a> {
    session: &'a Session,
    turn: Turn,
}

impl Waiting<'_> {
    /// One of them is answered now. Whether it was the last.
    pub(crate) fn answer(&mut self, now_ns: u64, answer: Answer) -> bool {
        self.session.answer(self.turn, now_ns, answer);
        self.turn.requests -= 1;
        self.turn.requests == 0
    }

    /// None of them will have an answer.
    pub(crate) fn fail(mut self, error: &dyn fmt::Display) {
        let requests = std::mem::take(&mut self.turn.requests);
        if self.turn.planned_ns >= self.session.warmup_ns {
            let waited_ns = self.session.waited_ns(self.turn);
            self.session.tally.borrow_mut().fail(requests, waited_ns, || error.to_string());
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Waiting { session, turn } = self;
        if turn.requests > 0 && turn.planned_ns >= session.warmup_ns {
            session.tally.borrow_mut().give_up_unanswered(turn.requests, session.waited_ns(*turn));
        }
    }
}

/// Connects, and sends small messages at once from then on.
pub(crate) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}
