//! The one task of a process that counts: whatever waits at the same time goes into one transaction.
//!
//! A transaction that failed has done nothing: who waits is told, and what nobody waits for is kept, and so is what has happened whatever is answered: costs and what was not used. One that was lost in the moment in which it committed
//! may have been done. Then nothing else is, until it is known: its number is looked for in the row that it wrote, under the lock that
//! it held. Who was told that it failed gets nothing of it after all: what was granted is undone if it was committed; and what was to be
//! told is told again if it was not.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tollgate_core::Time;
use tollgate_store::authority::{Act, Failure, Question};
use tracing::{info, warn};

use super::commit::{Commit, Committed, LastCommitted, Writer};
use super::item::{Item, Told, undo};
use super::line::Line;
use super::sweep::{SWEEP_INTERVAL_US, Sweep};
use crate::driver::{Driver, WriteError};
use crate::error::DatabaseError;

/// While the database is away, what nobody waits for is tried again after so long; twice as long each time, up to a limit.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What makes the transactions.
pub(super) struct Task {
    driver: Arc<Driver>,
    line: Arc<Line>,
    writer: Writer,
    /// Of the last transaction.
    number: i64,
    doubt: Option<Doubt>,
    trouble: Option<Trouble>,
    swept_at_us: u64,
}

/// A transaction of which it is not known whether it was committed.
struct Doubt {
    number: i64,
    /// What undoes it, if it was,
    if_committed: Vec<Question>,
    /// and what has to be done again if it was not.
    if_not: Vec<Item>,
}

/// The database has failed, and not succeeded since.
struct Trouble {
    pause: Duration,
    due: Instant,
}

impl Task {
    pub(super) fn new(driver: Arc<Driver>, line: Arc<Line>, writer: Writer) -> Task {
        Task { driver, line, writer, number: 0, doubt: None, trouble: None, swept_at_us: 0 }
    }

    /// Asks until nobody can bring questions any more and nothing is left to do, or nothing can be done.
    pub(super) async fn run(mut self) {
        while let Some(group) = self.next_group().await {
            let count = group.len();
            self.work_off(group).await;
            self.line.state().in_the_air -= count;
        }
    }

    /// Waits for something to do.
    async fn next_group(&mut self) -> Option<Vec<Item>> {
        loop {
            let due = self.trouble.as_ref().map(|trouble| trouble.due);
            let is_due = due.is_none_or(|due| Instant::now() >= due);
            let (is_owing, is_closed) = {
                let mut state = self.line.state();
                let group = state.take_group(is_due);
                if !group.is_empty() || self.doubt.is_some() && is_due {
                    return Some(group);
                }
                if state.is_idle() {
                    self.line.idle.notify_waiters();
                }
                (state.has_owed() || self.doubt.is_some(), state.is_closed)
            };
            if is_closed && (!is_owing || self.trouble.is_some()) {
                return None;
            }
            match due {
                Some(due) if is_owing => {
                    tokio::select! {
                        () = self.line.work.notified() => {}
                        () = sleep_until(due) => {}
                    }
                }
                _ => self.line.work.notified().await,
            }
        }
    }

    async fn work_off(&mut self, group: Vec<Item>) {
        if let Err(error) = self.end_doubt().await {
            return self.fail(group, &error);
        }
        if group.is_empty() {
            return self.recover();
        }
        self.number += 1;
        let commit = Commit {
            writer: self.writer.clone(),
            number: self.number,
            questions: group.iter().map(|item| item.question.clone()).collect(),
            made_up_us: self.line.made_up_us(),
        };
        let sent_at = self.line.clock.now();
        match self.driver.write(commit).await {
            Ok(done) => {
                self.answer(group, &done, sent_at);
                self.recover();
                self.sweep(done.now_us).await;
            }
            Err(WriteError::Failed(error)) => self.fail(group, &error),
            Err(WriteError::Unsure(done, error)) => self.begin_doubt(group, &done, &error),
        }
    }

    /// Hands the answers over. What comes too late is undone.
    fn answer(&mut self, group: Vec<Item>, done: &Committed, sent_at: Time) {
        // Before anybody is told: whoever has an answer finds it counted.
        self.line.state().tally.committed(group.len());
        let mut late = Vec::new();
        for (mut item, answer) in group.into_iter().zip(done.answers.iter().copied()) {
            if let Ok(grant) = answer {
                self.line.denials.learn(&item.question, grant.decision, sent_at);
            }
            let is_told = item.tell(Told { answer, is_sick: false });
            if let Ok(grant) = answer
                && !is_told
            {
                late.extend(undo(&item.question, &grant));
            }
        }
        self.line.state().undo(late);
    }

