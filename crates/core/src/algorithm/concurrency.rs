//! Concurrency: how many may be at it at the same time, not how many per time.
//!
//! Whoever is admitted holds units until they are released. A holder that crashes never releases, so every
//! hold ends by itself at a deadline; releasing after that, or twice, does nothing. When a denied caller may try
//! again depends on others, so no time is given.

use std::collections::VecDeque;

use crate::algorithm::Algorithm;
use crate::ask::{Ask, Cost, Refund};
use crate::decision::{Decision, Outcome};
use crate::error::LimitError;
use crate::script::{Script, Scripted, script, span_fits, span_in_ticks};
use crate::share::Share;
use crate::time::{Span, Tick, Time};

/// At most N units held at once, each hold for at most a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concurrency {
    units: u64,
    hold_max: Span,
}

/// Names one hold, so that it is released once and by its owner. It is never smaller than the time it was given out, so a
/// key that was forgotten does not give out old names again, as long as it gives out less than one per tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder(u64);

impl Holder {
    /// The hold that was given out under this number.
    pub const fn from_number(number: u64) -> Holder {
        Holder(number)
    }

    /// The number it was given out under, to be carried by whoever will release it.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// Who holds units, in the order of their deadlines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    holds: VecDeque<Hold>,
    last: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    holder: Holder,
    deadline: Time,
    units: u64,
}

impl Concurrency {
    /// The most units that may be held at once.
    pub const UNITS_MAX: u64 = 1 << 16;

    /// At most `units` at once, none for longer than `hold_max`.
    pub fn new(units: u64, hold_max: Span) -> Result<Concurrency, LimitError> {
        if units == 0 {
            return Err(LimitError::NoUnits);
        }
        if units > Concurrency::UNITS_MAX {
            return Err(LimitError::TooManyHolders { units, units_max: Concurrency::UNITS_MAX });
        }
        if hold_max == Span::ZERO {
            return Err(LimitError::NoPeriod);
        }
        if hold_max > Span::MAX {
            return Err(LimitError::TooLong { ticks_max: Span::MAX.0 });
        }
        Ok(Concurrency { units, hold_max })
    }

    /// Asks for units to hold, and says under which name they are held.
    pub fn acquire(&self, holders: &mut Holders, cost: Cost, now: Time) -> (Decision, Option<Holder>) {
        let ask = Ask::take(cost, now);
        if ask.takes() {
            self.date_anew(holders, now);
        }
        let held = self.used(holders, now);
        let fits = held <= self.units && cost.units() <= self.units - held;
        if !(fits && ask.takes()) {
            return (self.answer(held, cost, fits), None);
        }
        let expired = holders.expired(now);
        holders.holds.drain(..expired);
        holders.last = now.0.max(holders.last + 1);
        let holder = Holder(holders.last);
        let deadline = now.plus(self.hold_max);
        let place = holders.holds.partition_point(|hold| hold.deadline <= deadline);
        holders.holds.insert(place, Hold { holder, deadline, units: cost.units() });
        (self.answer(held + cost.units(), cost, true), Some(holder))
    }

    /// Ends a hold. False if there is none of that name: released before, or past its deadline.
    pub fn release(&self, holders: &mut Holders, holder: Holder, now: Time) -> bool {
        let expired = holders.expired(now);
        holders.holds.drain(..expired);
        let place = holders.holds.iter().position(|hold| hold.holder == holder);
        place.is_some_and(|place| holders.holds.remove(place).is_some())
    }

    /// Holds that were given out more than the longest hold ahead show a clock that was set back. They
    /// end as if they had been given out now, because they were given out before.
    fn date_anew(&self, holders: &mut Holders, now: Time) {
        let latest = now.plus(self.hold_max);
        if holders.last <= latest.0 || holders.holds.back().is_none_or(|hold| hold.deadline <= latest) {
            return;
        }
        let beyond = holders.holds.partition_point(|hold| hold.deadline <= latest);
        // A deadline that a limit with a longer hold gave out is right, and stays.
        for hold in holders.holds.range_mut(beyond..).filter(|hold| hold.holder.0 > latest.0) {
            hold.deadline = latest;
        }
        holders.holds.make_contiguous().sort_by_key(|hold| (hold.deadline, hold.holder));
    }

    fn answer(&self, held: u64, cost: Cost, fits: bool) -> Decision {
        let outcome = if fits {
            Outcome::ALLOWED
        } else if cost.units() > self.units {
            Outcome::Never
        } else {
            Outcome::Busy
        };
        let remaining = self.units.saturating_sub(held);
        Decision { outcome, limit: self.units, remaining, reset_after: None }
    }

    /// The limit of a node that has this share of the units.
    pub(crate) fn share(&self, share: Share) -> Concurrency {
        Concurrency { units: share.of(self.units), ..*self }
    }
}

impl Algorithm for Concurrency {
    type State = Holders;

    /// As [`Concurrency::acquire`], for a holder that only its deadline will end. There is no debt in being many at
    /// once: booking takes what fits, or nothing.
    fn decide(&self, holders: &mut Holders, ask: Ask) -> Decision {
        if ask.takes() {
            return self.acquire(holders, ask.cost, ask.now).0;
        }
        let held = self.used(holders, ask.now);
        let fits = held <= self.units && ask.cost.units() <= self.units - held;
        self.answer(held, ask.cost, fits)
    }

    /// Releases the newest units.
    fn give_back(&self, holders: &mut Holders, refund: Refund) {
        let mut units = refund.units;
        while let Some(newest) = holders.holds.back_mut() {
            if newest.units > units {
                newest.units -= units;
                return;
            }
            units -= newest.units;
            holders.holds.pop_back();
        }
    }

    fn used(&self, holders: &Holders, now: Time) -> u64 {
        holders.holds.range(holders.expired(now)..).map(|hold| hold.units).sum()
    }

    fn expires_at(&self, holders: &Holders) -> Time {
        holders.holds.back().map_or(Time::default(), |hold| hold.deadline)
    }

    fn heap_bytes(holders: &Holders) -> usize {
        holders.holds.capacity() * size_of::<Hold>()
    }

    fn shape(&self) -> u64 {
        0 // A hold keeps the deadline it was given.
    }
}

impl Holders {
    fn expired(&self, now: Time) -> usize {
        self.holds.partition_point(|hold| hold.deadline <= now)
    }
}

static SCRIPT: Script = script!("Concurrency", "concurrency.lua");

impl Scripted for Concurrency {
    const SCRIPT: Option<&'static Script> = Some(&SCRIPT);

    fn in_ticks(&self, tick: Tick) -> Result<Concurrency, LimitError> {
        Concurrency::new(self.units, span_in_ticks(self.hold_max, tick))
    }

    fn fits_script(&self, tick: Tick) -> bool {
        span_fits(self.hold_max, tick)
    }

    /// Of the largest limit, of which more may be held.
    fn cost_max(&self) -> u64 {
        2 * Concurrency::UNITS_MAX
    }

    fn put_numbers(&self, _around: Time, put: &mut dyn FnMut(u64)) {
        put(self.units);
        put(self.hold_max.0);
    }
}
