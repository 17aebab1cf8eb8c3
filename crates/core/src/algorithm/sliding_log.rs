//! Sliding log: remembers when every unit was taken, and so is exact.
//!
//! Never more than N units in any period, never a wrong denial; the price is a state that grows with N, so N is
//! capped. Units taken at the same moment share an entry.
//!
//! A clock that lags by up to a period adds its units to the newest entry. An entry further ahead than
//! that shows a clock that was set back: its units count as taken now, because they were taken before,
//! and the limit denies for no longer than a period after that.

use std::collections::VecDeque;

use crate::algorithm::Algorithm;
use crate::ask::{Ask, Intent, Refund};
use crate::decision::{Decision, Outcome};
use crate::error::LimitError;
use crate::rate::Rate;
use crate::script::{Script, Scripted, script, span_fits, span_in_ticks};
use crate::share::Share;
use crate::time::{Span, Tick, Time};

/// Exactly N units in any period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingLog {
    units: u64,
    period: Span,
}

/// When units were taken, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    entries: VecDeque<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    taken_at: Time,
    units: u64,
}

impl SlidingLog {
    /// The most units a log may hold.
    pub const UNITS_MAX: u64 = 1 << 16;

    /// `rate`, exactly.
    pub fn new(rate: Rate) -> Result<SlidingLog, LimitError> {
        if rate.units() > SlidingLog::UNITS_MAX {
            return Err(LimitError::LogTooLarge { units: rate.units(), units_max: SlidingLog::UNITS_MAX });
        }
        Ok(SlidingLog { units: rate.units(), period: rate.period() })
    }

    /// The entries that still count, oldest first: those of `(now - W, now]`, and any from a clock ahead.
    fn counting<'a>(&self, log: &'a Log, now: Time) -> impl DoubleEndedIterator<Item = &'a Entry> + use<'a> {
        let expired = log.entries.partition_point(|entry| self.leaves_at(entry) <= now);
        log.entries.range(expired..)
    }

    fn leaves_at(&self, entry: &Entry) -> Time {
        entry.taken_at.plus(self.period)
    }

    fn add(&self, log: &mut Log, units: u64, now: Time) {
        let expired = log.entries.partition_point(|entry| self.leaves_at(entry) <= now);
        log.entries.drain(..expired);
        match log.entries.back_mut() {
            // A caller whose clock lags is taken to ask when the last one did, so that the log stays in order.
            Some(last) if last.taken_at >= now => last.units += units,
            _ => log.entries.push_back(Entry { taken_at: now, units }),
        }
    }

    /// Whether the clock was set back after the newest entry was written.
    fn is_ahead(&self, log: &Log, now: Time) -> bool {
        log.entries.back().is_some_and(|newest| newest.taken_at > now.plus(self.period))
    }

    /// Moves the entries that are more than a period ahead to `now`.
    fn date_anew(&self, log: &mut Log, now: Time) {
        let first = log.entries.partition_point(|entry| entry.taken_at <= now.plus(self.period));
        let units = log.entries.drain(first..).map(|entry| entry.units).sum();
        self.add(log, units, now);
    }

    /// When enough of the oldest entries have left to make room for `units`.
    fn retry_after(&self, log: &Log, units: u64, used: u64, now: Time) -> Span {
        let mut over = used.saturating_add(units).saturating_sub(self.units);
        for entry in self.counting(log, now) {
            over = over.saturating_sub(entry.units);
            if over == 0 {
                return self.leaves_at(entry).since(now);
            }
        }
        Span::ZERO
    }

    fn decide_in_order(&self, log: &mut Log, ask: Ask) -> Decision {
        let used = self.used(log, ask.now);
        let units = ask.cost.units();
        let allowed = used <= self.units && units <= self.units - used;
        let booked = if allowed && ask.takes() {
            units
        } else if !allowed && ask.books() {
            units.min((2 * self.units).saturating_sub(used))
        } else {
            0
        };
        if booked > 0 {
            self.add(log, booked, ask.now);
        }
        let used = used + booked;
        let outcome = if allowed {
            Outcome::ALLOWED
        } else if units > self.units {
            Outcome::Never
        } else {
            Outcome::NotNow { retry_after: self.retry_after(log, units, used, ask.now) }
        };
        let newest = self.counting(log, ask.now).next_back();
        Decision {
            outcome,
            limit: self.units,
            remaining: self.units.saturating_sub(used),
            reset_after: Some(newest.map_or(Span::ZERO, |entry| self.leaves_at(entry).since(ask.now))),
        }
    }

    /// As [`crate::Limit::with_reserve`].
    pub(crate) fn with_reserve(&self, units: u64) -> Option<SlidingLog> {
        let units = self.units.checked_sub(units).filter(|&units| units > 0)?;
        Some(SlidingLog { units, ..*self })
    }

    /// The units of a period, and the period.
    pub(crate) fn units_per_period(&self) -> (u64, Span) {
        (self.units, self.period)
    }

    /// The limit of a node that has this share of the units.
    pub(crate) fn share(&self, share: Share) -> SlidingLog {
        SlidingLog { units: share.of(self.units), ..*self }
    }
}

impl Algorithm for SlidingLog {
    type State = Log;

    fn decide(&self, log: &mut Log, ask: Ask) -> Decision {
        if !self.is_ahead(log, ask.now) {
            return self.decide_in_order(log, ask);
        }
        if ask.intent == Intent::Take || ask.books() {
            self.date_anew(log, ask.now);
            return self.decide_in_order(log, ask);
        }
        let mut dated_anew = log.clone();
        self.date_anew(&mut dated_anew, ask.now);
        self.decide_in_order(&mut dated_anew, ask)
    }

    fn give_back(&self, log: &mut Log, refund: Refund) {
        let mut units = refund.units;
        // Others have come since: what leaves must not be theirs, which count for longer.
        if refund.undoes && log.entries.back().is_none_or(|newest| newest.taken_at != refund.counted_at) {
            return;
        }
        while let Some(newest) = log.entries.back_mut() {
            if newest.units > units {
                newest.units -= units;
                return;
            }
            units -= newest.units;
            log.entries.pop_back();
        }
    }

    fn used(&self, log: &Log, now: Time) -> u64 {
        self.counting(log, now).map(|entry| entry.units).sum()
    }

    fn expires_at(&self, log: &Log) -> Time {
        log.entries.back().map_or(Time::default(), |entry| self.leaves_at(entry))
    }

    fn heap_bytes(log: &Log) -> usize {
        log.entries.capacity() * size_of::<Entry>()
    }

    fn shape(&self) -> u64 {
        0 // When units were taken is true under any numbers.
    }
}

static SCRIPT: Script = script!("SlidingLog", "sliding_log.lua");

impl Scripted for SlidingLog {
    const SCRIPT: Option<&'static Script> = Some(&SCRIPT);

    fn in_ticks(&self, tick: Tick) -> Result<SlidingLog, LimitError> {
        SlidingLog::new(Rate::new(self.units, span_in_ticks(self.period, tick))?)
    }

    fn fits_script(&self, tick: Tick) -> bool {
        span_fits(self.period, tick)
    }

    /// Of the largest log, which may have counted more.
    fn cost_max(&self) -> u64 {
        2 * SlidingLog::UNITS_MAX
    }

    fn put_numbers(&self, _around: Time, put: &mut dyn FnMut(u64)) {
        put(self.units);
        put(self.period.0);
    }
}
