//! A Cluster: nodes that agree on which of them keeps which slots, and tell whoever asks the wrong one.
//!
//! The map is learnt from any node, and again whenever a node is lost, falls silent or sends somebody away. A `MOVED` is believed at
//! once for its one slot; an `ASK` for its one call. A node that is new gets a shard of its own, and one that has kept no
//! slots for a while loses it.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tollgate_core::{Span, Time};
use tollgate_store::authority::slots::{SLOTS, slot_of};
use tollgate_store::authority::{Failure, SharedKey};
use tollgate_store::hot::ShardId;

use super::{Member, Moved};
use crate::address::Node;
use crate::connection::{Broken, Connection};
use crate::fleet::{Fleet, jittered, try_lock};
use crate::keys::Keys;
use crate::shard::{Place, Shard};
use crate::wire::Reply;

/// How often one ask may be sent to another node, how often of these at once, and how long it waits otherwise.
const MOVES_MAX: u8 = 32;
const MOVES_AT_ONCE: u8 = 3;
const MOVE_PAUSE: Duration = Duration::from_millis(5);
/// The map is learnt again at least so often, and at most so often. A random part of up to a half is taken off both.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
const LOOK_PAUSE: Duration = Duration::from_millis(150);
/// A node that keeps no slots is forgotten after so long.
const SLOTLESS_MAX: Span = Span::from_ticks(15_000_000_000);
/// The most nodes.
const NODES_MAX: usize = 1_000;

/// The shards of a Cluster, as one thread knows them.
pub(crate) struct Cluster {
    fleet: Arc<Fleet>,
    map: Mutex<Map>,
    look: Arc<Notify>,
    /// The task that keeps the map.
    task: Mutex<Option<AbortHandle>>,
}

#[derive(Default)]
struct Map {
    members: HashMap<Node, Known>,
    /// Who keeps each slot, as far as that is known.
    slots: Vec<Option<Arc<Shard>>>,
    /// Whether the Cluster has told.
    is_known: bool,
}

struct Known {
    member: Member,
    /// Since when it has had no slots.
    slotless_since: Option<Time>,
}

/// Whoever is asked for what it does not keep sends it on.
#[derive(Clone)]
pub(crate) struct Mover(Weak<Cluster>);

/// Slots, and who keeps them: `None` for the host that told.
type Range = (u16, u16, Option<String>, u16);

