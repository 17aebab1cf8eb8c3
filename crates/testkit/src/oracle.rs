//! The naive oracles: obviously right, and as slow as that takes.
//!
//! A model says what an algorithm *is*: how much counts as used at a moment, and whether a cost is admitted then.
//! Everything that an implementation computes by a formula is searched for here: `remaining` is the largest
//! cost that is admitted, `retry_after` the first instant that admits. All arithmetic is in 128 bits.

mod blocked;
mod bucket;
mod calendar_window;
mod concurrency;
mod fixed_window;
mod history;
mod queue;
mod search;
mod sliding_log;
mod sliding_window;
mod sub_windows;

use tollgate_core::{Ask, Decision, Intent, Outcome, Refund, Span, Time};

pub(crate) use blocked::Blocked;
pub(crate) use bucket::Bucket;
pub(crate) use calendar_window::CalendarWindow;
pub(crate) use concurrency::Concurrency;
pub(crate) use fixed_window::FixedWindow;
pub(crate) use queue::Queue;
pub(crate) use sliding_log::SlidingLog;
pub(crate) use sliding_window::SlidingWindow;
pub(crate) use sub_windows::SubWindows;

/// What is right for one key under one limit. Asked in an order in which time does not go back.
#[derive(Debug)]
pub struct Oracle {
    model: Box<dyn Model>,
}

/// The definition of an algorithm. Times and units are plain numbers.
pub(crate) trait Model: std::fmt::Debug {
    /// The most units an unused key could have at once.
    fn limit(&self) -> u128;

    /// Whether so many units are too many for any moment.
    fn is_never(&self, units: u128) -> bool {
        units > self.limit()
    }

    /// The units that count at `at`, rounded up.
    fn used(&self, at: u128) -> u128;

    /// Whether `units` in one request are admitted at `at`.
    fn admits(&self, units: u128, at: u128) -> bool {
        self.used(at) + units <= self.limit()
    }

    /// Whether `units` in requests of one unit each are admitted at `at`.
    fn admits_one_by_one(&self, units: u128, at: u128) -> bool {
        self.admits(units, at)
    }

    /// How long who is admitted at `at` is held back.
    fn wait(&self, _at: u128) -> u128 {
        0
    }

    /// Whether it can be known when a denied cost will be admitted.
    fn knows_when(&self) -> bool {
        true
    }

    /// Writes down what was admitted.
    fn take(&mut self, units: u128, at: u128);

    /// Writes down what was denied and is spent all the same: up to one whole limit beyond the limit, and no more
    /// than a counter of 64 bits can hold.
    fn book(&mut self, units: u128, at: u128) {
        let most = (2 * self.limit()).min(u128::from(u64::MAX));
        self.take(units.min(most.saturating_sub(self.used(at))), at);
    }

    /// Takes back what was written down.
    fn give_back(&mut self, units: u128, counted_at: u128, at: u128);

    /// The time until the window ends, or the bucket is full.
    fn reset_after(&self, at: u128) -> Option<u128>;
}

impl Oracle {
    pub(crate) fn new(model: impl Model + 'static) -> Oracle {
        Oracle { model: Box::new(model) }
    }

    /// The right answer to `ask`.
    pub fn decide(&mut self, ask: Ask) -> Decision {
        let units = u128::from(ask.cost.units());
        let now = u128::from(ask.now.ticks());
        let never = self.model.is_never(units);
        let admitted = !never && self.model.admits(units, now);
        let wait = self.model.wait(now);
        match ask.intent {
            Intent::Take | Intent::Book if admitted => self.model.take(units, now),
            Intent::Book if units > 0 => self.model.book(units, now),
            _ => {}
        }
        let outcome = if admitted {
            Outcome::Allowed { wait: span(wait) }
        } else if never {
            Outcome::Never
        } else if self.model.knows_when() {
            let retry_after = search::first(|later| self.model.admits(units, now + later));
            Outcome::NotNow { retry_after: span(retry_after) }
        } else {
            Outcome::Busy
        };
        let limit = self.model.limit();
        let remaining = search::last_up_to(limit, |units| self.model.admits_one_by_one(units, now));
        Decision {
            outcome,
            limit: narrow(limit),
            remaining: narrow(remaining),
            reset_after: self.model.reset_after(now).map(span),
        }
    }

    /// Gives units back.
    pub fn give_back(&mut self, refund: Refund) {
        let counted_at = u128::from(refund.counted_at.ticks());
        self.model.give_back(u128::from(refund.units), counted_at, u128::from(refund.now.ticks()));
    }

    /// The units that count at `now`.
    pub fn used(&self, now: Time) -> u64 {
        narrow(self.model.used(u128::from(now.ticks())))
    }
}

fn span(ticks: u128) -> Span {
    Span::from_ticks(narrow(ticks))
}

fn narrow(number: u128) -> u64 {
    u64::try_from(number).expect("every number of an answer fits 64 bits")
}
