//! Nothing passes: what `requests_per_unit: 0` means. Its own case, so that no other algorithm divides by zero.

use crate::algorithm::Algorithm;
use crate::ask::{Ask, Refund};
use crate::decision::{Decision, Outcome};
use crate::error::LimitError;
use crate::script::{Script, Scripted};
use crate::time::{Span, Tick, Time};

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

impl Scripted for Blocked {
    const SCRIPT: Option<&'static Script> = None;

    fn in_ticks(&self, _tick: Tick) -> Result<Blocked, LimitError> {
        Ok(Blocked)
    }

    fn fits_script(&self, _tick: Tick) -> bool {
        true
    }

    fn cost_max(&self) -> u64 {
        1
    }

    fn put_numbers(&self, _around: Time, _put: &mut dyn FnMut(u64)) {}
}
