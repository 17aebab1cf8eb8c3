//! Everybody in turn: what a decision costs the server in a closed loop, and how long callers wait in an open one.

use std::error::Error;
use std::time::Duration;

use indicatif::ProgressBar;
use tollgate_load::{Arrivals, Load, Pace, Protocol, Question, Report};

use super::Effort;
use super::child::{Child, Peers};
use super::core::CpuTime;
use super::questions::{self, STREAMS};
use crate::ledger::median;

/// Requests a second in the open loop: what all of them can do.
pub(super) const OPEN_PER_SECOND: f64 = 10_000.0;
/// The load of a busy server, in batches.
pub(super) const STEADY_PER_SECOND: f64 = 100_000.0;
pub(super) const STEADY_BATCH: u32 = 16;
pub(super) const STEADY_EVERY_NS: u64 = (1e9 * STEADY_BATCH as f64 / STEADY_PER_SECOND) as u64;
const STEADY_IN_FLIGHT: usize = 256;

/// Who is measured with what. Names are for the tables, and for the ratios.
struct Entrant<'a> {
    group: String,
    name: &'static str,
    child: &'a Child,
    load: Load,
}

/// What was measured of one.
pub(super) struct Figures {
    /// What it is compared with others in.
    pub(super) group: String,
    pub(super) name: &'static str,
    /// Of the server, per decision: the median of the rounds, and its parts.
    pub(super) cpu_us: f64,
    pub(super) user_us: f64,
    pub(super) system_us: f64,
    /// How far the rounds lie apart, as a part of the median.
    pub(super) spread: f64,
    pub(super) per_second: f64,
    /// How much of the time the server was on its core, and the generator on its.
    pub(super) server_busy: f64,
    pub(super) generator_busy: f64,
    pub(super) answer_bytes: f64,
    /// The open loop.
    pub(super) open: Report,
}

/// What a turn of the closed loop showed.
struct Turn {
    cpu: CpuTime,
    decisions: f64,
    elapsed_ns: f64,
    generator_ns: f64,
    answer_bytes: f64,
}

/// All entrants, in the order of the tables.
pub(super) struct Contest<'a> {
    entrants: Vec<Entrant<'a>>,
}

impl<'a> Contest<'a> {
    pub(super) fn new(peers: &'a Peers, effort: &Effort) -> Contest<'a> {
        let mut entrants = Vec::new();
        for &pipeline in effort.pipelines {
            let group = format!("RESP, pipeline {pipeline}");
            let mut enter = |name, child, question| {
                let load = Load { in_flight: pipeline, ..questions::load(child, Protocol::Resp, question) };
                entrants.push(Entrant { group: group.clone(), name, child, load });
            };
            enter("tollgate, CL.THROTTLE", &peers.tollgate, questions::throttle());
            enter("redis-server, INCR", &peers.redis, questions::redis("INCR"));
            enter("redis-server, GET", &peers.redis, questions::redis("GET"));
            if let Some(throttlecrab) = &peers.throttlecrab {
                enter("throttlecrab-server, THROTTLE", throttlecrab, questions::throttlecrab());
            }
            if pipeline == 16 {
                // The same twice: what differs is noise.
                enter("redis-server, INCR again", &peers.redis, questions::redis("INCR"));
            }
        }
        let mut enter = |group: &str, name, child, load| {
            entrants.push(Entrant { group: group.to_owned(), name, child, load });
        };
        let grpc = format!("gRPC, {STREAMS} streams");
        for (name, child) in
            [("tollgate, two descriptors", &peers.tollgate), ("tonic, a constant", &peers.tonic)]
        {
            enter(&grpc, name, child, questions::load(child, Protocol::Rls, questions::descriptors()));
        }
        for (name, child, question) in [
            ("tollgate, a policy", &peers.tollgate, questions::policy()),
            ("tollgate, two descriptors", &peers.tollgate, questions::descriptors()),
            ("hyper, a constant", &peers.hyper, questions::policy()),
        ] {
            enter("HTTP", name, child, questions::load(child, Protocol::Http, question));
        }
        Contest { entrants }
    }

    pub(super) fn steps(&self, effort: &Effort) -> usize {
        self.entrants.len() * (effort.rounds as usize + 1)
    }

    /// Everybody once a round, beginning with another one each time; then everybody in the open loop.
    pub(super) fn run(
        &self,
        effort: &Effort,
        progress: &ProgressBar,
    ) -> Result<Vec<Figures>, Box<dyn Error>> {
        let mut turns: Vec<Vec<Turn>> = self.entrants.iter().map(|_| Vec::new()).collect();
        for round in 0..effort.rounds as usize {
            for turn in 0..self.entrants.len() {
                let at = (turn + round) % self.entrants.len();
                let entrant = &self.entrants[at];
                progress.set_message(format!("{}, {}, round {}", entrant.group, entrant.name, round + 1));
                turns[at].push(entrant.turn(effort.turn, round as u64)?);
                progress.inc(1);
            }
        }
        let mut figures = Vec::new();
        for (entrant, turns) in self.entrants.iter().zip(turns) {
            progress.set_message(format!("{}, {}, open loop", entrant.group, entrant.name));
            figures.push(entrant.figures(&turns, entrant.open(effort.open)?));
            progress.inc(1);
        }
        Ok(figures)
    }
}

impl Entrant<'_> {
    /// As fast as answers come.
    fn turn(&self, duration: Duration, seed: u64) -> Result<Turn, Box<dyn Error>> {
        let mut load = Load { duration, ..self.load.clone() };
        load.keys.seed = seed;
        let us = std::process::id();
        let (before, generator_before) = (CpuTime::of(self.child.pid())?, CpuTime::of(us)?);
        let report = questions::run(&load)?;
        let (after, generator_after) = (CpuTime::of(self.child.pid())?, CpuTime::of(us)?);
        let decisions = report.tally.decided() as f64;
        Ok(Turn {
            cpu: after.since(before),
            decisions,
            elapsed_ns: report.elapsed.as_nanos() as f64,
            generator_ns: generator_after.since(generator_before).total_ns,
            answer_bytes: report.tally.received_bytes as f64 / decisions,
        })
    }

