//! Jumps of wall time.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tollgate::clock::guard::ClockEvent;

/// What is counted of them, by name.
const EVENTS: [&str; 4] = ["jumped", "came_back", "followed", "differs"];

/// What was seen of clocks.
#[derive(Debug, Default)]
pub(crate) struct ClockMetrics {
    events: [AtomicU64; EVENTS.len()],
    unconfirmed_ns: AtomicI64,
}

impl ClockMetrics {
    pub(crate) fn observe(&self, event: ClockEvent) {
        let place = match event {
            ClockEvent::Jumped { .. } => 0,
            ClockEvent::CameBack => 1,
            ClockEvent::Followed { .. } => 2,
            ClockEvent::Differs { .. } => 3,
        };
        self.events[place].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_unconfirmed(&self, ns: i64) {
        self.unconfirmed_ns.store(ns, Ordering::Relaxed);
    }

    /// How often each event happened.
    pub(super) fn events(&self) -> [(&'static str, u64); EVENTS.len()] {
        std::array::from_fn(|at| (EVENTS[at], self.events[at].load(Ordering::Relaxed)))
    }

    /// How far wall time is from the timeline, in whole seconds.
    pub(super) fn unconfirmed_s(&self) -> i64 {
        self.unconfirmed_ns.load(Ordering::Relaxed) / 1_000_000_000
    }
}
