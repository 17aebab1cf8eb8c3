//! The faults, each on real servers of its own.

use std::error::Error;
use std::thread;
use std::time::Duration;

use tollgate_testkit::real::redis::{RedisCluster, RedisSentinel, RedisServer};
use tollgate_testkit::real::{Detour, until};

use super::load::{Load, Seen};

/// How long faults last that could last for ever.
const LASTING: Duration = Duration::from_secs(2);
/// One answer of so many is lost, and its connection with it.
const LOST_ONE_OF: u64 = 100;
/// Scripts are forgotten so often while they are.
const FLUSHES: u32 = 20;
/// Keeps Redis busy with a script for five seconds, in which it does nothing else.
const BUSY_SCRIPT: &str = "local began = redis.call('TIME')[1] \
    repeat until redis.call('TIME')[1] - began >= 5 return 1";
const USER: &str = "tollgate";
const PASSWORD: &str = "benchmark";

/// One fault.
pub(super) struct Scene {
    pub(super) name: &'static str,
    pub(super) is_quick: bool,
    pub(super) play: fn() -> Result<Seen, Box<dyn Error>>,
}

const fn scene(name: &'static str, is_quick: bool, play: fn() -> Result<Seen, Box<dyn Error>>) -> Scene {
    Scene { name, is_quick, play }
}

/// All of them.
pub(super) const SCENES: &[Scene] = &[
    scene("none", true, none),
    scene("killed, and started again", true, killed),
    scene("frozen (SIGSTOP)", true, frozen),
    scene("answers 2 ms late", false, || late(Duration::from_millis(2))),
    scene("answers 50 ms late", true, || late(Duration::from_millis(50))),
    scene("1 % of answers lost by resets", false, resets),
    scene("one of three cluster shards lost", false, shard_lost),
    scene("failover by Sentinel", false, sentinel_failover),
    scene("failover by Cluster", false, cluster_failover),
    scene("SCRIPT FLUSH, 20 times", true, script_flush),
    scene("a foreign script for 5 s", false, foreign_script),
    scene("maxmemory reached, noeviction", false, maxmemory),
    scene("READONLY after demotion", true, readonly),
    scene("ACL revoked", false, acl_revoked),
];

fn url(server: &RedisServer) -> String {
    format!("redis://{}", server.address())
}

/// A server to which something is done by commands, and undone after a while.
fn by_commands(
    address: impl Fn(&RedisServer) -> String,
    worse: &str,
    better: &str,
) -> Result<Seen, Box<dyn Error>> {
    let server = RedisServer::start();
    let mut client = server.client();
    client.run(&format!("ACL SETUSER {USER} on >{PASSWORD} ~* &* +@all"));
    let mut load = Load::start(&address(&server))?;
    load.begin();
    client.run(worse);
    thread::sleep(LASTING);
    client.run(better);
    load.end();
    load.finish()
}

fn none() -> Result<Seen, Box<dyn Error>> {
    by_commands(url, "PING", "PING")
}

fn killed() -> Result<Seen, Box<dyn Error>> {
    let mut server = RedisServer::start();
    let mut load = Load::start(&url(&server))?;
    load.begin();
    server.kill();
    thread::sleep(LASTING);
    server.restart();
    load.end();
    load.finish()
}

fn frozen() -> Result<Seen, Box<dyn Error>> {
    let server = RedisServer::start();
    let mut load = Load::start(&url(&server))?;
    load.begin();
    server.freeze();
    thread::sleep(LASTING);
    server.thaw();
    load.end();
    load.finish()
}

fn late(delay: Duration) -> Result<Seen, Box<dyn Error>> {
    let server = RedisServer::start();
    let way = Detour::to(server.address());
    let mut load = Load::start(&format!("redis://{}", way.address()))?;
    load.begin();
    way.delay(delay);
    thread::sleep(LASTING);
    way.delay(Duration::ZERO);
    load.end();
    load.finish()
}

fn resets() -> Result<Seen, Box<dyn Error>> {
    let server = RedisServer::start();
    let way = Detour::to(server.address());
    let mut load = Load::start(&format!("redis://{}", way.address()))?;
    load.begin();
    way.lose_every(Some(LOST_ONE_OF));
    thread::sleep(2 * LASTING);
    way.lose_every(None);
    load.end();
    load.finish()
}

fn shard_lost() -> Result<Seen, Box<dyn Error>> {
    let mut cluster = RedisCluster::start(3);
    let mut load = Load::start(&cluster.address())?;
    load.begin();
    cluster.masters[0].kill();
    thread::sleep(2 * LASTING);
    cluster.masters[0].restart();
    // Until then it answers nobody: a master that comes back waits for two seconds before it keeps its slots again.
    until("the shard is back", || {
        let info = cluster.masters[0].client().run("CLUSTER INFO").text();
        info.contains("cluster_state:ok").then_some(())
    });
    load.end();
    load.finish()
}

fn sentinel_failover() -> Result<Seen, Box<dyn Error>> {
    let mut servers = RedisSentinel::start();
    let mut load = Load::start(&servers.address())?;
    load.begin();
    servers.master.kill();
    servers.wait_for_failover();
    load.end();
    load.finish()
}

fn cluster_failover() -> Result<Seen, Box<dyn Error>> {
    let mut cluster = RedisCluster::with_replicas(3);
    let mut load = Load::start(&cluster.address())?;
    load.begin();
    cluster.masters[0].kill();
    cluster.wait_for_failover(0);
    load.end();
    load.finish()
}

fn script_flush() -> Result<Seen, Box<dyn Error>> {
    let server = RedisServer::start();
    let mut load = Load::start(&url(&server))?;
    let mut client = server.client();
    load.begin();
    for _ in 0..FLUSHES {
        client.run("SCRIPT FLUSH");
        thread::sleep(LASTING / FLUSHES);
    }
    load.end();
    load.finish()
}

fn foreign_script() -> Result<Seen, Box<dyn Error>> {
    let server = RedisServer::start();
    let mut load = Load::start(&url(&server))?;
    let mut client = server.client();
    load.begin();
    client.command(&[b"EVAL", BUSY_SCRIPT.as_bytes(), b"0"]);
    load.end();
    load.finish()
}

fn maxmemory() -> Result<Seen, Box<dyn Error>> {
    by_commands(url, "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0")
}

fn readonly() -> Result<Seen, Box<dyn Error>> {
    let master = RedisServer::start();
    let follow = format!("REPLICAOF {} {}", master.host(), master.port());
    by_commands(url, &follow, "REPLICAOF NO ONE")
}

fn acl_revoked() -> Result<Seen, Box<dyn Error>> {
    let url = |server: &RedisServer| format!("redis://{USER}:{PASSWORD}@{}", server.address());
    by_commands(url, &format!("ACL SETUSER {USER} -@all"), &format!("ACL SETUSER {USER} +@all"))
}
