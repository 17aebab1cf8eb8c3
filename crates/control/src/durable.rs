//! Quotas that survive whatever happens to processes: the database as an authority.
//!
//! Counters of fixed windows (per hour, day or month) are rows of the database, asked through the same seam as Redis. SQL only keeps: the process that
//! asks reads the rows under a lock, lets `core` decide, and writes them back, so there is one implementation of every decision and none in SQL.
//!
//! A commit costs a write to a disk, so questions share them: while one transaction is under way others wait, and then go into the next one together. Most
//! requests never come here, because units are leased in blocks. A lease has a row of its own until it comes back: so it does so once, whoever
//! repeats it; a lease of which nobody knows whether it was granted is given back exactly if it was; and people can see what is out and with whom.
//!
//! Beside the counters stands a history for people and bills: what each subject has used on each day, under each rule.
//!
//! ```text
//!   ask_all --> denied just now? --> breaker --> line --> task: one transaction --> answers
//!   tell ------------------------------------->  line ----^            |
//!                                                  ^---- what came too late, or may have been lost
//! ```

mod backlog;
mod books;
mod commit;
mod denials;
mod ids;
mod item;
mod journal;
mod line;
mod owed;
mod stats;
mod sweep;
mod task;
mod usage;

use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::timeout;
use tollgate_store::Clock;
use tollgate_store::authority::breaker::Pass;
use tollgate_store::authority::{Failure, Grant, Question};

use crate::database::Database;
use commit::Writer;
use item::{Told, undo};
use journal::Journals;
pub use line::Left;
use line::{Entry, Line, Stopping};
pub use stats::{DurableStats, FAILURES};
pub use sweep::USAGE_KEPT_DAYS;
use task::Task;
pub use usage::{UsageDay, UsageFilter};

/// What an asker gets.
type Answer = Result<Grant, Failure>;

/// How the database is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableSettings {
    /// Who leases, for people.
    pub node: String,
    /// So many questions may wait; more are answered with [`Failure::Crowded`].
    pub queue_max: usize,
    /// Decides by how much the times of the breaker are shortened: any number that differs between nodes will do.
    pub seed: u64,
    /// Where files are kept of what is owed while the database is away. Without, it is lost when the process ends.
    pub owed_folder: Option<PathBuf>,
}

/// Counts in the database. When it is dropped, what was told before is still done if the database is there.
pub struct DurableAuthority {
    line: Arc<Line>,
}

/// Questions on their way. What is granted to somebody who does not wait for it any more is given back.
struct Waiting<'a> {
    line: &'a Line,
    pass: Option<Pass>,
    asked: Vec<(Question, Entry)>,
}

impl DurableAuthority {
    /// Begins to count, in the runtime that this is called in, which then also makes the transactions.
    pub fn start(database: &Database, clock: Arc<Clock>, settings: DurableSettings) -> DurableAuthority {
        let DurableSettings { node, queue_max, seed, owed_folder } = settings;
        let line = Arc::new(Line::new(Arc::clone(&clock), queue_max, seed));
        let writer = Writer { name: made_up_name(&clock, seed), node: node.into(), clock };
        let journals = owed_folder.map(|folder| Journals { folder, fleet: database.fleet().into() });
        let task = Task::new(Arc::clone(database.driver()), Arc::clone(&line), writer, journals);
        tokio::spawn(task.run());
        DurableAuthority { line }
    }

    /// Asks, all at once. Whatever happens, the answers are there after `patience`; what is granted later is undone.
    pub async fn ask_all(&self, questions: Vec<Question>, patience: Duration) -> Vec<Answer> {
        let (entries, pass) = self.line.enter(&questions, self.line.clock.steady());
        let asked = questions.into_iter().zip(entries).collect();
        let mut waiting = Waiting { line: &self.line, pass, asked };
        let _ = timeout(patience, poll_fn(|context| waiting.poll(context))).await; // What is there by then counts.
        waiting.take()
    }

    /// Does what nobody waits for: give-backs, returns, bookings. While the database is away it is kept and told again, as far as there is room.
    pub fn tell(&self, questions: Vec<Question>) {
        self.line.owe(questions);
    }

