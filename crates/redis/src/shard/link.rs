//! The task that has a shard's connection: makes it, flies with it, and makes another when it breaks.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tollgate_core::{Span, Time};
use tollgate_store::authority::Failure;

use super::air::{Air, Ground};
use super::{Reach, Shard};
use crate::address::Node;
use crate::connection::{Access, Broken, Connection};
use crate::fleet::jittered;
use crate::script::{self, Digests};
use crate::topology::{Mover, Sentinels};
use crate::wire::Reply;

/// How long to wait before the next attempt: at first, and at most. A random part of up to a half is taken off.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(400);
/// A connection that lived so long was a good one: the next is tried for soon. One that is no good says so with its first reply.
const LIFE_MIN: Span = Span::from_ticks(25_000_000);
/// How often silence is looked at.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);
/// After so much silence the others of a Cluster are asked whether the node still keeps its keys.
const SILENCE_SUSPICIOUS: Span = Span::from_ticks(300_000_000);
/// After so much, another connection is tried for. If that one is answered it is not the node that is silent, but the way to it.
const SILENCE_DOUBTFUL: Span = Span::from_ticks(1_000_000_000);
/// For so long both are there: what lies on the old way, and would have to be given back, may still come.
const DOUBT: Duration = Duration::from_secs(1);
/// After so much, the connection is given up in any case. Long, because what comes late can still be given back.
const SILENCE_MAX: Span = Span::from_ticks(30_000_000_000);

/// What is told where a node sends us elsewhere and nobody said that it belongs to others.
const CLUSTER_HINT: &str = "MOVED this is a node of a Cluster: its address begins with redis+cluster://";

/// Where a shard is.
#[derive(Clone)]
pub(crate) enum Place {
    /// Always there.
    Node(Node),
    /// Where the sentinels say.
    Master(Arc<Sentinels>),
}

/// A connection that can be flown with: to which node, and under which names that knows the scripts.
struct Opened {
    node: Node,
    connection: Connection,
    digests: Digests,
}

/// How a connection's life has ended.
struct End {
    broken: Broken,
    /// How long it was.
    life: Span,
    /// The connection that takes its place, if there is one already.
    next: Option<Opened>,
}

/// What a task needs besides its shard.
pub(crate) struct Link {
    pub(crate) shard: Arc<Shard>,
    pub(crate) place: Place,
    pub(crate) access: Access,
    /// Who takes over what has moved, where keys move.
    pub(crate) mover: Option<Mover>,
}

impl Place {
    /// Under which name the shard there is known.
    pub(crate) fn name(&self) -> String {
        match self {
            Place::Node(node) => node.to_string(),
            Place::Master(sentinels) => sentinels.master.clone(),
        }
    }
}

