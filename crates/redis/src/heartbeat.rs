//! How many nodes share the limits: each tells the authority every second that it is there, and learns how many do.
//!
//! While the authority is away the last number holds. One thread of a process tells for all of them.

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

/// Who was there of late, by Redis's own clock.
const SCRIPT: &str = "\
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms - ARGV[2])
redis.call('ZADD', KEYS[1], now_ms, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])
";

/// Tells for as long as the thread lives. Nothing is done if another thread already does.
pub(crate) async fn beat(fleet: Arc<Fleet>, topology: Weak<Topology>) {
    // Relaxed: one of them gets it, whichever.
    if fleet.settings.nodes.is_some() || fleet.is_beating.swap(true, Ordering::Relaxed) {
        return;
    }
    let _end = End(Arc::clone(&fleet));
    let mut beats = interval(INTERVAL);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let key = fleet.keys.nodes();
    loop {
        beats.tick().await;
        let Some(shard) = topology.upgrade().map(|topology| topology.shard_of_nodes()) else { return };
        let Some(shard) = shard else { continue };
        let mut command = Commands::default();
        let words: [&[u8]; 6] =
            [b"EVAL", SCRIPT.as_bytes(), b"1", key.as_bytes(), fleet.node.as_bytes(), LIFE_MS];
        command.command(&words);
        match timeout(INTERVAL, shard.plain(command)).await {
            Ok(Ok(Reply::Integer(nodes))) => fleet.set_nodes(u32::try_from(nodes).unwrap_or(1)),
            Ok(Ok(Reply::Error(message))) => fleet.murmur(&shard.name, &message),
            _ => {} // Others see and tell that it is away.
        }
    }
}

/// Another thread may tell from now on.
struct End(Arc<Fleet>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.is_beating.store(false, Ordering::Relaxed);
    }
}
