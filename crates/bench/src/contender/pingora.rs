//! pingora-limits: a count-min sketch of fixed size instead of a table of keys.
//!
//! It never holds a key, so its memory does not grow, and keys share counters: it answers a different, approximate
//! question, and with more keys than counters it denies those who did nothing. It is here for its speed.

use std::sync::Arc;
use std::time::Duration;

use pingora_limits::rate::Rate;

use super::{Contender, Sharing, UNITS};
use crate::keys::Segment;

/// What its documentation counts over.
const INTERVAL: Duration = Duration::from_secs(1);

struct Limiter(Rate);

/// The sketch at its default size of four times 1024 counters.
pub(super) fn build() -> Arc<dyn Contender> {
    Arc::new(Limiter(Rate::new(INTERVAL)))
}

impl Contender for Limiter {
    fn take_each(&self, segment: Segment<'_>, _: Sharing) -> u64 {
        let units = isize::try_from(UNITS).unwrap_or(isize::MAX);
        segment.texts().map(|key| u64::from(self.0.observe(&key, 1) <= units)).sum()
    }
}
