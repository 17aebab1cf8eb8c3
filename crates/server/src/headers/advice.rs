//! The one reading of a verdict that clients are given, whatever form it takes.
//!
//! A verdict holds what every limit has said; a client can act on one limit and one delay. Limits in shadow mode are left out: a
//! client that obeys its header fields would be slowed down by a rule that is not in force yet.

use std::time::Duration;

use tollgate::core::Span;
use tollgate::{Force, Ruling, Verdict};

const TICKS_PER_SECOND: u64 = 1_000_000_000;

/// A verdict of limits as a client sees it. A ban has none: see [`Verdict::banned_until`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Advice<'a> {
    verdict: &'a Verdict,
    ruling: &'a Ruling,
}

impl<'a> Advice<'a> {
    /// Reads a verdict. Nothing, where no limit counts.
    pub(crate) fn of(verdict: &'a Verdict) -> Option<Advice<'a>> {
        // The tightest ruling is one in shadow mode only if all are.
        let ruling = verdict.tightest().filter(|ruling| counts(ruling))?;
        Some(Advice { verdict, ruling })
    }

    /// The most restrictive ruling.
    pub(crate) fn ruling(&self) -> &'a Ruling {
        self.ruling
    }

    /// What the limit is called.
    pub(crate) fn title(&self) -> &'a str {
        self.verdict.title(self.ruling)
    }

    /// How long a denied request has to wait. There always is an answer, see [`Ruling::told_wait`].
    pub(crate) fn retry_after(&self) -> Option<Span> {
        self.ruling.told_wait().filter(|_| !self.verdict.allowed())
    }

    /// Until when what was said holds: a denied request's wait, else the time until the limit is reset. A limit on how many may
    /// be at it at once knows no such time.
    pub(crate) fn delay(&self) -> Option<Span> {
        if self.verdict.allowed() { self.ruling.decision.reset_after } else { self.retry_after() }
    }

    /// As [`Advice::delay`], in whole seconds and never too short.
    pub(crate) fn delay_s(&self) -> Option<u64> {
        self.delay().map(seconds_up)
    }

    /// As [`Advice::retry_after`], in whole seconds and never too short.
    pub(crate) fn retry_after_s(&self) -> Option<u64> {
        self.retry_after().map(seconds_up)
    }

    /// The end of [`Advice::delay`] as Unix time in seconds, never too early.
    pub(crate) fn moment_s(&self) -> Option<u64> {
        self.delay().map(|delay| self.verdict.now().plus(delay).ticks().div_ceil(TICKS_PER_SECOND))
    }
}

/// Whether clients are told of a ruling.
pub(crate) fn counts(ruling: &Ruling) -> bool {
    ruling.force != Force::Shadow
}

/// The length of the window that a limit counts in. Those of a calendar vary, and limits on how many may be at it at once have none.
pub(crate) fn window(ruling: &Ruling) -> Option<Duration> {
    ruling.period.length().filter(|_| !is_held(ruling))
}

/// Whether units are held and given back, not used up: only then there is no reset.
pub(crate) fn is_held(ruling: &Ruling) -> bool {
    ruling.decision.reset_after.is_none()
}

pub(super) fn seconds_up(span: Span) -> u64 {
    span.ticks().div_ceil(TICKS_PER_SECOND)
}
