//! What was asked and what came of it, for metrics.

use tollgate_store::authority::Failure;
use tollgate_store::authority::breaker::State as BreakerState;

/// Every failure there is.
pub const FAILURES: [Failure; 5] =
    [Failure::TimedOut, Failure::Unreachable, Failure::NotAsked, Failure::Refused, Failure::Crowded];

/// What was done since the start, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableStats {
    /// Questions that were let in.
    pub asked: u64,
    /// Questions that were denied without asking, because they just had been.
    pub denied_at_once: u64,
    /// Transactions that were committed.
    pub transactions: u64,
    /// Questions that these have answered, those included that nobody waited for.
    pub questions: u64,
    /// The most questions that one of them has answered.
    pub questions_max: u64,
    /// Transactions that failed, or of which nobody knew at first whether they were committed.
    pub transactions_failed: u64,
    /// What failed, by [`FAILURES`].
    pub failures: [u64; FAILURES.len()],
    /// How the breaker stands.
    pub breaker: BreakerState,
    /// How often it has opened.
    pub openings: u64,
    /// Questions that wait and are waited for.
    pub waiting: usize,
    /// What is still to be told, though nobody waits for it.
    pub owed: usize,
    /// What was granted to nobody, or perhaps not granted at all, and was undone.
    pub undone: u64,
    /// What should have been told, and was not for want of room or because the database had something against it.
    pub forgotten: u64,
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) asked: u64,
    pub(super) denied_at_once: u64,
    pub(super) transactions: u64,
    pub(super) questions: u64,
    pub(super) questions_max: u64,
    pub(super) transactions_failed: u64,
    pub(super) openings: u64,
    pub(super) undone: u64,
    pub(super) forgotten: u64,
    failures: [u64; FAILURES.len()],
}

impl Tally {
    pub(super) fn failed(&mut self, failure: Failure) {
        if let Some(index) = FAILURES.iter().position(|other| *other == failure) {
            self.failures[index] += 1;
        }
    }

    pub(super) fn committed(&mut self, questions: usize) {
        let questions = questions as u64;
        self.transactions += 1;
        self.questions += questions;
        self.questions_max = self.questions_max.max(questions);
    }

    pub(super) fn stats(&self, breaker: BreakerState, waiting: usize, owed: usize) -> DurableStats {
        DurableStats {
            asked: self.asked,
            denied_at_once: self.denied_at_once,
            transactions: self.transactions,
            questions: self.questions,
            questions_max: self.questions_max,
            transactions_failed: self.transactions_failed,
            failures: self.failures,
            breaker,
            openings: self.openings,
            waiting,
            owed,
            undone: self.undone,
            forgotten: self.forgotten,
        }
    }
}