    /// Nothing was done.
    fn fail(&mut self, group: Vec<Item>, error: &DatabaseError) {
        let told = Told { answer: Err(failure_of(error)), is_sick: true };
        let mut again = Vec::new();
        for mut item in group {
            let is_told = item.tell(told);
            if item.is_fact() || !is_told && item.is_owed() {
                item.tries += u8::from(is_against_it(error));
                again.push(item);
            }
        }
        self.line.state().owe_again(again);
        self.get_into_trouble(error);
    }

    /// All may have been done, or nothing.
    fn begin_doubt(&mut self, group: Vec<Item>, done: &Committed, error: &DatabaseError) {
        let told = Told { answer: Err(Failure::Unreachable), is_sick: true };
        let mut doubt = Doubt { number: self.number, if_committed: Vec::new(), if_not: Vec::new() };
        let (mut returns, mut again) = (Vec::new(), Vec::new());
        for (mut item, answer) in group.into_iter().zip(&done.answers) {
            let is_told = item.tell(told);
            let Ok(grant) = answer else { continue };
            match undo(&item.question, grant) {
                // Leases come back once, and only if there are any: that can be asked for in any case.
                Some(undo) if matches!(undo.act, Act::Return(_)) => returns.push(undo),
                Some(undo) => doubt.if_committed.push(undo),
                None if !item.is_fact() && (is_told || !item.is_owed()) => {}
                None if matches!(item.question.act, Act::Return(_)) => again.push(item),
                None => doubt.if_not.push(item),
            }
        }
        let mut state = self.line.state();
        state.undo(returns);
        state.owe_again(again);
        if done.is_marked {
            state.in_the_air += 1;
            self.doubt = Some(doubt);
        }
        drop(state);
        self.get_into_trouble(error);
    }

    /// Finds out what became of the transaction that nobody knows of.
    async fn end_doubt(&mut self) -> Result<(), DatabaseError> {
        if self.doubt.is_none() {
            return Ok(());
        }
        let look = LastCommitted { writer: Arc::clone(&self.writer.name) };
        let last = self.driver.write_plainly(look).await?;
        let Some(doubt) = self.doubt.take() else { return Ok(()) };
        let mut state = self.line.state();
        state.in_the_air -= 1;
        if last == doubt.number {
            state.undo(doubt.if_committed);
        } else {
            state.owe_again(doubt.if_not);
        }
        // There may be something to do now that nobody tells of.
        self.line.work.notify_one();
        Ok(())
    }

    fn get_into_trouble(&mut self, error: &DatabaseError) {
        self.line.state().tally.transactions_failed += 1;
        let pause = match &self.trouble {
            None => {
                warn!(%error, "durable quotas cannot be counted in the database");
                PAUSE_MIN
            }
            Some(trouble) => (trouble.pause * 2).min(PAUSE_MAX),
        };
        self.trouble = Some(Trouble { pause, due: Instant::now() + pause });
    }

    fn recover(&mut self) {
        if self.trouble.take().is_some() {
            info!("durable quotas are counted in the database again");
            self.line.state().breaker.hurry(self.line.clock.now());
            // What was kept is due.
            self.line.work.notify_one();
        }
    }

    /// Throws away what is over, now and then.
    async fn sweep(&mut self, now_us: u64) {
        if now_us.abs_diff(self.swept_at_us) < SWEEP_INTERVAL_US {
            return;
        }
        let sweep = Sweep { writer: self.writer.clone(), made_up_us: self.line.made_up_us() };
        match self.driver.write_plainly(sweep).await {
            Ok(true) => return, // The rest after the next transaction.
            Ok(false) => {}
            Err(error) => warn!(%error, "what is over in the database could not be thrown away"),
        }
        self.swept_at_us = now_us;
    }
}

fn failure_of(error: &DatabaseError) -> Failure {
    match error {
        DatabaseError::Away(_) | DatabaseError::Slow(_) | DatabaseError::Locked(_) => Failure::Unreachable,
        _ => Failure::Refused,
    }
}

/// Whether it may be the question that the database cannot do, and not any.
fn is_against_it(error: &DatabaseError) -> bool {
    !matches!(
        error,
        DatabaseError::Away(_)
            | DatabaseError::Slow(_)
            | DatabaseError::Locked(_)
            | DatabaseError::Full(_)
            | DatabaseError::ReadOnly(_)
            | DatabaseError::Denied(_)
    )
}
