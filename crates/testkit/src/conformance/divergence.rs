//! Where an implementation and the oracle part, told so that a person can follow it.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

use tollgate_core::{Ask, Decision, Intent, Outcome, Refund};

use crate::spec::Spec;

/// The steps told before the one that diverged.
const TOLD_MAX: usize = 12;

/// An answer that is not the oracle's.
#[derive(Clone, Debug)]
pub struct Divergence {
    pub(super) spec: Spec,
    pub(super) events: Vec<Event>,
    pub(super) expected: String,
    pub(super) got: String,
}

/// Something that happened, with the oracle's answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) key: &'static [u8],
    pub(super) happening: Happening,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Happening {
    Asked(Ask, Decision),
    GaveBack(Refund),
}

impl Divergence {
    /// The numbers of the limit.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The number of the step that diverged.
    pub fn step(&self) -> usize {
        self.events.len() - 1
    }
}

impl Error for Divergence {}

impl Display for Divergence {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.spec)?;
        let skipped = self.events.len().saturating_sub(TOLD_MAX);
        if skipped > 0 {
            writeln!(f, "  ... {skipped} steps before")?;
        }
        for (number, event) in self.events.iter().enumerate().skip(skipped) {
            writeln!(f, "  #{number} {event}")?;
        }
        writeln!(f, "diverged at step #{}", self.step())?;
        writeln!(f, "  expected {}", self.expected)?;
        write!(f, "  got      {}", self.got)
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(self.key);
        match self.happening {
            Happening::Asked(ask, decision) => {
                let intent = match ask.intent {
                    Intent::Peek => "peeks at",
                    Intent::Take => "takes",
                    Intent::Book => "books",
                };
                write!(f, "t={} {key} {intent} {}: ", ask.now.ticks(), ask.cost.units())?;
                match decision.outcome {
                    Outcome::Allowed { wait } if wait.ticks() == 0 => write!(f, "allowed")?,
                    Outcome::Allowed { wait } => write!(f, "allowed after {}", wait.ticks())?,
                    Outcome::NotNow { retry_after } => write!(f, "denied for {}", retry_after.ticks())?,
                    Outcome::Busy => write!(f, "denied, busy")?,
                    Outcome::Never => write!(f, "never")?,
                }
                write!(f, ", {} of {} remain", decision.remaining, decision.limit)
            }
            Happening::GaveBack(refund) => {
                let (now, counted_at) = (refund.now.ticks(), refund.counted_at.ticks());
                write!(f, "t={now} {key} gives back {} counted at t={counted_at}", refund.units)
            }
        }
    }
}
