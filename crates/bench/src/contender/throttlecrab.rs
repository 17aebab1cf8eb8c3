//! throttlecrab: its limiter over the periodic store, sized beforehand, and never cleaned while it is measured.
//!
//! `rate_limit` takes `&mut self`: one thread owns the limiter by design. Alone, the thread locks once per segment,
//! which is to say that it pays nothing for it; with others, it locks per decision. Of its three stores the
//! periodic one does the least work per decision, and the wall clock is an argument that the caller reads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use throttlecrab::{PeriodicStore, RateLimiter};

use super::{Contender, PERIOD, Sharing, UNITS};
use crate::keys::Segment;
use crate::timer::wall_clock;

const CLEANUP_INTERVAL: Duration = Duration::from_hours(24);

struct Limiter(Mutex<RateLimiter<PeriodicStore>>);

/// throttlecrab for so many keys.
pub(super) fn build(keys: usize) -> Arc<dyn Contender> {
    let store = PeriodicStore::builder().capacity(keys).cleanup_interval(CLEANUP_INTERVAL).build();
    Arc::new(Limiter(Mutex::new(RateLimiter::new(store))))
}

impl Contender for Limiter {
    fn take_each(&self, segment: Segment<'_>, sharing: Sharing) -> u64 {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match sharing {
            Sharing::Alone => {
                let mut limiter = lock();
                segment.texts().map(|key| take(&mut limiter, key)).sum()
            }
            Sharing::Shared => segment.texts().map(|key| take(&mut lock(), key)).sum(),
        }
    }
}

#[inline]
fn take(limiter: &mut RateLimiter<PeriodicStore>, key: &str) -> u64 {
    let (units, period_secs) = (i64::from(UNITS), PERIOD.as_secs().cast_signed());
    let answer = limiter.rate_limit(key, units, units, period_secs, 1, wall_clock());
    u64::from(answer.is_ok_and(|(allowed, _)| allowed))
}