impl Cluster {
    /// Begins to connect to the nodes that are named, and to learn of the others.
    pub(super) fn start(fleet: &Arc<Fleet>) -> Arc<Cluster> {
        let map = Map { slots: vec![None; usize::from(SLOTS)], ..Map::default() };
        let cluster = Arc::new(Cluster {
            fleet: Arc::clone(fleet),
            map: Mutex::new(map),
            look: Arc::default(),
            task: Mutex::new(None),
        });
        let task = tokio::spawn(keep_map(Arc::downgrade(&cluster), Arc::clone(&cluster.look))).abort_handle();
        *cluster.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        cluster
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn shard_of(&self, key: SharedKey) -> Option<Arc<Shard>> {
        self.shard_of_slot(Keys::slot(key))
    }

    pub(super) fn shard_of_nodes(&self) -> Option<Arc<Shard>> {
        self.shard_of_slot(slot_of(self.fleet.keys.nodes().as_bytes()))
    }

    /// Who keeps a key, if that is known and nobody else is at the map.
    pub(super) fn known_shard_of(&self, key: SharedKey) -> Option<ShardId> {
        let map = try_lock(&self.map)?;
        map.slots.get(usize::from(Keys::slot(key)))?.as_ref().map(|shard| shard.id)
    }

    /// Who keeps a slot. Where nobody is known to, anybody will know better.
    fn shard_of_slot(&self, slot: u16) -> Option<Arc<Shard>> {
        let map = self.map();
        let keeper = map.slots.get(usize::from(slot)).and_then(Clone::clone);
        keeper.or_else(|| map.members.values().next().map(|known| Arc::clone(&known.member.shard)))
    }

    pub(super) fn shards(&self) -> Vec<Arc<Shard>> {
        self.map().members.values().map(|known| Arc::clone(&known.member.shard)).collect()
    }

    pub(super) fn is_known(&self) -> bool {
        self.map().is_known
    }

    /// The shard of a node, which may be a new one.
    fn shard_at(self: &Arc<Cluster>, map: &mut Map, node: Node) -> Option<Arc<Shard>> {
        if !map.members.contains_key(&node) && map.members.len() >= NODES_MAX {
            return None;
        }
        let known = map.members.entry(node.clone()).or_insert_with(|| {
            let mover = Mover(Arc::downgrade(self));
            Known { member: Member::start(&self.fleet, Place::Node(node), Some(mover)), slotless_since: None }
        });
        Some(Arc::clone(&known.member.shard))
    }

    /// Asks any node that can be reached who keeps what.
    async fn learn(self: &Arc<Cluster>) -> Result<(), Broken> {
        let known: Vec<Node> = self.map().members.keys().cloned().collect();
        let named = self.fleet.settings.address.nodes.iter().filter(|node| !known.contains(node));
        let mut last = Broken::Closed;
        for node in known.iter().chain(named) {
            match self.ask(node).await {
                Ok(ranges) if !ranges.is_empty() => {
                    self.update(node, ranges, self.fleet.clock.steady());
                    return Ok(());
                }
                Ok(_) => {}
                Err(broken) => last = broken,
            }
        }
        Err(last)
    }

    async fn ask(&self, node: &Node) -> Result<Vec<Range>, Broken> {
        let mut access = self.fleet.access();
        access.timeout /= 4; // Others may know too.
        let asked = async {
            let mut connection = Connection::open(node, &access).await?;
            connection.ask(&[b"CLUSTER", b"SLOTS"]).await
        };
        let patience = access.timeout * 2;
        let reply = timeout(patience, asked).await.unwrap_or(Err(Broken::Slow(patience)))?;
        let Reply::Array(ranges) = reply else { return Ok(Vec::new()) };
        Ok(ranges.iter().filter_map(range).collect())
    }

    /// Believes what a node has told.
    fn update(self: &Arc<Cluster>, teller: &Node, ranges: Vec<Range>, now: Time) {
        let mut retired = self.fleet.retired();
        let mut map = self.map();
        let mut slots = vec![None; usize::from(SLOTS)];
        for (first, last, host, port) in ranges {
            let node = Node { host: host.unwrap_or_else(|| teller.host.clone()), port };
            let Some(shard) = self.shard_at(&mut map, node) else { continue };
            for slot in slots.iter_mut().take(usize::from(last) + 1).skip(usize::from(first)) {
                *slot = Some(Arc::clone(&shard));
            }
        }
        for known in map.members.values_mut() {
            let keeps = |slot: &Option<Arc<Shard>>| {
                slot.as_ref().is_some_and(|shard| Arc::ptr_eq(shard, &known.member.shard))
            };
            known.slotless_since = match known.slotless_since {
                _ if slots.iter().any(keeps) => None,
                None => Some(now),
                since => since,
            };
        }
        let is_needed =
            |known: &Known| known.slotless_since.is_none_or(|since| now.since(since) < SLOTLESS_MAX);
        for (_, known) in map.members.extract_if(|_, known| !is_needed(known)) {
            retired.add(known.member.shard.stats(now));
        }
        map.slots = slots;
        map.is_known = true;
    }

    /// Sends an ask to the node that another has named. While nodes do not agree they may send it to and fro: then it waits a little, and
    /// goes by what is known by then.
    fn take_over(self: &Arc<Cluster>, from: &Shard, mut moved: Moved, now: Time) {
        moved.ticket.moves = moved.ticket.moves.saturating_add(1);
        if moved.ticket.moves > MOVES_MAX {
            self.fleet.murmur(&from.name, "MOVED too often: the nodes of the cluster do not agree");
            if let Some(debt) = moved.ticket.debt(moved.question, now) {
                from.owe(debt, now);
            }
            moved.ticket.deliver(Err(Failure::Refused));
            return;
        }
        match self.follow(from, &moved) {
            Some(shard) if moved.ticket.moves <= MOVES_AT_ONCE => {
                moved.ticket.is_asking = moved.redirect.as_ref().is_some_and(|redirect| redirect.is_once);
                shard.take_over(moved.question, moved.ticket, now);
            }
            _ => drop(tokio::spawn(later(Arc::downgrade(self), moved))),
        }
    }

    /// The shard that a node has named, which the map says from now on too, unless it was named for once.
    fn follow(self: &Arc<Cluster>, from: &Shard, moved: &Moved) -> Option<Arc<Shard>> {
        let Some(redirect) = &moved.redirect else {
            self.look.notify_one();
            return None;
        };
        let host = redirect.host.clone().or_else(|| from.node.as_ref().map(|node| node.host.clone()))?;
        let mut map = self.map();
        let shard = self.shard_at(&mut map, Node { host, port: redirect.port })?;
        if !redirect.is_once {
            if let Some(slot) = map.slots.get_mut(usize::from(redirect.slot)) {
                *slot = Some(Arc::clone(&shard));
            }
            self.look.notify_one();
        }
        Some(shard)
    }
}

/// Asks again after a little while, if somebody still waits.
async fn later(cluster: Weak<Cluster>, mut moved: Moved) {
    sleep(MOVE_PAUSE).await;
    let Some(cluster) = cluster.upgrade().filter(|_| moved.ticket.is_wanted()) else { return };
    moved.ticket.is_asking = false;
    match cluster.shard_of(moved.question.key) {
        Some(shard) => shard.take_over(moved.question, moved.ticket, cluster.fleet.clock.steady()),
        None => drop(moved.ticket.deliver(Err(Failure::Unreachable))),
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(PoisonError::into_inner) {
            task.abort();
        }
    }
}

impl Mover {
    /// Sends an ask on.
    pub(crate) fn take_over(&self, from: &Shard, moved: Moved, now: Time) {
        match self.0.upgrade() {
            Some(cluster) => cluster.take_over(from, moved, now),
            None => drop(moved.ticket.deliver(Err(Failure::Unreachable))),
        }
    }

