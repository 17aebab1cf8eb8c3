//! Clients that ask one server after a plan, and write down what they were told.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tollgate_load::Random;
use tollgate_testkit::real::Client;

use super::{PERIOD_S, UNITS, policies};
use crate::timer::Stopwatch;

/// Requests cost one unit to so many, each as often as the others.
const COST_MAX: u64 = 3;
const COST_MEAN: f64 = 2.0;
/// The least and the most that a key asks for, as parts of its limit.
const DEMAND_MIN: f64 = 0.5;
const DEMAND_MAX: f64 = 3.0;

/// Who asks for how much.
pub(super) struct Plan {
    pub(super) keys: u64,
    pub(super) duration: Duration,
}

/// One request, and what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) key: u64,
    pub(super) cost: u64,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// At this moment, by the clock of Redis.
    Admitted {
        at_us: u64,
    },
    Denied,
    /// Redis did not answer in time, and the rule denied.
    FailMode,
    /// There was no answer, or none that makes sense.
    Unanswered,
}

impl Outcome {
    /// Whether it is one of the same kind.
    pub(super) fn is_like(self, other: Outcome) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl Plan {
    /// What the key asks for, as a part of its limit: spread evenly over the keys, each algorithm has all of it.
    fn demand(&self, key: u64) -> f64 {
        DEMAND_MIN + (DEMAND_MAX - DEMAND_MIN) * key as f64 / (self.keys - 1) as f64
    }

    /// Requests a second, all keys together.
    fn rate(&self) -> f64 {
        let mean_demand = f64::midpoint(DEMAND_MIN, DEMAND_MAX);
        self.keys as f64 * mean_demand * UNITS as f64 / PERIOD_S as f64 / COST_MEAN
    }

    /// The key of the next request: each as often as it asks.
    fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let key = random.below(self.keys);
            if random.fraction() * DEMAND_MAX < self.demand(key) {
                return key;
            }
        }
    }
}

/// Asks one server, as one of so many clients.
pub(super) fn ask(plan: &Plan, address: SocketAddr, number: u64, clients: usize) -> io::Result<Vec<Asked>> {
    let mut random = Random::new(number);
    let mut client = Client::connect(address)?;
    let (whole, mut due_ns, mut asked) = (Stopwatch::start(), 0.0, Vec::new());
    let gap_ns = 1e9 * clients as f64 / plan.rate();
    loop {
        due_ns += random.exponential(gap_ns);
        let due = Duration::from_nanos(due_ns as u64);
        if due >= plan.duration {
            return Ok(asked);
        }
        thread::sleep(due.saturating_sub(Duration::from_nanos(whole.elapsed_ns())));
        let (key, cost) = (plan.draw(&mut random), 1 + random.below(COST_MAX));
        let policy = policies()[key as usize % policies().len()].name;
        let body = format!(r#"{{"policy": "{policy}", "key": "{key}", "cost": {cost}}}"#);
        let outcome = if let Ok(reply) = client.send("POST", "/v1/check", &[], &body) {
            outcome(&reply.body)
        } else {
            client = Client::connect(address)?;
            Outcome::Unanswered
        };
        asked.push(Asked { key, cost, outcome });
    }
}

/// What a body says.
fn outcome(body: &str) -> Outcome {
    let Ok(body) = serde_json::from_str::<Value>(body) else { return Outcome::Unanswered };
    let decision = &body["decisions"][0];
    match (decision["decided_by"].as_str(), decision["allowed"].as_bool()) {
        (Some("authority"), Some(true)) => decision["decided_at"]
            .as_f64()
            .map_or(Outcome::Unanswered, |at_s| Outcome::Admitted { at_us: (at_s * 1e6).round() as u64 }),
        (Some("authority"), Some(false)) => Outcome::Denied,
        (Some(_), Some(false)) => Outcome::FailMode,
        _ => Outcome::Unanswered,
    }
}
