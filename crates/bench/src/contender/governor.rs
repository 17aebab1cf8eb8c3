//! governor: its keyed limiter over `DashMap`, sized beforehand, with its default (fastest) clock.
//!
//! `check_key` wants a `&K` of exactly the stored type. A caller who has a `&str` out of a buffer therefore needs a
//! `String`: one is kept and refilled, so that looking a key up allocates nothing.

use std::error::Error;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::Arc;

use governor::clock::DefaultClock;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

use super::{Contender, PERIOD, Sharing, UNITS};
use crate::keys::{KEY_BYTES, Segment};

type Limiter<K> = RateLimiter<K, DashMapStateStore<K>, DefaultClock>;

struct TextKeys(Limiter<String>);

struct NumberKeys(Limiter<u64>);

/// governor with string keys.
pub(super) fn with_text_keys(keys: usize) -> Result<Arc<dyn Contender>, Box<dyn Error>> {
    Ok(Arc::new(TextKeys(limiter(keys)?)))
}

/// governor with numbers for keys.
pub(super) fn with_number_keys(keys: usize) -> Result<Arc<dyn Contender>, Box<dyn Error>> {
    Ok(Arc::new(NumberKeys(limiter(keys)?)))
}

fn limiter<K: Hash + Eq + Clone>(keys: usize) -> Result<Limiter<K>, Box<dyn Error>> {
    let burst = NonZeroU32::new(UNITS).ok_or("a limit of no units")?;
    let quota = Quota::with_period(PERIOD / UNITS).ok_or("a limit of no period")?.allow_burst(burst);
    Ok(RateLimiter::new(quota, DashMapStateStore::with_capacity(keys), DefaultClock::default()))
}

impl Contender for TextKeys {
    fn take_each(&self, segment: Segment<'_>, _: Sharing) -> u64 {
        let mut key = String::with_capacity(KEY_BYTES);
        let mut admitted = 0;
        for text in segment.texts() {
            key.clear();
            key.push_str(text);
            admitted += u64::from(self.0.check_key(&key).is_ok());
        }
        admitted
    }
}

impl Contender for NumberKeys {
    fn take_each(&self, segment: Segment<'_>, _: Sharing) -> u64 {
        segment.ids().iter().map(|id| u64::from(self.0.check_key(id).is_ok())).sum()
    }
}
