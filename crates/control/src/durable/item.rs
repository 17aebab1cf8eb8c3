//! A question on its way: who waits for the answer, and what becomes of one that nobody waits for any more.

use tokio::sync::oneshot;
use tollgate_core::LeaseRest;
use tollgate_store::authority::{Act, Grant, Question};

use super::Answer;
use super::books::hash;

/// What an asker is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) answer: Answer,
    /// Whether it was the database that could not, and not the question that cannot be answered.
    pub(super) is_sick: bool,
}

/// A question that waits to be asked.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) question: Question,
    /// Nobody waits for what is owed.
    reply: Option<oneshot::Sender<Told>>,
    /// How often the database had something against it.
    pub(super) tries: u8,
}

impl Item {
    /// For somebody who waits.
    pub(super) fn awaited(question: Question) -> (Item, oneshot::Receiver<Told>) {
        let (reply, told) = oneshot::channel();
        (Item { question, reply: Some(reply), tries: 0 }, told)
    }

    /// To be done without anybody waiting for it.
    pub(super) fn owed(question: Question) -> Item {
        Item { question, reply: None, tries: 0 }
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }

    /// Whether it is to be done even if nobody waits: what would be granted to nobody is not.
    pub(super) fn is_owed(&self) -> bool {
        !self.question.act.is_for_asker()
    }

    /// Whether it has happened already, whatever was answered: it is written down sooner or later.
    pub(super) fn is_fact(&self) -> bool {
        is_fact(&self.question)
    }

    /// Hands the answer over, and tells whether anybody has got it.
    pub(super) fn tell(&mut self, told: Told) -> bool {
        self.reply.take().is_some_and(|reply| reply.send(told).is_ok())
    }
}

/// Costs that were spent, and units that nobody used, are so whoever waits for an answer and whatever it is.
pub(super) fn is_fact(question: &Question) -> bool {
    question.act.is_fact()
}

/// Whether it is still to be told when this process has ended. A reset is not: it would forget what was counted since.
pub(super) fn is_kept_on_disk(question: &Question) -> bool {
    is_fact(question) || question.act.counts_once()
}

/// What has to be done so that a grant has taken nothing. A lease comes back by its number, as long as there is a row of it: so this can be
/// said of one that may never have been committed.
pub(super) fn undo(question: &Question, grant: &Grant) -> Option<Question> {
    let act = match question.act {
        Act::Lease { number, life, .. } if grant.leased > 0 => {
            let deadline = question.limit.lease_deadline(hash(question.key), grant.at, life);
            Act::Return(LeaseRest { units: grant.leased, counted_at: grant.at, deadline, number })
        }
        _ => question.undo(grant)?,
    };
    Some(Question { act, ..question.clone() })
}
