//! Counts that are kept in the database: it is asked as the store is, and may be away as well.
//!
//! It is reached later than the gate is made, and from another place: see [`crate::control`]. Until then it is out of reach, and the rules say what happens.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tollgate::Keeper;
use tollgate::authority::{Act, Directed, Failure, Question};
use tollgate_control::{DurableAuthority, DurableStats, Left};

use super::{Gate, Granted};

/// How long the answer to what no request waits for is waited for: a database takes its time to commit.
const ERRANDS_PATIENCE: Duration = Duration::from_secs(5);

/// So many bookings and refunds are kept until the database is reached for the first time.
const UNREACHED_MAX: usize = 1 << 16;

/// The way to counts that are kept in the database.
pub(crate) struct Durable {
    authority: ArcSwapOption<DurableAuthority>,
    deadline: Duration,
    /// What was booked and given back before the database was reached: the database is told then.
    unreached: Mutex<Vec<Question>>,
}

impl Durable {
    /// One that is out of reach.
    pub(super) fn new(deadline: Duration) -> Durable {
        Durable { authority: ArcSwapOption::empty(), deadline, unreached: Mutex::default() }
    }

    /// The database is reached.
    pub(crate) fn reach(&self, authority: DurableAuthority) {
        self.authority.store(Some(Arc::new(authority)));
        self.tell_unreached();
    }

    fn tell_unreached(&self) {
        let unreached = mem::take(&mut *self.unreached());
        self.tell(unreached);
    }

    /// Answers a question that nobody can be asked yet. What has happened is kept, if there is room.
    fn keep_unreached(&self, question: Question) -> Granted {
        let is_fact = question.act.is_fact();
        let mut unreached = self.unreached();
        if is_fact && unreached.len() >= UNREACHED_MAX {
            return Err(Failure::NotNow);
        }
        unreached.extend(Some(question).filter(|_| is_fact));
        drop(unreached);
        // It may have been reached in between.
        if self.authority.load().is_some() {
            self.tell_unreached();
        }
        Err(Failure::Unreachable)
    }

    fn unreached(&self) -> MutexGuard<'_, Vec<Question>> {
        self.unreached.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// As [`Durable::run_errands`], for a server that ends: what settles a reservation is kept on disk if the database does not take it.
    pub(super) async fn run_last_errands(&self, questions: Vec<Directed>) -> Vec<Granted> {
        let is_settlement = |(question, _): &&Directed| matches!(question.act, Act::Settle(_));
        let settlements =
            questions.iter().filter(is_settlement).map(|(question, _)| question.clone()).collect();
        let granted = self.run_errands(questions).await;
        if granted.iter().any(Result::is_err) {
            self.tell(settlements); // Each counts once, however often it is told.
        }
        granted
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

    /// Keeps on disk what the database could not be told.
    pub(crate) async fn keep(&self, patience: Duration) -> Left {
        match self.authority.load_full() {
            Some(authority) => authority.keep(patience).await,
            None => Left::default(),
        }
    }

    async fn ask(&self, questions: Vec<Question>, patience: Duration) -> Vec<Granted> {
        match self.authority.load_full() {
            Some(authority) => authority.ask_all(questions, patience).await,
            None => questions.into_iter().map(|question| self.keep_unreached(question)).collect(),
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
