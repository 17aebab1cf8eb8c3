//! Token bucket, stored as GCRA: the whole state is one moment.
//!
//! A bucket holds B units and gets one back every T ticks. Instead of a level and the time it was true at, keep
//! the theoretical arrival time (TAT): the moment at which the bucket would be full again. A unit taken moves
//! it T further away, time passing brings it nearer, and a bucket whose TAT has passed equals one never seen.
//!
//! ```text
//!   now                     TAT           now + B*T
//!    |------- backlog -------|              |
//!    |<------------- capacity ------------->|      admit iff backlog + c*T <= capacity
//! ```
//!
//! Bound: at most `B + L/T` units in any interval `L`.

use crate::algorithm::Algorithm;
use crate::ask::{Ask, Intent, Refund};
use crate::decision::{Decision, Outcome};
use crate::divisor::Divisor;
use crate::error::LimitError;
use crate::rate::Rate;
use crate::script::{SPAN_US_MAX, Script, Scripted, interval_in_ticks, script, span_fits};
use crate::share::Share;
use crate::time::{Span, Tick, Time};
use crate::word::{BEYOND_MAX, Packed};

/// N units per period, of which up to B may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    burst: u64,
    interval: Divisor,
    capacity_ticks: u64,
    backlog_ticks_max: u64,
}

impl TokenBucket {
    /// A bucket of `burst` units that refills at `rate`.
    pub fn new(rate: Rate, burst: u64) -> Result<TokenBucket, LimitError> {
        if burst == 0 {
            return Err(LimitError::NoBurst);
        }
        let interval_ticks = rate.interval_ticks()?;
        let capacity_ticks = burst
            .checked_mul(interval_ticks)
            .filter(|&ticks| ticks <= Span::MAX.0)
            .ok_or(LimitError::TooLong { ticks_max: Span::MAX.0 })?;
        let interval = Divisor::new(interval_ticks);
        Ok(TokenBucket { burst, interval, capacity_ticks, backlog_ticks_max: 2 * capacity_ticks })
    }

    /// Reads every state as it is, whatever numbers wrote it: for callers that bring their numbers with each
    /// call. A limit that belongs to a rule instead trims what a larger limit left behind to one whole limit
    /// of debt, so that nobody waits longer than the rule now allows.
    #[must_use]
    pub fn reading_foreign_states(self) -> TokenBucket {
        TokenBucket { backlog_ticks_max: u64::MAX, ..self }
    }

    /// The ticks one unit takes to come back.
    pub fn interval(&self) -> Span {
        Span(self.interval.number())
    }

    #[inline]
    fn backlog_ticks(&self, tat: Time, now: Time) -> u64 {
        tat.since(now).0.min(self.backlog_ticks_max)
    }

    #[inline]
    fn answer(&self, outcome: Outcome, backlog_ticks: u64) -> Decision {
        Decision {
            outcome,
            limit: self.burst,
            remaining: self.interval.divide(self.capacity_ticks.saturating_sub(backlog_ticks)),
            reset_after: Some(Span(backlog_ticks)),
        }
    }

    /// The backlog after a question that the bucket does not admit: a booking counts all the same.
    #[cold]
    fn backlog_after_denial(&self, ask: Ask, backlog_ticks: u64) -> u64 {
        if !ask.books() {
            return backlog_ticks;
        }
        let cost_ticks = ask.cost.units().saturating_mul(self.interval.number());
        let debt_end = backlog_ticks.max(2 * self.capacity_ticks);
        backlog_ticks.saturating_add(cost_ticks).min(debt_end)
    }

    #[cold]
    fn denial(&self, ask: Ask, backlog_ticks: u64) -> Outcome {
        if ask.cost.units() > self.burst {
            return Outcome::Never;
        }
        let cost_ticks = ask.cost.units().saturating_mul(self.interval.number());
        let retry_ticks = backlog_ticks.saturating_add(cost_ticks) - self.capacity_ticks;
        Outcome::NotNow { retry_after: Span(retry_ticks) }
    }

    /// As [`crate::Limit::with_reserve`].
    pub(crate) fn with_reserve(&self, units: u64) -> Option<TokenBucket> {
        let burst = self.burst.checked_sub(units).filter(|&burst| burst > 0)?;
        let capacity_ticks = burst * self.interval.number();
        let reads_foreign_states = self.backlog_ticks_max == u64::MAX;
        let backlog_ticks_max = if reads_foreign_states { u64::MAX } else { 2 * capacity_ticks };
        Some(TokenBucket { burst, capacity_ticks, backlog_ticks_max, ..*self })
    }

