//! The answer of one limit.

use crate::time::Span;

/// Whether the units may be had, and if not, when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Yes, after `wait`. Only a leaky bucket that queues makes anybody wait.
    Allowed {
        /// How long to hold the request back before letting it through.
        wait: Span,
    },
    /// Not now: denied at every instant before `retry_after` has passed and admitted at it, if nobody else asks.
    NotNow {
        /// The time until the same cost is admitted.
        retry_after: Span,
    },
    /// Not now, and nobody knows when: a concurrency limit waits for somebody else to finish.
    Busy,
    /// Not ever: the cost is larger than the limit can hold.
    Never,
}

/// One limit's answer to one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// Whether the units may be had.
    pub outcome: Outcome,
    /// The most units that an unused key could have at once.
    pub limit: u64,
    /// How many more units would be admitted now, after this answer.
    pub remaining: u64,
    /// For windows the end of the current window, for buckets the time until full. A concurrency limit
    /// cannot know.
    pub reset_after: Option<Span>,
}

impl Decision {
    /// Whether the request may pass (perhaps after [`Decision::wait`]).
    pub fn is_allowed(&self) -> bool {
        matches!(self.outcome, Outcome::Allowed { .. })
    }

    /// How long a denied request has to wait until the same cost is admitted, where that is known.
    pub fn retry_after(&self) -> Option<Span> {
        match self.outcome {
            Outcome::NotNow { retry_after } => Some(retry_after),
            _ => None,
        }
    }

    /// How long an admitted request is to be held back.
    pub fn wait(&self) -> Span {
        match self.outcome {
            Outcome::Allowed { wait } => wait,
            _ => Span::ZERO,
        }
    }
}

impl Outcome {
    /// Admitted at once.
    pub const ALLOWED: Outcome = Outcome::Allowed { wait: Span::ZERO };
}
