//! The twins: every algorithm once more in Lua, to be run inside Redis.
//!
//! A script stands beside the Rust file of its algorithm and decides like it, answer for answer, at the same tick. One call may carry several
//! keys, and several asks for each, which are applied in order at one instant: exactly what single calls at that instant would get.
//!
//! ```text
//! KEYS[i]  one counter each
//! ARGV[1]  "0", or a made-up time in microseconds since 1970, for tests
//! ARGV     then for each key: how many asks; length of a tick in microseconds, jitter in ticks, the numbers of the limit;
//!          and each ask. Where the numbers are those of the key before, they are left out, and the asks counted below zero.
//!          A take is written as its units, any other ask as its verb, units, and a third value; one that has a number has three or four more,
//!          and one of a request's id its number and fingerprint
//! ARGV     at last a full stop
//! reply    seconds and microseconds of the time that was used, then for each ask: outcome, span, remaining, reset_after
//! ```
//!
//! Redis takes a tenth of a microsecond and more for each argument, and several times as much for each command of a script: hence the
//! omissions, and all keys are read by one command where they hold plain values. No key may come twice in one call.
//!
//! Lua computes with doubles, so every number stays below 2^53, and a limit with larger products has no place there. Time is that of Redis.
//! Every key that is written expires, and one that equals a key never seen is deleted.

use crate::algorithm::Algorithm;
use crate::error::LimitError;
use crate::shared::SharedLimit;
use crate::time::{Span, Tick, Time};

/// The twin of an algorithm that runs inside Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// The algorithm, one of [`crate::Limit::ALGORITHMS`].
    pub name: &'static str,
    /// What Redis runs. It never changes while a process lives, whatever the limits are.
    pub text: &'static str,
}

impl Script {
    /// The last argument of every call.
    pub const END: &'static str = ".";
    /// What an outcome has on top where the key has seen the id of the request before.
    pub const REPEATED: i64 = 8;
}

/// What an ask does, as scripts know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Takes the units if the limit admits them. It is not written.
    Take = 0,
    /// Looks.
    Peek = -1,
    /// Writes down what is already spent.
    Book = -2,
    /// Gives units back. The third value is a moment in ticks: see [`SharedLimit::refund_moment`].
    GiveBack = -3,
    /// Ends a hold. The third value is the number of the holder.
    Release = -4,
    /// Forgets the key.
    Reset = -5,
    /// Takes as many of the units as there are for one of so many nodes, which is the third value.
    Lease = -6,
    /// Gives back what is left of a lease. The third value is the moment at which the units were counted, in ticks; the same moment and a deadline in
    /// microseconds and the number of the lease follow: nothing is given back after the deadline, nor a second time, nor to a count that was reset since.
    Return = -7,
    /// Settles a reservation by writing down units. As [`Verb::Return`] it has a deadline and a number, and counts once; and it has a sender, which may repeat it.
    SettleBook = -8,
    /// Settles a reservation by giving units back.
    SettleReturn = -9,
    /// As [`Verb::Take`], for the id of a request: a number and a fingerprint follow. The key remembers them for ten minutes if it was charged, and a
    /// repeat changes nothing.
    TakeOnce = -10,
    /// As [`Verb::Book`], for the id of a request.
    BookOnce = -11,
    /// As [`Verb::GiveBack`], for the id of a request.
    GiveBackOnce = -12,
    /// One request of that id was denied elsewhere. If no other has the id, the units come back and the id is forgotten. The third value is
    /// the largest number where it does not matter when they were counted.
    UndoOnce = -13,
}

/// Writes the keys of one call down as numbers.
#[derive(Debug, Default)]
pub struct CallWriter {
    /// Of the last key, and of the one that is being written.
    numbers: Vec<u64>,
    numbers_next: Vec<u64>,
}

impl CallWriter {
    /// Another call begins: it has no key before the first.
    pub fn begin(&mut self) {
        self.numbers.clear();
    }

    /// A key that has so many asks, which follow. All keys of a fleet have the same hash everywhere, so all agree on its jitter. `around` is
    /// the time that it should be in Redis, in ticks.
    pub fn key(&mut self, key: CallKey<'_>, asks: usize, mut put: impl FnMut(i64)) {
        self.numbers_next.clear();
        key.limit.put_numbers(key.hash, key.around, |number| self.numbers_next.push(number));
        let asks = i64::try_from(asks).unwrap_or(i64::MAX);
        if self.numbers_next == self.numbers {
            return put(-asks);
        }
        put(asks);
        self.numbers_next.iter().for_each(|&number| put(exact(number)));
        std::mem::swap(&mut self.numbers, &mut self.numbers_next);
    }

    /// One ask of the key.
    pub fn ask(limit: &SharedLimit, (verb, units, third): (Verb, u64, u64), mut put: impl FnMut(i64)) {
        if verb != Verb::Take {
            put(verb as i64);
        }
        put(exact(limit.clamp(units)));
        if verb != Verb::Take {
            put(exact(third));
        }
    }

    /// One ask for the id of a request: a number, and what it is bound to.
    pub fn once(
        limit: &SharedLimit,
        ask: (Verb, u64, u64),
        [number, fingerprint]: [u64; 2],
        mut put: impl FnMut(i64),
    ) {
        Self::ask(limit, ask, &mut put);
        // They are texts to the script: all bits count.
        put(number.cast_signed());
        put(fingerprint.cast_signed());
    }

