//! A master, its replica, and three sentinels that agree on which is which.

use super::super::wait::until;
use super::cluster::info;
use super::{RedisLaunch, RedisServer, Reply};

/// Under which name the sentinels know the master.
const MASTER: &str = "mymaster";
/// How long the master may be silent before it is held for lost: short, so that nobody has to wait for a failover.
const DOWN_AFTER_MS: u32 = 500;
const SENTINELS: usize = 3;
/// How many of them have to agree.
const QUORUM: usize = 2;

/// The running servers.
#[derive(Debug)]
pub struct RedisSentinel {
    /// The master at first.
    pub master: RedisServer,
    /// Its replica at first.
    pub replica: RedisServer,
    /// Who watches them.
    pub sentinels: Vec<RedisServer>,
}

impl RedisSentinel {
    /// Starts all of them. They know of each other when this comes back.
    pub fn start() -> RedisSentinel {
        RedisSentinel::of(&RedisLaunch::redis())
    }

    /// The same of servers that are started so.
    pub fn of(launch: &RedisLaunch) -> RedisSentinel {
        let launch = &launch.clone().setting("repl-diskless-sync-delay 0");
        let master = launch.clone().start();
        let place = format!("{} {}", master.host(), master.served_address().port());
        let replica = launch.clone().setting(&format!("replicaof {place}")).start();
        until("the replica is up to date", || {
            info(&mut replica.client(), "replication", "master_link_status:up").then_some(())
        });
        let sentinel = || {
            launch
                .clone()
                .flag("--sentinel")
                .setting(&format!("sentinel monitor {MASTER} {place} {QUORUM}"))
                .setting(&format!("sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}"))
                .setting(&format!("sentinel failover-timeout {MASTER} 3000"))
                .start()
        };
        let sentinels: Vec<RedisServer> = (0..SENTINELS).map(|_| sentinel()).collect();
        for sentinel in &sentinels {
            until("the sentinels know of each other and of the replica", || {
                let Reply::Array(master) = sentinel.client().run(&format!("SENTINEL MASTER {MASTER}")) else {
                    return None;
                };
                let field = |name: &str| {
                    let at = master.iter().position(|field| *field == Reply::Bulk(name.into()))?;
                    master.get(at + 1).map(Reply::text)
                };
                let knows = field("num-other-sentinels").as_deref() == Some("2")
                    && field("num-slaves").as_deref() == Some("1");
                knows.then_some(())
            });
        }
        RedisSentinel { master, replica, sentinels }
    }

    /// The address as Tollgate is told it.
    pub fn address(&self) -> String {
        let nodes: Vec<String> =
            self.sentinels.iter().map(|server| server.served_address().to_string()).collect();
        format!("{}+sentinel://{}/{MASTER}", self.master.scheme(), nodes.join(","))
    }

    /// Lets the sentinels make the replica the master.
    pub fn fail_over(&self) {
        until("a failover begins", || {
            let answer = self.sentinels[0].client().run(&format!("SENTINEL FAILOVER {MASTER}"));
            matches!(answer, Reply::Simple(_)).then_some(())
        });
        self.wait_for_failover();
    }

    /// Waits until they have.
    pub fn wait_for_failover(&self) {
        let port = self.replica.served_address().port().to_string();
        for sentinel in &self.sentinels {
            until("the sentinels name the other one", || {
                let named = sentinel.client().run(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {MASTER}"));
                let Reply::Array(named) = named else { return None };
                named.get(1).is_some_and(|named| named.text() == port).then_some(())
            });
        }
        until("the replica is the master", || {
            info(&mut self.replica.client(), "replication", "role:master").then_some(())
        });
    }
}
