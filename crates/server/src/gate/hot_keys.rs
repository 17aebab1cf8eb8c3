//! Keys that become hot, and cease to be: told in the log, now and then.
//!
//! A key may be a secret, such as a token, and logs go far. So they say which rule it is of, and a number under which the admin listener shows
//! it.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::HotKey;

use super::Gate;
use crate::seldom::Seldom;

/// What was said, and of how many nothing was.
#[derive(Debug, Default)]
pub(super) struct Told {
    became: Seldom,
    ceased: Seldom,
    untold: AtomicU64,
}

impl Gate {
    /// Tells of keys that have become hot or ceased to be, a few times a minute at most.
    pub(crate) fn tell_hot_keys(&self) {
        let now = self.now();
        for hot in self.engine.take_hot_changes() {
            let seldom = if hot.is_hot { &self.told.became } else { &self.told.ceased };
            if seldom.is_to_be_told(now) {
                // Relaxed: the number stands for itself.
                tell(&hot, self.told.untold.swap(0, Ordering::Relaxed));
            } else {
                self.told.untold.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn tell(hot: &HotKey, untold: u64) {
    let HotKey { id, name, per_second, share, is_leased, .. } = hot;
    let (domain, rule) = (&*name.domain, &*name.rule);
    let (per_second, share) = (format!("{per_second:.0}"), format!("{share:.3}"));
    if hot.is_hot {
        tracing::info!(
            id,
            domain,
            rule,
            per_second,
            share,
            leased = is_leased,
            untold,
            "a key has become hot: see /admin/v1/hotkeys"
        );
    } else {
        tracing::info!(id, domain, rule, per_second, share, untold, "a key is not hot any more");
    }
}
