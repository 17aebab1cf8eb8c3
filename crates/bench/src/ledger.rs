//! The ledger beside its peers: time per decision, and memory per key.
//!
//! Figures of different runs on a shared machine cannot be compared, so all contenders run in one process and take
//! turns: each round runs every one of them once, in an order that rotates, on the same stream of keys, and the
//! median of the rounds is reported. Memory is measured in child processes, one per contender, so that nobody
//! inherits what another's allocator kept.

mod memory;
mod raw;
mod report;
mod rounds;

use std::error::Error;
use std::fs;

use indicatif::{ProgressBar, ProgressStyle};

pub(crate) use self::memory::MemoryArgs;
pub(crate) use self::memory::run as run_memory;
pub(crate) use self::rounds::median;
use self::rounds::{Stage, Workload};
use crate::contender::Kind;
use crate::keys::Draw;
use crate::timer::Stopwatch;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct LedgerArgs {
    /// Less than a minute in all: a tenth of the keys, more but shorter rounds
    #[arg(long)]
    quick: bool,
    /// How often every contender runs each workload [default: 5, quick: 7]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Keys of the large workloads, such as 500K or 10M [default: 10M, quick: 1M]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    keys: Option<u64>,
}

/// How much is run.
struct Effort {
    keys: u64,
    rounds: u32,
    /// Decisions per thread and turn.
    decisions: usize,
}

impl LedgerArgs {
    fn effort(&self) -> Effort {
        let (keys, rounds, decisions) =
            if self.quick { (1_000_000, 7, 250_000) } else { (10_000_000, 5, 1_000_000) };
        Effort { keys: self.keys.unwrap_or(keys), rounds: self.rounds.unwrap_or(rounds), decisions }
    }
}

/// Measures everything and prints the tables; the last line is for scripts.
pub(crate) fn run(args: &LedgerArgs) -> Result<(), Box<dyn Error>> {
    let whole = Stopwatch::start();
    let load_before = load_average();
    let effort = args.effort();
    let stages = stages(effort.keys);
    let progress = progress_bar(&effort, &stages);

    let memory = memory::measure(effort.keys, &progress)?;
    let mut measured = Vec::new();
    for stage in &stages {
        measured.extend(rounds::measure(stage, &effort, &progress)?);
    }
    progress.set_message("raw memory");
    let raw = raw::measure(args.quick)?;
    progress.finish_and_clear();

    report::print_heading(args.quick, &effort, load_before);
    report::print_timings(&measured, &memory);
    report::print_ratios(&measured, &memory);
    report::print_raw(&raw);
    println!("\nTook {:.0} s.", whole.elapsed_secs());
    println!("{}", report::ratio_line(&measured, &memory)?);
    Ok(())
}

/// The workloads, grouped by the tables they run on.
fn stages(keys: u64) -> Vec<Stage> {
    vec![
        Stage { keys: 1, workloads: vec![Workload { name: "hot key".to_owned(), draw: Draw::Uniform }] },
        Stage {
            keys: 100_000,
            workloads: vec![Workload { name: "100K uniform".to_owned(), draw: Draw::Uniform }],
        },
        Stage {
            keys,
            workloads: vec![
                Workload { name: format!("{} uniform", count(keys)), draw: Draw::Uniform },
                Workload { name: format!("{} Zipf", count(keys)), draw: Draw::Zipf },
            ],
        },
    ]
}

fn progress_bar(effort: &Effort, stages: &[Stage]) -> ProgressBar {
    let turns: usize = stages.iter().map(|stage| stage.workloads.len()).sum::<usize>()
        * rounds::THREADS.len()
        * Kind::ALL.len()
        * effort.rounds as usize;
    let steps = turns + stages.len() * Kind::ALL.len() + memory::MEASURED.len();
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}");
    let progress = ProgressBar::new(steps as u64);
    progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    progress
}

/// How many threads wanted to run during the last minute, where the system says so.
pub(crate) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// A count with an optional K or M behind it.
fn parse_count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix(['M', 'm']).map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let count = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit));
    match count {
        Some(count @ 1..=100_000_000) => Ok(count),
        _ => Err("expected a count from 1 to 100M, such as 500K or 10M".to_owned()),
    }
}

/// A count as people write it.
fn count(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}K", number / 1_000),
        _ => format!("{}M", number / 1_000_000),
    }
}
