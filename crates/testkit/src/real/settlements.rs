//! Pairs of a reservation and its settlement, at servers that share a count and while faults happen: whether what is
//! charged in the end is what was used.
//!
//! Clients reserve at one server and settle at another. A client that gets no answer to a settlement sends it to the
//! next server, as a careful caller does. Each attempt charges a key of its own, so that its charge can be compared
//! with what its caller was told. Where all charge one key, only the sum can be compared.

mod load;
mod scenes;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use self::load::key;
use super::http::Client;
use super::wait::{holds_within, until};

pub use self::scenes::{fail_over_redis, pause_redis, restart_postgres};

/// What a reservation takes, and what no settlement charges.
const ESTIMATE: u64 = 10;
const COST_END: u64 = 40;
/// More than all pairs use.
const LIMIT: u64 = 100_000_000;
const POLICY: &str = "tokens";
/// How long units that came too late may take until they have been given back.
const RETURN_TIME: Duration = Duration::from_secs(30);

/// Which keys are charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    One,
    OneEach,
}

/// What the caller of an attempt knows in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// 200 for the settlement, or 409 where an earlier answer to it did not arrive.
    Settled,
    /// 202: the settlement is accepted, and not confirmed.
    Pending,
    /// The reservation was denied because the count could not be asked.
    Unavailable,
    /// No answer to the reservation came: its server was killed.
    Unanswered,
}

/// One attempt to reserve and settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Attempts are counted from 0.
    pub number: u64,
    /// What its caller was told.
    pub told: Told,
    /// Units that its caller has used.
    pub used: u64,
    /// How many operations of all clients had been answered when its first and its last were.
    operations: [u64; 2],
}

/// What explains that an attempt is charged with something else than was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The answer to the caller: unavailable, unanswered or pending.
    Told,
    /// The promoted replica did not have it yet.
    Unreplicated,
    /// Nothing does.
    Unexplained,
}

/// An attempt that is charged with something else than was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which one.
    pub attempt: Attempt,
    /// Units that it is charged with.
    pub charged: u64,
    /// Why that can be.
    pub cause: Cause,
}

impl Difference {
    fn units(&self) -> u64 {
        self.charged.abs_diff(self.attempt.used)
    }
}

/// What became of all pairs.
#[derive(Clone, Debug, Default)]
pub struct Settlements {
    /// Pairs whose settlement was accepted.
    pub pairs: u64,
    /// Those of them that were answered 202.
    pub pending: u64,
    /// Reservations that were denied because the count could not be asked.
    pub unavailable: u64,
    /// Reservations to which no answer came.
    pub unanswered: u64,
    /// Units that callers have used.
    pub used: u64,
    /// Units that are charged.
    pub charged: u64,
    /// The attempts that are charged with something else than was used, where each has a key.
    pub differences: Vec<Difference>,
    /// Metrics of all servers that tell of it.
    pub metrics: Vec<(&'static str, u64)>,
}

impl Settlements {
    /// Units of differences that have this cause.
    pub fn units(&self, cause: Cause) -> u64 {
        let has_cause = |difference: &&Difference| difference.cause == cause;
        self.differences.iter().filter(has_cause).map(Difference::units).sum()
    }

    /// Units that are charged and were not used, or were used and are not charged, beyond what has a cause.
    pub fn unexplained(&self) -> u64 {
        if self.differences.is_empty() {
            return self.charged.abs_diff(self.used);
        }
        self.units(Cause::Unexplained)
    }

    /// Adds up what callers were told.
    fn of(attempts: &[Attempt]) -> Settlements {
        let count = |told: Told| attempts.iter().filter(|attempt| attempt.told == told).count() as u64;
        Settlements {
            pairs: count(Told::Settled) + count(Told::Pending),
            pending: count(Told::Pending),
            unavailable: count(Told::Unavailable),
            unanswered: count(Told::Unanswered),
            used: attempts.iter().map(|attempt| attempt.used).sum(),
            ..Settlements::default()
        }
    }

    /// Compares the sum of all with what the one key is charged with, once all has been given back that came too late.
    fn judge_sum(attempts: &[Attempt], server: SocketAddr) -> Settlements {
        let mut settlements = Settlements::of(attempts);
        let mut counter = Counter::at(server);
        holds_within(RETURN_TIME, || {
            settlements.charged = counter.charged(&key(Keys::One, 0));
            settlements.charged == settlements.used
        });
        settlements
    }

    /// Compares each attempt with what its key is charged with.
    fn judge_each(
        attempts: &[Attempt],
        server: SocketAddr,
        cause: impl Fn(&Attempt, u64) -> Cause,
    ) -> Settlements {
        let mut settlements = Settlements::of(attempts);
        let mut counter = Counter::at(server);
        let mut charges: Vec<u64> =
            attempts.iter().map(|attempt| counter.charged(&key(Keys::OneEach, attempt.number))).collect();
        // What came too late is given back in a moment. What stays different is looked at until the time is over.
        holds_within(RETURN_TIME, || {
            for (attempt, charged) in attempts.iter().zip(&mut charges) {
                if *charged != attempt.used {
                    *charged = counter.charged(&key(Keys::OneEach, attempt.number));
                }
            }
            attempts.iter().zip(&charges).all(|(attempt, charged)| {
                *charged == attempt.used || cause(attempt, *charged) != Cause::Unexplained
            })
        });
        settlements.charged = charges.iter().sum();
        let differs = |(attempt, charged): &(&Attempt, u64)| attempt.used != *charged;
        let all = attempts.iter().zip(charges).filter(differs);
        settlements.differences = all
            .map(|(&attempt, charged)| Difference { attempt, charged, cause: cause(&attempt, charged) })
            .collect();
        settlements
    }
}

/// Asks a server what the shared count says.
struct Counter {
    client: Client,
}

impl Counter {
    fn at(server: SocketAddr) -> Counter {
        Counter { client: Client::connect(server).expect("a connection") }
    }

    fn charged(&mut self, key: &str) -> u64 {
        let question = json!({"policy": POLICY, "key": key, "cost": 0}).to_string();
        let remaining = until("the shared count answers", || {
            let reply = self.client.post("/v1/peek", &question);
            let answer: Value = serde_json::from_str(&reply.body).ok()?;
            let is_exact = answer["decisions"][0]["decided_by"] == "authority";
            answer["remaining"].as_u64().filter(|_| reply.status == 200 && is_exact)
        });
        LIMIT - remaining
    }
}
