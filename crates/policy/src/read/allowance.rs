//! From numbers and an algorithm to a limit that decides.
//!
//! What an algorithm cannot do is refused by its constructor in `core`, in the words of arithmetic; here it becomes a
//! problem at the number that caused it, in the words of the file.

use std::time::Duration;

use tollgate_core::{CalendarUnit, Limit, LimitError, Span, Tick};

use super::Reader;
use super::fields::{Found, Given};
use super::numbers::Numbers;
use crate::counting::{Amount, How, Named};
use crate::problem::{Mark, quote};
use crate::rule::{Allowance, Period, Quota};

/// How a limit counts, apart from its numbers.
pub(super) struct Shape {
    pub(super) algorithm: Named,
    pub(super) zone: Found<String>,
    pub(super) anchor_day: Found<u8>,
    pub(super) sub_windows: Found<u64>,
    pub(super) max_wait: Found<Duration>,
    pub(super) jitter: bool,
}

/// The longest time that the arithmetic is proved for, in words.
const LONGEST: &str = "146 years";

impl Shape {
    /// The same without its marks.
    pub(super) fn how(&self) -> How {
        How {
            zone: self.zone.given().map(|given| given.value.as_str().into()),
            anchor_day: self.anchor_day.given().map(|given| given.value),
            sub_windows: self.sub_windows.given().map(|given| given.value),
            max_wait: self.max_wait.given().map(|given| given.value),
            jitter: self.jitter,
        }
    }
}

impl Reader<'_, '_> {
    /// What the numbers allow. `title` is what they belong to.
    pub(super) fn allowance(&mut self, numbers: &Numbers, shape: &Shape, title: &str) -> Option<Allowance> {
        if numbers.is_unlimited() {
            return Some(Allowance::Unlimited);
        }
        self.check_given(numbers, shape, title);
        let (units, period) = (numbers.units.given()?, numbers.period.given()?);
        let limit = self.limit_of(numbers, units, period, shape)?;
        Some(Allowance::Quota(Quota::new(limit, units.value, period.value)))
    }

    /// Says what is missing.
    fn check_given(&mut self, numbers: &Numbers, shape: &Shape, title: &str) {
        let (mark, is_held) = (numbers.mark, shape.algorithm == Named::Concurrency);
        let number_hint = "`requests_per_unit: 100`; 0 lets nothing pass";
        match (numbers.units.is_absent(), numbers.period.is_absent()) {
            (true, true) => self.wrong(
                mark,
                format!("{title} says neither how many nor per what time"),
                "write `unit: minute` and `requests_per_unit: 100`; or `unlimited: true`",
            ),
            (true, false) => {
                self.wrong(mark, format!("{title} lacks `requests_per_unit`"), format!("write {number_hint}"));
            }
            (false, true) if is_held => self.wrong(
                mark,
                format!("{title} lacks `period`: how long one request may take"),
                "write `period: 30s`, say; whoever does not release its place loses it then",
            ),
            (false, true) => self.wrong(
                mark,
                format!("{title} lacks `unit`"),
                "write `unit: minute`, or second, hour, day, week, month, year; or any length as `period: 90s`",
            ),
            (false, false) => {}
        }
    }

    fn limit_of(
        &mut self,
        numbers: &Numbers,
        units: &Given<u64>,
        period: &Given<Period>,
        shape: &Shape,
    ) -> Option<Limit> {
        let burst = numbers.burst.given().map(|given| given.value);
        let amount = Amount { units: units.value, period: period.value, burst };
        match shape.how().build(shape.algorithm, amount) {
            Ok(limit) => Some(limit),
            Err(error) => {
                let (mark, what, hint) = explain(&error, numbers, units, period, shape);
                self.wrong(mark, what, hint);
                None
            }
        }
    }
}

/// An error of the arithmetic in the words of the file: where, what, and what to do.
fn explain(
    error: &LimitError,
    numbers: &Numbers,
    units: &Given<u64>,
    period: &Given<Period>,
    shape: &Shape,
) -> (Mark, String, String) {
    let algorithm = shape.algorithm.name();
    let count = units.value;
    match error {
        LimitError::NoUnits => {
            (units.mark, format!("`{}` must be at least 1", units.key), "write a greater number".to_owned())
        }
        LimitError::NoBurst => (
            numbers.burst.given().map_or(units.mark, |burst| burst.mark),
            "`burst` must be at least 1".to_owned(),
            format!("remove it for a burst of {count}; to let nothing pass, write `{}: 0`", units.key),
        ),
        LimitError::NoPeriod => (
            period.mark,
            format!("`{}` must be longer than nothing", period.key),
            "write one such as `1s`".to_owned(),
        ),
        LimitError::TooLong { .. } => too_long(numbers, period, shape),
        LimitError::TooFast { .. } => (
            units.mark,
            format!(
                "{count} per period are more than one in a nanosecond, which no `{algorithm}` can tell apart"
            ),
            "use `algorithm: sliding_window`, without `burst`: it counts them".to_owned(),
        ),
        LimitError::LogTooLarge { units_max, .. } => (
            units.mark,
            format!("a `sliding_log` remembers every request, {units_max} at most, not {count}"),
            "use `algorithm: sliding_window` with `sub_windows: 10`".to_owned(),
        ),
        LimitError::SubWindows { max, .. } => (
            shape.sub_windows.given().map_or(period.mark, |given| given.mark),
            format!("a window may have 1 to {max} `sub_windows`, each of at least a nanosecond"),
            "10 are enough for most".to_owned(),
        ),
        LimitError::TooManyHolders { units_max, .. } => (
            units.mark,
            format!("a `concurrency` limit keeps account of {units_max} at once at most, not {count}"),
            format!("write a number up to {units_max}"),
        ),
        // No limit of a file fails so: whether it can be shared is asked later, where that is wanted.
        LimitError::NotShared => (units.mark, error.to_string(), "write smaller numbers".to_owned()),
        LimitError::UnknownZone { name } => (
            shape.zone.given().map_or(period.mark, |given| given.mark),
            format!("unknown time zone {}", quote(name)),
            "use a name of the IANA database, such as `Europe/Berlin`, `America/New_York` or `UTC`"
                .to_owned(),
        ),
    }
}

fn too_long(numbers: &Numbers, period: &Given<Period>, shape: &Shape) -> (Mark, String, String) {
    let is_period = period.value.length().is_none_or(|length| Tick::NANOSECOND.span(length).is_err());
    if let (false, Some(wait)) = (is_period, shape.max_wait.given()) {
        let what = format!("`max_wait` and two periods together are longer than {LONGEST}");
        return (wait.mark, what, "write a shorter one".to_owned());
    }
    if let (false, Some(burst)) = (is_period, numbers.burst.given()) {
        let what = format!("a `burst` of {} would take more than {LONGEST} to come back", burst.value);
        return (burst.mark, what, "lower the burst, or allow more per period".to_owned());
    }
    let what = format!("`{}` is longer than {LONGEST}", period.key);
    (period.mark, what, format!("the longest is {} seconds", Tick::NANOSECOND.duration(Span::MAX).as_secs()))
}

/// The calendar's units in the order of the key table.
pub(super) const CALENDAR_UNITS: [CalendarUnit; 3] =
    [CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month];