    /// Who keeps a key, as far as that is known.
    pub(crate) fn keeper(&self, key: SharedKey) -> Option<Arc<Shard>> {
        self.0.upgrade().and_then(|cluster| cluster.shard_of(key))
    }

    /// Something is wrong: the map may have changed.
    pub(crate) fn look_again(&self) {
        if let Some(cluster) = self.0.upgrade() {
            cluster.look.notify_one();
        }
    }
}

/// Keeps the map of a Cluster for as long as somebody uses it.
async fn keep_map(cluster: Weak<Cluster>, look: Arc<Notify>) {
    loop {
        match cluster.upgrade() {
            None => return,
            Some(cluster) => {
                if let Err(broken) = cluster.learn().await {
                    cluster.fleet.murmur_broken("cluster: nobody tells which node keeps what", &broken);
                    look.notify_one();
                }
            }
        }
        sleep(jittered(LOOK_PAUSE)).await;
        let _ = timeout(jittered(LOOK_INTERVAL), look.notified()).await; // Either is a reason.
    }
}

/// One element of the reply to CLUSTER SLOTS: first slot, last slot, the master, its replicas.
fn range(reply: &Reply) -> Option<Range> {
    let Reply::Array(items) = reply else { return None };
    let slot = |index: usize| {
        let slot = items.get(index).and_then(Reply::integer)?;
        u16::try_from(slot).ok().filter(|slot| *slot < SLOTS)
    };
    let Reply::Array(master) = items.get(2)? else { return None };
    let host = master.first().and_then(Reply::text).filter(|host| !host.is_empty() && *host != "?");
    let port = u16::try_from(master.get(1).and_then(Reply::integer)?).ok().filter(|port| *port > 0)?;
    Some((slot(0)?, slot(1)?, host.map(str::to_owned), port))
}
