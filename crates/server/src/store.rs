//! Where counters are shared with other processes: how it is reached, and by which thread.

mod settings;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tollgate::authority::{Directed, Pin, SharedKey};
use tollgate::core::Time;
use tollgate::{Clock, ShardId};
use tollgate_redis::{Authority, Fleet, ShardStats};

pub use self::settings::{HiddenText, StoreError, StoreSettings};
use crate::gate::Granted;
use crate::workers;

/// How long the answer to what no request waits for is waited for.
const ERRANDS_PATIENCE: Duration = Duration::from_millis(100);

/// The way to shared counters.
pub(crate) struct Store {
    fleet: Arc<Fleet>,
    deadline: Duration,
    secret: Vec<u8>,
    /// What is kept on a node of its own.
    pins: Vec<String>,
    /// One for each thread that serves requests, made when it first asks: a connection never changes threads.
    authorities: Box<[OnceLock<Authority>]>,
}

impl Store {
    /// The store that the settings name, if they do, for so many threads.
    pub(crate) fn open(
        settings: &StoreSettings,
        threads: usize,
        clock: Arc<Clock>,
    ) -> Result<Option<Store>, StoreError> {
        let Some(reached) = settings.reached()? else { return Ok(None) };
        let secret = settings.secret()?;
        if secret.is_empty() {
            tracing::warn!(
                "`store_secret` is not set: servers without a common database cannot release each other's leases or settle each other's reservations, and a reader of the store can tell whether a name is counted there"
            );
        }
        Ok(Some(Store {
            fleet: Fleet::new(reached, clock)?,
            deadline: settings.deadline,
            secret,
            pins: settings.pins.iter().map(|(name, _)| name.clone()).collect(),
            authorities: (0..threads.max(1)).map(|_| OnceLock::new()).collect(),
        }))
    }

    /// What all who share the counters know.
    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// What is kept at places of their own, by name.
    pub(crate) fn pins(&self) -> impl Iterator<Item = (String, Pin)> {
        self.pins.iter().filter_map(|name| Some((name.clone(), self.fleet.pin(name)?)))
    }

    /// Says which node keeps a key.
    pub(crate) fn sharding(
        &self,
    ) -> impl Fn(SharedKey, Option<Pin>) -> Option<ShardId> + Send + Sync + 'static {
        let fleet = Arc::clone(&self.fleet);
        move |key, pin| fleet.shard_of(key, pin)
    }

    /// Asks, all at once. Whatever happens, the answers are there by the deadline.
    pub(crate) async fn ask(&self, questions: &[Directed]) -> Vec<Granted> {
        self.authority().ask_all(questions.iter().cloned(), self.deadline).await
    }

    /// Asks for what no request waits for: it may take longer.
    pub(crate) async fn run_errands(&self, questions: Vec<Directed>) -> Vec<Granted> {
        self.authority().ask_all(questions, ERRANDS_PATIENCE.max(self.deadline)).await
    }

    /// Tells what nobody waits for.
    pub(crate) fn send(&self, questions: Vec<Directed>) {
        self.authority().send_back(questions);
    }

    /// Whether every shard can be asked by this thread, in this time.
    pub(crate) async fn is_reached(&self, patience: Duration) -> bool {
        self.authority().ready(patience).await
    }

    /// Until when the others that share the counters certainly know of this process.
    pub(crate) fn counted_until(&self) -> Time {
        self.fleet.counted_until()
    }

    /// How many processes share the counters.
    pub(crate) fn nodes(&self) -> u32 {
        self.fleet.nodes()
    }

    /// Rules have changed: what was denied before need not be now.
    pub(crate) fn forget_denials(&self) {
        self.fleet.forget_denials();
    }

    pub(crate) fn stats(&self) -> Vec<ShardStats> {
        self.fleet.stats()
    }

    fn authority(&self) -> &Authority {
        let thread = workers::this_worker() % self.authorities.len();
        self.authorities[thread].get_or_init(|| Authority::start(&self.fleet))
    }
}
