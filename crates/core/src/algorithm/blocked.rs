//! Nothing passes: what `requests_per_unit: 0` means. Its own case, so that no other algorithm divides by zero.

use crate::algorithm::Algorithm;
use crate::ask::{Ask, Refund};
use crate::decision::{Decision, Outcome};
use crate::time::{Span, Time};

/// A limit of zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Blocked;

impl Algorithm for Blocked {
    type State = ();

    fn decide(&self, _state: &mut (), _ask: Ask) -> Decision {
        Decision { outcome: Outcome::Never, limit: 0, remaining: 0, reset_after: Some(Span::ZERO) }
    }

    fn give_back(&self, _state: &mut (), _refund: Refund) {}

    fn used(&self, _state: &(), _now: Time) -> u64 {
        0
    }

    fn expires_at(&self, _state: &()) -> Time {
        Time::default()
    }

    fn shape(&self) -> u64 {
        0
    }
}
