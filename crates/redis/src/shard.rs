//! One Redis node that keeps a part of the keys, as one thread sees it: what waits for it, whether it is asked at all, and its connection.
//!
//! Askers put their questions into the queue and wake the task that has the connection. That task lets everything fly that may, answers
//! what comes back, and gives back what comes back too late. While there is no connection nobody waits for one.

mod air;
mod link;
mod tally;
mod verdict;

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::sync::oneshot;
use tollgate_core::Time;
use tollgate_store::authority::breaker::{Admission, Breaker, Pass, State as BreakerState};
use tollgate_store::authority::debts::{Debt, Debts};
use tollgate_store::authority::queue::Queue;
use tollgate_store::authority::{Failure, Question, SharedKey};
use tollgate_store::hot::ShardId;

pub(crate) use link::{Link, Place};
pub use tally::{FAILURES, ShardStats};
pub(crate) use verdict::Redirect;

use crate::address::Node;
use crate::fleet::{Fleet, random};
use crate::ticket::{Answer, Awaited, Delivery, Ticket};
use crate::wire::{Commands, Reply};
use tally::Tally;

/// The most commands of other business that may wait.
const PLAIN_MAX: usize = 16;

/// One shard.
pub(crate) struct Shard {
    /// Under which name it is known in logs and metrics.
    pub(crate) name: String,
    /// A number that goes with the name, the same on every thread.
    pub(crate) id: ShardId,
    /// Where it is, if it stays there.
    pub(crate) node: Option<Node>,
    fleet: Arc<Fleet>,
    state: Mutex<State>,
}

/// What askers and the task share.
struct State {
    queue: Queue<Ticket>,
    /// What could not be done, and has to be.
    debts: Debts,
    breaker: Breaker,
    reach: Reach,
    /// Wakes the task, if it sleeps.
    waker: Option<Waker>,
    /// Whether as much is in the air as may be: then there is no use in waking.
    is_full: bool,
    /// Since when nothing has come back of what is in the air.
    silent_since: Option<Time>,
    /// When something came back last.
    heard_at: Option<Time>,
    /// Commands of other business, and who waits for their replies.
    plain: VecDeque<(Commands, oneshot::Sender<Reply>)>,
    tally: Tally,
}

/// Whether a shard can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Nobody has tried to the end: askers may wait.
    Unknown,
    Up,
    Down,
}

