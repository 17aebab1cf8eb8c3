//! A Redis Cluster on the loopback: a few masters, and a replica for each where one is wanted.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::super::proxy::Proxy;
use super::super::wait::until;
use super::{RedisClient, RedisLaunch, RedisServer, Reply};

/// How long a node may be silent before the others hold it for lost: short where a replica takes over then, so that nobody has to wait
/// for that; long where none could, because a machine that is busy is silent too, and a node that hears nobody stops to answer.
const NODE_TIMEOUT_MS: u32 = 1_000;
const NODE_TIMEOUT_ALONE_MS: u32 = 5_000;
const SLOTS: usize = 16_384;

/// A running Cluster.
#[derive(Debug)]
pub struct RedisCluster {
    /// The masters at first, each with an equal part of the slots.
    pub masters: Vec<RedisServer>,
    /// The replica of each master, where there are any.
    pub replicas: Vec<RedisServer>,
}

/// One node before it has met the others.
fn start(launch: &RedisLaunch, node_timeout_ms: u32) -> (RedisServer, SocketAddr) {
    let bus = Proxy::free_address();
    let launch = launch
        .clone()
        .setting("cluster-enabled yes")
        .setting("cluster-config-file nodes.conf")
        // What is left of it answers for its own keys.
        .setting("cluster-require-full-coverage no")
        .setting("repl-diskless-sync-delay 0")
        .setting(&format!("cluster-node-timeout {node_timeout_ms}"))
        .setting(&format!("cluster-port {}", bus.port()));
    (launch.start(), bus)
}

impl RedisCluster {
    /// So many masters, without replicas.
    pub fn start(masters: usize) -> RedisCluster {
        RedisCluster::of(&RedisLaunch::redis(), masters, false)
    }

    /// So many masters, each with a replica.
    pub fn with_replicas(masters: usize) -> RedisCluster {
        RedisCluster::of(&RedisLaunch::redis(), masters, true)
    }

    /// A Cluster of servers that are started so. It answers for all slots when this comes back.
    pub fn of(launch: &RedisLaunch, masters: usize, with_replicas: bool) -> RedisCluster {
        let (nodes, timeout_ms) =
            if with_replicas { (2 * masters, NODE_TIMEOUT_MS) } else { (masters, NODE_TIMEOUT_ALONE_MS) };
        let started: Vec<_> = (0..nodes).map(|_| start(launch, timeout_ms)).collect();
        for (number, (server, _)) in started.iter().enumerate() {
            let mut client = server.client();
            // Different from the start, or they would have to agree on it first.
            client.run(&format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1));
            if number < masters {
                let (first, last) = (SLOTS * number / masters, SLOTS * (number + 1) / masters - 1);
                client.run(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
            }
            let (first, bus) = &started[0];
            let port = first.served_address().port();
            client.run(&format!("CLUSTER MEET {} {port} {}", first.host(), bus.port()));
        }
        let mut masters_started: Vec<RedisServer> = started.into_iter().map(|(server, _)| server).collect();
        let replicas = masters_started.split_off(masters);
        let cluster = RedisCluster { masters: masters_started, replicas };
        cluster.wait_until_met(nodes);
        for (master, replica) in cluster.masters.iter().zip(&cluster.replicas) {
            let id = master.client().run("CLUSTER MYID").text();
            until("a replica follows", || {
                matches!(replica.client().run(&format!("CLUSTER REPLICATE {id}")), Reply::Simple(_))
                    .then_some(())
            });
            until("a replica is up to date", || {
                info(&mut replica.client(), "replication", "master_link_status:up").then_some(())
            });
        }
        cluster.wait_until_well();
        cluster
    }

    fn nodes(&self) -> impl Iterator<Item = &RedisServer> {
        self.masters.iter().chain(&self.replicas)
    }

    fn wait_until_met(&self, nodes: usize) {
        for server in self.nodes() {
            let known = format!("cluster_known_nodes:{nodes}");
            until("all nodes know each other", || cluster_info(&mut server.client(), &known).then_some(()));
        }
    }

