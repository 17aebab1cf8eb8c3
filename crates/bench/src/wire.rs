//! The server on the wire: what a decision costs it, and how long callers wait, beside servers that do less.
//!
//! What a request costs a server is mostly what its protocol costs. So each protocol has a peer that does next to nothing behind it:
//! redis-server adds one to a number or looks it up, a bare tonic and a bare hyper server answer the same bytes again and again. All run
//! as processes of their own, one thread for requests each, on one core; the generator has the other. They take turns, and medians of the rounds count.

mod bare;
mod child;
mod contest;
mod core;
mod machine;
mod neighbour;
mod questions;
mod report;
mod server;

use std::error::Error;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use self::child::Peers;
use self::contest::{Contest, Steady};
pub(crate) use self::core::{Cores, CpuTime};
pub(crate) use self::server::{ServerArgs, run as run_server};
use crate::ledger::load_average;
use crate::timer::Stopwatch;

/// Two servers that are kept busy, and nobody.
const STEADY_STEPS: usize = 3;

/// How much to run.
#[derive(clap::Args)]
pub(crate) struct WireArgs {
    /// Under a minute: pipelines of 16 alone, fewer and shorter rounds
    #[arg(long)]
    quick: bool,
    /// How often everybody has a turn [default: 7, quick: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
}

/// How much is run.
#[derive(Clone, Debug)]
struct Effort {
    quick: bool,
    rounds: u32,
    pipelines: &'static [usize],
    /// A turn of the closed loop.
    turn: Duration,
    /// A run of the open loop.
    open: Duration,
}

impl WireArgs {
    fn effort(&self) -> Effort {
        let (rounds, pipelines, turn_ms, open_ms): (_, &[usize], _, _) =
            if self.quick { (3, &[16], 500, 700) } else { (7, &[1, 16, 64], 1_000, 3_000) };
        Effort {
            quick: self.quick,
            rounds: self.rounds.unwrap_or(rounds),
            pipelines,
            turn: Duration::from_millis(turn_ms),
            open: Duration::from_millis(open_ms),
        }
    }
}

/// Measures everything and prints the tables; the last line is for scripts.
pub(crate) fn run(args: &WireArgs) -> Result<(), Box<dyn Error>> {
    let whole = Stopwatch::start();
    let load_before = load_average();
    let effort = args.effort();
    let cores = Cores::split()?;
    let peers = Peers::start(&cores)?;
    cores.generate()?;

    let contest = Contest::new(&peers, &effort);
    let progress = progress_bar(contest.steps(&effort) + neighbour::STEPS + STEADY_STEPS);
    questions::fill(&peers, &progress)?;
    let results = contest.run(&effort, &progress)?;
    let busy = [
        ("tollgate, CL.THROTTLE", &peers.tollgate, questions::throttle()),
        ("redis-server, INCR", &peers.redis, questions::redis("INCR")),
    ];
    let steady: Vec<Steady> =
        busy.into_iter().map(|one| contest::steady(one, effort.open, &progress)).collect::<Result<_, _>>()?;
    let nobody = machine::measure(&cores, effort.open, &progress)?;
    let others = neighbour::measure(&peers.tollgate, effort.open, &progress)?;
    progress.finish_and_clear();

    report::print_heading(&effort, &cores, &peers, load_before);
    report::print_contest(&results, &effort);
    report::print_steady(&steady, &nobody);
    report::print_neighbours(&others);
    report::print_warnings(&results, load_before);
    println!("Took {:.0} s.", whole.elapsed_secs());
    println!("{}", report::ratio_line(&results)?);
    Ok(())
}

fn progress_bar(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}");
    let progress = ProgressBar::new(steps as u64);
    progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    progress
}
