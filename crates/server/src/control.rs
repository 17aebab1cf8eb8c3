//! What operators decide at run time, in force: documents of the database become tenants, bans, switches and rules of the engine.
//!
//! Whoever takes a change writes it to the database and applies it before it answers. All others hear of it, or ask for the version now and then, and
//! apply what they have not. Changes are applied in the order of their versions, each once, and never backwards; a change has to follow, by its hash, the one
//! that is in force. If it does not, the database has another history than it had, such as that of a backup, and all of it is loaded anew. No decision waits for
//! any of this: while the database is away, everybody goes on with what is in memory, and a node that starts then begins with its own copy.

mod apply;
mod follow;
mod node;
mod room;
#[cfg(test)]
mod tests;
mod turn;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use thiserror::Error;
use tokio::sync::Notify;
use tollgate::Keeper;
use tollgate_control::{
    Action, Change, ChangeError, Changed, Database, DatabaseAddress, DatabaseError, DatabaseSettings,
    DurableAuthority, DurableSettings, Head, Kind, Replica, Version, Who,
};

use self::apply::{Loading, Step};
use self::node::Node;
pub(crate) use self::room::{Bounds, NoRoom};
use self::turn::{Turn, Turns};
use crate::aside::EndedEarly;
use crate::gate::Gate;
use crate::seldom::Seldom;

/// The most changes that are asked for at once.
const STEPS_MAX: usize = 1_000;
/// The most questions about durable counts that wait for the database.
const DURABLE_QUEUE_MAX: usize = 16_384;
/// A process that was last heard of within this time and has crashed may be one of several.
const CRASH_LOOP_MS: i64 = 10 * 60 * 1_000;
const NS_PER_MS: u64 = 1_000_000;

