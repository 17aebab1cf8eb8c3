//! Time as a plain count of ticks, so that one implementation serves nanoseconds in memory and microseconds
//! inside Redis.
//!
//! A [`Time`] is a moment on one timeline that never goes back; a [`Span`] is a length of it. Neither knows how
//! long a tick is: only the edge does, and converts with a [`Tick`].

use std::time::Duration;

use crate::error::LimitError;

/// The length of one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tick {
    length_ns: u64,
}

impl Tick {
    /// What the ledger counts in.
    pub const NANOSECOND: Tick = Tick { length_ns: 1 };
    /// What Redis counts in: microseconds since 1970 fit the 53 bits of a Lua number.
    pub const MICROSECOND: Tick = Tick { length_ns: 1_000 };
    /// For limits whose products exceed 53 bits at microseconds.
    pub const MILLISECOND: Tick = Tick { length_ns: 1_000_000 };
    /// For those that are larger still.
    pub const SECOND: Tick = Tick { length_ns: 1_000_000_000 };

    /// A length of time in ticks, rounded up: a longer period never admits more.
    pub fn span(self, duration: Duration) -> Result<Span, LimitError> {
        let ticks = duration.as_nanos().div_ceil(u128::from(self.length_ns));
        match u64::try_from(ticks) {
            Ok(ticks) if ticks <= Span::MAX.0 => Ok(Span(ticks)),
            _ => Err(LimitError::TooLong { ticks_max: Span::MAX.0 }),
        }
    }

    /// A length of ticks as a [`Duration`], exactly.
    pub fn duration(self, span: Span) -> Duration {
        let ns = u128::from(span.0) * u128::from(self.length_ns);
        let (secs, nanos) = (ns / 1_000_000_000, ns % 1_000_000_000);
        Duration::new(u64::try_from(secs).unwrap_or(u64::MAX), u32::try_from(nanos).unwrap_or(0))
    }

    /// Its length.
    pub const fn length_ns(self) -> u64 {
        self.length_ns
    }

    /// Its length, where it is at least a microsecond.
    pub const fn length_us(self) -> u64 {
        self.length_ns / 1_000
    }

    /// How many ticks make a second; a tick divides it.
    pub(crate) fn per_second(self) -> u64 {
        1_000_000_000 / self.length_ns
    }
}

/// A moment: ticks since the epoch of the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub(crate) u64);

impl Time {
    /// The latest moment at which anything may be asked: with nanoseconds since 1970, the year 2079. States
    /// may point beyond it, by at most three times as much, so that no sum of a decision overflows.
    pub const MAX: Time = Time((1 << 62) - (1 << 60) - 1);

    /// The moment so many ticks after the epoch, at most [`Time::MAX`].
    pub const fn from_ticks(ticks: u64) -> Time {
        if ticks > Time::MAX.0 { Time::MAX } else { Time(ticks) }
    }

    /// Ticks since the epoch.
    pub const fn ticks(self) -> u64 {
        self.0
    }

    /// The moment `span` later.
    #[must_use]
    pub const fn plus(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }

    /// The moment `span` earlier; the first of all if there is none.
    #[must_use]
    pub const fn minus(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }

    /// How long after `earlier` this is; nothing if it is not.
    #[must_use]
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// A length of time in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub(crate) u64);

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// The longest period, burst or wait that a limit may be built with.
    pub const MAX: Span = Span(1 << 62);

    /// A length of so many ticks.
    pub const fn from_ticks(ticks: u64) -> Span {
        Span(ticks)
    }

    /// The number of ticks.
    pub const fn ticks(self) -> u64 {
        self.0
    }
}
