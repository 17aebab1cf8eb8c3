//! Clients that ask for every key as much as it wants, where the traffic goes, and write down what they were told.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tollgate_load::Random;
use tollgate_store::Clock;
use tollgate_testkit::real::Client;

use super::limits::{PERIOD_S, Policy, UNITS};
use crate::timer::Stopwatch;

/// So much of skewed traffic goes to one server.
const SKEW: f64 = 0.9;
/// So long moving traffic stays at one server.
const STAY_S: f64 = 3.0;

/// How traffic is spread over servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    Uniform,
    Skewed,
    Moving,
}

impl Traffic {
    pub(super) const ALL: [Traffic; 3] = [Traffic::Uniform, Traffic::Skewed, Traffic::Moving];

    pub(super) fn name(self) -> &'static str {
        match self {
            Traffic::Uniform => "uniform",
            Traffic::Skewed => "skewed",
            Traffic::Moving => "moving",
        }
    }

    /// Which of so many servers is asked after so many seconds.
    fn server(self, servers: usize, after_s: f64, random: &mut Random) -> usize {
        let any = random.below(servers as u64) as usize;
        match self {
            Traffic::Uniform => any,
            Traffic::Skewed if random.fraction() < SKEW => 0,
            Traffic::Skewed => 1 + any % (servers - 1),
            Traffic::Moving => (after_s / STAY_S) as usize % servers,
        }
    }
}

/// What a key asks for. Every policy has one key of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    Near,
    Above,
    /// About half of the limit, then next to nothing while the count recovers, then all at once.
    Saving,
}

impl Demand {
    pub(super) const ALL: [Demand; 3] = [Demand::Near, Demand::Above, Demand::Saving];
    /// The most that any asks for, as a part of the limit.
    const MAX: f64 = 10.0;
    const CYCLE_S: f64 = 12.0;

    /// What is asked for after so many seconds, as a part of the limit.
    fn at(self, after_s: f64) -> f64 {
        match self {
            Demand::Near => 1.0,
            Demand::Above => 3.0,
            Demand::Saving => match after_s % Demand::CYCLE_S {
                ..6.0 => 0.5,
                // Now and then somebody asks: otherwise what is in hand would be given back.
                ..10.5 => 0.05,
                _ => Demand::MAX,
            },
        }
    }
}

/// Who asks for how much, and where.
pub(super) struct Plan {
    pub(super) traffic: Traffic,
    pub(super) duration: Duration,
    pub(super) servers: Vec<SocketAddr>,
    pub(super) clients: usize,
    pub(super) clock: Clock,
}

/// One request, and what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) policy: Policy,
    pub(super) demand: Demand,
    /// By the clock of the machine, on which Redis runs too.
    pub(super) sent_us: u64,
    pub(super) answered_us: u64,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Leased,
    /// By Redis, at this moment by its clock.
    Decided {
        is_admitted: bool,
        at_us: u64,
    },
    /// Redis did not answer in time, and the rule denied.
    FailMode,
    /// There was no answer, or none that makes sense.
    Unanswered,
}

impl Outcome {
    pub(super) fn is_admitted(self) -> bool {
        matches!(self, Outcome::Leased | Outcome::Decided { is_admitted: true, .. })
    }
}

/// Asks as one of the clients of a plan.
pub(super) fn ask(plan: &Plan, number: u64) -> io::Result<Vec<Asked>> {
    let policies: Vec<Policy> = Policy::all().collect();
    let mut random = Random::new(number);
    let mut clients: Vec<Client> =
        plan.servers.iter().map(|server| Client::connect(*server)).collect::<io::Result<_>>()?;
    let (whole, mut due_s, mut asked) = (Stopwatch::start(), 0.0, Vec::new());
    let keys = policies.len() * Demand::ALL.len();
    // Every key is drawn as often as if it asked for the most, and passed over where it asks for less.
    let rate = (keys as u64 * UNITS / PERIOD_S) as f64 * Demand::MAX;
    let gap_s = plan.clients as f64 / rate;
    loop {
        due_s += random.exponential(gap_s);
        if due_s >= plan.duration.as_secs_f64() {
            return Ok(asked);
        }
        let key = random.below(keys as u64) as usize;
        let (policy, demand) = (policies[key % policies.len()], Demand::ALL[key / policies.len()]);
        // Policies take turns, so that not all ask for the most at once.
        let turn_s = (key % policies.len()) as f64;
        if random.fraction() * Demand::MAX >= demand.at(due_s + turn_s) {
            continue;
        }
        thread::sleep(Duration::from_secs_f64((due_s - whole.elapsed_secs()).max(0.0)));
        let server = plan.traffic.server(plan.servers.len(), due_s, &mut random);
        let key = format!("{}-{demand:?}", plan.traffic.name());
        let body = format!(r#"{{"policy": "{}", "key": "{key}"}}"#, policy.name());
        let now_us = || plan.clock.now().ticks() / 1_000;
        let sent_us = now_us();
        let outcome = if let Ok(reply) = clients[server].send("POST", "/v1/check", &[], &body) {
            outcome(&reply.body)
        } else {
            clients[server] = Client::connect(plan.servers[server])?;
            Outcome::Unanswered
        };
        asked.push(Asked { policy, demand, sent_us, answered_us: now_us(), outcome });
    }
}

/// What a body says.
fn outcome(body: &str) -> Outcome {
    let Ok(body) = serde_json::from_str::<Value>(body) else { return Outcome::Unanswered };
    let decision = &body["decisions"][0];
    match (decision["decided_by"].as_str(), decision["allowed"].as_bool()) {
        (Some("lease"), Some(true)) => Outcome::Leased,
        (Some("authority"), Some(is_admitted)) => {
            decision["decided_at"].as_f64().map_or(Outcome::Unanswered, |at_s| Outcome::Decided {
                is_admitted,
                at_us: (at_s * 1e6).round() as u64,
            })
        }
        (Some("fail_closed"), Some(false)) => Outcome::FailMode,
        _ => Outcome::Unanswered,
    }
}
