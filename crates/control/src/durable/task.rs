//! The one task of a process that counts: whatever waits at the same time goes into one transaction.
//!
//! A transaction that failed has done nothing: who waits is told, and what nobody waits for is kept, and so is what has happened whatever is answered: costs and what was not used. One that was lost in the moment in which it committed
//! may have been done. Then nothing else is, until it is known: its number is looked for in the row that it wrote, under the lock that
//! it held. Who was told that it failed gets nothing of it after all: what was granted is undone if it was committed; and what was to be
//! told is told again if it was not.
//!
//! What is owed while the database stays away is kept on disk, and so is all that is owed when the process ends: see [`super::backlog`].

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tollgate_core::{LeaseRest, Time};
use tollgate_store::authority::{Act, Failure, Question};
use tracing::{info, warn};

use super::backlog::Backlog;
use super::commit::{Commit, Committed, LastCommitted, Mark, Writer};
use super::item::{Item, Told, is_kept_on_disk, undo};
use super::journal::Journals;
use super::line::{Left, Line, Stopping};
use super::owed::{Condition, Owed};
use super::sweep::{GAP_PATIENCE, Gap, SWEEP_INTERVAL_US, Sweep, Swept};
use crate::driver::{Driver, WriteError};
use crate::error::DatabaseError;

