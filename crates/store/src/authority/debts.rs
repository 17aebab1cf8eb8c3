//! What an authority has still to be told, though nobody waits for it: units to be given back, holds to be ended.
//!
//! A shard that is busy, loading, or out of reach has certainly not done it, and until it has, somebody's units stay taken. So
//! it is kept and told again, after a pause that grows while it is told in vain. Not for ever: who waits long enough has the
//! units back from the limit itself. Only what was certainly not done belongs here. What may have been done would be done twice.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use tollgate_core::{Span, Time};

use super::{Act, OnceAct, Question};

const MS: u64 = 1_000_000;

/// The most that is kept for one shard.
pub const DEBTS_MAX: usize = 1 << 14;
/// How long something is kept: longer than a failover or somebody's long script takes.
pub const LIFE: Span = Span::from_ticks(30_000 * MS);
/// How long a booking is kept: its caller was answered that it will be counted.
pub const BOOKING_LIFE: Span = Span::from_ticks(600_000 * MS);
/// How long to wait before it is told again: at first, and at most.
pub const PAUSE_MIN: Span = Span::from_ticks(50 * MS);
/// The most that is told at once: those who wait for an answer must not wait for long behind it. The rest is due at the next look.
pub const DUE_MAX: usize = 256;
/// See [`PAUSE_MIN`].
pub const PAUSE_MAX: Span = Span::from_ticks(1_000 * MS);

/// What one shard has still to be told.
#[derive(Debug)]
pub struct Debts {
    /// In the order in which they were found undone.
    kept: VecDeque<Debt>,
    due_at: Time,
    pause: Span,
}

/// Something that is to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Debt {
    /// What.
    pub question: Question,
    /// Since when.
    pub since: Time,
}

impl Default for Debts {
    fn default() -> Debts {
        Debts { kept: VecDeque::new(), due_at: Time::default(), pause: PAUSE_MIN }
    }
}

impl Debts {
    /// Keeps what was certainly not done. Where [`DEBTS_MAX`] are kept already, or it is too old, it is forgotten.
    pub fn owe(&mut self, debt: Debt, now: Time) {
        if self.kept.len() >= DEBTS_MAX || debt.is_over(now) {
            return;
        }
        if self.kept.is_empty() {
            self.due_at = now.plus(self.pause);
        }
        self.kept.push_back(debt.delayed());
    }

    /// What is to be told now, if it is time for that, as far as it is still owed. What is told in vain has to come back.
    pub fn take_due(&mut self, now: Time) -> impl Iterator<Item = Debt> + use<> {
        let mut due = VecDeque::new();
        if !self.kept.is_empty() && now >= self.due_at {
            self.pause = Span::from_ticks(self.pause.ticks() * 2).min(PAUSE_MAX);
            due.extend(self.kept.drain(..self.kept.len().min(DUE_MAX)));
        }
        due.into_iter().filter(move |debt: &Debt| !debt.is_over(now))
    }

    /// Something was done: what comes next need not wait for long.
    pub fn settled(&mut self) {
        self.pause = PAUSE_MIN;
        self.due_at = Time::default();
    }
}

impl Debt {
    /// Whether it is too old to be told again.
    fn is_over(&self, now: Time) -> bool {
        let life = match self.question.act {
            Act::Book(_) | Act::Once(_, OnceAct::Book(_)) => BOOKING_LIFE,
            _ => LIFE,
        };
        now.since(self.since) >= life
    }

    /// As it is told later. What a bucket has got back by itself meanwhile it must not get back once more, or it would admit more than its
    /// limit.
    fn delayed(mut self) -> Debt {
        if let Act::GiveBack { undoes, .. } | Act::Once(_, OnceAct::Undo { undoes, .. }) =
            &mut self.question.act
        {
            *undoes = true;
        }
        self
    }
}
