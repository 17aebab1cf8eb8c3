//! From a verdict to a message, as envoyproxy/ratelimit words it.

use std::time::Duration;

use tollgate::core::{Span, Tick, Time};
use tollgate::policy::PlacedLimit;
use tollgate::{Force, Ruling, Status, Verdict};

use super::wire::{Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse, Unit};
use crate::gate::GateSettings;
use crate::headers::{self, Wanted};
use crate::protocol::http::denial_body;

/// The shortest time that a client is told to wait: envoyproxy/ratelimit never says less.
const RESET_SECONDS_MIN: u64 = 1;

/// The message of a verdict, without a body for a client that is turned away.
pub(super) fn response(verdict: &Verdict, settings: &GateSettings) -> RateLimitResponse {
    let fields = headers::fields(verdict, wanted(settings));
    RateLimitResponse {
        overall_code: code(!verdict.allowed()),
        statuses: verdict.statuses().iter().map(|status| descriptor_status(verdict, status)).collect(),
        response_headers_to_add: fields.into_iter().map(|(name, value)| header(name, value)).collect(),
        ..RateLimitResponse::default()
    }
}

/// Which header fields Envoy is given.
pub(super) fn wanted(settings: &GateSettings) -> Wanted {
    Wanted { x_ratelimit: settings.rls_x_ratelimit_headers, older: settings.rls_older_headers }
}

/// Adds what a client reads that is turned away. Envoy would call it text/plain, but gives way to a type that it is told.
pub(super) fn tell_denied(response: &mut RateLimitResponse, verdict: &Verdict) {
    response.raw_body = denial_body(verdict).into_bytes();
    response.response_headers_to_add.push(header("content-type", "application/json".to_owned()));
}

/// Whether a descriptor's status says that it is over. A quota rule says so even where another one has let the request pass.
pub(super) fn is_over(verdict: &Verdict, status: &Status) -> bool {
    matches!(status, Status::Banned { .. }) || verdict.tightest_of(status).is_some_and(is_told_over)
}

/// Whether a ruling, if it is the tightest on its descriptor, makes the status say that it is over.
pub(super) fn is_told_over(ruling: &Ruling) -> bool {
    ruling.is_over() && !matches!(ruling.force, Force::Shadow | Force::Refund)
}

fn header(name: &str, value: String) -> HeaderValue {
    HeaderValue { key: name.to_owned(), value, raw_value: Vec::new() }
}

pub(super) fn code(over: bool) -> i32 {
    (if over { Code::OverLimit } else { Code::Ok }).into()
}

fn descriptor_status(verdict: &Verdict, status: &Status) -> DescriptorStatus {
    let free = DescriptorStatus { code: code(false), ..DescriptorStatus::default() };
    match (status, verdict.tightest_of(status)) {
        (Status::Unlimited, _) => DescriptorStatus { limit_remaining: u32::MAX, ..free },
        (Status::Banned { until }, _) => DescriptorStatus {
            code: code(true),
            duration_until_reset: Some(whole_seconds(Tick::NANOSECOND.duration(until.since(verdict.now())))),
            ..free
        },
        (_, None) => free,
        (_, Some(ruling)) => DescriptorStatus {
            code: code(is_told_over(ruling)),
            current_limit: Some(current_limit(verdict, ruling)),
            limit_remaining: if ruling.is_over() { 0 } else { clamped(ruling.decision.remaining) },
            duration_until_reset: until_reset(ruling, verdict.now()),
        },
    }
}

fn current_limit(verdict: &Verdict, ruling: &Ruling) -> RateLimit {
    RateLimit {
        requests_per_unit: clamped(ruling.units),
        unit: unit(ruling).into(),
        name: verdict.limit(ruling).and_then(PlacedLimit::name).unwrap_or_default().to_owned(),
    }
}

pub(super) fn clamped(units: u64) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}

pub(super) fn unit(ruling: &Ruling) -> Unit {
    use tollgate::policy::Unit as Written;
    match ruling.period.unit() {
        None => Unit::Unknown,
        Some(Written::Second) => Unit::Second,
        Some(Written::Minute) => Unit::Minute,
        Some(Written::Hour) => Unit::Hour,
        Some(Written::Day) => Unit::Day,
        Some(Written::Week) => Unit::Week,
        Some(Written::Month) => Unit::Month,
        Some(Written::Year) => Unit::Year,
    }
}

/// In whole seconds, rounded up: a client that comes back then is not too early. Of a limit that denies, when it admits the request,
/// as Retry-After has it: a sliding window does so after its window has ended. Where that cannot be known, as with a limit on how many
/// requests are served at once, nothing is said.
pub(super) fn until_reset(ruling: &Ruling, now: Time) -> Option<prost_types::Duration> {
    let reset_after = ruling.decision.reset_after?;
    let retry_after = ruling.decision.retry_after().filter(|_| ruling.denies());
    let reset_after = match retry_after.unwrap_or(reset_after) {
        // A limit of zero has no counter that could be reset. It is told as if it had a window, as envoyproxy/ratelimit does.
        Span::ZERO if ruling.units == 0 => {
            ruling.period.length().map_or(Duration::ZERO, |length| left_of(length, now))
        }
        span => Tick::NANOSECOND.duration(span),
    };
    Some(whole_seconds(reset_after))
}

/// Rounded up, and at least [`RESET_SECONDS_MIN`].
pub(super) fn whole_seconds(length: Duration) -> prost_types::Duration {
    let seconds = length.as_secs() + u64::from(length.subsec_nanos() > 0);
    let seconds = i64::try_from(seconds.max(RESET_SECONDS_MIN)).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: 0 }
}

/// How long the window under way still lasts, where windows of this length follow each other since 1970.
fn left_of(length: Duration, now: Time) -> Duration {
    let length_ns = length.as_nanos().max(1);
    let left_ns = length_ns - u128::from(now.ticks()) % length_ns;
    Duration::from_nanos(u64::try_from(left_ns).unwrap_or(u64::MAX))
}
