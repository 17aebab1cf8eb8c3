//! Requests to the admin API, by the role of their token and by outcome: few series, whatever clients send.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

use crate::admin::Role;

/// The role of a request without a valid token.
const NO_ROLE: &str = "none";

/// What became of a request to the admin API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminOutcome {
    Ok,
    /// The token, the role, the host or the rate of the caller does not allow it.
    Refused,
    /// The request is wrong, or the server cannot serve it.
    Error,
}

impl AdminOutcome {
    pub(super) const ALL: [AdminOutcome; 3] = [AdminOutcome::Ok, AdminOutcome::Refused, AdminOutcome::Error];

    pub(crate) fn of(status: StatusCode) -> AdminOutcome {
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => {
                AdminOutcome::Refused
            }
            _ if status.is_client_error() || status.is_server_error() => AdminOutcome::Error,
            _ => AdminOutcome::Ok,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            AdminOutcome::Ok => "ok",
            AdminOutcome::Refused => "refused",
            AdminOutcome::Error => "error",
        }
    }
}

/// A counter for each outcome, first of requests without a role, then of each role.
#[derive(Debug, Default)]
pub(super) struct AdminRequests([[AtomicU64; AdminOutcome::ALL.len()]; 1 + Role::ALL.len()]);

impl AdminRequests {
    pub(super) fn observe(&self, role: Option<Role>, outcome: AdminOutcome) {
        let row = role.map_or(0, |role| 1 + role as usize);
        self.0[row][outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The labels and the value of each series.
    pub(super) fn series(&self) -> Vec<([(&'static str, &'static str); 2], u64)> {
        let roles = [NO_ROLE].into_iter().chain(Role::ALL.map(Role::name));
        let rows = roles.zip(&self.0).flat_map(|(role, counters)| {
            AdminOutcome::ALL.into_iter().zip(counters).map(move |(outcome, counter)| {
                ([("role", role), ("outcome", outcome.name())], counter.load(Ordering::Relaxed))
            })
        });
        rows.collect()
    }
}
