//! What waits for the database, and whether it is asked at all: what askers and the task share.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tollgate_core::Time;
use tollgate_store::Clock;
use tollgate_store::authority::breaker::{Admission, Breaker, Pass};
use tollgate_store::authority::{Failure, Question};
use tracing::warn;

use super::books::is_kept;
use super::denials::Denials;
use super::item::{Item, Told, is_fact, is_kept_on_disk};
use super::stats::{DurableStats, Tally};

/// So many questions go into one transaction,
pub(super) const GROUP_MAX: usize = 1_024;
/// and so many of them are such as nobody waits for: those who wait must not do so behind all of them.
pub(super) const GROUP_OWED_MAX: usize = GROUP_MAX / 2;
/// So much that nobody waits for is kept while the database is away. What is more is forgotten: its units stay used.
pub(super) const OWED_MAX: usize = 1 << 16;
/// What the database has something against, though it is there, is tried so often.
pub(super) const TRIES_MAX: u8 = 8;
/// No time was made up.
const NO_TIME: u64 = u64::MAX;
/// What is said of questions that do not belong here is said so seldom, in nanoseconds.
const MURMUR_INTERVAL_NS: u64 = 60_000_000_000;

/// What askers and the task share.
pub(super) struct Line {
    pub(super) clock: Arc<Clock>,
    pub(super) denials: Denials,
    waiting_max: usize,
    state: Mutex<State>,
    /// Wakes the task.
    pub(super) work: Notify,
    /// Wakes those who wait until nothing is left to do, or all is kept on disk.
    pub(super) idle: Notify,
    /// Ends what the task waits for of the database, once.
    pub(super) stop: Notify,
    made_up_us: AtomicU64,
    murmured_at_ns: AtomicU64,
}

pub(super) struct State {
    /// Those that somebody waits for, in the order of their coming.
    waiting: VecDeque<Item>,
    /// Those that nobody waits for.
    owed: VecDeque<Item>,
    /// How many are being asked, or are still to be found out.
    pub(super) in_the_air: usize,
    /// How many are owed and kept on disk.
    pub(super) on_disk: usize,
    pub(super) is_closed: bool,
    pub(super) stopping: Stopping,
    pub(super) breaker: Breaker,
    pub(super) tally: Tally,
}

/// Whether the process is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopping {
    No,
    /// The task is to keep on disk what is owed.
    Asked,
    /// It has.
    Done(Left),
}

/// What was owed to the database when the process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Kept on disk, to be told after the next start.
    pub kept: usize,
    /// Neither told nor kept.
    pub lost: usize,
}

/// What an asker has to wait for.
pub(super) enum Entry {
    Awaited(oneshot::Receiver<Told>),
    Told(Told),
}