    /// What is left of a lease, to be given back.
    pub fn give_back_lease(limit: &SharedLimit, rest: LeaseRest, mut put: impl FnMut(i64)) {
        let LeaseRest { units, counted_at, deadline, number } = rest;
        Self::ask(limit, (Verb::Return, units, limit.refund_moment(counted_at, false)), &mut put);
        put(exact(counted_at.0.saturating_mul(limit.tick().length_us())));
        put(exact(deadline.0.saturating_mul(limit.tick().length_us())));
        put(exact(number));
    }

    /// A settlement.
    pub fn settle(limit: &SharedLimit, settle: SettleOnce, mut put: impl FnMut(i64)) {
        let SettleOnce { change, counted_at, deadline, number, sender } = settle;
        let ask = match change {
            SettleChange::Book(units) => (Verb::SettleBook, units, 0),
            SettleChange::Return(units) => {
                (Verb::SettleReturn, units, limit.refund_moment(counted_at, false))
            }
        };
        Self::ask(limit, ask, &mut put);
        for moment in [counted_at, deadline] {
            put(exact(moment.0.saturating_mul(limit.tick().length_us())));
        }
        put(exact(number));
        put(exact(sender));
    }
}

/// What a settlement does to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleChange {
    /// Writes down so many units.
    Book(u64),
    /// Gives so many units back. It may be none: the reservation is settled then, too.
    Return(u64),
}

/// The settlement of a reservation, as one limit that was charged is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettleOnce {
    /// What is done.
    pub change: SettleChange,
    /// When the reserved units were counted, in ticks.
    pub counted_at: Time,
    /// Until when it is done, in ticks.
    pub deadline: Time,
    /// The number of the reservation at this limit, below 2^53. Of several settlements under one number, the first counts.
    pub number: u64,
    /// Tells one settlement from another of the same reservation, below 2^53: one that is sent again is answered as done.
    pub sender: u64,
}

/// What is left of a lease: so many units of those that were counted at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRest {
    /// How many units.
    pub units: u64,
    /// When they were counted, in ticks.
    pub counted_at: Time,
    /// Until when they are taken back, in ticks.
    pub deadline: Time,
    /// The number of the lease, below 2^53: what comes back under one number does so once.
    pub number: u64,
}

/// A key of a call, as its limit knows it.
#[derive(Clone, Copy, Debug)]
pub struct CallKey<'a> {
    /// The limit of its asks.
    pub limit: &'a SharedLimit,
    /// What its jitter comes from.
    pub hash: u64,
    /// The boundaries of a calendar are those around this moment, in ticks.
    pub around: Time,
}

/// An algorithm with a twin in Lua.
pub trait Scripted: Algorithm + Sized {
    /// The twin. None where there is nothing to ask.
    const SCRIPT: Option<&'static Script>;

    /// The same limit, which counts nanoseconds, in ticks of this length. Rounded so that it never admits more.
    fn in_ticks(&self, tick: Tick) -> Result<Self, LimitError>;

    /// Whether all that the script computes stays below 2^53.
    fn fits_script(&self, tick: Tick) -> bool;

    /// A cost that is answered like all larger ones, booked or not, and that gives back all there is.
    fn cost_max(&self) -> u64;

    /// The numbers of the limit in the order in which the script reads them. Where windows follow a calendar, those around a moment.
    fn put_numbers(&self, around: Time, put: &mut dyn FnMut(u64));
}

/// The text of a script: what all begin with, and the algorithm.
macro_rules! script {
    ($name:literal, $file:literal) => {
        $crate::script::Script {
            name: $name,
            text: concat!(include_str!("../script.lua"), include_str!($file)),
        }
    };
}
pub(crate) use script;

/// Numbers above this are not exact in Lua. No script is sent one: a moment or a holder beyond it belongs to nobody.
pub(crate) const NUMBER_MAX: u64 = (1 << 53) - 1;

/// A number that is not changed by being sent.
fn exact(number: u64) -> i64 {
    number.min(NUMBER_MAX).cast_signed()
}

/// The most microseconds that a state may reach into the future: with a moment before the year 2112, the sum is exact.
pub(crate) const SPAN_US_MAX: u64 = 1 << 52;

/// The most units of a window. Twice as many are written in 14 digits, which is what Lua writes of a number.
pub(crate) const WINDOW_UNITS_MAX: u64 = 1 << 45;

/// Whether a state may reach so far into the future.
pub(crate) fn span_fits(span: Span, tick: Tick) -> bool {
    span.0.checked_mul(tick.length_us()).is_some_and(|span_us| span_us <= SPAN_US_MAX)
}

/// Whether twice the units, as many as debt makes them, times a period are exact, and a period more.
pub(crate) fn product_fits(units: u64, period: Span) -> bool {
    let product = units.checked_mul(2).and_then(|units| units.checked_add(1)?.checked_mul(period.0));
    product.is_some_and(|product| product <= NUMBER_MAX)
}

/// A span of nanoseconds in ticks, rounded up.
pub(crate) fn span_in_ticks(span: Span, tick: Tick) -> Span {
    Span(span.0.div_ceil(tick.length_ns()))
}

/// An interval of nanoseconds in ticks, rounded up. A shorter one than a tick would become several times as long.
pub(crate) fn interval_in_ticks(interval_ns: u64, tick: Tick) -> Result<u64, LimitError> {
    if interval_ns < tick.length_ns() {
        return Err(LimitError::NotShared);
    }
    Ok(interval_ns.div_ceil(tick.length_ns()))
}
