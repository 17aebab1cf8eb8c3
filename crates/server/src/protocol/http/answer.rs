//! A verdict as JSON. One body serves those who ask and, if they are turned away, those on whose behalf they asked.

use std::time::Duration;

use serde::{Serialize, Serializer};
use tollgate::core::{Outcome, Span, Tick, Time};
use tollgate::policy::{Place, PlacedLimit};
use tollgate::{DecidedBy, Force, Lease, Reserved, Ruling, Settlement, Status, Unmatched, Verdict};

use crate::headers::{Advice, window};

/// The rule of a limit that came with the request.
const OWN_LIMIT_RULE: &str = "override";

/// The code of a denial that no limit accounts for.
const NO_REASON: &str = "rate_limited";
/// Most answers are not longer.
const BODY_BYTES_USUAL: usize = 512;

/// The answer to `/v1/check` and its kin.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    allowed: bool,
    /// Whether what was booked is kept and has not reached the shared count yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<bool>,
    /// Whether it was counted before under its id, and so was not charged again.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    limit: Option<u64>,
    remaining: Option<u64>,
    retry_after: Option<Seconds>,
    reset_at: Option<u64>,
    quota: Option<u64>,
    window: Option<Seconds>,
    scope: Option<&'a str>,
    /// How long to hold the request back before letting it through.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<Seconds>,
    /// Says that no limit was asked because an operator has switched limits off.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by: Option<&'static str>,
    /// Says that there is no such domain, or that no rule of it applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    unmatched: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseGiven>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation: Option<String>,
    /// Until when it can be settled: Unix time.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Seconds>,
    decisions: Vec<LimitAnswer<'a>>,
}

/// What was given to be held: `null`, where there was nothing to hold.
#[derive(Debug, Serialize)]
struct LeaseGiven(Option<String>);

/// The answer to `/v1/settle`.
#[derive(Debug, Serialize)]
struct Settled<'a> {
    reserved: u64,
    charged: u64,
    returned: u64,
    booked: u64,
    /// Whether the shared count has not confirmed it yet: it is kept and sent again.
    pending: bool,
    /// Whether it was settled before under the same id.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeated: Option<bool>,
    decisions: Vec<LimitAnswer<'a>>,
}

/// What one limit has said.
#[derive(Debug, Serialize)]
struct LimitAnswer<'a> {
    /// Which of the descriptors, counted from 0, met it.
    #[serde(skip_serializing_if = "Option::is_none")]
    descriptor: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    rule: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    title: &'a str,
    enforcement: &'static str,
    /// Who has decided, if it was not this process by its own counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by: Option<&'static str>,
    /// When the shared count decided, by its own clock: Unix time.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_at: Option<Seconds>,
    allowed: bool,
    cost: u64,
    limit: u64,
    remaining: u64,
    quota: u64,
    window: Option<Seconds>,
    retry_after: Option<Seconds>,
    reset_after: Option<Seconds>,
}

/// What those are told who are turned away.
#[derive(Debug, Serialize)]
struct Denial<'a> {
    code: &'static str,
    message: String,
    retry_after: Option<Seconds>,
    limit: Option<u64>,
    quota: Option<u64>,
    window: Option<Seconds>,
    scope: Option<&'a str>,
}

/// A length of time in seconds: whole microseconds, rounded up, so that nobody comes too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seconds {
    microseconds: u64,
}

/// The body of an answer. It says what there is to hold if that was asked for.
pub(crate) fn body(verdict: &Verdict) -> String {
    json(&answer(verdict))
}

/// The body of an answer to somebody who wants to hold something.
pub(super) fn body_with_lease(verdict: &Verdict, lease: Option<&Lease>) -> String {
    let lease = Some(LeaseGiven(lease.map(Lease::to_string)));
    json(&Answer { lease, ..answer(verdict) })
}

/// The body of an answer to somebody who reserves an estimate. Who is denied has no reservation.
pub(super) fn body_with_reservation(verdict: &Verdict, reserved: Option<&Reserved>) -> String {
    let reservation = reserved.map(|reserved| reserved.reservation.to_string());
    let expires_at = reserved.map(|reserved| Seconds::from(reserved.expires_at));
    json(&Answer { reservation, expires_at, ..answer(verdict) })
}

