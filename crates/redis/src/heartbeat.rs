//! How many nodes share the limits: each tells the authority every second that it is there, and learns how many do.
//!
//! While the authority is away the last number holds, and it holds on for a while after: an authority that has forgotten everybody counts
//! one at first, and who believed it would spend the whole limit alone. One thread of a process tells for all of them, and another
//! when that one ends.

#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::fleet::Fleet;
use crate::topology::Topology;
use crate::wire::{Commands, Reply};

const INTERVAL: Duration = Duration::from_secs(1);
/// A node that has not told for so long is gone.
const LIFE_MS: &[u8] = b"5000";
/// So many counts in a row, none of them missed, have to be smaller than the one before is given up: by then everybody who is there has told.
const SMALLER_MIN: u32 = 5;

/// Who was there of late, by Redis's own clock.
const SCRIPT: &str = "\
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms - ARGV[2])
redis.call('ZADD', KEYS[1], now_ms, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])
";

/// Tells for as long as the thread lives, whenever no other thread does.
pub(crate) async fn beat(fleet: Arc<Fleet>, topology: Weak<Topology>) {
    if fleet.settings.nodes.is_some() {
        return;
    }
    let (mut turn, mut counts) = (None, Counts::default());
    let mut beats = interval(INTERVAL);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let key = fleet.keys.nodes();
    loop {
        beats.tick().await;
        turn = turn.or_else(|| Turn::take(&fleet));
        if turn.is_none() {
            continue;
        }
        let Some(shard) = topology.upgrade().map(|topology| topology.shard_of_nodes()) else { return };
        let Some(shard) = shard else { continue };
        let mut command = Commands::default();
        let words: [&[u8]; 6] =
            [b"EVAL", SCRIPT.as_bytes(), b"1", key.as_bytes(), fleet.node.as_bytes(), LIFE_MS];
        command.command(&words);
        let counted = match timeout(INTERVAL, shard.plain(command)).await {
            Ok(Ok(Reply::Integer(nodes))) => u32::try_from(nodes).ok(),
            Ok(Ok(Reply::Error(message))) => {
                fleet.murmur(&shard.name, &message);
                None
            }
            _ => None, // Others see and tell that it is away.
        };
        fleet.set_nodes(counts.believed(fleet.nodes(), counted));
    }
}

/// What was counted of late.
#[derive(Debug, Default)]
struct Counts {
    /// How many counts in a row were smaller than what is believed, and the largest of them.
    smaller: u32,
    largest: u32,
}

impl Counts {
    /// How many nodes there are, where so many were believed and now so many are counted, or none could be.
    fn believed(&mut self, nodes: u32, counted: Option<u32>) -> u32 {
        let Some(counted) = counted.filter(|counted| *counted < nodes) else {
            *self = Counts::default();
            return counted.unwrap_or(nodes);
        };
        self.smaller += 1;
        self.largest = self.largest.max(counted);
        if self.smaller < SMALLER_MIN {
            return nodes;
        }
        std::mem::take(self).largest
    }
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