    /// The limit of a node that has this share of the burst and of the rate.
    pub(crate) fn share(&self, share: Share) -> TokenBucket {
        let interval_ticks = share.interval_ticks(self.interval.number());
        let burst = share.of(self.burst).min(Span::MAX.0 / interval_ticks);
        let capacity_ticks = burst * interval_ticks;
        let reads_foreign_states = self.backlog_ticks_max == u64::MAX;
        let backlog_ticks_max = if reads_foreign_states { u64::MAX } else { 2 * capacity_ticks };
        TokenBucket { burst, interval: Divisor::new(interval_ticks), capacity_ticks, backlog_ticks_max }
    }
}

impl Algorithm for TokenBucket {
    type State = Time;

    #[inline(always)]
    #[allow(clippy::inline_always)] // Measured: a call here is a fifth of a decision.
    fn decide(&self, tat: &mut Time, ask: Ask) -> Decision {
        let backlog_ticks = self.backlog_ticks(*tat, ask.now);
        let units = ask.cost.units();
        let filled_ticks = backlog_ticks.saturating_add(units.wrapping_mul(self.interval.number()));
        // Too large a cost may have wrapped around.
        if units <= self.burst && filled_ticks <= self.capacity_ticks {
            let backlog_ticks_then = if ask.takes() { filled_ticks } else { backlog_ticks };
            if ask.takes() {
                *tat = ask.now.plus(Span(filled_ticks));
            }
            return self.answer(Outcome::ALLOWED, backlog_ticks_then);
        }
        let backlog_ticks_then = self.backlog_after_denial(ask, backlog_ticks);
        let is_trimmed = ask.intent == Intent::Take && tat.since(ask.now).0 > backlog_ticks;
        if ask.books() || is_trimmed {
            *tat = ask.now.plus(Span(backlog_ticks_then));
        }
        self.answer(self.denial(ask, backlog_ticks_then), backlog_ticks_then)
    }

    fn give_back(&self, tat: &mut Time, refund: Refund) {
        let backlog_ticks = tat.since(refund.now).0;
        if backlog_ticks > 0 {
            let refund_ticks = refund.backlog_ticks(self.interval.number());
            *tat = refund.now.plus(Span(backlog_ticks.saturating_sub(refund_ticks)));
        }
    }

    fn used(&self, tat: &Time, now: Time) -> u64 {
        self.interval.divide_up(self.backlog_ticks(*tat, now))
    }

    fn expires_at(&self, tat: &Time) -> Time {
        *tat
    }

    fn shape(&self) -> u64 {
        0 // A moment is a moment, whatever the numbers.
    }
}

impl Packed for TokenBucket {
    type Moment = ();

    #[inline]
    fn packs(&self) -> bool {
        self.capacity_ticks <= BEYOND_MAX / 2 // Debt is as much again.
    }

    fn moment(&self, _now: Time) {}

    #[inline]
    fn used_part(&self, word: u64, now: Time) -> (u64, u64) {
        (word.saturating_sub(now.0), self.capacity_ticks)
    }

    #[inline]
    fn pack(&self, tat: &Time) -> u64 {
        tat.0
    }

    #[inline]
    fn unpack(&self, word: u64) -> Time {
        Time(word)
    }
}

/// What is shared by all that is a bucket.
static SCRIPT: Script = script!("TokenBucket", "token_bucket.lua");

impl Scripted for TokenBucket {
    const SCRIPT: Option<&'static Script> = Some(&SCRIPT);

    fn in_ticks(&self, tick: Tick) -> Result<TokenBucket, LimitError> {
        let interval = Span(interval_in_ticks(self.interval.number(), tick)?);
        let bucket = TokenBucket::new(Rate::new(1, interval)?, self.burst)?;
        let is_foreign = self.backlog_ticks_max == u64::MAX;
        Ok(if is_foreign { bucket.reading_foreign_states() } else { bucket })
    }

    fn fits_script(&self, tick: Tick) -> bool {
        span_fits(Span(2 * self.capacity_ticks), tick)
    }

    fn cost_max(&self) -> u64 {
        self.burst.saturating_mul(2)
    }

    fn put_numbers(&self, _around: Time, put: &mut dyn FnMut(u64)) {
        put(self.interval.number());
        put(self.burst);
        put(self.backlog_ticks_max.min(SPAN_US_MAX));
    }
}
