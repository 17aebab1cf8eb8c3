//! `CL.THROTTLE key max_burst count period [quantity]`, answered as redis-cell answers it.
//!
//! The caller brings its limit with every call: `count` units per `period` seconds, and `max_burst` more at once. Five integers come
//! back: whether the call is limited, the limit, what remains, and in seconds when to try again (-1: now, or never) and when all is
//! back (-1: not known). Seconds are rounded as redis-cell rounds them: up, but less than a millisecond counts as nothing.

#[cfg(test)]
mod tests;

use std::time::Duration;

use thiserror::Error;
use tollgate::core::{Decision, Limit, LimitError, Outcome, Rate, Span, Tick, TokenBucket};

use super::super::frame::Arguments;
use super::super::reply::Replies;
use super::{Session, integer, units};
use crate::access::Scope;

/// The longest period, and the longest time that a bucket may take to fill: 146 years.
const SECONDS_MAX: u64 = Span::MAX.ticks() / 1_000_000_000;

/// What a call waits that is denied because there is no memory to count its key. Nothing says when there will be, and
/// clients of redis-cell take -1 for no wait.
const BUSY_S: i64 = 1;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum BadCall {
    #[error("{argument} must be a whole number from {least} to {most}")]
    Number { argument: &'static str, least: u64, most: u64 },
    #[error("count must be at most 1000000000 for every second of period, not {count} in {period} s")]
    TooFast { count: u64, period: u64 },
    #[error(
        "max_burst is too large for this rate: max_burst + 1 units must come back within {SECONDS_MAX} seconds"
    )]
    TooLong,
    #[error("{0}")]
    Limit(LimitError),
}

/// What a caller asks for.
#[derive(Clone, Debug, PartialEq)]
struct Call<'a> {
    key: &'a [u8],
    /// `max_burst`, `count` and `period`.
    numbers: (u64, u64, u64),
    quantity: u64,
}

pub(super) fn throttle(session: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    if let Err(forbidden) = session.permit(Scope::permit_throttle) {
        session.settle(replies);
        return replies.error(format_args!("NOPERM {forbidden}"));
    }
    let call = Call::read(arguments).and_then(|call| Ok((limit_of(session, call.numbers)?, call)));
    match call {
        Ok((limit, call)) => session.wait_throttle(call.key, &limit, call.quantity, replies),
        Err(error) => {
            session.count_bad_call();
            session.settle(replies);
            replies.error(format_args!("ERR {error}"));
        }
    }
}

/// The answer to a call.
pub(super) fn put(decision: &Decision, replies: &mut Replies) {
    let answer = answer(decision);
    replies.array(answer.len());
    for number in answer {
        replies.integer(number);
    }
}

/// The limit that these numbers make.
fn limit_of(session: &mut Session<'_>, numbers: (u64, u64, u64)) -> Result<Limit, BadCall> {
    match &session.last_limit {
        Some((last, limit)) if *last == numbers => Ok(limit.clone()),
        _ => {
            let (max_burst, count, period) = numbers;
            let limit = limit(max_burst, count, period)?;
            session.last_limit = Some((numbers, limit.clone()));
            Ok(limit)
        }
    }
}

impl<'a> Call<'a> {
    fn read(arguments: Arguments<'a>) -> Result<Call<'a>, BadCall> {
        const INTEGER_MAX: u64 = i64::MAX.unsigned_abs(); // What redis-cell takes.
        let max_burst = within(arguments, 2, "max_burst", 0, INTEGER_MAX)?;
        let count = within(arguments, 3, "count", 1, INTEGER_MAX)?;
        let period = within(arguments, 4, "period", 1, SECONDS_MAX)?;
        let quantity =
            if arguments.len() > 5 { within(arguments, 5, "quantity", 0, INTEGER_MAX)? } else { 1 };
        Ok(Call { key: arguments.get(1).unwrap_or_default(), numbers: (max_burst, count, period), quantity })
    }
}

fn within(
    arguments: Arguments<'_>,
    index: usize,
    argument: &'static str,
    least: u64,
    most: u64,
) -> Result<u64, BadCall> {
    arguments
        .get(index)
        .and_then(units)
        .filter(|number| (least..=most).contains(number))
        .ok_or(BadCall::Number { argument, least, most })
}

fn limit(max_burst: u64, count: u64, period: u64) -> Result<Limit, BadCall> {
    let why = |error| match error {
        LimitError::TooFast { .. } => BadCall::TooFast { count, period },
        LimitError::TooLong { .. } => BadCall::TooLong,
        other => BadCall::Limit(other),
    };
    let period = Tick::NANOSECOND.span(Duration::from_secs(period)).map_err(why)?;
    let rate = Rate::new(count, period).map_err(why)?;
    Ok(TokenBucket::new(rate, max_burst + 1).map_err(why)?.reading_foreign_states().into())
}

fn answer(decision: &Decision) -> [i64; 5] {
    let retry_after_s = match decision.outcome {
        Outcome::Allowed { .. } | Outcome::Never => -1,
        Outcome::NotNow { retry_after } => seconds(retry_after),
        Outcome::Busy => BUSY_S,
    };
    [
        i64::from(!decision.is_allowed()),
        integer(decision.limit),
        integer(decision.remaining),
        retry_after_s,
        decision.reset_after.map_or(-1, seconds),
    ]
}

/// Whole seconds, as redis-cell rounds them.
fn seconds(span: Span) -> i64 {
    let duration = Tick::NANOSECOND.duration(span);
    integer(duration.as_secs() + u64::from(duration.subsec_millis() > 0))
}