/// What became of a reservation, and how its limits stand.
pub(super) fn settled_body(verdict: &Verdict, settlement: &Settlement) -> String {
    let Settlement { reserved, charged, returned, booked } = *settlement;
    let (pending, decisions) = (verdict.is_pending(), limit_answers(verdict));
    let repeated = verdict.is_repeated().then_some(true);
    json(&Settled { reserved, charged, returned, booked, pending, repeated, decisions })
}

/// What those are told who are turned away by a proxy that asked for them.
pub(crate) fn denial_body(verdict: &Verdict) -> String {
    json(&denial(verdict))
}

fn json(value: &impl Serialize) -> String {
    let mut body = Vec::with_capacity(BODY_BYTES_USUAL);
    // Numbers and strings in structs: that cannot fail, and is always text.
    let _ = serde_json::to_writer(&mut body, value);
    String::from_utf8(body).unwrap_or_default()
}

fn answer(verdict: &Verdict) -> Answer<'_> {
    let advice = Advice::of(verdict);
    let ruling = advice.map(|advice| advice.ruling());
    let is_denied = !verdict.allowed();
    let (code, message) = is_denied.then(|| reason(verdict, advice)).unzip();
    Answer {
        allowed: verdict.allowed(),
        pending: verdict.is_pending().then_some(true),
        repeated: verdict.is_repeated().then_some(true),
        code,
        message,
        limit: ruling.map(|ruling| ruling.decision.limit),
        remaining: ruling.map(|ruling| ruling.decision.remaining),
        retry_after: retry_after(verdict, advice),
        reset_at: advice.and_then(|advice| advice.moment_s()),
        quota: ruling.map(|ruling| ruling.units),
        window: ruling.and_then(window).map(Seconds::from),
        scope: advice.map(|advice| advice.title()),
        wait: Some(verdict.wait()).filter(|wait| !is_denied && *wait > Span::ZERO).map(Seconds::from),
        decided_by: Some(verdict.decided_by()).filter(|by| *by == DecidedBy::KillSwitch).map(DecidedBy::name),
        unmatched: verdict.unmatched().map(|unmatched| match unmatched {
            Unmatched::Domain => "domain",
            Unmatched::Rule => "rule",
        }),
        lease: None,
        reservation: None,
        expires_at: None,
        decisions: limit_answers(verdict),
    }
}

fn denial(verdict: &Verdict) -> Denial<'_> {
    let advice = Advice::of(verdict);
    let ruling = advice.map(|advice| advice.ruling());
    let (code, message) = reason(verdict, advice);
    Denial {
        code,
        message,
        retry_after: retry_after(verdict, advice),
        limit: ruling.map(|ruling| ruling.decision.limit),
        quota: ruling.map(|ruling| ruling.units),
        window: ruling.and_then(window).map(Seconds::from),
        scope: advice.map(|advice| advice.title()),
    }
}

/// When a denied request may be sent again: after what its limits say, or after a ban.
fn retry_after(verdict: &Verdict, advice: Option<Advice<'_>>) -> Option<Seconds> {
    let banned_for = verdict.banned_until().map(|until| until.since(verdict.now()));
    banned_for.or_else(|| advice?.retry_after()).map(Seconds::from)
}

/// Why a request was denied: for programs, and for people.
fn reason(verdict: &Verdict, advice: Option<Advice<'_>>) -> (&'static str, String) {
    match (verdict.banned_until(), advice) {
        (Some(until), _) => ("banned", format!("an operator has banned this key until {}", moment(until))),
        (None, Some(advice)) => limit_reason(&advice),
        (None, None) => (NO_REASON, String::new()),
    }
}

/// A moment in RFC 3339, rounded up to the second.
fn moment(time: Time) -> String {
    let seconds = i64::try_from(time.ticks().div_ceil(1_000_000_000)).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| "further notice".to_owned(), |moment| moment.to_string())
}

