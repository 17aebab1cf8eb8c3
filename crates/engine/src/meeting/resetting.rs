//! Forgetting what was counted under the limits that a request meets.

use std::iter;

use tollgate_core::Limit;
use tollgate_policy::{Place, PlacedLimit};
use tollgate_store::Key;
use tollgate_store::authority::{Act, Directed, Pin, Question};

use super::Meeting;
use crate::engine::hold_key;
use crate::fleet::{Keeper, SharedCounter};
use crate::key::KeyBuffer;
use crate::request::Subject;
use crate::verdict::Status;

impl Meeting<'_> {
    /// Forgets what this process knows, in whatever way it was counted, and says what the authority is to be asked so that it does, too.
    pub(crate) fn reset(&self, key_buffer: &mut KeyBuffer) -> Vec<Directed> {
        let mut questions: Vec<Directed> = Vec::new();
        for (index, charge) in self.charges.iter().enumerate() {
            let ruling = &self.answer.rulings[index];
            let place = ruling.place.and_then(|place| Some(self.snapshot?.place(place)));
            let placed = place.and_then(|place| place.limits().get(ruling.limit_index));
            self.forget(charge.key, charge.limit, placed);
            if let Some(shared) = self.shared.iter().find(|shared| shared.index == index) {
                ask(&mut questions, (reset(&shared.counter), shared.pin));
            }
            // Where it was counted otherwise, it has another name at the authority.
            let bytes = hold_key(self.request, &self.answer, self.snapshot, index, key_buffer);
            let (Some(bytes), Some(place), Some(placed)) = (bytes, place, placed) else { continue };
            let pin = if placed.is_durable() { Some(Pin::DATABASE) } else { self.pin(index, place) };
            for quota in placed.ever_counted() {
                self.forget(charge.key, &quota.limit, Some(placed));
                if let Some(counter) = self.engine.shared_counter(bytes, quota, placed.consistency()) {
                    ask(&mut questions, (reset(&counter), pin));
                }
            }
        }
        questions
    }

    /// Where the shared counters of a ruling are kept, if at a place of their own.
    fn pin(&self, index: usize, place: &Place) -> Option<Pin> {
        match self.request.subject {
            Subject::Policy { key, .. } => self.engine.pin_of(iter::once(key)),
            Subject::Descriptors { descriptors, .. } => {
                let meets =
                    |status: &Status| matches!(status, Status::Limited(range) if range.contains(&index));
                let at = self.answer.statuses.iter().position(meets)?;
                self.engine.pin_of(place.common(descriptors.get(at)?.entries).map(str::as_bytes))
            }
        }
    }

    fn forget(&self, key: Key, limit: &Limit, placed: Option<&PlacedLimit>) {
        let engine = self.engine;
        engine.ledger.reset(key, limit);
        // What was counted here while the authority was away may be kept in another way.
        let keeper = Keeper::of(placed.and_then(PlacedLimit::consistency));
        let share = engine.share_of(keeper, limit, placed.and_then(PlacedLimit::local_percent));
        engine.ledger.reset(key, &share);
        if let Some(purses) = engine.purses(keeper) {
            purses.give_up(key.number(limit.shape()), self.now);
        }
    }
}

fn ask(questions: &mut Vec<Directed>, question: Directed) {
    if questions.iter().all(|(other, _)| other.key != question.0.key) {
        questions.push(question);
    }
}

fn reset(counter: &SharedCounter) -> Question {
    Question { key: counter.name, limit: counter.limit.clone(), act: Act::Reset, account: None }
}
