//! What the engine needs of shared counters besides answers to requests: the next units to spend, and what it gives back.
//!
//! A request that leaves an errand behind rings; one of the threads that serve requests hears it and carries all errands that wait, together. No request
//! waits for them.

use std::sync::{Arc, Weak};

use tokio::sync::Notify;
use tollgate::authority::{Act, Directed};
use tollgate::{Errand, core::Span};

use super::Gate;

/// The most errands that are carried together.
const TOGETHER_MAX: usize = 1_024;
/// For how long others may count one process too few after one has begun, besides the life of a lease.
const COUNTED_AFTER: Span = Span::from_ticks(3_000_000_000);

/// Rings when there are errands, or when there will be none any more.
#[derive(Default)]
pub(super) struct Bell(Arc<Notify>);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.notify_waiters();
    }
}

impl Gate {
    /// Has errands carried, if there are any.
    pub(crate) fn ring(&self) {
        if self.engine.has_errands() {
            self.bell.0.notify_one();
        }
    }

    /// Leases nothing until all others have counted this process, unless they need not.
    pub(super) fn wait_to_be_counted(&self) {
        let wait = self.engine.lease_life().ticks() + COUNTED_AFTER.ticks();
        self.engine.lease_from(self.now().plus(Span::from_ticks(wait)));
    }

    /// Carries errands for as long as there is a gate. Meant to run on every thread that serves requests.
    pub(crate) async fn run_errands(gate: Weak<Gate>) {
        let Some(bell) = gate.upgrade().map(|gate| Arc::clone(&gate.bell.0)) else { return };
        loop {
            let rung = bell.notified();
            match gate.upgrade() {
                None => return,
                Some(gate) if gate.engine.has_errands() => {
                    gate.carry(gate.engine.take_errands(TOGETHER_MAX)).await;
                    continue;
                }
                Some(_) => {}
            }
            rung.await;
        }
    }

    async fn carry(&self, errands: Vec<Errand>) {
        let is_return = |errand: &Errand| matches!(errand.question.0.act, Act::Return(_));
        let (returns, asks): (Vec<Errand>, Vec<Errand>) = errands.into_iter().partition(is_return);
        self.send(returns.into_iter().map(|errand| errand.question).collect());
        let questions: Vec<Directed> = asks.iter().map(|errand| errand.question.clone()).collect();
        let granted = self.ask(&questions).await;
        let now = self.now();
        for (errand, granted) in asks.iter().zip(granted) {
            self.engine.settle(errand, granted, now);
        }
    }
}
