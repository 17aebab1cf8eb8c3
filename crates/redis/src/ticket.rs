//! By what an asker is answered, and what becomes of an answer that nobody waits for any more.

use tokio::sync::oneshot;
use tollgate_core::Time;
use tollgate_store::authority::breaker::Pass;
use tollgate_store::authority::debts::Debt;
use tollgate_store::authority::queue::Arrival;
use tollgate_store::authority::{Act, Failure, Grant, Question};

/// What an asker gets.
pub(crate) type Answer = Result<Grant, Failure>;

/// Travels with an ask.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// Where the answer goes. Nobody waits for what is given back.
    reply: Option<oneshot::Sender<Answer>>,
    /// Whether it is to be done even if nobody waits for the answer any more: it takes nothing.
    is_owed: bool,
    /// Since when it is to be done, where nobody ever waited for it.
    owed_since: Option<Time>,
    /// Under which circumstances it was asked.
    pub(crate) pass: Pass,
    /// How often it was sent to another shard.
    pub(crate) moves: u8,
    /// Whether the shard has to be told that the key is about to be its own.
    pub(crate) is_asking: bool,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It was waited for.
    Delivered,
    /// Nobody ever waited for it.
    Unwanted,
    /// The asker has given up.
    TooLate,
}

/// The asker's side.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) answer: oneshot::Receiver<Answer>,
    pub(crate) pass: Pass,
    /// When it began to wait, and in which place.
    pub(crate) since: Time,
    pub(crate) arrival: Arrival,
}

impl Ticket {
    /// For an asker who waits.
    pub(crate) fn awaited(pass: Pass, act: Act) -> (Ticket, oneshot::Receiver<Answer>) {
        let (reply, answer) = oneshot::channel();
        // What is granted to nobody would be lost.
        let is_owed = !act.is_for_asker();
        let ticket =
            Ticket { reply: Some(reply), is_owed, owed_since: None, pass, moves: 0, is_asking: false };
        (ticket, answer)
    }

    /// For what is to be done, since this moment, without anybody waiting for it.
    pub(crate) fn unawaited(pass: Pass, since: Time) -> Ticket {
        Ticket { reply: None, is_owed: true, owed_since: Some(since), pass, moves: 0, is_asking: false }
    }

    /// What is still to be done if it was certainly not: nothing where somebody waits, who is told and may ask again.
    pub(crate) fn debt(&self, question: Question, now: Time) -> Option<Debt> {
        let is_awaited = self.reply.as_ref().is_some_and(|reply| !reply.is_closed());
        (self.is_owed && !is_awaited).then(|| Debt { question, since: self.owed_since.unwrap_or(now) })
    }

    /// Whether it still makes sense to ask.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_owed || self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }

    /// Hands the answer over.
    pub(crate) fn deliver(self, answer: Answer) -> Delivery {
        match self.reply {
            None => Delivery::Unwanted,
            Some(reply) => match reply.send(answer) {
                Ok(()) => Delivery::Delivered,
                Err(_) => Delivery::TooLate,
            },
        }
    }
}
