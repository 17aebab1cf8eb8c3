//! Leaky bucket as a queue: nobody is turned away who is willing to wait.
//!
//! Requests leave at one unit every T ticks. A request that comes early is admitted with the time it has to be
//! held back; only one that would wait longer than `max_wait` is denied. What leaves is evenly spaced: at most
//! `1 + L/T` unit requests start in any interval `L`.
//!
//! A request may carry at most the N units of one period, so that no single request closes the queue for
//! longer than that.

use crate::algorithm::Algorithm;
use crate::ask::{Ask, Intent, Refund};
use crate::decision::{Decision, Outcome};
use crate::divisor::Divisor;
use crate::error::LimitError;
use crate::rate::Rate;
use crate::script::{Script, Scripted, interval_in_ticks, script, span_fits};
use crate::share::Share;
use crate::time::{Span, Tick, Time};
use crate::word::{BEYOND_MAX, Packed};

/// A queue that moves at a given rate and in which nobody waits longer than a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeakyQueue {
    units: u64,
    interval: Divisor,
    wait_ticks_max: u64,
    /// The longest wait that debt can build up: the longest queue, a whole period behind it, and another booked.
    debt_ticks_max: u64,
}

impl LeakyQueue {
    /// A queue that moves at `rate` and holds nobody back for longer than `max_wait`.
    pub fn new(rate: Rate, max_wait: Span) -> Result<LeakyQueue, LimitError> {
        let interval_ticks = rate.interval_ticks()?;
        let debt_ticks_max = rate
            .units()
            .checked_mul(interval_ticks)
            .and_then(|period| period.checked_mul(2))
            .and_then(|periods| periods.checked_add(max_wait.0))
            .filter(|&ticks| ticks <= Span::MAX.0)
            .ok_or(LimitError::TooLong { ticks_max: Span::MAX.0 })?;
        let interval = Divisor::new(interval_ticks);
        Ok(LeakyQueue { units: rate.units(), interval, wait_ticks_max: max_wait.0, debt_ticks_max })
    }

    fn wait_ticks(&self, next: Time, now: Time) -> u64 {
        next.since(now).0.min(self.debt_ticks_max)
    }

    fn answer(&self, outcome: Outcome, wait_ticks: u64) -> Decision {
        let places = |ticks: Option<u64>| ticks.map_or(0, |ticks| self.interval.divide(ticks) + 1);
        Decision {
            outcome,
            limit: places(Some(self.wait_ticks_max)),
            remaining: places(self.wait_ticks_max.checked_sub(wait_ticks)),
            reset_after: Some(Span(wait_ticks)),
        }
    }

    /// The limit of a node that has this share of the rate, and so of the places: nobody waits longer.
    pub(crate) fn share(&self, share: Share) -> LeakyQueue {
        let debt_ticks = (Span::MAX.0 - self.wait_ticks_max) / 2;
        let interval_ticks = share.interval_ticks(self.interval.number()).min(debt_ticks);
        let units = share.of(self.units).min(debt_ticks / interval_ticks);
        let debt_ticks_max = 2 * units * interval_ticks + self.wait_ticks_max;
        LeakyQueue { units, interval: Divisor::new(interval_ticks), debt_ticks_max, ..*self }
    }
}

impl Algorithm for LeakyQueue {
    /// When the next request may start.
    type State = Time;

    fn decide(&self, next: &mut Time, ask: Ask) -> Decision {
        let wait_ticks = self.wait_ticks(*next, ask.now);
        let cost_ticks = ask.cost.units().saturating_mul(self.interval.number());
        let fits = ask.cost.units() <= self.units;
        let mut wait_ticks_then = wait_ticks;
        let in_time = wait_ticks <= self.wait_ticks_max;
        if fits && in_time && ask.takes() {
            wait_ticks_then = wait_ticks + cost_ticks;
        } else if !(fits && in_time) && ask.books() {
            wait_ticks_then = wait_ticks.saturating_add(cost_ticks).min(self.debt_ticks_max);
        }
        let is_trimmed = (ask.intent == Intent::Take || ask.books()) && next.since(ask.now).0 > wait_ticks;
        if wait_ticks_then != wait_ticks || is_trimmed {
            *next = ask.now.plus(Span(wait_ticks_then));
        }
        let outcome = if !fits {
            Outcome::Never
        } else if in_time {
            Outcome::Allowed { wait: Span(wait_ticks) }
        } else {
            Outcome::NotNow { retry_after: Span(wait_ticks_then - self.wait_ticks_max) }
        };
        self.answer(outcome, wait_ticks_then)
    }

    fn give_back(&self, next: &mut Time, refund: Refund) {
        let wait_ticks = next.since(refund.now).0;
        if wait_ticks > 0 {
            let refund_ticks = refund.backlog_ticks(self.interval.number());
            *next = refund.now.plus(Span(wait_ticks.saturating_sub(refund_ticks)));
        }
    }

    fn used(&self, next: &Time, now: Time) -> u64 {
        self.interval.divide_up(self.wait_ticks(*next, now))
    }

    fn expires_at(&self, next: &Time) -> Time {
        *next
    }

    fn shape(&self) -> u64 {
        0
    }
}

impl Packed for LeakyQueue {
    type Moment = ();

    #[inline]
    fn packs(&self) -> bool {
        self.debt_ticks_max <= BEYOND_MAX
    }

    fn moment(&self, _now: Time) {}

    #[inline]
    fn used_part(&self, word: u64, now: Time) -> (u64, u64) {
        (word.saturating_sub(now.0), self.wait_ticks_max.saturating_add(self.interval.number()))
    }

    fn pack(&self, next: &Time) -> u64 {
        next.0
    }

    fn unpack(&self, word: u64) -> Time {
        Time(word)
    }
}

static SCRIPT: Script = script!("LeakyQueue", "leaky_queue.lua");

impl Scripted for LeakyQueue {
    const SCRIPT: Option<&'static Script> = Some(&SCRIPT);

    /// The longest wait is rounded down: nobody is promised less and waits longer.
    fn in_ticks(&self, tick: Tick) -> Result<LeakyQueue, LimitError> {
        let interval_ticks = interval_in_ticks(self.interval.number(), tick)?;
        let period = self.units.checked_mul(interval_ticks).ok_or(LimitError::NotShared)?;
        LeakyQueue::new(Rate::new(self.units, Span(period))?, Span(self.wait_ticks_max / tick.length_ns()))
    }

    fn fits_script(&self, tick: Tick) -> bool {
        span_fits(Span(self.debt_ticks_max), tick)
    }

    fn cost_max(&self) -> u64 {
        self.interval.divide_up(self.debt_ticks_max)
    }

    fn put_numbers(&self, _around: Time, put: &mut dyn FnMut(u64)) {
        put(self.interval.number());
        put(self.units);
        put(self.wait_ticks_max);
    }
}
