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

use tollgate::Verdict;

pub(crate) use advice::{Advice, window};

/// Which fields are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// X-RateLimit-Limit, -Remaining and -Reset.
    pub(crate) x_ratelimit: bool,
    /// The older RateLimit-Limit, -Remaining and -Reset.
    pub(crate) older: bool,
}

/// The header fields of a verdict: lower-case names and values. None, where no limit counts.
pub(crate) fn fields(verdict: &Verdict, wanted: Wanted) -> Vec<(&'static str, String)> {
    let Some(advice) = Advice::of(verdict) else { return Vec::new() };
    let decision = &advice.ruling().decision;
    let mut fields = Vec::with_capacity(9);
    if wanted.x_ratelimit {
        fields.push(("x-ratelimit-limit", number(decision.limit)));
        fields.push(("x-ratelimit-remaining", number(decision.remaining)));
        fields.extend(advice.moment_s().map(|moment_s| ("x-ratelimit-reset", number(moment_s))));
    }
    fields.push(("ratelimit-policy", structured::policies(verdict, &advice)));
    fields.push(("ratelimit", structured::service_limit(&advice)));
    if wanted.older {
        fields.push(("ratelimit-limit", number(decision.limit)));
        fields.push(("ratelimit-remaining", number(decision.remaining)));
        fields.extend(advice.delay_s().map(|delay_s| ("ratelimit-reset", number(delay_s))));
    }
    fields.extend(advice.retry_after_s().map(|delay_s| ("retry-after", number(delay_s))));
    fields
}

fn number(number: u64) -> String {
    itoa::Buffer::new().format(number).to_owned()
}
