//! When the timeline of a process follows wall time that has jumped.
//!
//! Wall time that is set wrong for a moment opens windows that are not due, and a tenant spends its quota again. So a jump is noticed, by comparing wall time
//! with time that only runs, and is not followed on its own word: a clock elsewhere (that of the database or of Redis) has to confirm it, or, where there is
//! none, wall time has to stay where it is for a minute (or as long as the operator says). Small corrections are followed at once.
//!
//! Readings go in, and what to do comes out. Nothing here reads a clock.

#[cfg(test)]
mod tests;

use tollgate_core::{Span, Time};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A difference of so much is a correction, and no jump: NTP sets a clock right by less.
pub const CORRECTION_MAX: Span = Span::from_ticks(SECOND);
/// So far another clock may be from wall time that it confirms: answers take their time.
pub const REFERENCE_TOLERANCE: Span = Span::from_ticks(5 * SECOND);
/// What another clock said longer ago than this does not count.
pub const REFERENCE_LIFE: Span = Span::from_ticks(30 * SECOND);
/// Where no other clock can confirm a jump, wall time has to stay for so long where it is, unless the operator says otherwise.
pub const AGREEMENT: Span = Span::from_ticks(60 * SECOND);

/// What the clocks show at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Time that only runs: no correction of wall time moves it.
    pub steady: Time,
    /// Wall time.
    pub wall: Time,
    /// How far another clock was ahead of `steady`, and when it was asked.
    pub reference: Option<Reference>,
}

/// What another clock has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// How far it was ahead of time that only runs, in nanoseconds.
    pub ahead_ns: i64,
    /// When it was asked, in time that only runs.
    pub asked_at: Time,
}

/// What has happened. Differences are in nanoseconds; positive ones are ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockEvent {
    /// Wall time has jumped. The timeline does not follow, for now.
    Jumped {
        /// How far wall time is from the timeline.
        by_ns: i64,
    },
    /// Wall time is back where the timeline is. Nothing was changed.
    CameBack,
    /// The jump is confirmed. The timeline has followed it.
    Followed {
        /// How far it was moved.
        by_ns: i64,
    },
    /// The other clock shows another time than the timeline, which wall time agrees with.
    Differs {
        /// How far the other clock is from the timeline.
        by_ns: i64,
    },
}

/// Decides whether the timeline follows wall time.
#[derive(Debug)]
pub struct ClockGuard {
    /// How far the timeline is ahead of time that only runs.
    ahead_ns: i64,
    /// Where no other clock can confirm a jump, wall time has to stay for so long where it is.
    agreement: Span,
    jump: Option<Jump>,
    differs: bool,
}

/// A jump that is not confirmed.
#[derive(Clone, Copy, Debug)]
struct Jump {
    /// How far wall time is ahead of time that only runs.
    ahead_ns: i64,
    /// Since when it is, in time that only runs.
    since: Time,
}

impl ClockGuard {
    /// A guard of a timeline that is so far ahead of time that only runs.
    pub fn new(ahead_ns: i64) -> ClockGuard {
        ClockGuard { ahead_ns, agreement: AGREEMENT, jump: None, differs: false }
    }

    /// With so long to wait where no other clock can confirm a jump.
    #[must_use]
    pub fn agreement(self, agreement: Span) -> ClockGuard {
        ClockGuard { agreement, ..self }
    }

    /// How far the timeline is to be ahead of time that only runs.
    pub fn ahead_ns(&self) -> i64 {
        self.ahead_ns
    }

    /// How far wall time is from the timeline, while a jump is not confirmed.
    pub fn unconfirmed_ns(&self) -> i64 {
        self.jump.map_or(0, |jump| jump.ahead_ns.saturating_sub(self.ahead_ns))
    }

    /// Takes a reading, to be made every second or so.
    pub fn observe(&mut self, reading: &Reading) -> Option<ClockEvent> {
        let ahead_ns = difference(reading.wall, reading.steady);
        let is_fresh = |reference: &Reference| reading.steady.since(reference.asked_at) <= REFERENCE_LIFE;
        let reference = reading.reference.filter(is_fresh).map(|reference| reference.ahead_ns);
        let by_ns = ahead_ns.saturating_sub(self.ahead_ns);
        if is_within(by_ns, CORRECTION_MAX) {
            self.ahead_ns = ahead_ns;
            if self.jump.take().is_some() {
                return Some(ClockEvent::CameBack);
            }
            return self.compare(reference);
        }
        let is_same = |jump: &Jump| is_within(ahead_ns.saturating_sub(jump.ahead_ns), CORRECTION_MAX);
        let jump = self.jump.filter(is_same);
        let is_known = self.jump.is_some();
        let Jump { since, .. } = *self.jump.insert(jump.unwrap_or(Jump { ahead_ns, since: reading.steady }));
        let is_confirmed = match reference {
            Some(reference) => is_within(ahead_ns.saturating_sub(reference), REFERENCE_TOLERANCE),
            None => reading.steady.since(since) >= self.agreement,
        };
        if is_confirmed {
            (self.ahead_ns, self.jump, self.differs) = (ahead_ns, None, false);
            return Some(ClockEvent::Followed { by_ns });
        }
        (!is_known).then_some(ClockEvent::Jumped { by_ns })
    }

    /// Says once that the other clock shows something else.
    fn compare(&mut self, reference: Option<i64>) -> Option<ClockEvent> {
        let by_ns = reference?.saturating_sub(self.ahead_ns);
        let differed = std::mem::replace(&mut self.differs, !is_within(by_ns, REFERENCE_TOLERANCE));
        (self.differs && !differed).then_some(ClockEvent::Differs { by_ns })
    }
}

fn is_within(difference_ns: i64, span: Span) -> bool {
    difference_ns.unsigned_abs() <= span.ticks()
}

fn difference(one: Time, other: Time) -> i64 {
    one.ticks().cast_signed().wrapping_sub(other.ticks().cast_signed())
}