    /// At a planned rate, in batches as large as the pipeline.
    fn open(&self, duration: Duration) -> Result<Report, Box<dyn Error>> {
        let batch = if self.load.protocol == Protocol::Resp { self.load.in_flight as u32 } else { 1 };
        let pace = Pace::Planned { per_second: OPEN_PER_SECOND, arrivals: Arrivals::Poisson, batch };
        let in_flight = self.load.in_flight.max(STREAMS);
        questions::run(&Load { pace, duration, in_flight, ..self.load.clone() })
    }

    fn figures(&self, turns: &[Turn], open: Report) -> Figures {
        let middle = |figure: &dyn Fn(&Turn) -> f64| median(turns.iter().map(figure).collect());
        let cpu_us = |turn: &Turn| turn.cpu.total_ns / turn.decisions / 1e3;
        let median_us = middle(&cpu_us);
        // Ticks are coarse: all rounds together say how much of it is the kernel's.
        let all = turns.iter().fold(CpuTime::default(), |sum, turn| sum.plus(turn.cpu));
        let user_us = median_us * all.user_part();
        let least = turns.iter().map(cpu_us).fold(f64::INFINITY, f64::min);
        let most = turns.iter().map(cpu_us).fold(0.0, f64::max);
        Figures {
            group: self.group.clone(),
            name: self.name,
            user_us,
            system_us: median_us - user_us,
            cpu_us: median_us,
            spread: (most - least) / median_us,
            per_second: middle(&|turn| turn.decisions / turn.elapsed_ns * 1e9),
            server_busy: middle(&|turn| turn.cpu.total_ns / turn.elapsed_ns),
            generator_busy: middle(&|turn| turn.generator_ns / turn.elapsed_ns),
            answer_bytes: middle(&|turn| turn.answer_bytes),
            open,
        }
    }
}

/// What a busy server showed.
pub(super) struct Steady {
    pub(super) name: &'static str,
    pub(super) report: Report,
    /// How much of the time the server was on its core, and the generator on its.
    pub(super) server_busy: f64,
    pub(super) generator_busy: f64,
}

/// A busy server: a hundred thousand decisions a second, in batches.
pub(super) fn steady(
    (name, child, question): (&'static str, &Child, Question),
    duration: Duration,
    progress: &ProgressBar,
) -> Result<Steady, Box<dyn Error>> {
    progress.set_message(format!("100,000 a second: {name}"));
    let pace =
        Pace::Planned { per_second: STEADY_PER_SECOND, arrivals: Arrivals::Uniform, batch: STEADY_BATCH };
    let load = questions::load(child, Protocol::Resp, question);
    let load = Load { pace, duration: duration * 2, in_flight: STEADY_IN_FLIGHT, ..load };
    let processes = [child.pid(), std::process::id()];
    let before = [CpuTime::of(processes[0])?, CpuTime::of(processes[1])?];
    let report = questions::run(&load)?;
    let after = [CpuTime::of(processes[0])?, CpuTime::of(processes[1])?];
    progress.inc(1);
    let elapsed_ns = report.elapsed.as_nanos() as f64;
    let busy = |at: usize| after[at].since(before[at]).total_ns / elapsed_ns;
    Ok(Steady { name, server_busy: busy(0), generator_busy: busy(1), report })
}
