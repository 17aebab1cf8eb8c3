//! Whose turn it is to change what is in force: one after the other, in the order of versions, and never on a thread that decides.
//!
//! Whoever has a turn keeps it until the work is done, also if nobody waits for that any more: a request that was broken off must not let the next one
//! overtake it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tollgate_control::{DatabaseError, Head};

use super::apply::{Applied, Loading, Step, nothing};
use super::room::{Bounds, NoRoom, Reserved};
use crate::aside::{EndedEarly, aside};
use crate::gate::Gate;

/// What is in force, and how far it is.
pub(super) struct Turns {
    gate: Arc<Gate>,
    applied: Arc<Mutex<Applied>>,
    head: Arc<ArcSwap<Head>>,
}

/// The right to change what is in force.
pub(super) struct Turn {
    gate: Arc<Gate>,
    applied: OwnedMutexGuard<Applied>,
    head: Arc<ArcSwap<Head>>,
}

impl Turns {
    pub(super) fn new(gate: &Arc<Gate>, bounds: Bounds) -> Turns {
        let applied = Arc::new(Mutex::new(Applied::new(bounds)));
        Turns { gate: Arc::clone(gate), applied, head: Arc::new(ArcSwap::from_pointee(nothing())) }
    }

    /// Waits until nobody else has it.
    pub(super) async fn take(&self) -> Turn {
        let applied = Arc::clone(&self.applied).lock_owned().await;
        Turn { gate: Arc::clone(&self.gate), applied, head: Arc::clone(&self.head) }
    }

    /// The last change that is in force.
    pub(super) fn head(&self) -> Arc<Head> {
        self.head.load_full()
    }
}

impl Turn {
    /// The last change that is in force.
    pub(super) fn head(&self) -> &Head {
        &self.applied.head
    }

    /// How many tenants will be there soon.
    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        self.applied.under_way_of(super::room::Addition::Tenant)
    }

    /// Keeps room for a change that is about to be written, if it needs any; an error if there is none. Others may have the turn until it is made.
    pub(super) async fn reserve(self, step: &Step) -> Result<Result<Option<Reserved>, NoRoom>, EndedEarly> {
        let (step, mut turn) = (step.clone(), self);
        aside(move || turn.applied.reserve(&step, &turn.gate)).await
    }

    /// Makes changes, in order. Those that are made already are passed over.
    pub(super) async fn make(self, steps: Vec<Step>) -> Result<Turn, DatabaseError> {
        self.work(move |applied, gate| applied.make(&steps, gate)).await
    }

    /// Puts all of it in the place of what was in force.
    pub(super) async fn replace(self, loading: Loading, head: Head) -> Result<Turn, DatabaseError> {
        self.work(move |applied, gate| loading.finish(head, applied, gate)).await
    }

    async fn work(
        mut self,
        work: impl FnOnce(&mut Applied, &Gate) + Send + 'static,
    ) -> Result<Turn, DatabaseError> {
        let done = aside(move || {
            work(&mut self.applied, &self.gate);
            self.head.store(Arc::new(self.applied.head.clone()));
            self.gate.metrics().observe_config(self.applied.head.version);
            self
        });
        done.await.map_err(|error| DatabaseError::Other(error.to_string()))
    }
}
