//! The question put to a limit.

use crate::time::Time;

/// How many units a request wants. Every number is a valid cost; zero only looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

impl Cost {
    /// Takes nothing: asks whether the key is beyond its limit.
    pub const ZERO: Cost = Cost(0);
    /// What a plain request costs.
    pub const ONE: Cost = Cost(1);

    /// A cost of so many units.
    pub const fn new(units: u64) -> Cost {
        Cost(units)
    }

    /// The number of units.
    pub const fn units(self) -> u64 {
        self.0
    }
}

/// What the question may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Nothing: the answer is what [`Intent::Take`] would get.
    Peek,
    /// The units are taken if the limit admits them, and left alone otherwise.
    #[default]
    Take,
    /// The cost is already spent and has to be written down. What the limit does not admit is booked as debt,
    /// at most one whole limit of it, and the answer is a denial.
    Book,
}

/// One question: how much, when, and what it may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The units asked for.
    pub cost: Cost,
    /// The moment of asking.
    pub now: Time,
    /// What the question may change.
    pub intent: Intent,
}

impl Ask {
    /// May I have them? If so, they are mine.
    pub const fn take(cost: Cost, now: Time) -> Ask {
        Ask { cost, now, intent: Intent::Take }
    }

    /// Could I have them?
    pub const fn peek(cost: Cost, now: Time) -> Ask {
        Ask { cost, now, intent: Intent::Peek }
    }

    /// I have used them already.
    pub const fn book(cost: Cost, now: Time) -> Ask {
        Ask { cost, now, intent: Intent::Book }
    }

    /// Whether an admitted question takes anything.
    pub(crate) fn takes(&self) -> bool {
        self.intent != Intent::Peek && self.cost != Cost::ZERO
    }

    /// Whether a denied question is written down all the same.
    pub(crate) fn books(&self) -> bool {
        self.intent == Intent::Book && self.cost != Cost::ZERO
    }
}

/// Units given back: the work did not happen, or cost less than was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refund {
    /// How many units. More than were taken make a key unused, never richer.
    pub units: u64,
    /// When they were taken: a window gives back only what it counted itself.
    pub counted_at: Time,
    /// Whether it is to be as if they had never been taken: what has come back by itself since then does not come back once more, or others who
    /// have asked meanwhile would have more than without them.
    pub undoes: bool,
    /// The moment of giving back.
    pub now: Time,
}

impl Refund {
    /// Gives back what was taken just now.
    pub const fn at_once(units: u64, now: Time) -> Refund {
        Refund { units, counted_at: now, undoes: false, now }
    }

    /// Takes back that so many units were taken at a moment.
    pub const fn undo(units: u64, counted_at: Time, now: Time) -> Refund {
        Refund { units, counted_at, undoes: true, now }
    }

    /// By how much a backlog becomes shorter. Of what is undone, the time is subtracted that has passed since: whatever was taken before and after, the
    /// backlog without it would be shorter by at least the rest.
    pub(crate) fn backlog_ticks(&self, interval_ticks: u64) -> u64 {
        let ticks = self.units.saturating_mul(interval_ticks);
        if self.undoes { ticks.saturating_sub(self.now.since(self.counted_at).0) } else { ticks }
    }
}
