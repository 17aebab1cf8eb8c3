//! Keeping up with what others change, for as long as the server runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};
use tollgate::core::Time;
use tollgate_control::{Database, DatabaseAddress, DatabaseError};

use super::{Control, now_ms};
use crate::aside::aside;
use crate::drain::Drain;

/// How often the version is asked for. Of a file nobody is told that it has changed; PostgreSQL tells, but may be misheard.
const LOOK_INTERVAL_FILE: Duration = Duration::from_millis(250);
const LOOK_INTERVAL_SERVER: Duration = Duration::from_secs(5);
/// How often this node tells that it is there.
const BEAT_INTERVAL: Duration = Duration::from_secs(2);
/// A node that has told of itself within this time counts as present.
const PRESENT_FOR_MS: i64 = 10_000;
/// How long to wait before a database that is away is looked for again.
const AWAY_INTERVAL: Duration = Duration::from_secs(1);

const NS_PER_US: u64 = 1_000;

impl Control {
    /// Follows the database until the server stops.
    pub(crate) async fn follow(self: Arc<Control>, mut drain: Drain) {
        tokio::select! {
            () = self.follow_for_ever() => {}
            () = drain.begun() => {}
        }
        if let Ok(database) = self.database().await {
            // Nobody minds if that does not arrive: who is silent is forgotten.
            let _ = tokio::time::timeout(AWAY_INTERVAL, database.leave(self.node.id())).await;
        }
    }

    /// Each at its own pace: a copy of everything takes long, and must keep nobody from hearing of changes, or of this node.
    async fn follow_for_ever(&self) {
        let database = self.reached().await;
        let looked = Notify::new();
        tokio::join!(
            self.beat_for_ever(&database),
            self.look_for_ever(&database, &looked),
            self.save_for_ever(&database, &looked),
        );
    }

    async fn beat_for_ever(&self, database: &Database) {
        let mut beats = every(BEAT_INTERVAL);
        loop {
            beats.tick().await;
            self.beat(database).await;
        }
    }

    async fn look_for_ever(&self, database: &Database, looked: &Notify) {
        let mut noticed = database.noticed();
        let mut looks = every(self.look_interval());
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                // Where nobody tells anything any more, the time for a look comes all the same.
                Ok(()) = noticed.changed() => {}
            }
            match self.look(database).await {
                Ok(()) => looked.notify_one(),
                Err(error) => {
                    self.tell_of_trouble(&error);
                    sleep(AWAY_INTERVAL).await;
                }
            }
        }
    }

    async fn save_for_ever(&self, database: &Database, looked: &Notify) {
        loop {
            looked.notified().await;
            if let Err(error) = self.save(database).await
                && self.told_of_copy.is_to_be_told(self.gate.now())
            {
                tracing::warn!(%error, "the copy for a start without the database is behind");
            }
        }
    }

    /// The database, as soon as it is reached.
    async fn reached(&self) -> Arc<Database> {
        loop {
            if let Ok(database) = self.database().await {
                return database;
            }
            sleep(AWAY_INTERVAL).await;
            match self.reach().await {
                Ok(()) => tracing::info!(version = self.applied(), "the database is reached"),
                Err(error) => self.tell_of_trouble(&error),
            }
        }
    }

    /// Applies what is new.
    async fn look(&self, database: &Database) -> Result<(), DatabaseError> {
        if database.head().await? != *self.turns.head() {
            self.catch_up(database, self.turns.take().await).await?;
        }
        Ok(())
    }

    /// Notes down what is in force for a start without the database, if it is elsewhere.
    async fn save(&self, database: &Database) -> Result<(), DatabaseError> {
        let saved = match &self.replica {
            Some(replica) if replica.head().await? != *self.turns.head() => {
                replica.catch_up(database).await?
            }
            Some(_) | None => self.applied(),
        };
        self.gate.metrics().observe_saved_config(saved);
        Ok(())
    }

    /// Tells that this node is there.
    pub(super) async fn beat(&self, database: &Database) {
        let gate = Arc::clone(&self.gate);
        // Whoever puts other rules in force may keep us waiting.
        let Ok(rules) = aside(move || gate.rules_fingerprint()).await else { return };
        let clock = self.gate.clock();
        if let Ok(Some(shown_us)) = database.time_us().await {
            clock.note_reference(Time::from_ticks(shown_us.saturating_mul(NS_PER_US)), clock.steady());
        }
        let now_ms = now_ms(&self.gate);
        if let Err(error) = database.beat(&self.node.state(self.applied(), rules, now_ms), now_ms).await {
            self.tell_of_trouble(&error);
        } else if self.gate.durable().is_some() {
            self.count_nodes(database, now_ms).await;
        }
    }

    /// Lets the engine know how many processes count in the same database, so that each leaves the others their part.
    async fn count_nodes(&self, database: &Database, now_ms: i64) {
        let since_ms = now_ms.saturating_sub(PRESENT_FOR_MS);
        if let Ok(nodes) = database.nodes(now_ms).await {
            let present = nodes.iter().filter(|node| node.seen_at_ms >= since_ms).count();
            self.gate.engine().set_database_nodes(u32::try_from(present).unwrap_or(u32::MAX));
        }
    }

    fn look_interval(&self) -> Duration {
        match self.address {
            DatabaseAddress::Postgres(_) => LOOK_INTERVAL_SERVER,
            DatabaseAddress::Sqlite(_) | DatabaseAddress::Off => LOOK_INTERVAL_FILE,
        }
    }
}

fn every(span: Duration) -> Interval {
    let mut every = interval(span);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    every
}
