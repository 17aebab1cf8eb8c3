//! A run from its first connection to its report.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};

use crate::keys::{Draw, Keys};
use crate::plan::{Extent, Pace, Plan};
use crate::protocol::{http, resp, rls};
use crate::question::{Protocol, Question};
use crate::session::{Session, connect};
use crate::streams::Call;
use crate::tally::Tally;
use crate::turns::Turns;
use crate::{pipeline, streams};

/// The most connections of a run.
pub const CONNECTIONS_MAX: usize = 10_000;
/// The most requests under way on one connection.
pub const IN_FLIGHT_MAX: usize = 100_000;
/// How long answers, and what could not be sent in time, are waited for after the last turn has come due.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How often whoever watches is told.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// What is asked, of whom, and how fast.
#[derive(Clone, Debug)]
pub struct Load {
    /// How the server is spoken to.
    pub protocol: Protocol,
    /// Where it listens: host and port.
    pub address: String,
    /// Sent along with every request, or once on every connection.
    pub token: Option<String>,
    /// What is asked about each key.
    pub question: Question,
    /// Which keys.
    pub keys: Keys,
    /// How fast.
    pub pace: Pace,
    /// How long, without the warm-up.
    pub duration: Duration,
    /// What is asked so long at the beginning does not count.
    pub warmup: Duration,
    /// It ends earlier, after so many requests.
    pub requests_max: u64,
    /// Connections, which are all made before the start.
    pub connections: usize,
    /// Requests under way on a connection. HTTP/1.1 has one.
    pub in_flight: usize,
}

/// What a run has shown.
#[derive(Clone, Debug)]
pub struct Report {
    /// Counts and latencies.
    pub tally: Tally,
    /// How long the part that counts took: up to the last answer, or to the last moment at which one was due, whichever is later.
    pub elapsed: Duration,
}

/// What a run has shown so far.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Since the start, warm-up included.
    pub elapsed: Duration,
    /// Counts and latencies.
    pub tally: &'a Tally,
}

/// Why there is nothing to report.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The address means nothing.
    #[error("\"{address}\" is no address: {source}")]
    Address {
        /// As it was given.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// Nobody listens there.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Where. A name may stand for several addresses: the last that was tried.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The protocol has no words for the question.
    #[error("{kind} cannot be asked over {protocol}")]
    Unspeakable {
        /// What kind of question.
        kind: &'static str,
        /// Over which protocol.
        protocol: Protocol,
    },
    /// A number that no load can have.
    #[error("{0}")]
    Senseless(&'static str),
    /// A text that cannot be sent.
    #[error("cannot be sent: {0}")]
    Unsendable(String),
    /// The server answered, but decided nothing.
    #[error("{0}")]
    Refused(String),
    /// The system has no threads, timers or memory for it.
    #[error("cannot start: {0}")]
    Start(String),
}

/// How requests get onto a connection.
#[derive(Clone)]
enum Carrier {
    Pipeline(Rc<crate::protocol::Wire>),
    Streams(Rc<Call>),
}

/// Runs a load on this thread. `stop` ends it early, with a report of what was seen until then; `watch` is told once a second.
pub fn run(
    load: &Load,
    stop: impl Future<Output = ()>,
    watch: impl FnMut(Progress<'_>),
) -> Result<Report, LoadError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| LoadError::Start(error.to_string()))?;
    let tasks = LocalSet::new();
    let session = tasks.block_on(&runtime, load.run(stop, watch))?;
    drop(tasks); // Whatever still waits for an answer is given up, and counted.
    session.turns.end();
    session.give_up();
    let tally = session.tally.borrow().clone();
    match &tally.first_error {
        Some(error) if tally.decided() == 0 => Err(LoadError::Refused(error.clone())),
        _ => Ok(Report { tally, elapsed: session.elapsed() }),
    }
}

