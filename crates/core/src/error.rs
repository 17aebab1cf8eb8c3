//! Why a limit cannot be built. After it was, nothing fails any more.

use thiserror::Error;

/// A limit that cannot be built, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LimitError {
    /// Zero units are a limit of their own kind.
    #[error("a limit needs at least 1 unit per period; to let nothing pass, use a blocked limit")]
    NoUnits,
    /// A bucket without room admits nothing, ever.
    #[error("a burst must be at least 1")]
    NoBurst,
    /// A period of no length has no rate.
    #[error("a period must last at least one tick")]
    NoPeriod,
    /// A period, burst or wait beyond what the arithmetic is proved for.
    #[error("a period, burst or wait may last at most {ticks_max} ticks")]
    TooLong {
        /// The longest span allowed.
        ticks_max: u64,
    },
    /// A bucket refills one unit at a time, and a unit takes at least a tick.
    #[error(
        "{units} units in {period_ticks} ticks are more than one per tick; use a window, or a finer tick"
    )]
    TooFast {
        /// Units per period.
        units: u64,
        /// The period.
        period_ticks: u64,
    },
    /// A log remembers every unit.
    #[error("a sliding log holds at most {units_max} units, not {units}; use sub-windows")]
    LogTooLarge {
        /// Units asked for.
        units: u64,
        /// The most it may hold.
        units_max: u64,
    },
    /// Sub-windows outside the supported range.
    #[error("a window may have 1 to {max} sub-windows (and no more than it has ticks), not {count}")]
    SubWindows {
        /// Sub-windows asked for.
        count: u32,
        /// The most there may be.
        max: u32,
    },
    /// A concurrency limit whose holders would not fit.
    #[error("at most {units_max} units may be held at once, not {units}")]
    TooManyHolders {
        /// Units asked for.
        units: u64,
        /// The most that may be held.
        units_max: u64,
    },
    /// Numbers that Redis cannot count with at any tick.
    #[error(
        "too large, too long or too fast to be shared through Redis, which counts microseconds, milliseconds or seconds in numbers up \
         to 2^53; use fewer units, a shorter period or a slower rate, or decide locally"
    )]
    NotShared,
    /// A time zone nobody knows.
    #[error("unknown time zone \"{name}\"; use a name such as \"Europe/Berlin\" or \"UTC\"")]
    UnknownZone {
        /// The name given.
        name: String,
    },
}
