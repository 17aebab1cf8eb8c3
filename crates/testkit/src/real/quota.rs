//! A durable quota under load: clients that take of it as fast as they are answered, and servers that are killed meanwhile.
//!
//! What clients were told is compared with what the database has counted. It may have counted more, since a process that is killed takes the rest of its
//! block with it, and answers that were on their way; never less.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::process::Signal;
use super::redis::{RedisClient, Reply};
use super::tollgate::Tollgate;
use super::wait::{pause, until};

/// So many clients ask at the same time,
const CLIENTS: u64 = 2;
/// each so many questions before it waits for the answers.
const TOGETHER: u64 = 50;
/// So many batches of denials in a row say that nothing is left.
const EMPTY_MAX: u32 = 10;

/// A quota, and one who is counted by it.
#[derive(Clone, Copy, Debug)]
pub struct DurableQuota {
    /// A policy.
    pub policy: &'static str,
    /// Who is counted.
    pub key: &'static str,
    /// The units of a window.
    pub units: u64,
}

/// What became of a server that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Killed {
    /// What clients were told that they may have.
    pub admitted: u64,
    /// What the database has counted.
    pub counted: u64,
}

impl Killed {
    /// What is counted and nobody had. Panics if somebody had what is not counted.
    pub fn lost(&self) -> u64 {
        let lost = self.counted.checked_sub(self.admitted);
        lost.unwrap_or_else(|| panic!("{self:?}: more was admitted than was counted"))
    }
}

impl DurableQuota {
    /// So many answers may be on their way to clients when a server is killed.
    pub const UNHEARD_MAX: u64 = CLIENTS * TOGETHER;

    /// How much of it is used, as the database says. To be asked where the server has nothing in hand.
    pub fn used(&self, server: &Tollgate) -> u64 {
        let remaining = until("the database answers", || {
            let reply = server.post("/v1/peek", &json!({ "policy": self.policy, "key": self.key }));
            let body: Value = serde_json::from_str(&reply.body).ok()?;
            // While the database is away, nobody knows.
            body["remaining"].as_u64().filter(|_| reply.status != 503)
        });
        self.units - remaining
    }

    /// Has clients take of it until so many answers have come; then kills the server, and starts it again.
    pub fn kill(&self, server: &mut Tollgate, answers: u64) -> Killed {
        let before = self.used(server);
        let heard = AtomicU64::new(0);
        let admitted = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| self.take(server, &heard))).collect();
            until("enough answers have come", || (heard.load(Ordering::Relaxed) >= answers).then_some(()));
            server.signal(Signal::KILL);
            clients.into_iter().map(|client| client.join().expect("a client")).sum()
        });
        server.restart();
        Killed { admitted, counted: self.used(server) - before }
    }

    /// Has clients take of several servers until nothing is left anywhere. Tells how much they were given.
    pub fn use_up(&self, servers: &[Tollgate]) -> u64 {
        let heard = AtomicU64::new(0);
        thread::scope(|scope| {
            let clients: Vec<_> = servers
                .iter()
                .flat_map(|server| (0..CLIENTS).map(move |_| server))
                .map(|server| scope.spawn(|| self.take(server, &heard)))
                .collect();
            clients.into_iter().map(|client| client.join().expect("a client")).sum()
        })
    }

    /// Takes units one by one until the server is gone, or says again and again that nothing is left. What it was given is counted in `heard` as it comes.
    fn take(&self, server: &Tollgate, heard: &AtomicU64) -> u64 {
        let mut client = RedisClient::connect(server.resp()).expect("a connection");
        let (mut admitted, mut empty) = (0, 0);
        while empty < EMPTY_MAX {
            let before = admitted;
            let Ok(is_used_up) = self.take_together(&mut client, &mut admitted, heard) else { break };
            if is_used_up && admitted == before {
                empty += 1;
                pause(); // A block may be on its way.
            } else {
                empty = 0;
            }
        }
        admitted
    }

    /// One batch of questions, and whether the last was denied because nothing is left. An error if the server is gone.
    fn take_together(
        &self,
        client: &mut RedisClient,
        admitted: &mut u64,
        heard: &AtomicU64,
    ) -> io::Result<bool> {
        for _ in 0..TOGETHER {
            client.send(&[b"TG.CHECK", self.policy.as_bytes(), self.key.as_bytes()])?;
        }
        let mut is_used_up = false;
        for _ in 0..TOGETHER {
            let Reply::Array(answer) = client.receive()? else { panic!("no answer") };
            let units = u64::try_from(answer[0].integer()).expect("0 or 1");
            // Who only could not ask says to try again in a second.
            is_used_up = units == 0 && answer[3].integer() > 1;
            *admitted += units;
            heard.fetch_add(1, Ordering::Relaxed);
        }
        Ok(is_used_up)
    }
}