/// Why a change was not made.
#[derive(Debug, Error)]
pub(crate) enum Refused {
    /// The database has something against it.
    #[error(transparent)]
    Database(#[from] ChangeError),
    /// It could not be in force.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// Nothing was written yet.
    #[error(transparent)]
    EndedEarly(#[from] EndedEarly),
}

impl From<DatabaseError> for Refused {
    fn from(error: DatabaseError) -> Refused {
        Refused::Database(error.into())
    }
}

/// What operators decide, and how far it is in force here.
pub(crate) struct Control {
    gate: Arc<Gate>,
    address: DatabaseAddress,
    /// Where this server keeps what it owes the database while that is away.
    owed_folder: Option<PathBuf>,
    /// Nothing as long as it was never reached.
    database: ArcSwapOption<Database>,
    /// A copy of what is elsewhere.
    replica: Option<Replica>,
    bounds: Bounds,
    turns: Turns,
    node: Node,
    asked_to_reload: Notify,
    told_of_trouble: Seldom,
    told_of_copy: Seldom,
}

impl Control {
    /// Opens the database and applies all that is in it. One that is elsewhere and out of reach is left for later: then what was last known of it is applied.
    pub(crate) async fn open(
        address: DatabaseAddress,
        replica: PathBuf,
        gate: &Arc<Gate>,
    ) -> Result<Control, DatabaseError> {
        Control::open_within(Bounds::default(), address, replica, gate).await
    }

    /// The same for a node that holds only so much.
    pub(crate) async fn open_within(
        bounds: Bounds,
        address: DatabaseAddress,
        replica: PathBuf,
        gate: &Arc<Gate>,
    ) -> Result<Control, DatabaseError> {
        let beside = match &address {
            DatabaseAddress::Sqlite(file) => file.parent(),
            DatabaseAddress::Postgres(_) | DatabaseAddress::Off => replica.parent(),
        };
        let here = |folder: &Path| if folder.as_os_str().is_empty() { ".".into() } else { folder.to_owned() };
        let owed_folder = beside.map(here);
        let replica = match &address {
            DatabaseAddress::Postgres(_) => {
                let unusable = |error: &DatabaseError| {
                    tracing::warn!(%error, "this server keeps no copy of the database, and cannot start while that is away");
                };
                Replica::open(&replica).await.inspect_err(unusable).ok()
            }
            DatabaseAddress::Sqlite(_) | DatabaseAddress::Off => None,
        };
        let control = Control {
            gate: Arc::clone(gate),
            owed_folder,
            database: ArcSwapOption::empty(),
            replica,
            bounds,
            turns: Turns::new(gate, bounds),
            node: Node::new(now_ms(gate)),
            asked_to_reload: Notify::new(),
            told_of_trouble: Seldom::default(),
            told_of_copy: Seldom::default(),
            address,
        };
        match control.reach().await {
            Err(DatabaseError::Away(reason) | DatabaseError::Slow(reason)) if control.replica.is_some() => {
                control.load_replica().await?;
                let version = control.applied();
                tracing::warn!(
                    version,
                    reason,
                    "the database is out of reach: going on with the last that is known of it"
                );
            }
            reached => reached?,
        }
        Ok(control)
    }

    /// Makes a change. It is in force here when this comes back.
    pub(crate) async fn change(&self, change: Change) -> Result<Changed, Refused> {
        let database = self.database().await?;
        let (step, logged) = (Step::of(&change), LoggedChange::of(&change));
        let reserved = self.turns.take().await.reserve(&step).await??;
        let changed = database.change(change, now_ms(&self.gate)).await?;
        let turn = self.turns.take().await;
        let made = if !changed.is_repeat && follows(&changed.previous, changed.version, turn.head()) {
            // Usually: nobody else has changed anything meanwhile, and nobody has to be asked what.
            turn.make(vec![step.made(&changed)]).await
        } else {
            self.catch_up(&database, turn).await
        };
        // While we have the turn, so that nobody counts it twice, or not at all.
        drop(reserved);
        if let Err(error) = made {
            self.tell_of_trouble(&error);
        }
        if !changed.is_repeat {
            logged.write(changed.version);
        }
        Ok(changed)
    }

    /// The database, if it was reached.
    #[allow(clippy::unused_async)] // Whoever asks need not know whether it has to be waited for.
    pub(crate) async fn database(&self) -> Result<Arc<Database>, DatabaseError> {
        let away = || DatabaseError::Away("it has not been reached since this server started".to_owned());
        self.database.load_full().ok_or_else(away)
    }

    /// The id of this node among those that share the database.
    pub(crate) fn node_id(&self) -> &str {
        self.node.id()
    }

    /// The version that is in force here.
    pub(crate) fn applied(&self) -> Version {
        self.turns.head().version
    }

    /// Has what comes from files read again.
    pub(crate) fn reload(&self) {
        self.asked_to_reload.notify_one();
    }

    /// Comes back when somebody wants what comes from files read again.
    pub(crate) async fn reload_asked(&self) {
        self.asked_to_reload.notified().await;
    }

    /// Connects to the database, and applies what is in it.
    async fn reach(&self) -> Result<(), DatabaseError> {
        let database = Database::open(DatabaseSettings::new(self.address.clone())).await?;
        self.take_fleet_secret(&database).await?;
        let turn = self.turns.take().await;
        if turn.head().version > 0 {
            // By the copy.
            self.catch_up(&database, turn).await?;
        } else {
            self.load(&database, turn).await?;
        }
        self.keep_counts(&database).await;
        self.database.store(Some(Arc::new(database)));
        Ok(())
    }

    /// Has callers' leases and reservations sealed with the secret that all servers on this database have in common.
    async fn take_fleet_secret(&self, database: &Database) -> Result<(), DatabaseError> {
        let secret = match database.fleet_secret().await {
            Ok(secret) => secret,
            Err(error @ (DatabaseError::Away(_) | DatabaseError::Slow(_))) => return Err(error),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "cannot read or write the secret of the fleet in the database: leases and reservations are valid in this process only"
                );
                return Ok(());
            }
        };
        self.gate.set_fleet_secret(&secret);
        if let Some(replica) = &self.replica
            && let Err(error) = replica.keep_fleet_secret(&secret).await
        {
            tracing::warn!(%error, "cannot keep the secret of the fleet in the copy of the database");
        }
        Ok(())
    }

    /// Has durable counts kept in the database.
    async fn keep_counts(&self, database: &Database) {
        let Some(durable) = self.gate.durable() else { return };
        self.look_for_crash(database).await;
        // Before it has any block in hand: whatever happens to it then, the next process learns of it.
        self.beat(database).await;
        let (node, seed) = (self.node.id().to_owned(), self.node.number());
        let owed_folder = self.owed_folder.clone();
        let settings = DurableSettings { node, queue_max: DURABLE_QUEUE_MAX, seed, owed_folder };
        durable.reach(DurableAuthority::start(database, Arc::clone(self.gate.clock()), settings));
        // Until the first count of nodes. Each may have no more than its part, but nothing is admitted beyond a limit however many they are.
        self.gate.engine().set_database_nodes(1);
    }