/// While the database is away, what nobody waits for is tried again after so long; twice as long each time, up to a limit.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// While the database is away, what is owed is written to the disk so often.
const KEEP_INTERVAL: Duration = Duration::from_secs(1);

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
    /// Since when the time of the file cannot be believed, on the steady timeline.
    gap_since: Option<Time>,
    backlog: Backlog,
    /// When something was last written to the disk, or could not be.
    kept_at: Option<Instant>,
    /// How far the clock of the database was ahead of this process's.
    ahead_us: i64,
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
    pub(super) fn new(
        driver: Arc<Driver>,
        line: Arc<Line>,
        writer: Writer,
        journals: Option<Journals>,
    ) -> Task {
        let backlog = Backlog::new(journals, Arc::clone(&writer.name));
        Task {
            driver,
            line,
            writer,
            number: 0,
            doubt: None,
            trouble: None,
            swept_at_us: 0,
            gap_since: None,
            backlog,
            kept_at: None,
            ahead_us: 0,
        }
    }

    /// Asks until nobody can bring questions any more and nothing is left to do, or nothing can be done.
    pub(super) async fn run(mut self) {
        let found = self.backlog.take_over().await;
        self.line.state().on_disk += found;
        while let Some(group) = self.next_group().await {
            let count = group.len();
            self.work_off(group).await;
            self.line.state().in_the_air -= count;
            self.keep_some().await;
        }
        self.keep_all().await;
    }

    /// Waits for something to do.
    async fn next_group(&mut self) -> Option<Vec<Item>> {
        loop {
            let due = self.trouble.as_ref().map(|trouble| trouble.due);
            let is_due = due.is_none_or(|due| Instant::now() >= due);
            let (is_owing, is_closed) = {
                let mut state = self.line.state();
                if state.stopping != Stopping::No {
                    return None;
                }
                let group = state.take_group(is_due);
                let has_other_work = self.doubt.is_some() || !self.backlog.is_empty();
                if !group.is_empty() || has_other_work && is_due {
                    return Some(group);
                }
                if state.is_idle() {
                    self.line.idle.notify_waiters();
                }
                (state.has_owed() || has_other_work, state.is_closed)
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
        let line = Arc::clone(&self.line);
        let ended = unless_stopped(&line, self.end_doubt()).await;
        if let Err(error) = ended.unwrap_or_else(|| Err(stopped())) {
            return self.fail(group, &error);
        }
        if !group.is_empty() {
            self.commit(group).await;
        } else if self.backlog.is_empty() {
            self.recover();
        } else {
            self.tell_backlog().await;
        }
    }

    async fn commit(&mut self, group: Vec<Item>) {
        self.number += 1;
        let commit = Commit {
            writer: self.writer.clone(),
            number: self.number,
            questions: group.iter().map(|item| item.question.clone()).collect(),
            since_us: Vec::new(),
            mark: Mark::WhereNeeded,
            made_up_us: self.line.made_up_us(),
        };
        let sent_at = self.line.clock.steady();
        let write = self.driver.write(commit);
        // A file is written by a thread that goes on without its caller; whether it has committed could not be asked for.
        let written =
            if self.driver.is_file() { Some(write.await) } else { unless_stopped(&self.line, write).await };
        match written {
            Some(Ok(done)) => {
                self.answer(group, &done, sent_at);
                self.ahead_us = done.now_us.cast_signed().wrapping_sub(self.writer.now_us().cast_signed());
                self.recover();
                self.sweep(done.now_us).await;
                self.tell_backlog().await;
            }
            Some(Err(WriteError::Failed(error))) => self.fail(group, &error),
            Some(Err(WriteError::Unsure(done, error))) => self.begin_doubt(group, &done, &error),
            None => self.leave(group),
        }
    }

    /// Tells one batch of what is kept on disk, if there is any.
    async fn tell_backlog(&mut self) {
        if self.backlog.is_empty() {
            return;
        }
        let line = Arc::clone(&self.line);
        let tell = self.backlog.tell_next(&self.driver, &self.writer, line.made_up_us());
        match unless_stopped(&line, tell).await {
            Some(Ok(told)) => {
                line.state().on_disk -= told;
                self.recover();
                line.work.notify_one(); // There may be more.
            }
            Some(Err(error)) => {
                if is_against_it(&error) {
                    let refused = self.backlog.refused().await;
                    let mut state = line.state();
                    state.on_disk -= refused;
                    state.tally.forgotten += refused as u64;
                }
                self.get_into_trouble(&error);
            }
            None => {}
        }
    }

    /// The process ends while a transaction is under way: all of it may be done, or nothing.
    fn leave(&mut self, group: Vec<Item>) {
        let mut doubt = Doubt { number: self.number, if_committed: Vec::new(), if_not: Vec::new() };
        let (mut returns, mut again) = (Vec::new(), Vec::new());
        for item in group {
            match item.question.act {
                Act::Lease { units, number, .. } => {
                    let (counted_at, deadline) = (Time::default(), Time::default());
                    let rest = LeaseRest { units, counted_at, deadline, number };
                    returns.push(Question { act: Act::Return(rest), ..item.question.clone() });
                }
                act if act.counts_once() => again.push(item),
                _ if item.is_fact() => doubt.if_not.push(item),
                _ => {}
            }
        }
        let mut state = self.line.state();
        state.undo(returns);
        state.owe_again(again);
        state.in_the_air += 1;
        drop(state);
        self.doubt = Some(doubt);
    }

    /// While the database stays away, what is owed is kept on disk: the process may be killed.
    async fn keep_some(&mut self) {
        let is_away = self.trouble.as_ref().is_some_and(|trouble| trouble.pause >= PAUSE_MAX);
        let is_due = self.kept_at.is_none_or(|kept_at| kept_at.elapsed() >= KEEP_INTERVAL);
        if !is_away || !is_due {
            return;
        }
        let owed = self.line.state().take_kept(false);
        if owed.is_empty() {
            return;
        }
        let is_first = self.kept_at.is_none();
        self.kept_at = Some(Instant::now());
        let owed: Vec<Owed> =
            owed.into_iter().map(|question| self.owed_now(question, Condition::Always)).collect();
        let count = owed.len();
        let mut left = Vec::new();
        if let Err(unkept) = self.backlog.keep(owed, None).await {
            if is_first {
                warn!(error = %unkept.error, "what is owed to the database cannot be kept on disk: a server that is killed loses it");
            }
            left = unkept.owed;
        }
        let mut state = self.line.state();
        state.on_disk += count - left.len();
        state.owe_again(left.into_iter().map(|owed| Item::owed(owed.question)).collect());
    }

    /// Before the process ends: keeps on disk all that is owed, and says so.
    async fn keep_all(mut self) {
        let questions = self.line.state().take_kept(true);
        let mut owed: Vec<Owed> =
            questions.into_iter().map(|question| self.owed_now(question, Condition::Always)).collect();
        let doubt = self.doubt.take().map(|doubt| {
            self.line.state().in_the_air -= 1;
            let if_not = doubt.if_not.into_iter().map(|item| item.question);
            let if_not = if_not.map(|question| self.owed_now(question, Condition::IfNotCommitted));
            let if_committed = doubt.if_committed.into_iter();
            let if_committed = if_committed.map(|question| self.owed_now(question, Condition::IfCommitted));
            owed.extend(if_not.chain(if_committed).filter(|owed| is_kept_on_disk(&owed.question)));
            doubt.number
        });
        let (count, mut lost) = (owed.len(), 0);
        if count > 0
            && let Err(unkept) = self.backlog.keep(owed, doubt).await
        {
            warn!(error = %unkept.error, "what is owed to the database cannot be kept on disk");
            lost = unkept.owed.len();
        }
        // Unlocks the files first: another process may take them over as soon as this one says that it is done.
        drop(self.backlog);
        let mut state = self.line.state();
        state.on_disk += count - lost;
        state.tally.forgotten += lost as u64;
        state.stopping = Stopping::Done(Left { kept: state.on_disk, lost });
        drop(state);
        self.line.idle.notify_waiters();
    }

    /// Something that is owed from now on, by the clock of the database as far as that is known.
    fn owed_now(&self, question: Question, condition: Condition) -> Owed {
        let since_us = self.writer.now_us().saturating_add_signed(self.ahead_us);
        Owed { question, since_us, condition }
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
                None if item.question.act.counts_once() => again.push(item),
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
            self.line.state().breaker.hurry(self.line.clock.steady());
            // What was kept is due.
            self.line.work.notify_one();
        }
    }

    /// Throws away what is over, now and then.
    async fn sweep(&mut self, now_us: u64) {
        if now_us.abs_diff(self.swept_at_us) < SWEEP_INTERVAL_US {
            return;
        }
        let now = self.line.clock.steady();
        let waited = self.gap_since.is_some_and(|since| now.since(since) >= GAP_PATIENCE);
        let gap = if waited { Gap::Cross } else { Gap::Wait };
        let sweep = Sweep { writer: self.writer.clone(), gap, made_up_us: self.line.made_up_us() };
        match unless_stopped(&self.line, self.driver.write_plainly(sweep)).await {
            Some(Ok(Swept::Some)) | None => return, // The rest after the next transaction.
            Some(Ok(Swept::All)) => self.gap_since = None,
            Some(Ok(Swept::Held)) => {
                if self.gap_since.replace(self.gap_since.unwrap_or(now)).is_none() {
                    warn!(
                        "the clock is more than a day from where it was when this database was last used: nothing is deleted for 24 hours of running time. Set the clock right if it is wrong"
                    );
                }
            }
            Some(Err(error)) => warn!(%error, "what is over in the database could not be thrown away"),
        }
        self.swept_at_us = now_us;
    }
}

/// What something comes to, unless the process ends before.
async fn unless_stopped<F: Future>(line: &Line, work: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        out = work => Some(out),
        () = line.stop.notified() => None,
    }
}

fn stopped() -> DatabaseError {
    DatabaseError::Away("the process ends".to_owned())
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
