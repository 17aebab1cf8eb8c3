//! A limit as a whole fleet shares it: the same algorithm, run by Redis, at a tick that its numbers can hold.
//!
//! The twin of an algorithm is a Lua script beside its Rust file. Lua computes with doubles, which hold whole numbers up to 2^53: enough
//! for microseconds since 1970, not for nanoseconds. So a shared limit is the limit of the rule at a coarser tick. At that tick,
//! the script and `core` give the same answers.

use crate::algorithm::concurrency::Holder;
use crate::decision::{Decision, Outcome};
use crate::error::LimitError;
use crate::limit::Limit;
use crate::script::{NUMBER_MAX, Script};
use crate::time::{Span, Tick, Time};

/// A limit at the tick of a shared count.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedLimit {
    limit: Limit,
    tick: Tick,
    /// What every decision says the limit is.
    units: u64,
    cost_max: u64,
    fingerprint: u64,
}

/// What a script has answered to one ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done, or denied.
    Decided {
        /// How, in nanoseconds.
        decision: Decision,
        /// Under which name units are held, where they are.
        holder: Option<Holder>,
    },
    /// Nothing was done: the boundaries that were sent do not hold the time of Redis. To be asked again with those around it.
    UnknownWindow,
}

impl SharedLimit {
    /// The limit of a rule, which counts nanoseconds, at the finest tick that a script can count in.
    pub fn new(limit: &Limit) -> Result<SharedLimit, LimitError> {
        let ticks = [Tick::MICROSECOND, Tick::MILLISECOND, Tick::SECOND];
        let fitting = ticks.into_iter().find_map(|tick| {
            let limit = limit.in_ticks(tick).ok()?;
            SharedLimit::in_ticks(limit, tick).ok()
        });
        fitting.ok_or(LimitError::NotShared)
    }

    /// A limit that counts in this tick already.
    pub fn in_ticks(limit: Limit, tick: Tick) -> Result<SharedLimit, LimitError> {
        let is_too_fine = tick.length_us() == 0;
        if is_too_fine || !limit.fits_script(tick) {
            return Err(LimitError::NotShared);
        }
        let units = limit.capacity();
        let cost_max = limit.cost_max();
        let mut shared = SharedLimit { limit, tick, units, cost_max, fingerprint: 0 };
        // FNV-1a, over what tells the limit apart from others that may share its counters.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ shared.limit.shape();
        shared.put_numbers(0, Time::default(), |number| {
            hash = (hash ^ number).wrapping_mul(0x0100_0000_01b3).rotate_left(31);
        });
        shared.fingerprint = hash;
        Ok(shared)
    }

    /// A number that limits with other numbers have not, except by chance. Whatever is remembered of an answer holds under the limit
    /// that gave it: several may share a counter, as callers who bring their numbers with every call do.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The limit as the script knows it: what decides the same way, at the same tick.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Tells apart what cannot be read with each other's numbers, as [`Limit::shape`]: a moment means something else at another tick.
    pub fn shape(&self) -> (u64, Tick) {
        (self.limit.shape(), self.tick)
    }