impl Line {
    pub(super) fn new(clock: Arc<Clock>, waiting_max: usize, seed: u64) -> Line {
        let state = State {
            waiting: VecDeque::new(),
            owed: VecDeque::new(),
            in_the_air: 0,
            on_disk: 0,
            is_closed: false,
            stopping: Stopping::No,
            breaker: Breaker::new(seed),
            tally: Tally::default(),
        };
        Line {
            clock,
            denials: Denials::new(),
            waiting_max,
            state: Mutex::new(state),
            work: Notify::new(),
            idle: Notify::new(),
            stop: Notify::new(),
            made_up_us: AtomicU64::new(NO_TIME),
            murmured_at_ns: AtomicU64::new(0),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another thread is not a reason to stop asking.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn make_up_time(&self, us: Option<u64>) {
        // Relaxed: it is a number by itself.
        self.made_up_us.store(us.unwrap_or(NO_TIME), Ordering::Relaxed);
    }

    pub(super) fn made_up_us(&self) -> Option<u64> {
        Some(self.made_up_us.load(Ordering::Relaxed)).filter(|us| *us != NO_TIME)
    }

    /// Lets questions wait together. Those that need not be asked, or are not to be, are answered at once. The pass says with what the others were let in.
    pub(super) fn enter(&self, questions: &[Question], now: Time) -> (Vec<Entry>, Option<Pass>) {
        let known: Vec<_> = questions.iter().map(|question| self.known(question, now)).collect();
        let mut state = self.state();
        state.tally.denied_at_once +=
            known.iter().flatten().filter(|told| told.answer.is_ok()).count() as u64;
        let admission = known.iter().any(Option::is_none).then(|| state.breaker.admits(now));
        let pass = match admission {
            Some(Admission::Yes(pass) | Admission::Probe(pass)) => Some(pass),
            Some(Admission::No { .. }) | None => None,
        };
        let not_asked = Told { answer: Err(Failure::NotAsked), is_sick: false };
        let enter = |(question, known): (&Question, Option<Told>)| match (known, pass) {
            (Some(told), _) => Entry::Told(told),
            (None, None) => {
                state.owe_fact(question);
                Entry::Told(not_asked)
            }
            (None, Some(_)) => state.push(question.clone(), self.waiting_max),
        };
        let entries = questions.iter().zip(known).map(enter).collect();
        let is_owing = state.has_owed();
        drop(state);
        if pass.is_some() || is_owing {
            self.work.notify_one();
        }
        (entries, pass)
    }

    /// What need not be asked.
    fn known(&self, question: &Question, now: Time) -> Option<Told> {
        if !is_kept(question) {
            self.murmur(question, now);
            return Some(Told { answer: Err(Failure::Refused), is_sick: false });
        }
        // What is certain of made-up time does not follow from ours.
        if self.made_up_us().is_some() {
            return None;
        }
        let grant = self.denials.known(question, now)?;
        Some(Told { answer: Ok(grant), is_sick: false })
    }

    /// What is to be done without anybody waiting for it.
    pub(super) fn owe(&self, questions: impl IntoIterator<Item = Question>) {
        let now = self.clock.steady();
        let mut state = self.state();
        for item in questions.into_iter().map(Item::owed) {
            if !is_kept(&item.question) {
                self.murmur(&item.question, now);
            } else if item.is_owed() {
                state.owe(item);
            }
        }
        drop(state);
        self.work.notify_one();
    }

    fn murmur(&self, question: &Question, now: Time) {
        // Relaxed: whoever sees an old moment says it once more.
        let last = self.murmured_at_ns.load(Ordering::Relaxed);
        if now.ticks().saturating_sub(last) < MURMUR_INTERVAL_NS {
            return;
        }
        self.murmured_at_ns.store(now.ticks(), Ordering::Relaxed);
        let algorithm = question.limit.limit().algorithm();
        warn!(algorithm, act = ?question.act, "the database keeps fixed windows only: this was refused");
    }

    pub(super) fn stats(&self) -> DurableStats {
        let now = self.clock.steady();
        let state = self.state();
        let breaker = state.breaker.state(now);
        state.tally.stats(breaker, state.waiting.len(), state.owed.len() + state.on_disk)
    }
}

impl State {
    fn push(&mut self, question: Question, waiting_max: usize) -> Entry {
        if self.waiting.len() >= waiting_max {
            self.owe_fact(&question);
            return Entry::Told(Told { answer: Err(Failure::Crowded), is_sick: true });
        }
        let (item, told) = Item::awaited(question);
        self.waiting.push_back(item);
        self.tally.asked += 1;
        Entry::Awaited(told)
    }

    /// Keeps what nobody waits for, as far as there is room.
    pub(super) fn owe(&mut self, item: Item) {
        if self.owed.len() + self.on_disk >= OWED_MAX {
            self.tally.forgotten += 1;
        } else {
            self.owed.push_back(item);
        }
    }

    /// Keeps what has happened already, though nobody is asked now.
    fn owe_fact(&mut self, question: &Question) {
        if is_fact(question) {
            self.owe(Item::owed(question.clone()));
        }
    }

    /// What was granted to nobody is to be given back.
    pub(super) fn undo(&mut self, undone: Vec<Question>) {
        self.tally.undone += undone.len() as u64;
        for question in undone {
            self.owe(Item::owed(question));
        }
    }

    /// Keeps what was not done, before all that came later.
    pub(super) fn owe_again(&mut self, items: Vec<Item>) {
        for item in items.into_iter().rev() {
            if self.owed.len() + self.on_disk >= OWED_MAX || item.tries >= TRIES_MAX {
                self.tally.forgotten += 1;
            } else {
                self.owed.push_front(item);
            }
        }
    }

    /// What goes together now. What nobody wants any more was not done, and needs nothing.
    pub(super) fn take_group(&mut self, with_owed: bool) -> Vec<Item> {
        let owed = if with_owed { self.owed.len().min(GROUP_OWED_MAX) } else { 0 };
        let mut group: Vec<Item> = self.owed.drain(..owed).collect();
        while group.len() < GROUP_MAX
            && let Some(item) = self.waiting.pop_front()
        {
            if item.is_owed() || item.is_awaited() {
                group.push(item);
            }
        }
        self.in_the_air += group.len();
        group
    }

    /// Takes out what is owed and can be kept on disk. With all that waits, where no caller waits any more.
    pub(super) fn take_kept(&mut self, with_waiting: bool) -> Vec<Question> {
        let (kept, others): (VecDeque<Item>, VecDeque<Item>) =
            std::mem::take(&mut self.owed).into_iter().partition(|item| is_kept_on_disk(&item.question));
        self.owed = others;
        let mut kept: Vec<Question> = kept.into_iter().map(|item| item.question).collect();
        if with_waiting {
            let waiting = std::mem::take(&mut self.waiting).into_iter().map(|item| item.question);
            kept.extend(waiting.filter(is_fact));
        }
        kept
    }

    /// How much is owed, and not on disk.
    pub(super) fn owed(&self) -> usize {
        self.owed.len() + self.in_the_air
    }

    pub(super) fn has_owed(&self) -> bool {
        !self.owed.is_empty()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.owed.is_empty() && self.in_the_air == 0 && self.on_disk == 0
    }
}
