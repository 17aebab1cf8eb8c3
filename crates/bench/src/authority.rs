//! One exact truth for a fleet, and what it costs: the driver on a real Redis, beside one script call per decision.
//!
//! Whoever shares a limit through Redis usually calls a script for every request. Here both do so in one run, on one redis-server,
//! with as many requests under way: a plain script with the published `redis` crate, and the engine with its authority. They take turns,
//! each with its keys to itself, and medians of the rounds count. Redis has one core, whoever asks it the other.

mod baseline;
mod cost;
mod curve;
mod drive;
pub(crate) mod leases;
mod node;
mod ours;
mod plot;
mod report;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Runtime;

use self::baseline::Baseline;
use self::drive::{Decides, Tally, drive};
use self::node::{Node, Spent};
use self::ours::Ours;
use crate::keys::{Draw, KeyStream};
use crate::ledger::load_average;
use crate::timer::Stopwatch;
use crate::wire::Cores;

/// How many requests are under way at once.
const OUTSTANDING: usize = 256;
const KEYS: u64 = 100_000;
/// Keys are drawn beforehand, and begin again after so many.
const DRAWN: usize = 1 << 20;
/// Runs before each turn, so that connections, tables and caches are as they stay.
const WARM_UP: Duration = Duration::from_millis(1_200);

/// How much to run.
#[derive(clap::Args)]
pub(crate) struct RedisArgs {
    /// About half a minute: one short round, and fewer calls
    #[arg(long)]
    quick: bool,
    /// How often everybody has a turn [default: 5, quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// Many keys, and each may have twice what the hottest of them asks for.
    Zipf,
    /// One key for all.
    Hot,
    /// Many keys, each of which has had all that it may have.
    Denied,
}

/// A limit of a token bucket, as both are told it.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    units: u64,
    period_us: u64,
    burst: u64,
}

impl Case {
    const ALL: [Case; 3] = [Case::Zipf, Case::Hot, Case::Denied];

    fn name(self) -> &'static str {
        match self {
            Case::Zipf => "100 K keys, Zipf(1.0), limits at twice the demand",
            Case::Hot => "one hot key",
            Case::Denied => "100 K keys, Zipf(1.0), all over their limit",
        }
    }

    fn keys(self) -> KeyStream {
        match self {
            Case::Zipf | Case::Denied => KeyStream::draw(Draw::Zipf, KEYS, DRAWN, 1),
            Case::Hot => KeyStream::of(std::iter::repeat_n(7, DRAWN)),
        }
    }

    fn bucket(self) -> Bucket {
        match self {
            // The hottest of 100 K keys gets a twelfth of all requests: of some 200,000 a second, 17,000.
            Case::Zipf => Bucket { units: 40_000, period_us: 1_000_000, burst: 40_000 },
            Case::Hot => Bucket { units: 1_000_000, period_us: 1_000_000, burst: 1_000_000 },
            Case::Denied => Bucket { units: 1, period_us: 3_600_000_000, burst: 1 },
        }
    }
}

/// One turn: what those who asked saw, and what it cost Redis.
struct Turn {
    tally: Tally,
    spent: Spent,
}

/// All turns of one who decides.
type Turns = Vec<Turn>;

/// What is run, and how long.
struct Contest<'a> {
    runtime: &'a Runtime,
    node: &'a Node,
    rounds: u32,
    turn: Duration,
    progress: ProgressBar,
}

impl Contest<'_> {
    /// Both have their turns; the first of the pair is the one that calls a script for each decision.
    fn run(&self, case: Case) -> Result<[Turns; 2], Box<dyn Error>> {
        self.progress.set_message(case.name());
        self.node.flush();
        let keys = Arc::new(case.keys());
        let (baseline, ours) = self.runtime.block_on(async {
            let baseline = Baseline::connect(self.node.address(), case.bucket()).await?;
            let ours = Ours::connect(self.node.address(), case.bucket()).await?;
            Ok::<_, Box<dyn Error>>((Arc::new(baseline), Arc::new(ours)))
        })?;
        if case == Case::Denied {
            let each = Arc::new(KeyStream::of(0..KEYS));
            self.runtime.block_on(async {
                drive::once(&baseline, &each).await?;
                drive::once(&ours, &each).await
            })?;
        }
        let mut turns = [Vec::new(), Vec::new()];
        for _ in 0..self.rounds {
            turns[0].push(self.turn(&baseline, &keys)?);
            self.progress.inc(1);
            turns[1].push(self.turn(&ours, &keys)?);
            self.progress.inc(1);
        }
        Ok(turns)
    }

    fn turn<D: Decides>(&self, decider: &Arc<D>, keys: &Arc<KeyStream>) -> Result<Turn, Box<dyn Error>> {
        self.runtime.block_on(drive(decider, keys, WARM_UP))?;
        let before = self.node.begin()?;
        let tally = self.runtime.block_on(drive(decider, keys, self.turn))?;
        Ok(Turn { tally, spent: self.node.spent_since(&before)? })
    }
}

/// Measures everything and prints the tables; the last line is for scripts.
pub(crate) fn run(args: &RedisArgs) -> Result<(), Box<dyn Error>> {
    let whole = Stopwatch::start();
    let load_before = load_average();
    let (rounds, turn_ms) = if args.quick { (1, 2_000) } else { (5, 3_000) };
    let rounds = args.rounds.unwrap_or(rounds);
    let cores = Cores::split()?;
    cores.serve()?;
    let node = Node::start();
    cores.generate()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let steps = Case::ALL.len() as u64 * 2 * u64::from(rounds) + cost::STEPS;
    let progress = progress_bar(steps);
    let contest =
        Contest { runtime: &runtime, node: &node, rounds, turn: Duration::from_millis(turn_ms), progress };

    let results = Case::ALL.map(|case| contest.run(case));
    let [zipf, hot, denied] = results;
    let results = [zipf?, hot?, denied?];
    contest.progress.suspend(|| {
        report::print_heading(args.quick, rounds, &cores, load_before);
        for (case, turns) in Case::ALL.into_iter().zip(&results) {
            report::print_case(case, turns);
        }
    });
    let costs = cost::measure(&node, args.quick, &contest.progress)?;
    contest.progress.finish_and_clear();
    report::print_costs(&costs);
    println!("Took {:.0} s.", whole.elapsed_secs());
    println!("{}", report::ratio_line(&results));
    Ok(())
}

fn progress_bar(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}");
    let progress = ProgressBar::new(steps);
    progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    progress
}