impl Link {
    /// Never ends by itself.
    pub(crate) async fn run(self) {
        let (mut pause, mut next) = (PAUSE_MIN, None);
        loop {
            let opened = match next.take() {
                Some(opened) => Ok(opened),
                None => self.open().await,
            };
            let end = match opened {
                Ok(opened) => self.live(opened).await,
                Err(broken) => End { broken, life: Span::ZERO, next: None },
            };
            self.come_down(&end.broken);
            self.settle();
            if end.life >= LIFE_MIN {
                pause = PAUSE_MIN;
            }
            next = end.next;
            if next.is_none() {
                sleep(jittered(pause)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// One connection's life.
    async fn live(&self, opened: Opened) -> End {
        let Opened { node, mut connection, digests } = opened;
        let opened = self.shard.fleet.clock.steady();
        tracing::info!(shard = self.shard.name, %node, "connected to Redis");
        self.come_up();
        let mut air = Air::new(digests);
        let flown = poll_fn(|cx| self.poll_fly(cx, &mut connection, &mut air));
        let (broken, next) = tokio::select! {
            broken = flown => (broken, None),
            broken = self.watch() => (broken, None),
            (broken, opened) = self.renewed() => (broken, Some(opened)),
            () = self.replaced(&node) => (Broken::Replaced, None),
        };
        let now = self.shard.fleet.clock.steady();
        let mut state = self.shard.state();
        air.crash(&mut Ground { shard: &self.shard.name, fleet: &self.shard.fleet, state: &mut state, now });
        End { broken, life: now.since(opened), next }
    }

    /// Connects, and sees to it that the scripts are known.
    async fn open(&self) -> Result<Opened, Broken> {
        let opened = async {
            let (node, mut connection) = match &self.place {
                Place::Node(node) => (node.clone(), Connection::open(node, &self.access).await?),
                Place::Master(sentinels) => sentinels.connect(&self.access).await?,
            };
            let digests = load_scripts(&mut connection).await?;
            Ok(Opened { node, connection, digests })
        };
        // Twice: there may be sentinels to be asked first.
        let patience = self.access.timeout * 2;
        timeout(patience, opened).await.unwrap_or(Err(Broken::Slow(patience)))
    }

    /// There is a connection, and it was answered on.
    fn come_up(&self) {
        let mut state = self.shard.state();
        state.reach = Reach::Up;
        state.breaker.hurry(self.shard.fleet.clock.steady());
    }

    /// There is no connection any more: nobody waits for one.
    fn come_down(&self, broken: &Broken) {
        self.shard.fleet.murmur_broken(&self.shard.name, broken);
        let now = self.shard.fleet.clock.steady();
        let mut state = self.shard.state();
        state.tally.breaks += 1;
        state.reach = Reach::Down;
        state.is_full = false;
        state.silent_since = None;
        state.plain.clear();
        for (question, ticket) in state.queue.withdraw() {
            state.put_off(question, ticket, Failure::Unreachable, now);
        }
        drop(state);
        if let Some(mover) = &self.mover {
            mover.look_again();
        }
    }

    /// Reads, answers, takes off and writes, until there is nothing more to do now. Ready only when the connection is of no use.
    fn poll_fly(&self, cx: &mut Context<'_>, connection: &mut Connection, air: &mut Air) -> Poll<Broken> {
        loop {
            let has_read = match connection.poll_read(cx) {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(broken)) => return Poll::Ready(broken),
                Poll::Pending => false,
            };
            if let Err(broken) = self.exchange(cx, connection, air, has_read) {
                return Poll::Ready(broken);
            }
            if let Poll::Ready(Err(broken)) = connection.poll_write(cx) {
                return Poll::Ready(broken);
            }
            if !has_read {
                return Poll::Pending;
            }
        }
    }

    /// Answers what has come, and writes down what may leave.
    fn exchange(
        &self,
        cx: &Context<'_>,
        connection: &mut Connection,
        air: &mut Air,
        has_read: bool,
    ) -> Result<(), Broken> {
        let mut state = self.shard.state();
        if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        if !has_read && air.is_idle(&state) {
            return Ok(());
        }
        let fleet = &*self.shard.fleet;
        let now = fleet.clock.steady();
        let mut ground = Ground { shard: &self.shard.name, fleet, state: &mut state, now };
        let landed = if has_read { land_all(connection, air, &mut ground) } else { Ok(()) };
        if landed.is_ok() {
            air.take_off(&mut ground, &mut connection.outgoing);
        }
        drop(state);
        for moved in air.moved.drain(..) {
            if let Some(mover) = &self.mover {
                mover.take_over(&self.shard, moved, now);
            } else {
                self.shard.fleet.murmur(&self.shard.name, CLUSTER_HINT);
                moved.ticket.deliver(Err(Failure::Refused));
            }
        }
        landed
    }

    /// Tells what is owed to whoever keeps its key now, when it is time.
    fn settle(&self) {
        let now = self.shard.fleet.clock.steady();
        let due = self.shard.state().debts.take_due(now);
        for debt in due {
            let keeper = self.mover.as_ref().and_then(|mover| mover.keeper(debt.question.key));
            keeper.as_ref().unwrap_or(&self.shard).tell(debt, now);
        }
    }

    /// Looks whether replies still come. Where they do not, somebody else may know more.
    async fn watch(&self) -> Broken {
        let mut looks = interval(WATCH_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.settle();
            let silence = self.silence();
            if silence >= SILENCE_MAX {
                return stalled(silence);
            }
            if silence >= SILENCE_SUSPICIOUS
                && let Some(mover) = &self.mover
            {
                mover.look_again();
            }
        }
    }

    /// Waits until another connection is answered while this one is not. A node that stands still answers neither, and what it has been
    /// asked is done and given back when it goes on: that is worth waiting for. What is lost on the way is not.
    async fn renewed(&self) -> (Broken, Opened) {
        loop {
            sleep(WATCH_INTERVAL).await;
            let before = self.silent_since();
            if self.silence() < SILENCE_DOUBTFUL {
                continue;
            }
            let Ok(opened) = self.open().await else {
                sleep(jittered(PAUSE_MAX)).await;
                continue;
            };
            // A node that has just gone on answers here too, and on a way that is only slow, what was asked earlier comes earlier.
            sleep(DOUBT).await;
            if before.is_some() && self.silent_since() == before {
                return (stalled(self.silence()), opened);
            }
        }
    }

    /// Since when nothing has come back of what is in the air.
    fn silent_since(&self) -> Option<Time> {
        self.shard.state().silent_since
    }

    /// For how long.
    fn silence(&self) -> Span {
        let now = self.shard.fleet.clock.steady();
        self.silent_since().map_or(Span::ZERO, |since| now.since(since))
    }

    /// Waits until another node has the shard's keys.
    async fn replaced(&self, node: &Node) {
        match &self.place {
            Place::Node(_) => pending().await,
            Place::Master(sentinels) => sentinels.replaced(node).await,
        }
    }
}

fn stalled(silence: Span) -> Broken {
    Broken::Stalled(Duration::from_nanos(silence.ticks()))
}

/// Takes everything to where it belongs that has come, also what follows an error.
fn land_all(connection: &mut Connection, air: &mut Air, ground: &mut Ground<'_>) -> Result<(), Broken> {
    let mut landed = Ok(());
    while let Some(reply) = connection.replies().next()? {
        match air.land(reply, ground) {
            Ok(integers) => connection.replies().recycle(integers),
            Err(broken) => landed = Err(broken),
        }
    }
    landed
}

/// Gives Redis all scripts, and learns their names.
async fn load_scripts(connection: &mut Connection) -> Result<Digests, Broken> {
    for script in script::all() {
        connection.outgoing.command(&[b"SCRIPT", b"LOAD", script.text.as_bytes()]);
    }
    connection.send().await?;
    let mut digests = Digests::default();
    for script in script::all() {
        match connection.receive().await? {
            Reply::Text(digest) => digests.add(script, digest),
            Reply::Error(message) => return Err(Broken::Refused(message)),
            _ => return Err(Broken::Unasked),
        }
    }
    Ok(digests)
}
