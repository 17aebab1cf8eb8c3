//! Moments on a command line: RFC 3339, a day, or how long from now; and how they are told.

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Unit, civil};
use serde_json::Value;
use tollgate::Clock;

const EXAMPLES: &str = "write 2026-02-01T09:30:00Z, 2026-02-01 (its first moment in UTC), or a length of time such as 90s, 2h, 1h30m or 7d";

/// This moment.
pub(crate) fn now() -> Timestamp {
    let ticks = i128::from(Clock::new().now().ticks());
    Timestamp::from_nanosecond(ticks).unwrap_or(Timestamp::MAX)
}

/// A moment, where a length of time is meant from now on.
pub(crate) fn ahead(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    at(text, now, |span| span)
}

/// A moment, where a length of time is meant back from now.
pub(crate) fn back(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    at(text, now, Span::negate)
}

/// As many milliseconds as are told to servers.
pub(crate) fn rfc3339(moment: Timestamp) -> String {
    moment.round(Unit::Millisecond).unwrap_or(moment).to_string()
}

fn at(text: &str, now: Timestamp, direction: fn(Span) -> Span) -> Result<Timestamp, String> {
    let text = text.trim();
    if text == "now" {
        return Ok(now);
    }
    let is_day = text.len() == "2026-02-01".len();
    if let Some(day) = text.parse::<civil::Date>().ok().filter(|_| is_day) {
        let zoned = day.to_zoned(TimeZone::UTC).map_err(|error| error.to_string())?;
        return Ok(zoned.timestamp());
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    if text.parse::<civil::DateTime>().is_ok() {
        return Err(format!("\"{text}\" does not say in which zone: append Z for UTC, or such as +01:00"));
    }
    match text.parse::<Span>() {
        Ok(span) if span.is_negative() => {
            Err(format!("\"{text}\" is negative: write the length of time alone"))
        }
        Ok(span) => {
            let moment = now.to_zoned(TimeZone::UTC).checked_add(direction(span));
            moment.map(|zoned| zoned.timestamp()).map_err(|_| format!("\"{text}\" is too far away"))
        }
        Err(_) => Err(format!("\"{text}\" is no moment: {EXAMPLES}")),
    }
}

/// A moment that a server has told, or `none`.
pub(crate) fn told(value: &Value, none: &str) -> String {
    match moment_of(value) {
        Some(moment) => moment.round(Unit::Second).unwrap_or(moment).to_string(),
        None => value.as_str().unwrap_or(none).to_owned(),
    }
}

/// The same with how far away it is.
pub(crate) fn told_from(value: &Value, now: Timestamp, none: &str) -> String {
    match moment_of(value) {
        Some(moment) => format!("{} ({})", told(value, none), distance(moment, now)),
        None => told(value, none),
    }
}

/// The moment that a server has told: in words, or in seconds since 1970.
pub(crate) fn moment_of(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => Timestamp::from_second(number.as_i64()?).ok(),
        _ => None,
    }
}

/// How far away a moment is, in its two largest units.
fn distance(moment: Timestamp, now: Timestamp) -> String {
    let seconds = moment.as_second().saturating_sub(now.as_second());
    let length = length(seconds.unsigned_abs());
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("in {length}"),
        _ => format!("{length} ago"),
    }
}

/// The length of a window that a server has told, in seconds.
pub(crate) fn window(value: &Value) -> String {
    match value.as_f64() {
        None => "-".to_owned(),
        Some(seconds) if seconds < 1.0 || seconds.fract() != 0.0 => format!("{seconds}s"),
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole, and from 1 on"
        )]
        Some(seconds) => length(seconds as u64),
    }
}

/// A number of seconds in its two largest units.
pub(crate) fn length(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (length, unit) in UNITS {
        if rest >= length {
            parts.push(format!("{}{unit}", rest / length));
        } else if !parts.is_empty() {
            break;
        }
        rest %= length;
        if parts.len() == 2 {
            break;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests;
