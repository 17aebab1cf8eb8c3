//! N units per period W.

use crate::error::LimitError;
use crate::time::Span;

/// So many units per so much time. At least one unit, at least one tick, at most [`Span::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    units: u64,
    period: Span,
}

impl Rate {
    /// `units` per `period`.
    pub fn new(units: u64, period: Span) -> Result<Rate, LimitError> {
        if units == 0 {
            return Err(LimitError::NoUnits);
        }
        if period == Span::ZERO {
            return Err(LimitError::NoPeriod);
        }
        if period > Span::MAX {
            return Err(LimitError::TooLong { ticks_max: Span::MAX.0 });
        }
        Ok(Rate { units, period })
    }

    /// The units of one period.
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// The period.
    pub const fn period(&self) -> Span {
        self.period
    }

    /// The emission interval T: the ticks that one unit takes to come back. Rounded up, which never admits more.
    pub(crate) fn interval_ticks(&self) -> Result<u64, LimitError> {
        if self.units > self.period.0 {
            return Err(LimitError::TooFast { units: self.units, period_ticks: self.period.0 });
        }
        Ok(self.period.0.div_ceil(self.units))
    }
}