/// Which limit denied a request, and why.
fn limit_reason(advice: &Advice<'_>) -> (&'static str, String) {
    let (title, ruling) = (advice.title(), advice.ruling());
    let limit = ruling.decision.limit;
    match ruling.decision.outcome {
        _ if ruling.decided_by == DecidedBy::FailClosed => (
            "unavailable",
            format!("the shared count of \"{title}\" is out of reach, and nothing passes until it is back"),
        ),
        Outcome::Never if limit == 0 => ("blocked", format!("\"{title}\" lets nothing through")),
        Outcome::Never => {
            let cost = ruling.cost;
            (
                "cost_above_limit",
                format!("a cost of {cost} can never pass \"{title}\", which holds at most {limit}"),
            )
        }
        Outcome::Busy => (
            "too_many_at_once",
            format!("\"{title}\" lets {limit} be at it at once: try again when one is done"),
        ),
        Outcome::NotNow { .. } | Outcome::Allowed { .. } => {
            let seconds = advice.retry_after_s().unwrap_or(0);
            let unit = if seconds == 1 { "second" } else { "seconds" };
            ("rate_limited", format!("too many requests for \"{title}\": try again in {seconds} {unit}"))
        }
    }
}

fn limit_answers(verdict: &Verdict) -> Vec<LimitAnswer<'_>> {
    let ranges = verdict.statuses().iter().enumerate().filter_map(|(descriptor, status)| match status {
        Status::Limited(range) => Some((descriptor, range.clone())),
        _ => None,
    });
    ranges
        .flat_map(|(descriptor, range)| {
            verdict.rulings()[range].iter().map(move |ruling| limit_answer(verdict, descriptor, ruling))
        })
        .collect()
}

fn limit_answer<'a>(verdict: &'a Verdict, descriptor: usize, ruling: &Ruling) -> LimitAnswer<'a> {
    let place = verdict.place(ruling);
    let policy = place.filter(|place| place.domain().is_empty());
    LimitAnswer {
        descriptor: policy.is_none().then_some(descriptor),
        domain: place.map(Place::domain).filter(|domain| !domain.is_empty()),
        policy: policy.map(Place::path),
        rule: place.map_or(OWN_LIMIT_RULE, Place::path),
        name: verdict.limit(ruling).and_then(PlacedLimit::name),
        title: verdict.title(ruling),
        enforcement: match ruling.force {
            Force::Enforced => "enforced",
            Force::Quota => "quota",
            Force::Excused => "excused",
            Force::Shadow => "shadow",
            Force::Refund => "refund",
        },
        decided_by: (ruling.decided_by != DecidedBy::Ledger).then(|| ruling.decided_by.name()),
        decided_at: ruling.decided_at.map(Seconds::from),
        allowed: !ruling.is_over(),
        cost: ruling.cost,
        limit: ruling.decision.limit,
        remaining: ruling.decision.remaining,
        quota: ruling.units,
        window: window(ruling).map(Seconds::from),
        retry_after: ruling.decision.retry_after().map(Seconds::from),
        reset_after: ruling.decision.reset_after.map(Seconds::from),
    }
}

impl From<Duration> for Seconds {
    fn from(duration: Duration) -> Seconds {
        let microseconds = duration.as_nanos().div_ceil(1_000);
        Seconds { microseconds: u64::try_from(microseconds).unwrap_or(u64::MAX) }
    }
}

impl From<Span> for Seconds {
    fn from(span: Span) -> Seconds {
        Seconds::from(Tick::NANOSECOND.duration(span))
    }
}

impl From<Time> for Seconds {
    fn from(moment: Time) -> Seconds {
        Seconds { microseconds: moment.ticks() / 1_000 }
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const PER_SECOND: u64 = 1_000_000;
        if self.microseconds.is_multiple_of(PER_SECOND) {
            return serializer.serialize_u64(self.microseconds / PER_SECOND);
        }
        // Exact: the longest span, and Unix time, have fewer microseconds than a double has digits.
        #[allow(clippy::cast_precision_loss)]
        serializer.serialize_f64(self.microseconds as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests;
