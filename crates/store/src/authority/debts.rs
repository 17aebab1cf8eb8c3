//! What an authority has still to be told, though nobody waits for it: units to be given back, holds to be ended.
//!
//! A shard that is busy, loading, or out of reach has certainly not done it, and until it has, somebody's units stay taken. So
//! it is kept and told again, after a pause that grows while it is told in vain. Not for ever: who waits long enough has the
//! units back from the limit itself. Only what was certainly not done belongs here. What may have been done would be done twice.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use tollgate_core::{Limit, Span, Time};

use super::{Act, Question};

const MS: u64 = 1_000_000;

/// The most that is kept for one shard.
pub const DEBTS_MAX: usize = 1 << 14;
/// How long something is kept: longer than a failover or somebody's long script takes.
pub const LIFE: Span = Span::from_ticks(30_000 * MS);
/// How long to wait before it is told again: at first, and at most.
pub const PAUSE_MIN: Span = Span::from_ticks(50 * MS);
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
        if self.kept.len() >= DEBTS_MAX || now.since(debt.since) >= LIFE {
            return;
        }
        if self.kept.is_empty() {
            self.due_at = now.plus(self.pause);
        }
        self.kept.push_back(debt);
    }

    /// What is to be told now, if it is time for that, as far as it is still owed. What is told in vain has to come back.
    pub fn take_due(&mut self, now: Time) -> impl Iterator<Item = Debt> + use<> {
        let mut due = VecDeque::new();
        if !self.kept.is_empty() && now >= self.due_at {
            self.pause = Span::from_ticks(self.pause.ticks() * 2).min(PAUSE_MAX);
            due = std::mem::take(&mut self.kept);
        }
        due.into_iter().filter_map(move |debt| debt.left(now))
    }

    /// Something was done: what comes next need not wait for long.
    pub fn settled(&mut self) {
        self.pause = PAUSE_MIN;
        self.due_at = Time::default();
    }
}

impl Debt {
    /// What is left of it by now.
    fn left(self, now: Time) -> Option<Debt> {
        let age = now.since(self.since);
        if age >= LIFE {
            return None;
        }
        let Question { limit, act, .. } = &self.question;
        // A window knows what it has counted itself. A bucket only knows how full it is, and part of what was taken has come back to it by
        // itself: who gave it back once more would admit more than the limit. The authority itself sees to that where something is undone.
        let (
            Limit::TokenBucket(_) | Limit::LeakyBucket(_) | Limit::LeakyQueue(_),
            Act::GiveBack { units, counted_at, undoes: false },
        ) = (limit.limit(), *act)
        else {
            return Some(self);
        };
        let taken = limit.limit().with_used(units, counted_at);
        let age = Span::from_ticks(age.ticks() / limit.tick().length_ns());
        let units = units.min(limit.limit().used(&taken, counted_at.plus(age)));
        let act = Act::GiveBack { units, counted_at, undoes: false };
        (units > 0).then(|| Debt { question: Question { act, ..self.question }, ..self })
    }
}
