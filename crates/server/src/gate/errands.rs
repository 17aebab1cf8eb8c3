//! What the engine needs of shared and durable counters besides answers to requests: the next units to spend, and what it gives back.
//!
//! A request that leaves an errand behind rings; somebody hears it and carries all errands that wait, together. No request waits for them. To the store they are
//! carried by the threads that serve requests, since those have the connections; to the database by the threads behind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tollgate::authority::{Directed, Failure};
use tollgate::{Errand, Keeper};

use super::{Gate, Granted};

/// The most errands that are carried together to the store: requests that ask wait behind them.
const TOGETHER_MAX: usize = 128;
/// And to the database: each journey costs a commit.
const TOGETHER_DATABASE_MAX: usize = 1_024;
/// How long a server that ends waits until all that it had leased of the store has come back: what does not ends by itself within seconds.
const RETURN_PATIENCE: Duration = Duration::from_secs(1);
/// And of the database, where it would stay used.
const RETURN_DATABASE_PATIENCE: Duration = Duration::from_secs(10);
/// How often it looks whether errands are still under way then.
const RETURN_LOOKS: Duration = Duration::from_millis(2);

/// Those who carry errands, for each who keeps counters.
#[derive(Default)]
pub(super) struct Carriers {
    to_store: Carrier,
    to_database: Carrier,
}

/// Those who carry errands to one who keeps counters.
#[derive(Default)]
struct Carrier {
    /// Rings when there are errands, or when there will be none any more.
    bell: Arc<Notify>,
    /// How many have errands under way.
    under_way: AtomicUsize,
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.bell.notify_waiters();
    }
}

impl Carriers {
    fn to(&self, keeper: Keeper) -> &Carrier {
        match keeper {
            Keeper::Store => &self.to_store,
            Keeper::Database => &self.to_database,
        }
    }
}

impl Gate {
    /// Has errands carried, if there are any.
    pub(crate) fn ring(&self) {
        for keeper in Keeper::ALL {
            if self.engine.has_errands(keeper) {
                self.carriers.to(keeper).bell.notify_one();
            }
        }
    }

    /// Carries errands for as long as there is a gate. Those to the store are meant to be carried by every thread that serves requests.
    pub(crate) async fn run_errands(gate: Weak<Gate>, keeper: Keeper) {
        let bell = gate.upgrade().map(|gate| Arc::clone(&gate.carriers.to(keeper).bell));
        let Some(bell) = bell else { return };
        loop {
            let rung = bell.notified();
            match gate.upgrade() {
                None => return,
                Some(gate) if gate.engine.has_errands(keeper) => {
                    gate.carry(keeper).await;
                    continue;
                }
                Some(_) => {}
            }
            rung.await;
        }
    }

    /// Gives back everything that was leased of one who keeps counters, before the server ends. To the store, it is meant to run on a thread that serves requests.
    pub(crate) async fn return_leases(&self, keeper: Keeper) {
        let returned = async {
            loop {
                let is_all = self.engine.close_leases(keeper, self.now());
                while self.engine.has_errands(keeper) {
                    self.carry(keeper).await;
                }
                // What others have under way may be granted yet, and is to be given back then.
                let is_over = self.carriers.to(keeper).under_way.load(Ordering::Acquire) == 0;
                let has_more = self.engine.run_retries(keeper, self.now()) || self.engine.has_errands(keeper);
                if is_all && is_over && !has_more {
                    return;
                }
                tokio::time::sleep(RETURN_LOOKS).await;
            }
        };
        let (patience, what) = match keeper {
            Keeper::Store => (
                RETURN_PATIENCE,
                "not all leases could be given back: what is left of them ends within seconds",
            ),
            Keeper::Database => (
                RETURN_DATABASE_PATIENCE,
                "not all blocks of durable limits could be given back: they stay counted until their windows end",
            ),
        };
        if tokio::time::timeout(patience, returned).await.is_err() {
            tracing::warn!("{what}");
        }
    }

    /// Carries the errands that wait.
    async fn carry(&self, keeper: Keeper) {
        let under_way = UnderWay::new(&self.carriers.to(keeper).under_way);
        let together_max = match keeper {
            Keeper::Store => TOGETHER_MAX,
            Keeper::Database => TOGETHER_DATABASE_MAX,
        };
        let errands: Vec<Errand> = self.engine.take_errands(keeper, together_max);
        let questions: Vec<Directed> = errands.iter().map(|errand| errand.question.clone()).collect();
        let granted = self.run(keeper, questions).await;
        let now = self.now();
        for (errand, granted) in errands.into_iter().zip(granted) {
            self.engine.settle(errand, granted, now);
        }
        drop(under_way);
    }

    async fn run(&self, keeper: Keeper, questions: Vec<Directed>) -> Vec<Granted> {
        match (keeper, &self.store, &self.durable) {
            (Keeper::Store, Some(store), _) => store.run_errands(questions).await,
            (Keeper::Database, _, Some(durable)) if self.is_stopping() => {
                durable.run_last_errands(questions).await
            }
            (Keeper::Database, _, Some(durable)) => durable.run_errands(questions).await,
            _ => vec![Err(Failure::NotAsked); questions.len()],
        }
    }
}

/// Counts as under way until it is dropped. Whoever sees it gone (acquire) sees what was settled before (release).
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn new(count: &'a AtomicUsize) -> UnderWay<'a> {
        count.fetch_add(1, Ordering::Relaxed);
        UnderWay(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
