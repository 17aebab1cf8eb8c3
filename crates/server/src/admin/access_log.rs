//! Who used the admin API, for what, from where, and what came of it: one line in the log for each request.
//!
//! The audit has what was changed, for ever. Reads and refusals would fill it, and a stranger could write into it; they go to the log.
//! Lines about requests without a known token are bounded, since any client that reaches the listener can cause them. So are lines about
//! requests that were answered 429, with a token or without. Other requests with a token are bounded by `admin_rate`.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use axum::extract::Request;
use http::{Method, StatusCode};
use tollgate::core::{Span, Time};

use super::token::Caller;
use crate::metrics::AdminOutcome;
use crate::stream::Peer;

/// The most lines of each [`Budget`] in each [`INTERVAL`].
const LINES_MAX: u32 = 10;
const INTERVAL: Span = Span::from_ticks(1_000_000_000);
/// What is longer is cut: strangers choose it.
const PATH_CHARACTERS_MAX: usize = 256;

/// Writes lines about requests.
#[derive(Debug, Default)]
pub(super) struct AccessLog {
    strangers: Mutex<Budget>,
    /// Requests beyond a rate. Apart from the others, so that these do not hide wrong tokens.
    too_many: Mutex<Budget>,
}

/// A request, as the log shows it.
#[derive(Debug)]
pub(super) struct Record {
    method: Method,
    path: String,
    address: Option<IpAddr>,
}

/// What may still be logged about one kind of requests.
#[derive(Debug, Default)]
struct Budget {
    since: Time,
    lines: u32,
    suppressed: u64,
}

impl Record {
    pub(super) fn of(request: &Request) -> Record {
        Record {
            method: request.method().clone(),
            path: request.uri().path().chars().take(PATH_CHARACTERS_MAX).collect(),
            address: request.extensions().get::<Peer>().map(|peer| peer.address.ip().to_canonical()),
        }
    }
}

impl AccessLog {
    /// Logs a request of a caller, or of a stranger, that was answered with this status.
    pub(super) fn record(&self, record: &Record, caller: Option<&Caller>, status: StatusCode, now: Time) {
        let Some(suppressed) = self.take_line(caller.is_some(), status, now) else { return };
        let (name, role) = caller.map_or(("", ""), |caller| (&*caller.name, caller.role.name()));
        let Record { method, path, address } = record;
        let address = address.map(|address| address.to_string()).unwrap_or_default();
        let is_refused = AdminOutcome::of(status) == AdminOutcome::Refused;
        let status = status.as_u16();
        if is_refused {
            tracing::warn!(name, role, address, %method, path, status, suppressed, "admin request refused");
        } else {
            tracing::info!(name, role, address, %method, path, status, suppressed, "admin request");
        }
    }

    /// Whether a line may be written, and how many of its kind were not since the last one.
    fn take_line(&self, has_token: bool, status: StatusCode, now: Time) -> Option<u64> {
        let budget = match (status, has_token) {
            (StatusCode::TOO_MANY_REQUESTS, _) => &self.too_many,
            (_, true) => return Some(0),
            (_, false) => &self.strangers,
        };
        budget.lock().unwrap_or_else(PoisonError::into_inner).take(now)
    }
}

impl Budget {
    /// Whether a line may be written, and how many were not since the last one.
    fn take(&mut self, now: Time) -> Option<u64> {
        if now.since(self.since) >= INTERVAL {
            (self.since, self.lines) = (now, 0);
        }
        if self.lines >= LINES_MAX {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    //! How many lines a client can cause.
    use super::*;

    #[test]
    fn lines_about_strangers_are_bounded_and_say_how_many_were_left_out() {
        let mut budget = Budget::default();
        let at = |ms: u64| Time::from_ticks((1_000_000 + ms) * 1_000_000);
        let lines = (0..1_000).filter(|_| budget.take(at(0)).is_some()).count();
        assert_eq!(lines, usize::try_from(LINES_MAX).unwrap_or_default());
        assert_eq!(budget.take(at(999)), None);
        assert_eq!(budget.take(at(1_000)), Some(991));
        assert_eq!(budget.take(at(1_000)), Some(0));
    }

    #[test]
    fn lines_about_requests_beyond_a_rate_are_bounded_with_a_token_too() {
        let (log, now) = (AccessLog::default(), Time::from_ticks(1_800_000_000_000_000_000));
        let lines = |has_token, status| {
            (0..20_000).filter(|_| log.take_line(has_token, status, now).is_some()).count()
        };
        let limited = StatusCode::TOO_MANY_REQUESTS;
        assert_eq!(lines(true, limited) + lines(false, limited), 10, "one budget for all of them");
        assert_eq!(lines(false, StatusCode::UNAUTHORIZED), 10, "which leaves wrong tokens theirs");
        assert_eq!(lines(true, StatusCode::OK), 20_000, "`admin_rate` bounds these");
    }
}