    /// A process that is killed loses the blocks that it has in hand. If the process before this one was, this one has small blocks at first: a
    /// crash loop would burn a whole block of each busy quota with every crash.
    async fn look_for_crash(&self, database: &Database) {
        let now_ms = now_ms(&self.gate);
        // An error is no reason to wait: whatever is wrong, those who ask next are told.
        let nodes = database.nodes(now_ms).await.unwrap_or_default();
        let crashed: Vec<_> = nodes.iter().filter(|node| self.node.has_crashed(node)).collect();
        let is_loop = crashed.iter().any(|node| now_ms.saturating_sub(node.seen_at_ms) <= CRASH_LOOP_MS);
        for node in &crashed {
            let _ = database.leave(&node.node).await;
        }
        if is_loop {
            tracing::warn!(
                "the last run of this server did not end cleanly: blocks of durable quotas are small at first"
            );
            self.gate.engine().lease_cautiously(Keeper::Database, self.gate.now());
        }
    }

    /// Applies all that the database has and this node has not.
    async fn catch_up(&self, database: &Database, mut turn: Turn) -> Result<Turn, DatabaseError> {
        loop {
            let known = turn.head();
            let rows = database.since(known.version, STEPS_MAX).await?;
            let is_known = match rows.first() {
                Some(row) => follows(&row.previous, row.version, known),
                None => database.hash_of(known.version).await?.as_ref() == Some(&known.hash),
            };
            if !is_known {
                return self.load_other(database, turn).await;
            }
            if rows.is_empty() {
                return Ok(turn);
            }
            turn = turn.make(rows.into_iter().map(Step::from).collect()).await?;
        }
    }

    /// Puts all that the database has in the place of what is in force.
    async fn load(&self, database: &Database, turn: Turn) -> Result<Turn, DatabaseError> {
        let mut loading = self.loading();
        let head = database.load(|document| loading.take(document)).await?;
        turn.replace(loading, head).await
    }

    /// The same where what is in force is not what led there.
    async fn load_other(&self, database: &Database, turn: Turn) -> Result<Turn, DatabaseError> {
        let before = turn.head().version;
        let turn = self.load(database, turn).await?;
        tracing::warn!(
            before,
            version = turn.head().version,
            "the database has another history than what was in force here, such as that of a backup or of a standby: all of it is in force now as it is there"
        );
        Ok(turn)
    }

    fn loading(&self) -> Loading {
        Loading::new(self.bounds, self.gate.now())
    }

    async fn load_replica(&self) -> Result<(), DatabaseError> {
        let Some(replica) = &self.replica else { return Ok(()) };
        match replica.fleet_secret().await {
            Ok(Some(secret)) => self.gate.set_fleet_secret(&secret),
            Ok(None) => {}
            Err(error) => tracing::warn!(
                %error,
                "cannot read the secret of the fleet in the copy of the database: leases and reservations are valid in this process only until the database is reached"
            ),
        }
        let mut loading = self.loading();
        let head = replica.load(|document| loading.take(document)).await?;
        self.turns.take().await.replace(loading, head).await.map(drop)
    }

    fn tell_of_trouble(&self, error: &DatabaseError) {
        self.gate.metrics().observe_config_failure();
        if self.told_of_trouble.is_to_be_told(self.gate.now()) {
            let version = self.applied();
            tracing::warn!(%error, version, "nothing new can be learned from the database: decisions go on by what is known");
        }
    }
}

/// A change, as the log shows it. The audit has what was changed.
struct LoggedChange {
    who: Who,
    action: Action,
    kind: Kind,
    id: String,
}

impl LoggedChange {
    fn of(change: &Change) -> LoggedChange {
        let Change { who, action, kind, id, .. } = change;
        LoggedChange { who: who.clone(), action: action.clone(), kind: *kind, id: id.clone() }
    }

    fn write(self, version: Version) {
        let LoggedChange { who: Who { name, role }, action, kind, id } = self;
        tracing::info!(name, role, %action, %kind, id, version, "admin change");
    }
}

/// Whether a change, by the hash of what it was made after, comes next.
fn follows(previous: &str, version: Version, known: &Head) -> bool {
    version == known.version + 1 && previous == known.hash
}

/// This moment, in milliseconds since 1970.
fn now_ms(gate: &Gate) -> i64 {
    i64::try_from(gate.now().ticks() / NS_PER_MS).unwrap_or(i64::MAX)
}