    /// The most units that an unused key could have at once.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// The tick of the shared count.
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// What Redis runs. None where the answer is known without asking.
    pub fn script(&self) -> Option<&'static Script> {
        self.limit.script()
    }

    /// What comes before the asks of a key in a script's arguments: the tick, the jitter, the numbers of the limit. All keys of a fleet have
    /// the same hash everywhere, so all agree on its jitter. `around` is the time that it should be in Redis, in ticks.
    pub(crate) fn put_numbers(&self, key_hash: u64, around: Time, mut put: impl FnMut(u64)) {
        put(self.tick.length_us());
        put(self.limit.key_time(key_hash, Time::default()).0);
        self.limit.put_numbers(around, &mut put);
    }

    /// The units of an ask as they are sent: what is beyond every number of the limit is answered like any other such cost.
    pub fn clamp(&self, units: u64) -> u64 {
        units.min(self.cost_max)
    }

    /// The third value of units that are given back: when they were counted. Who does not undo (see [`Refund::undoes`]) takes any of a bucket or a log.
    ///
    /// [`Refund::undoes`]: crate::Refund::undoes
    pub fn refund_moment(&self, counted_at: Time, undoes: bool) -> u64 {
        let is_windowed =
            matches!(self.limit, Limit::FixedWindow(_) | Limit::SlidingWindow(_) | Limit::SubWindows(_));
        if undoes || is_windowed { counted_at.0 } else { NUMBER_MAX }
    }

    /// A moment of a timeline of nanoseconds since 1970, in ticks.
    pub fn moment(&self, now: Time) -> Time {
        Time(now.0 / self.tick.length_ns())
    }

    /// The moment of a reply, in ticks.
    pub fn replied_at(&self, seconds: i64, micros: i64) -> Option<Time> {
        let micros = u64::try_from(micros).ok()?;
        let now_us = u64::try_from(seconds).ok()?.checked_mul(1_000_000)?.checked_add(micros)?;
        Some(Time::from_ticks(now_us / self.tick.length_us()))
    }

    /// The day of a moment (in ticks), as days since 1970-01-01: of the zone whose days or months the limit counts by, else of UTC.
    pub fn day(&self, at: Time) -> u64 {
        match &self.limit {
            Limit::FixedWindow(limit) => limit.day(at, self.tick),
            _ => at.0 / self.tick.per_second() / 86_400,
        }
    }

    /// The beginning of the window that counts at a moment (in ticks, by the clock of the key). Where nothing is counted by windows, the moment itself.
    pub fn window_start(&self, at: Time) -> Time {
        match &self.limit {
            Limit::FixedWindow(limit) => limit.window_at(at).start,
            _ => at,
        }
    }

    /// How long a lease may be spent that was granted at a moment (in ticks), in nanoseconds: not beyond the window that counted it.
    pub fn lease_life(&self, key_hash: u64, granted_at: Time, life_max: Span) -> Span {
        let at = self.limit.key_time(key_hash, granted_at);
        let Some(end) = self.limit.counts_until(at) else { return life_max };
        // The moment of the grant was rounded down to a tick.
        let left = Span(end.since(at).0.saturating_sub(1));
        self.nanoseconds(left.0).min(life_max)
    }

    /// Until when the authority takes back what is left of a lease, in ticks.
    pub fn lease_deadline(&self, key_hash: u64, granted_at: Time, life_max: Span) -> Time {
        let life = self.lease_life(key_hash, granted_at, life_max);
        granted_at.plus(Span(life.0 / self.tick.length_ns()))
    }

    /// How many units a script's four numbers for a lease grant, and the answer that they are besides.
    pub fn lease_answer(&self, [outcome, units, remaining, reset_after]: [i64; 4]) -> Option<(Answer, u64)> {
        let granted = if outcome == 0 { units } else { 0 };
        let span = if outcome == 0 { 0 } else { units };
        Some((self.answer([outcome, span, remaining, reset_after])?, u64::try_from(granted).ok()?))
    }

    /// What a script's four numbers for an ask mean. None if they make no sense.
    pub fn answer(&self, [outcome, span, remaining, reset_after]: [i64; 4]) -> Option<Answer> {
        let span = u64::try_from(span).ok()?;
        let holds = matches!(self.limit, Limit::Concurrency(_));
        let mut holder = None;
        let outcome = match outcome {
            0 if holds => {
                holder = (span > 0).then(|| Holder::from_number(span));
                Outcome::ALLOWED
            }
            0 => Outcome::Allowed { wait: self.nanoseconds(span) },
            1 => Outcome::NotNow { retry_after: self.nanoseconds(span) },
            2 => Outcome::Busy,
            3 => Outcome::Never,
            4 => return Some(Answer::UnknownWindow),
            _ => return None,
        };
        let remaining = u64::try_from(remaining).ok().filter(|&remaining| remaining <= self.units)?;
        let reset_after = match reset_after {
            -1 => None,
            ticks => Some(self.nanoseconds(u64::try_from(ticks).ok()?)),
        };
        let decision = Decision { outcome, limit: self.units, remaining, reset_after };
        Some(Answer::Decided { decision, holder })
    }

    fn nanoseconds(&self, ticks: u64) -> Span {
        Span(ticks.saturating_mul(self.tick.length_ns()))
    }
}
