//! Whether there is room for one more: what is acknowledged has to be in force, and a node can hold only so many tenants, bans and boosts.
//!
//! Whoever wants to add one has it counted before it is written, together with all that are under way, and is refused where that is too many. Others may
//! be taken by another node at the same moment: what comes from there and finds no room is said and counted, and is not in force.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thiserror::Error;
use tollgate::KEY_ACTS_MAX;
use tollgate::policy::TENANTS_MAX;

/// How many of each a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) tenants_max: usize,
    pub(crate) key_acts_max: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { tenants_max: TENANTS_MAX, key_acts_max: KEY_ACTS_MAX }
    }
}

/// As many as can be are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NoRoom {
    /// Of tenants with terms of their own.
    #[error(
        "at most {0} tenants can have a quota of their own: delete one that is not needed any more first"
    )]
    Tenants(usize),
    /// Of keys that are banned or boosted.
    #[error(
        "at most {0} keys can be banned or boosted at the same time: end one first, or wait until one is over"
    )]
    KeyActs(usize),
}

/// How many more of each will be there soon.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    tenants: Arc<AtomicUsize>,
    key_acts: Arc<AtomicUsize>,
}

/// What one may be added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addition {
    Tenant,
    KeyAct,
}

/// One that will be there soon, unless this is dropped before.
#[derive(Debug)]
pub(super) struct Reserved {
    count: Arc<AtomicUsize>,
}

impl UnderWay {
    /// How many are under way.
    pub(super) fn count(&self, addition: Addition) -> usize {
        self.of(addition).load(Ordering::Relaxed) // Only whoever has the turn adds to it.
    }

    /// One more is under way. Only for whoever has the turn, and has found room.
    pub(super) fn reserve(&self, addition: Addition) -> Reserved {
        let count = Arc::clone(self.of(addition));
        count.fetch_add(1, Ordering::Relaxed);
        Reserved { count }
    }

    fn of(&self, addition: Addition) -> &Arc<AtomicUsize> {
        match addition {
            Addition::Tenant => &self.tenants,
            Addition::KeyAct => &self.key_acts,
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
