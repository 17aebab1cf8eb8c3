//! What clients are told about their limits, as header fields.
//!
//! Three generations of fields are in use: `X-RateLimit-*` (a moment as Unix time), the older `RateLimit-*` (a delay in seconds), and
//! the structured `RateLimit-Policy` and `RateLimit`. All of them, and `Retry-After`, are written from one [`Advice`], so that they
//! cannot contradict each other.

mod advice;
#[cfg(test)]
pub(crate) mod samples;
mod structured;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use tollgate::Verdict;

pub(crate) use advice::{Advice, window};

/// Says why an answer was given without those who should have decided.
pub(crate) const REASON: &str = "x-tollgate-reason";

/// Which fields are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// X-RateLimit-Limit, -Remaining and -Reset.
    pub(crate) x_ratelimit: bool,
    /// The older RateLimit-Limit, -Remaining and -Reset.
    pub(crate) older: bool,
}

/// Why a request is denied that names a key which an operator has banned.
const BANNED: &str = "banned";

/// The header fields of a verdict: lower-case names and values. None, where no limit counts.
pub(crate) fn fields(verdict: &Verdict, wanted: Wanted) -> Vec<(&'static str, String)> {
    let mut fields = Vec::with_capacity(9);
    each(verdict, wanted, &mut String::new(), |name, value| fields.push((name, value.to_owned())));
    fields
}

/// Tells the header fields of a verdict one after the other. `buffer` is what values are written in: whoever keeps it allocates nothing.
pub(crate) fn each(
    verdict: &Verdict,
    wanted: Wanted,
    buffer: &mut String,
    mut tell: impl FnMut(&'static str, &str),
) {
    let Some(advice) = Advice::of(verdict) else { return each_of_ban(verdict, tell) };
    let mut digits = itoa::Buffer::new();
    let mut number = |number: u64, name, tell: &mut dyn FnMut(&'static str, &str)| {
        tell(name, digits.format(number));
    };
    let decision = &advice.ruling().decision;
    if wanted.x_ratelimit {
        number(decision.limit, "x-ratelimit-limit", &mut tell);
        number(decision.remaining, "x-ratelimit-remaining", &mut tell);
        if let Some(moment_s) = advice.moment_s() {
            number(moment_s, "x-ratelimit-reset", &mut tell);
        }
    }
    buffer.clear();
    structured::put_policies(buffer, verdict, &advice);
    tell("ratelimit-policy", buffer);
    buffer.clear();
    structured::put_service_limit(buffer, &advice);
    tell("ratelimit", buffer);
    if wanted.older {
        number(decision.limit, "ratelimit-limit", &mut tell);
        number(decision.remaining, "ratelimit-remaining", &mut tell);
        if let Some(delay_s) = advice.delay_s() {
            number(delay_s, "ratelimit-reset", &mut tell);
        }
    }
    if let Some(delay_s) = advice.retry_after_s() {
        number(delay_s, "retry-after", &mut tell);
    }
    if let Some(failure) = verdict.failure() {
        buffer.clear();
        let _ = write!(buffer, "{}: {failure}", verdict.decided_by().name()); // A string takes everything.
        tell(REASON, buffer);
    }
}

/// The header fields of a request that a ban denies. There is no limit to tell of.
fn each_of_ban(verdict: &Verdict, mut tell: impl FnMut(&'static str, &str)) {
    let Some(until) = verdict.banned_until() else { return };
    let delay_s = advice::seconds_up(until.since(verdict.now()));
    tell("retry-after", itoa::Buffer::new().format(delay_s));
    tell(REASON, BANNED);
}