    /// Waits until all that was told is done, and tells whether that was so in time. To be called before a process ends.
    pub async fn settle(&self, patience: Duration) -> bool {
        let settled = async {
            loop {
                let mut idle = std::pin::pin!(self.line.idle.notified());
                idle.as_mut().enable();
                if self.line.state().is_idle() {
                    return;
                }
                idle.await;
            }
        };
        timeout(patience, settled).await.is_ok()
    }

    /// Keeps on disk what the database could not be told, for a process that ends. Nothing is counted after that. What is not kept when the
    /// time is over is lost.
    pub async fn keep(&self, patience: Duration) -> Left {
        let lost = {
            let mut state = self.line.state();
            if state.stopping == Stopping::No {
                state.stopping = Stopping::Asked;
            }
            state.owed()
        };
        self.line.work.notify_one();
        self.line.stop.notify_one();
        let kept = async {
            loop {
                let mut done = std::pin::pin!(self.line.idle.notified());
                done.as_mut().enable();
                if let Stopping::Done(left) = self.line.state().stopping {
                    return left;
                }
                done.await;
            }
        };
        timeout(patience, kept).await.unwrap_or(Left { kept: 0, lost })
    }

    /// Rules have changed: what was denied before need not be now.
    pub fn forget_denials(&self) {
        self.line.denials.forget_all();
    }

    /// What was done since the start, and how it stands.
    pub fn stats(&self) -> DurableStats {
        self.line.stats()
    }

    /// For tests: a made-up time in microseconds since 1970 instead of the database's.
    pub fn make_up_time(&self, us: Option<u64>) {
        self.line.make_up_time(us);
    }
}

impl Drop for DurableAuthority {
    fn drop(&mut self) {
        self.line.state().is_closed = true;
        self.line.work.notify_one();
    }
}

impl Waiting<'_> {
    /// Ready once everything is answered.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut is_ready = true;
        for (_, entry) in &mut self.asked {
            let Entry::Awaited(receiver) = entry else { continue };
            match Pin::new(receiver).poll(context) {
                Poll::Ready(told) => *entry = Entry::Told(told.unwrap_or(FORGOTTEN)),
                Poll::Pending => is_ready = false,
            }
        }
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The answers. What is not answered by now will not be.
    fn take(mut self) -> Vec<Answer> {
        let told: Vec<Told> = std::mem::take(&mut self.asked)
            .into_iter()
            .map(|(_, entry)| entry.end().unwrap_or(LATE))
            .collect();
        let now = self.line.clock.steady();
        let mut state = self.line.state();
        for failure in told.iter().filter_map(|told| told.answer.err()) {
            state.tally.failed(failure);
        }
        if let Some(pass) = self.pass.take() {
            if !told.iter().any(|told| told.is_sick) {
                state.breaker.succeeded(pass, now);
            } else if state.breaker.failed(pass, now) {
                state.tally.openings += 1;
            }
        }
        drop(state);
        told.into_iter().map(|told| told.answer).collect()
    }
}

/// Nobody has answered in time.
const LATE: Told = Told { answer: Err(Failure::TimedOut), is_sick: true };
/// What answers has ended.
const FORGOTTEN: Told = Told { answer: Err(Failure::Unreachable), is_sick: true };

impl Entry {
    /// Closes the way of an answer that has not come. Nothing can be granted unnoticed after that.
    fn end(self) -> Option<Told> {
        match self {
            Entry::Told(told) => Some(told),
            Entry::Awaited(mut receiver) => {
                receiver.close();
                receiver.try_recv().ok()
            }
        }
    }
}

impl Drop for Waiting<'_> {
    /// Whoever asked has gone: nobody has what was granted, and it says nothing about the database.
    fn drop(&mut self) {
        let Some(pass) = self.pass else { return };
        let undone: Vec<Question> = std::mem::take(&mut self.asked)
            .into_iter()
            .filter_map(|(question, entry)| undo(&question, &entry.end()?.answer.ok()?))
            .collect();
        let mut state = self.line.state();
        state.breaker.abandoned(pass);
        state.undo(undone);
        drop(state);
        self.line.work.notify_one();
    }
}

/// A name that no other writer has.
fn made_up_name(clock: &Clock, seed: u64) -> Arc<str> {
    let mut random = [0; 16];
    let name = match getrandom::fill(&mut random) {
        Ok(()) => u128::from_be_bytes(random),
        Err(_) => u128::from(seed) << 64 | u128::from(clock.steady().ticks()),
    };
    format!("{name:032x}").into()
}
