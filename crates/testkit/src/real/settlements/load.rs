//! Clients that reserve and settle, whatever happens meanwhile.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::http::{Client, Reply};
use super::super::wait::{pause, until_for};
use super::{Attempt, COST_END, ESTIMATE, Keys, POLICY, Told};

const CLIENTS: u64 = 6;
/// How long all pairs may take.
const PATIENCE: Duration = Duration::from_mins(30);

/// The key that an attempt charges.
pub(super) fn key(keys: Keys, attempt: u64) -> String {
    match keys {
        Keys::One => "all".to_owned(),
        Keys::OneEach => format!("attempt-{attempt}"),
    }
}

/// Pairs that clients make at several servers.
pub(super) struct Load {
    servers: Vec<SocketAddr>,
    keys: Keys,
    pairs: u64,
    attempts: AtomicU64,
    begun: AtomicU64,
    done: AtomicU64,
    operations: AtomicU64,
    has_failed: AtomicBool,
}

impl Load {
    pub(super) fn new(servers: Vec<SocketAddr>, keys: Keys, pairs: u64) -> Load {
        let [attempts, begun, done, operations] = [(); 4].map(|()| AtomicU64::new(0));
        Load { servers, keys, pairs, attempts, begun, done, operations, has_failed: AtomicBool::new(false) }
    }

    /// Makes all pairs, and has something else happen meanwhile.
    pub(super) fn run(&self, meanwhile: impl FnOnce()) -> Vec<Attempt> {
        thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| self.client())).collect();
            meanwhile();
            let attempts = clients.into_iter().flat_map(|client| client.join().expect("a client"));
            attempts.collect()
        })
    }

    /// Waits until so many hundredths of the pairs are done.
    pub(super) fn wait_for(&self, percent: u64) {
        let enough = self.pairs * percent / 100;
        until_for(PATIENCE, "enough pairs are done", || {
            (self.done() >= enough || self.has_failed()).then_some(())
        });
    }

    /// How many pairs are done.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Whether all pairs are done, or one has gone wrong.
    pub(super) fn is_over(&self) -> bool {
        self.done() >= self.pairs || self.has_failed()
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// How many operations were answered.
    pub(super) fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    fn client(&self) -> Vec<Attempt> {
        let _alarm = Alarm(&self.has_failed);
        let mut connections = Connections { servers: &self.servers, open: Vec::new() };
        connections.open.resize_with(self.servers.len(), || None);
        let mut attempts = Vec::new();
        while self.begun.fetch_add(1, Ordering::Relaxed) < self.pairs {
            loop {
                let attempt = self.attempt(&mut connections);
                attempts.push(attempt);
                if matches!(attempt.told, Told::Settled | Told::Pending) {
                    break;
                }
                pause();
            }
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        attempts
    }

    fn attempt(&self, connections: &mut Connections<'_>) -> Attempt {
        let number = self.attempts.fetch_add(1, Ordering::Relaxed);
        let servers = self.servers.len() as u64;
        let at = |turn: u64| usize::try_from(turn % servers).expect("few servers");
        let question = json!({"policy": POLICY, "key": key(self.keys, number), "cost": ESTIMATE});
        let reply = connections.post(at(number), "/v1/reserve", &question);
        let first = self.operations.fetch_add(1, Ordering::Relaxed);
        let ended = |told| Attempt { number, told, used: 0, operations: [first, first] };
        let reply = match reply {
            Ok(reply) if reply.status == 200 => reply,
            Ok(reply) => {
                assert_eq!(reply.status, 503, "{}", reply.body);
                return ended(Told::Unavailable);
            }
            Err(_) => return ended(Told::Unanswered),
        };
        let answer: Value = serde_json::from_str(&reply.body).expect("JSON");
        let used = number * 7 % COST_END;
        let settle = json!({"reservation": answer["reservation"], "cost": used});
        let told = settle_somewhere(connections, at(number / servers), &settle);
        let last = self.operations.fetch_add(1, Ordering::Relaxed);
        Attempt { number, told, used, operations: [first, last] }
    }
}

/// Says that a client has panicked: what happens meanwhile would wait for its pairs in vain.
struct Alarm<'l>(&'l AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Settles at a server, or at the next one if that does not answer.
fn settle_somewhere(connections: &mut Connections<'_>, first: usize, settle: &Value) -> Told {
    let mut was_unanswered = false;
    for server in (0..connections.servers.len()).cycle().skip(first) {
        match connections.post(server, "/v1/settle", settle) {
            Ok(reply) => match reply.status {
                200 => return Told::Settled,
                202 => return Told::Pending,
                409 if was_unanswered => return Told::Settled,
                503 => {}
                status => panic!("a settlement was answered {status}: {}", reply.body),
            },
            Err(_) => was_unanswered = true,
        }
        pause();
    }
    unreachable!("servers come again and again")
}

/// A client's connection to each server, made when it is needed.
struct Connections<'l> {
    servers: &'l [SocketAddr],
    open: Vec<Option<Client>>,
}

impl Connections<'_> {
    fn post(&mut self, server: usize, path: &str, body: &Value) -> io::Result<Reply> {
        let mut client = match self.open[server].take() {
            Some(client) => client,
            None => Client::connect(self.servers[server])?,
        };
        let reply = client.send("POST", path, &[], &body.to_string())?;
        self.open[server] = Some(client);
        Ok(reply)
    }
}
