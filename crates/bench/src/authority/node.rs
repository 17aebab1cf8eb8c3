//! The redis-server that both ask, and what a load costs it.

use std::error::Error;
use std::net::SocketAddr;

use tollgate_testkit::real::redis::{RedisClient, RedisServer};

use crate::wire::CpuTime;

/// What we ask ourselves, to find out what others did.
const OWN_COMMANDS: [&str; 2] = ["config|resetstat", "info"];

/// A server of our own.
pub(super) struct Node {
    server: RedisServer,
}

/// How it stood before a load.
pub(super) struct Before {
    cpu: CpuTime,
}

/// What a load has cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    pub(super) cpu_ns: f64,
    /// All commands, those that scripts call too.
    pub(super) commands: u64,
    /// The calls of scripts among them.
    pub(super) script_calls: u64,
}

impl Node {
    pub(super) fn start() -> Node {
        Node { server: RedisServer::start() }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub(super) fn client(&self) -> RedisClient {
        self.server.client()
    }

    /// Forgets all keys.
    pub(super) fn flush(&self) {
        self.client().run("FLUSHALL");
    }

    /// The processor time that it has taken so far.
    pub(super) fn cpu(&self) -> Result<CpuTime, Box<dyn Error>> {
        CpuTime::of(self.server.pid())
    }

    /// Begins to count.
    pub(super) fn begin(&self) -> Result<Before, Box<dyn Error>> {
        self.client().run("CONFIG RESETSTAT");
        Ok(Before { cpu: self.cpu()? })
    }

    /// What has come since.
    pub(super) fn spent_since(&self, before: &Before) -> Result<Spent, Box<dyn Error>> {
        let cpu_ns = self.cpu()?.since(before.cpu).total_ns;
        let stats = self.client().run("INFO commandstats").text();
        let calls: Vec<(&str, u64)> = stats.lines().filter_map(calls).collect();
        let others = calls.iter().filter(|(name, _)| !OWN_COMMANDS.contains(name));
        let scripts = calls.iter().filter(|(name, _)| matches!(*name, "eval" | "evalsha"));
        let sum = |(_, calls): &(&str, u64)| *calls;
        Ok(Spent { cpu_ns, commands: others.map(sum).sum(), script_calls: scripts.map(sum).sum() })
    }
}

/// `cmdstat_get:calls=17,usec=...`: the name, and how often it was called.
fn calls(line: &str) -> Option<(&str, u64)> {
    let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    Some((name, rest.split(',').next()?.parse().ok()?))
}
