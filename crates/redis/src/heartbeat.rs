//! How many nodes share the limits: each tells the authority every second that it is there, and learns how many do.
//!
//! What is believed of the answers is the [`Census`]'s to say. One thread of a process tells for all of them, and another when that one ends.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};
use tollgate_core::{Span, Time};
use tollgate_store::lease::{Census, Counted, PRESENT_FOR};

use crate::fleet::Fleet;
use crate::topology::Topology;
use crate::wire::{Commands, Reply};

const INTERVAL: Duration = Duration::from_secs(1);

/// Who was there of late, by Redis's own clock, and for how long somebody was always there.
const SCRIPT: &str = "\
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms - ARGV[2])
redis.call('ZADD', KEYS[1], now_ms, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local since_ms = redis.call('MGET', KEYS[2])[1] or now_ms
redis.call('SET', KEYS[2], string.format('%d', since_ms), 'PX', ARGV[2])
return { redis.call('ZCARD', KEYS[1]), now_ms - since_ms, now_ms }
";

/// A node that has just begun.
pub(crate) fn census() -> Census {
    Census::new(Span::from_ticks(u64::try_from(INTERVAL.as_nanos()).unwrap_or(u64::MAX)))
}

/// Tells for as long as the thread lives, whenever no other thread does.
pub(crate) async fn beat(fleet: Arc<Fleet>, topology: Weak<Topology>) {
    if fleet.settings.nodes.is_some() {
        return;
    }
    let mut turn = None;
    let mut beats = interval(INTERVAL);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (key, since_key) = (fleet.keys.nodes(), fleet.keys.nodes_since());
    let life_ms = (INTERVAL * PRESENT_FOR).as_millis().to_string();
    loop {
        beats.tick().await;
        turn = turn.or_else(|| Turn::take(&fleet));
        if turn.is_none() {
            continue;
        }
        let Some(shard) = topology.upgrade().map(|topology| topology.shard_of_nodes()) else { return };
        let Some(shard) = shard else { continue };
        let mut command = Commands::default();
        let words: [&[u8]; 7] = [
            b"EVAL",
            SCRIPT.as_bytes(),
            b"2",
            key.as_bytes(),
            since_key.as_bytes(),
            fleet.node.as_bytes(),
            life_ms.as_bytes(),
        ];
        command.command(&words);
        let sent_at = fleet.clock.steady();
        let counted = match timeout(INTERVAL, shard.plain(command)).await {
            Ok(Ok(Reply::Error(message))) => {
                fleet.murmur(&shard.name, &message);
                None
            }
            Ok(Ok(reply)) => counted(&reply).map(|(counted, shown)| {
                fleet.clock.note_reference(shown, fleet.clock.steady());
                counted
            }),
            _ => None, // Others see and tell that it is away.
        };
        fleet.counted(sent_at, counted);
    }
}

/// What the script has said, and the time by Redis's clock.
fn counted(reply: &Reply) -> Option<(Counted, Time)> {
    let Reply::Integers(numbers) = reply else { return None };
    let [nodes, kept_for_ms, now_ms] = numbers.as_slice() else { return None };
    // Where the clock was set back, nobody was there for long.
    let kept_for_ms = u64::try_from(*kept_for_ms).unwrap_or(0);
    let kept_for = Span::from_ticks(kept_for_ms.saturating_mul(1_000_000));
    let shown = Time::from_ticks(u64::try_from(*now_ms).ok()?.saturating_mul(1_000_000));
    Some((Counted { nodes: u32::try_from(*nodes).ok()?, kept_for }, shown))
}

/// One thread tells. When it ends, another may.
struct Turn(Arc<Fleet>);

impl Turn {
    /// The turn of this thread, if no other has it.
    fn take(fleet: &Arc<Fleet>) -> Option<Turn> {
        // Relaxed: one of them gets it, whichever.
        let is_taken = fleet.is_beating.swap(true, Ordering::Relaxed);
        (!is_taken).then(|| Turn(Arc::clone(fleet)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.is_beating.store(false, Ordering::Relaxed);
    }
}