impl Load {
    async fn run(
        &self,
        stop: impl Future<Output = ()>,
        watch: impl FnMut(Progress<'_>),
    ) -> Result<Rc<Session>, LoadError> {
        self.check()?;
        let carrier = self.carrier()?;
        let (address, first) = connect_to_any(&resolve(&self.address)?).await?;
        let session = Rc::new(self.session(address)?);
        let mut connections = vec![first];
        while connections.len() < self.connections {
            connections
                .push(connect(address).await.map_err(|source| LoadError::Connect { address, source })?);
        }
        let mut tasks = JoinSet::new();
        for connection in connections {
            self.spawn(&mut tasks, &session, &carrier, connection);
        }
        conduct(&session, &mut tasks, stop, watch).await?;
        Ok(session)
    }

    fn check(&self) -> Result<(), LoadError> {
        let problem = match (self.pace, self.keys.draw) {
            (Pace::Planned { per_second, .. }, _) if !(per_second.is_finite() && per_second > 0.0) => {
                "a rate is above 0"
            }
            (Pace::Planned { batch, .. }, _) if !(1..=IN_FLIGHT_MAX).contains(&(batch as usize)) => {
                "a batch has 1 to 100000 requests"
            }
            (_, Draw::Zipf(exponent)) if !(exponent.is_finite() && exponent > 0.0) => {
                "the exponent of Zipf's law is above 0"
            }
            _ if !(1..=CONNECTIONS_MAX).contains(&self.connections) => "there are 1 to 10000 connections",
            _ if !(1..=IN_FLIGHT_MAX).contains(&self.in_flight) => "1 to 100000 requests are under way",
            _ if !(1..=crate::keys::KEYS_MAX).contains(&self.keys.count) => "there are 1 to 10^12 keys",
            _ => return Ok(()),
        };
        Err(LoadError::Senseless(problem))
    }

    fn carrier(&self) -> Result<Carrier, LoadError> {
        let unspeakable = || LoadError::Unspeakable { kind: self.question.kind(), protocol: self.protocol };
        let token = self.token.as_deref();
        Ok(match self.protocol {
            Protocol::Rls => {
                let message = rls::message(&self.question).ok_or_else(unspeakable)?;
                let call = Call::new(&self.address, token, message);
                Carrier::Streams(Rc::new(call.map_err(|error| LoadError::Unsendable(error.to_string()))?))
            }
            Protocol::Http => {
                let wire = http::wire(&self.question, &self.address, token);
                Carrier::Pipeline(Rc::new(wire.ok_or_else(unspeakable)?))
            }
            Protocol::Resp => {
                let wire = resp::wire(&self.question, token);
                Carrier::Pipeline(Rc::new(wire.ok_or_else(unspeakable)?))
            }
        })
    }

    /// Requests under way on a connection, and how many are sent at once.
    fn depth(&self) -> (usize, u32) {
        let batch = match self.pace {
            Pace::Planned { batch, .. } => batch,
            // A whole pipeline, as redis-benchmark does it.
            Pace::Max => u32::try_from(self.in_flight).unwrap_or(u32::MAX),
        };
        match self.protocol {
            Protocol::Resp => (self.in_flight.max(batch as usize), batch),
            Protocol::Http => (1, 1),
            Protocol::Rls => (self.in_flight, 1),
        }
    }

    fn session(&self, address: SocketAddr) -> Result<Session, LoadError> {
        let (in_flight, batch) = self.depth();
        let whole = self.warmup + self.duration;
        let turns = match self.pace {
            Pace::Planned { per_second, arrivals, .. } => {
                let extent =
                    Extent { duration: whole, requests_max: self.requests_max, seed: self.keys.seed };
                Turns::open(Plan::new(per_second, arrivals, batch, extent))
            }
            Pace::Max => Turns::closed(nanoseconds(whole), self.requests_max, u64::from(batch)),
        };
        Ok(Session {
            address,
            turns,
            tally: RefCell::new(Tally::new().map_err(|error| LoadError::Start(error.to_string()))?),
            keys: RefCell::new(self.keys.stream()),
            warmup_ns: nanoseconds(self.warmup),
            before_turn_max: in_flight - batch as usize,
            last_answer_ns: Cell::new(0),
            has_decisions: Cell::new(false),
            refusals: Cell::new(0),
        })
    }

    fn spawn(&self, tasks: &mut JoinSet<()>, session: &Rc<Session>, carrier: &Carrier, stream: TcpStream) {
        let session = Rc::clone(session);
        match carrier {
            Carrier::Pipeline(wire) => tasks.spawn_local(pipeline::drive(session, Rc::clone(wire), stream)),
            Carrier::Streams(call) => {
                tasks.spawn_local(streams::drive(session, Rc::clone(call), self.in_flight, stream))
            }
        };
    }
}

/// Lets turns come due, and comes back when all is answered, or nothing more is to be waited for.
async fn conduct(
    session: &Session,
    tasks: &mut JoinSet<()>,
    stop: impl Future<Output = ()>,
    mut watch: impl FnMut(Progress<'_>),
) -> Result<(), LoadError> {
    let play = async {
        let started = session.turns.start().await;
        tokio::time::sleep(DRAIN_TIMEOUT).await;
        started
    };
    let all_answered = async { while tasks.join_next().await.is_some() {} };
    let mut ticks = tokio::time::interval(WATCH_INTERVAL);
    ticks.tick().await; // The first comes at once.
    tokio::pin!(play, all_answered, stop);
    loop {
        tokio::select! {
            biased;
            played = &mut play => return played.map_err(|error| LoadError::Start(error.to_string())),
            () = &mut all_answered => return Ok(()),
            () = &mut stop => {
                session.turns.end();
                // Late is as good as never here.
                let _ = tokio::time::timeout(DRAIN_TIMEOUT, all_answered).await;
                return Ok(());
            }
            _ = ticks.tick() => {
                let elapsed = Duration::from_nanos(session.turns.now_ns());
                watch(Progress { elapsed, tally: &session.tally.borrow() });
            }
        }
    }
}

/// Every address that a name stands for.
fn resolve(address: &str) -> Result<Vec<SocketAddr>, LoadError> {
    let told = |source| LoadError::Address { address: address.to_owned(), source };
    let found: Vec<SocketAddr> = address.to_socket_addrs().map_err(told)?.collect();
    if found.is_empty() {
        return Err(told(io::Error::new(io::ErrorKind::NotFound, "nobody knows it")));
    }
    Ok(found)
}

/// The first address at which somebody listens: `localhost` may be `::1` before it is `127.0.0.1`.
async fn connect_to_any(addresses: &[SocketAddr]) -> Result<(SocketAddr, TcpStream), LoadError> {
    let mut refused = LoadError::Senseless("there is no address to connect to");
    for &address in addresses {
        match connect(address).await {
            Ok(stream) => return Ok((address, stream)),
            Err(source) => refused = LoadError::Connect { address, source },
        }
    }
    Err(refused)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
