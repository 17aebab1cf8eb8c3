//! Moments, as people and JSON write them: RFC 3339, in UTC.

use jiff::Timestamp;
use tollgate::core::Time;

use super::problem::Mistake;
pub(super) use crate::admin::documents::moment_ms as parse_ms;

const NS_PER_MS: u64 = 1_000_000;

/// Milliseconds since 1970 as text, such as `2026-02-01T00:00:00.250Z`.
pub(super) fn of_ms(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |moment| moment.to_string())
}

pub(super) fn of_time(time: Time) -> String {
    of_ms(ms(time))
}

/// A moment on the timeline of decisions, in milliseconds since 1970.
pub(super) fn ms(time: Time) -> i64 {
    i64::try_from(time.ticks() / NS_PER_MS).unwrap_or(i64::MAX)
}

/// What to say of a text that is no moment.
pub(super) fn wrong(field: &str, text: &str) -> Mistake {
    Mistake::new(format!("`{field}`: {text:?} is not a moment"), "write it as in \"2026-02-01T00:00:00Z\"")
}
