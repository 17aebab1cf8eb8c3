//! What most write who share a limit through Redis: a script, called once for each decision.

use std::error::Error;
use std::net::SocketAddr;

use redis::aio::MultiplexedConnection;

use super::Bucket;
use super::drive::{Answer, Decides};

/// The same algorithm as ours (GCRA, at the same tick), straightforward: one key, one unit, no list.
const SCRIPT: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local new_tat = tat + interval
local retry_after = new_tat - now - interval * burst
if retry_after > 0 then return {0, 0, retry_after} end
redis.call('SET', KEYS[1], string.format('%.0f', new_tat), 'PX', math.ceil((new_tat - now) / 1000))
return {1, math.floor(-retry_after / interval), 0}
";

/// One connection that all requests share, as the crate recommends it.
pub(super) struct Baseline {
    connection: MultiplexedConnection,
    script: redis::Script,
    bucket: Bucket,
}

impl Baseline {
    pub(super) async fn connect(address: SocketAddr, bucket: Bucket) -> Result<Baseline, Box<dyn Error>> {
        let client = redis::Client::open(format!("redis://{address}"))?;
        let connection = client.get_multiplexed_async_connection().await?;
        Ok(Baseline { connection, script: redis::Script::new(SCRIPT), bucket })
    }
}

impl Decides for Baseline {
    async fn decide(&self, key: &str) -> Result<Answer, String> {
        let Bucket { units, period_us, burst } = self.bucket;
        let mut connection = self.connection.clone();
        let mut call = self.script.key(format!("limit:{key}"));
        let answer = call.arg(period_us / units).arg(burst).invoke_async(&mut connection).await;
        let (admitted, _remaining, _retry_after_us): (i64, i64, i64) =
            answer.map_err(|error| error.to_string())?;
        Ok(if admitted == 1 { Answer::Admitted } else { Answer::Denied })
    }
}
