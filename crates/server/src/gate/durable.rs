//! Counts that are kept in the database: it is asked as the store is, and may be away as well.
//!
//! It is reached later than the gate is made, and from another place: see [`crate::control`]. Until then it is out of reach, and the rules say what happens.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tollgate::Keeper;
use tollgate::authority::{Directed, Failure, Question};
use tollgate_control::{DurableAuthority, DurableStats};

use super::{Gate, Granted};

/// How long the answer to what no request waits for is waited for: a database takes its time to commit.
const ERRANDS_PATIENCE: Duration = Duration::from_secs(5);

/// The way to counts that are kept in the database.
pub(crate) struct Durable {
    authority: ArcSwapOption<DurableAuthority>,
    deadline: Duration,
}

impl Durable {
    /// One that is out of reach.
    pub(super) fn new(deadline: Duration) -> Durable {
        Durable { authority: ArcSwapOption::empty(), deadline }
    }

    /// The database is reached.
    pub(crate) fn reach(&self, authority: DurableAuthority) {
        self.authority.store(Some(Arc::new(authority)));
    }

    /// Asks for what no request waits for. What is given back without a number is kept until it is done, and must not be told again by anybody else.
    pub(super) async fn run_errands(&self, questions: Vec<Directed>) -> Vec<Granted> {
        let questions = questions.into_iter().map(|(question, _)| question).collect();
        let granted = self.ask(questions, ERRANDS_PATIENCE.max(self.deadline)).await;
        let is_kept = self.authority.load().is_some();
        let unless_kept = |answer: Granted| match answer {
            Err(Failure::NotAsked | Failure::Crowded) if is_kept => Err(Failure::Unreachable),
            answer => answer,
        };
        granted.into_iter().map(unless_kept).collect()
    }

    pub(super) fn forget_denials(&self) {
        if let Some(authority) = &*self.authority.load() {
            authority.forget_denials();
        }
    }

    pub(super) fn stats(&self) -> Option<DurableStats> {
        self.authority.load().as_ref().map(|authority| authority.stats())
    }

    /// Waits until all that the database is still to be told is done. False if it was not in time.
    pub(crate) async fn settle(&self, patience: Duration) -> bool {
        match self.authority.load_full() {
            Some(authority) => authority.settle(patience).await,
            None => true,
        }
    }

    async fn ask(&self, questions: Vec<Question>, patience: Duration) -> Vec<Granted> {
        match self.authority.load_full() {
            Some(authority) => authority.ask_all(questions, patience).await,
            None => vec![Err(Failure::Unreachable); questions.len()],
        }
    }

    fn tell(&self, questions: Vec<Question>) {
        if let Some(authority) = &*self.authority.load() {
            authority.tell(questions);
        }
    }
}

impl Gate {
    /// What keeps durable counts, if there is a database.
    pub(crate) fn durable(&self) -> Option<&Durable> {
        self.durable.as_ref()
    }

    /// Asks whoever keeps the counters, all at once.
    pub(crate) async fn ask(&self, questions: &[Directed]) -> Vec<Granted> {
        if !questions.iter().any(is_durable) {
            return self.ask_store(questions).await;
        }
        let durable: Vec<Question> = questions
            .iter()
            .filter(|asked| is_durable(asked))
            .map(|(question, _)| question.clone())
            .collect();
        if durable.len() == questions.len() {
            return self.ask_database(durable).await;
        }
        let shared: Vec<Directed> = questions.iter().filter(|asked| !is_durable(asked)).cloned().collect();
        let (kept, shared) = tokio::join!(self.ask_database(durable), self.ask_store(&shared));
        let (mut kept, mut shared) = (kept.into_iter(), shared.into_iter());
        let answer = |asked| if is_durable(asked) { kept.next() } else { shared.next() };
        questions.iter().map(answer).map(|answer| answer.unwrap_or(Err(Failure::NotAsked))).collect()
    }

    /// Tells whoever keeps the counters what nobody waits for.
    pub(super) fn send(&self, mut questions: Vec<Directed>) {
        if let Some(durable) = &self.durable
            && questions.iter().any(is_durable)
        {
            let kept = questions.extract_if(.., |asked| is_durable(asked));
            durable.tell(kept.map(|(question, _)| question).collect());
        }
        if let Some(store) = self.store.as_ref().filter(|_| !questions.is_empty()) {
            store.send(questions);
        }
    }

    async fn ask_store(&self, questions: &[Directed]) -> Vec<Granted> {
        match &self.store {
            Some(store) => store.ask(questions).await,
            None => vec![Err(Failure::NotAsked); questions.len()],
        }
    }

    async fn ask_database(&self, questions: Vec<Question>) -> Vec<Granted> {
        match &self.durable {
            Some(durable) => durable.ask(questions, durable.deadline).await,
            None => vec![Err(Failure::NotAsked); questions.len()],
        }
    }
}

fn is_durable((_, pin): &Directed) -> bool {
    Keeper::at(*pin) == Keeper::Database
}