    /// Every node that lives knows who keeps each slot.
    fn wait_until_well(&self) {
        for server in self.nodes() {
            until("the cluster is well", || {
                cluster_info(&mut server.client(), "cluster_state:ok").then_some(())
            });
        }
    }

    /// Every master knows of the last move. Who takes a slot counts the epochs that it knows of on by one: two masters who do so at once
    /// have the same, and while they settle that, one may take back what it has just given away.
    fn wait_for_one_epoch(&self) {
        until("all masters know the last epoch", || {
            let epochs = |name: &str| -> BTreeSet<String> {
                let line = |server: &RedisServer| {
                    let info = server.client().run("CLUSTER INFO").text();
                    info.lines().find(|line| line.starts_with(name)).map(str::to_owned)
                };
                self.masters.iter().filter_map(line).collect()
            };
            let is_known = epochs("cluster_current_epoch:").len() == 1;
            (is_known && epochs("cluster_my_epoch:").len() == self.masters.len()).then_some(())
        });
    }

    /// The address as Tollgate is told it, with every node at which it could begin.
    pub fn address(&self) -> String {
        let nodes: Vec<String> = self.nodes().map(|server| server.served_address().to_string()).collect();
        format!("{}+cluster://{}", self.masters[0].scheme(), nodes.join(","))
    }

    /// The number of the master that has kept this slot from the start.
    pub fn keeper(&self, slot: u16) -> usize {
        let count = self.masters.len();
        (0..count)
            .find(|number| usize::from(slot) < SLOTS * (number + 1) / count)
            .expect("a slot that exists")
    }

    /// Begins to move a slot: what is no longer at `from` is asked for at `to`.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        self.wait_for_one_epoch();
        let [from_id, to_id] =
            [from, to].map(|number| self.masters[number].client().run("CLUSTER MYID").text());
        let mut client = self.masters[to].client();
        client.run(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}"));
        self.masters[from].client().run(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}"));
    }

    /// Moves every key of a slot whose move has begun.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize) {
        let target = &self.masters[to];
        let mut client = self.masters[from].client();
        loop {
            let Reply::Array(keys) = client.run(&format!("CLUSTER GETKEYSINSLOT {slot} 100")) else { return };
            if keys.is_empty() {
                return;
            }
            for key in keys {
                let (host, port, key) = (target.host(), target.port(), key.text());
                let moved = client.run(&format!("MIGRATE {host} {port} {key} 0 5000"));
                assert!(matches!(moved, Reply::Simple(_)), "{key} does not move: {moved:?}");
            }
        }
    }

    /// Ends a move: everybody knows who keeps the slot now.
    pub fn end_move(&self, slot: u16, to: usize) {
        let id = self.masters[to].client().run("CLUSTER MYID").text();
        let others = self.masters.iter().enumerate().filter(|(number, _)| *number != to);
        for server in [&self.masters[to]].into_iter().chain(others.map(|(_, server)| server)) {
            server.client().run(&format!("CLUSTER SETSLOT {slot} NODE {id}"));
        }
    }

    /// Makes a replica the master, in good order.
    pub fn fail_over(&self, number: usize) {
        let mut client = self.replicas[number].client();
        client.run("CLUSTER FAILOVER");
        until("the replica is the master", || info(&mut client, "replication", "role:master").then_some(()));
    }

    /// Waits until the others have made a replica the master by themselves.
    pub fn wait_for_failover(&self, number: usize) {
        let mut client = self.replicas[number].client();
        until("the replica is the master", || info(&mut client, "replication", "role:master").then_some(()));
    }
}

fn cluster_info(client: &mut RedisClient, line: &str) -> bool {
    client.run("CLUSTER INFO").text().lines().any(|other| other == line)
}

pub(super) fn info(client: &mut RedisClient, section: &str, line: &str) -> bool {
    client.run(&format!("INFO {section}")).text().lines().any(|other| other == line)
}
