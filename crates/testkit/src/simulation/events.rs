//! What happens in a run, and when.

use tollgate_store::authority::{Grant, Question};
use tollgate_store::lease::{Counted, Spent};

use super::judge::Moment;

/// Something that happens.
#[derive(Debug)]
pub(super) enum Event {
    Request,
    Arrive(Sent),
    Reply { node: usize, epoch: u64, ticket: u64, grant: Grant, decided: Moment },
    GiveUp { node: usize, epoch: u64, ticket: u64 },
    Tend { node: usize },
    PutBack { node: usize, epoch: u64, key: usize, spent: Spent },
    Rush,
    Beat { node: usize },
    BeatArrives { node: usize, epoch: u64, number: u64 },
    BeatAnswered { node: usize, epoch: u64, number: u64, counted: Counted },
}

/// A question on its way to the authority.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) node: usize,
    pub(super) epoch: u64,
    pub(super) ticket: u64,
    pub(super) question: Question,
    pub(super) sent_at: u64,
    /// The lease or the question whose grant it undoes.
    pub(super) undoes: Option<u64>,
}

/// An event, and when it happens. Of one moment, those that were planned first come first.
pub(super) struct Planned {
    pub(super) at: u64,
    pub(super) turn: u64,
    pub(super) event: Event,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Planned) -> bool {
        self.turn == other.turn
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Planned) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Planned) -> std::cmp::Ordering {
        (self.at, self.turn).cmp(&(other.at, other.turn))
    }
}
