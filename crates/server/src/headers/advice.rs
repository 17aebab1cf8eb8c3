//! The one reading of a verdict that clients are given, whatever form it takes.
//!
//! A verdict holds what every limit has said; a client can act on one limit and one delay. Limits in shadow mode are left out: a
//! client that obeys its header fields would be slowed down by a rule that is not in force yet.

use std::time::Duration;

use tollgate::core::{CalendarUnit, Outcome, Span, Tick};
use tollgate::policy::Period;
use tollgate::{Force, Ruling, Verdict};

const TICKS_PER_SECOND: u64 = 1_000_000_000;

/// How long a client waits for a place that somebody else has to give up. Nobody knows, so it is asked to look again soon.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// What a client is told of a verdict.
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

    /// How long a denied request has to wait. There always is an answer:
    ///
    /// - the moment from which on the same request is admitted, where that is known;
    /// - a second, where a place has to become free first;
    /// - the period, where the request can never pass: asking again is no use before somebody has changed the rules.
    pub(crate) fn retry_after(&self) -> Option<Span> {
        if self.verdict.allowed() {
            return None;
        }
        Some(match self.ruling.decision.outcome {
            Outcome::NotNow { retry_after } => retry_after,
            // Denied by others than this one, or for a moment: that is over at once.
            Outcome::Allowed { .. } | Outcome::Busy => span(BUSY_WAIT),
            Outcome::Never => self.period(),
        })
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

    /// The period of the limit; that of a calendar as it usually is.
    fn period(&self) -> Span {
        span(match self.ruling.period {
            Period::Calendar(CalendarUnit::Day) => Duration::from_hours(24),
            Period::Calendar(CalendarUnit::Week) => Duration::from_hours(7 * 24),
            Period::Calendar(CalendarUnit::Month) => Duration::from_hours(30 * 24),
            other => other.length().unwrap_or(BUSY_WAIT),
        })
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

fn seconds_up(span: Span) -> u64 {
    span.ticks().div_ceil(TICKS_PER_SECOND)
}

fn span(duration: Duration) -> Span {
    Tick::NANOSECOND.span(duration).unwrap_or(Span::MAX)
}