impl Shard {
    pub(crate) fn new(place: &Place, fleet: Arc<Fleet>) -> Shard {
        let node = match place {
            Place::Node(node) => Some(node.clone()),
            Place::Master(_) => None,
        };
        let state = State {
            queue: Queue::default(),
            debts: Debts::default(),
            breaker: Breaker::new(random()),
            reach: Reach::Unknown,
            waker: None,
            is_full: false,
            silent_since: None,
            heard_at: None,
            plain: VecDeque::new(),
            tally: Tally::default(),
        };
        let name = place.name();
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let id = ShardId(hasher.finish().max(ShardId::HERE.0 + 1));
        Shard { name, id, node, fleet, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another thread is not a reason to stop asking.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a question wait for its flight. Says at once where there will be none.
    pub(crate) fn ask(&self, question: Question, now: Time) -> Result<Awaited, Failure> {
        let mut state = self.state();
        let pass = state.admit(now)?;
        let (ticket, answer) = Ticket::awaited(pass, question.act);
        let Ok(arrival) = state.queue.push(question, ticket) else {
            return Err(state.fail(pass, Failure::Crowded, now));
        };
        state.tally.asks += 1;
        state.wake();
        Ok(Awaited { answer, pass, since: now, arrival })
    }

    /// Lets something wait whose answer nobody waits for. Where it cannot be asked now, it is later.
    pub(crate) fn tell(&self, debt: Debt, now: Time) {
        let mut state = self.state();
        if state.reach == Reach::Down {
            return state.debts.owe(debt, now);
        }
        match state.breaker.admits(now) {
            Admission::Yes(pass) | Admission::Probe(pass) => state.tell(debt, pass, now),
            Admission::No { .. } => state.debts.owe(debt, now),
        }
        state.wake();
    }

    /// Keeps what another shard could not do either.
    pub(crate) fn owe(&self, debt: Debt, now: Time) {
        self.state().debts.owe(debt, now);
    }

    /// Takes over what another shard has sent away.
    pub(crate) fn take_over(&self, question: Question, mut ticket: Ticket, now: Time) {
        let mut state = self.state();
        match state.admit(now) {
            Ok(pass) => ticket.pass = pass,
            Err(failure) => {
                if let Some(debt) = ticket.debt(question, now) {
                    state.debts.owe(debt, now);
                }
                ticket.deliver(Err(failure));
                return;
            }
        }
        match state.queue.push(question.clone(), ticket) {
            Ok(_) => state.wake(),
            Err(ticket) => state.put_off(question, ticket, Failure::Crowded, now),
        }
    }

    /// The asker has waited for as long as it may. If the shard has answered others meanwhile, and it was in line behind others of its own
    /// key, that says nothing about the shard: callers who bring ever other numbers for one key can wait for each other for ever.
    pub(crate) fn gave_up(&self, key: SharedKey, awaited: &Awaited, now: Time) -> Failure {
        let mut state = self.state();
        let has_answered = state.heard_at.is_some_and(|heard_at| heard_at > awaited.since);
        let is_asked_freely = state.breaker.state(now) == BreakerState::Closed;
        if has_answered && is_asked_freely && state.queue.is_in_line(key, awaited.arrival) {
            state.tally.failed(Failure::TimedOut);
            return Failure::TimedOut;
        }
        state.fail(awaited.pass, Failure::TimedOut, now)
    }

    /// The asker has gone. What it was told by then, or will not be, says nothing about the shard.
    pub(crate) fn abandoned(&self, pass: Pass) {
        self.state().breaker.abandoned(pass);
    }

    /// Sends a command of other business. The reply does not come where the shard is out of reach.
    pub(crate) fn plain(&self, command: Commands) -> oneshot::Receiver<Reply> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        if state.reach != Reach::Down && state.plain.len() < PLAIN_MAX {
            state.plain.push_back((command, sender));
            state.is_full = false;
            state.wake();
        }
        receiver
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state().reach == Reach::Up
    }

    pub(crate) fn stats(&self, now: Time) -> ShardStats {
        let state = self.state();
        let breaker = state.breaker.state(now);
        state.tally.stats(&self.name, breaker, state.reach == Reach::Up)
    }
}

impl State {
    /// Whether to ask at all.
    fn admit(&mut self, now: Time) -> Result<Pass, Failure> {
        let pass = match self.breaker.admits(now) {
            Admission::Yes(pass) | Admission::Probe(pass) => pass,
            Admission::No { .. } => {
                self.tally.failed(Failure::NotAsked);
                return Err(Failure::NotAsked);
            }
        };
        if self.reach == Reach::Down {
            return Err(self.fail(pass, Failure::Unreachable, now));
        }
        Ok(pass)
    }

    /// Does something of which nobody awaits the end. Where too many wait, it is done later.
    fn tell(&mut self, debt: Debt, pass: Pass, now: Time) {
        let ticket = Ticket::unawaited(pass, debt.since);
        if self.queue.push(debt.question.clone(), ticket).is_err() {
            self.debts.owe(debt, now);
        }
    }

    /// Says that something was not done. What has to be, although nobody waits for it, is kept.
    fn put_off(&mut self, question: Question, ticket: Ticket, failure: Failure, now: Time) {
        if let Some(debt) = ticket.debt(question, now) {
            self.debts.owe(debt, now);
        }
        self.answer(ticket, Err(failure), now);
    }

    /// Something was asked in vain.
    fn fail(&mut self, pass: Pass, failure: Failure, now: Time) -> Failure {
        self.tally.failed(failure);
        if self.breaker.failed(pass, now) {
            self.tally.openings += 1;
        }
        failure
    }

    /// Hands an answer to its asker. One that nobody waits for any more says nothing about the shard: its asker has. Neither does one
    /// that nobody ever waited for, unless it was a probe: each grant that comes too late is given back, and however late that
    /// succeeds, it would make up for the failure.
    fn answer(&mut self, ticket: Ticket, answer: Answer, now: Time) -> Delivery {
        let pass = ticket.pass;
        let delivery = ticket.deliver(answer);
        if answer.is_ok() {
            self.debts.settled();
        }
        match (delivery, answer) {
            (Delivery::TooLate, _) => {}
            // Late grants are given back. That these arrive says nothing about whether grants do in time.
            (Delivery::Unwanted, Ok(_)) if self.breaker.state(now) == BreakerState::Closed => {}
            (_, Ok(_)) => {
                self.breaker.succeeded(pass, now);
            }
            (_, Err(failure)) => {
                self.fail(pass, failure, now);
            }
        }
        delivery
    }

    /// Wakes the task, if it has anything to do.
    fn wake(&mut self) {
        if !self.is_full
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }
}
