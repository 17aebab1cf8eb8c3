//! Turns and rounds: who runs when, on which keys, for how long.

use std::error::Error;
use std::sync::Barrier;
use std::thread;

use indicatif::ProgressBar;

use super::Effort;
use crate::contender::{self, Contender, Entrant, Kind, Sharing};
use crate::keys::{Draw, KeyStream};
use crate::timer::Stopwatch;

/// The numbers of threads that every workload is run with.
pub(super) const THREADS: [usize; 2] = [1, 2];

/// Workloads that run on the same tables.
pub(super) struct Stage {
    /// How many keys the tables are filled with.
    pub(super) keys: u64,
    /// What is asked of them.
    pub(super) workloads: Vec<Workload>,
}

/// Which keys are asked for.
pub(super) struct Workload {
    /// What the tables call it.
    pub(super) name: String,
    /// How keys are drawn.
    pub(super) draw: Draw,
}

/// The figures of one workload at one number of threads.
pub(super) struct Timing {
    /// The workload's name.
    pub(super) workload: String,
    /// How many threads worked at once.
    pub(super) threads: usize,
    /// Nanoseconds per decision of a thread, the median of all rounds, for each of [`Kind::ALL`].
    pub(super) median_ns: Vec<f64>,
}

impl Timing {
    /// The figure of one contender.
    pub(super) fn of(&self, kind: Kind) -> f64 {
        Kind::ALL.iter().position(|&each| each == kind).map_or(f64::NAN, |at| self.median_ns[at])
    }
}

/// Runs all workloads of a stage with all numbers of threads.
pub(super) fn measure(
    stage: &Stage,
    effort: &Effort,
    progress: &ProgressBar,
) -> Result<Vec<Timing>, Box<dyn Error>> {
    let entrants = contender::lineup(stage.keys, |kind| {
        progress.set_message(format!("filled {}", kind.label()));
        progress.inc(1);
    })?;
    let mut timings = Vec::new();
    for workload in &stage.workloads {
        let mut samples_ns = vec![vec![Vec::new(); Kind::ALL.len()]; THREADS.len()];
        for round in 0..effort.rounds as usize {
            let longest = effort.decisions * THREADS.iter().max().copied().unwrap_or(1);
            let stream = KeyStream::draw(workload.draw, stage.keys, longest, round as u64);
            for (threads, samples_ns) in THREADS.iter().zip(&mut samples_ns) {
                progress.set_message(format!("{}, {threads} threads, round {}", workload.name, round + 1));
                run_round(&entrants, &stream, *threads, round, samples_ns)?;
                progress.inc(entrants.len() as u64);
            }
        }
        for (&threads, samples_ns) in THREADS.iter().zip(samples_ns) {
            let median_ns = samples_ns.into_iter().map(median).collect();
            timings.push(Timing { workload: workload.name.clone(), threads, median_ns });
        }
    }
    Ok(timings)
}

/// Every contender once, beginning with another one each round.
fn run_round(
    entrants: &[Entrant],
    stream: &KeyStream,
    threads: usize,
    round: usize,
    samples_ns: &mut [Vec<f64>],
) -> Result<(), Box<dyn Error>> {
    let parts = THREADS.iter().max().copied().unwrap_or(1);
    for turn in 0..entrants.len() {
        let at = (turn + round) % entrants.len();
        let Entrant { kind, contender } = &entrants[at];
        let pass = run_pass(&**contender, stream, threads, parts);
        if pass.admitted < pass.decisions * 99 / 100 && *kind != Kind::Pingora {
            return Err(format!("{} admitted {} of {}", kind.label(), pass.admitted, pass.decisions).into());
        }
        samples_ns[at].push(pass.ns_per_decision);
    }
    Ok(())
}

struct Pass {
    decisions: u64,
    admitted: u64,
    ns_per_decision: f64,
}

/// One contender on the first `threads` of `parts` parts of the stream, all threads starting together.
fn run_pass(contender: &dyn Contender, stream: &KeyStream, threads: usize, parts: usize) -> Pass {
    let sharing = if threads > 1 { Sharing::Shared } else { Sharing::Alone };
    let start = Barrier::new(threads);
    let work = |part: usize| {
        let segment = stream.part(part, parts);
        start.wait();
        let stopwatch = Stopwatch::start();
        let admitted = contender.take_each(segment, sharing);
        let ns = stopwatch.elapsed_ns() as f64 / segment.len() as f64;
        Pass { decisions: segment.len() as u64, admitted, ns_per_decision: ns }
    };
    let passes: Vec<Pass> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|part| scope.spawn(move || work(part))).collect();
        let own = work(0);
        others.into_iter().filter_map(|other| other.join().ok()).chain([own]).collect()
    });
    Pass {
        decisions: passes.iter().map(|pass| pass.decisions).sum(),
        admitted: passes.iter().map(|pass| pass.admitted).sum(),
        ns_per_decision: passes.iter().map(|pass| pass.ns_per_decision).sum::<f64>() / passes.len() as f64,
    }
}

/// The middle of the samples; of an even number, the mean of the two in the middle.
pub(crate) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    match samples.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => samples[middle],
        _ => f64::midpoint(samples[middle - 1], samples[middle]),
    }
}
