//! What the engine needs of shared counters besides answers to requests: the next units to spend, and what it gives back.
//!
//! A request that leaves an errand behind rings; one of the threads that serve requests hears it and carries all errands that wait, together. No request
//! waits for them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tollgate::Errand;
use tollgate::authority::{Directed, Failure};

use super::{Gate, Granted};

/// The most errands that a thread carries together: requests that ask wait behind them.
const TOGETHER_MAX: usize = 128;
/// How long a server that ends waits until all that it had leased has come back.
const RETURN_PATIENCE: Duration = Duration::from_secs(1);

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

    /// Gives back everything that was leased, before the server ends. Meant to run on a thread that serves requests.
    pub(crate) async fn return_leases(&self) {
        let returned = async {
            loop {
                let is_all = self.engine.close_leases(self.now());
                while self.engine.has_errands() {
                    let errands = self.engine.take_errands(TOGETHER_MAX);
                    let questions = errands.into_iter().map(|errand| errand.question).collect();
                    self.run(questions).await;
                }
                if is_all {
                    return;
                }
            }
        };
        if tokio::time::timeout(RETURN_PATIENCE, returned).await.is_err() {
            tracing::warn!("not all leases could be given back: what is left of them ends within seconds");
        }
    }

    async fn carry(&self, errands: Vec<Errand>) {
        let questions: Vec<Directed> = errands.iter().map(|errand| errand.question.clone()).collect();
        let granted = self.run(questions).await;
        let now = self.now();
        for (errand, granted) in errands.into_iter().zip(granted) {
            self.engine.settle(errand, granted, now);
        }
    }

    async fn run(&self, questions: Vec<Directed>) -> Vec<Granted> {
        match &self.store {
            Some(store) => store.run_errands(questions).await,
            None => vec![Err(Failure::NotAsked); questions.len()],
        }
    }
}
