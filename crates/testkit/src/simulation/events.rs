//! What happens in a run, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
    pub(super) departed_at: u64,
    /// The lease or the question whose grant it undoes.
    pub(super) undoes: Option<u64>,
}

/// What is planned. Of one moment, what was planned first comes first.
#[derive(Default)]
pub(super) struct Plan {
    /// When each event happens, its turn, and its place. Events are large, so that the heap moves only these.
    order: BinaryHeap<Reverse<(u64, u64, usize)>>,
    places: Vec<Option<Event>>,
    free: Vec<usize>,
    turn: u64,
}

impl Plan {
    pub(super) fn push(&mut self, at: u64, event: Event) {
        self.turn += 1;
        let place = self.free.pop().unwrap_or(self.places.len());
        if place == self.places.len() {
            self.places.push(Some(event));
        } else {
            self.places[place] = Some(event);
        }
        self.order.push(Reverse((at, self.turn, place)));
    }

    /// The next event, and when it happens.
    pub(super) fn pop(&mut self) -> Option<(u64, Event)> {
        let Reverse((at, _, place)) = self.order.pop()?;
        self.free.push(place);
        Some((at, self.places[place].take()?))
    }
}
