//! Leases beside exact decisions and beside one script call per decision: how often Redis is asked, and how fast decisions are.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use tokio::runtime::Runtime;

use super::baseline::Baseline;
use super::curve::{self, Rates};
use super::drive::{Decides, drive};
use super::node::Node;
use super::ours::Ours;
use super::{Bucket, KEYS, Turn, plot, progress_bar, report};
use crate::keys::{Draw, KeyStream};
use crate::ledger::{load_average, median};
use crate::timer::Stopwatch;
use crate::wire::Cores;

/// Leases live for ten seconds, and only those who are asked for twice have any: it takes a while until all do.
const WARM_UP: Duration = Duration::from_secs(20);
const DRAWN: usize = 1 << 20;
/// The hottest of 100 K keys gets a twelfth of all requests: of a million a second, 83,000. Everybody may have twice as much.
const BUCKET: Bucket = Bucket { units: 170_000, period_us: 1_000_000, burst: 170_000 };

/// How much to run.
#[derive(clap::Args)]
pub(crate) struct LeasesArgs {
    /// Short rounds after a short warm-up, which leases need: the figures say little
    #[arg(long)]
    quick: bool,
    /// Writes the curve of commands per decision to this file, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// Measures everything and prints the table; the last line is for scripts.
pub(crate) fn run(args: &LeasesArgs) -> Result<(), Box<dyn Error>> {
    let whole = Stopwatch::start();
    let load_before = load_average();
    let (rounds, warm_up, turn) = if args.quick {
        (1, WARM_UP / 4, Duration::from_secs(2))
    } else {
        (3, WARM_UP, Duration::from_secs(5))
    };
    let cores = Cores::split()?;
    cores.serve()?;
    let node = Node::start();
    cores.generate()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let progress = progress_bar(3 * rounds + 1 + curve::steps(args.quick));
    let keys = Arc::new(KeyStream::draw(Draw::Zipf, KEYS, DRAWN, 1));
    let contest = Contest { runtime: &runtime, node: &node, keys, warm_up, turn, progress };
    let mut turns = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        node.flush();
        let baseline = runtime.block_on(Baseline::connect(node.address(), BUCKET))?;
        turns[0].push(contest.turn(&Arc::new(baseline), Duration::from_secs(1))?);
        contest.progress.inc(1);
        for (place, is_leased) in [(1, false), (2, true)] {
            node.flush();
            let ours = Arc::new(runtime.block_on(Ours::connect_as(node.address(), BUCKET, is_leased))?);
            let warm_up = if is_leased { contest.warm_up } else { Duration::from_secs(1) };
            let running = runtime.spawn(Arc::clone(&ours).run_errands());
            turns[place].push(contest.turn(&ours, warm_up)?);
            running.abort();
            contest.progress.inc(1);
        }
    }
    let rate = |turns: &[Turn]| report::middle(turns, |turn| turn.tally.rate());
    let capacity = Rates { exact: rate(&turns[1]), leased: rate(&turns[2]) };
    let own = curve::at_full_pace(&contest, &capacity)?;
    let points = curve::measure(&contest, &capacity, args.quick)?;
    contest.progress.finish_and_clear();
    report::print_heading(args.quick, u32::try_from(rounds)?, &cores, load_before);
    let names = ["one EVALSHA per decision, redis crate", "tollgate, exact", "tollgate, leased"];
    report::print_turns(
        "100 K keys, Zipf(1.0), limits at twice the demand of the hottest key",
        &names,
        &turns,
    );
    println!(
        "Leased, each key limited to twice its own demand: {:.0} decisions/s, {:.4} commands per decision\n",
        own.tally.rate(),
        report::commands(&own)
    );
    curve::print(&points);
    if let Some(path) = &args.plot {
        std::fs::write(path, plot::svg(&points))?;
        println!("The curve is in {}.", path.display());
    }
    println!("Took {:.0} s.", whole.elapsed_secs());
    let ratios =
        turns[0].iter().zip(&turns[2]).map(|(baseline, leased)| leased.tally.rate() / baseline.tally.rate());
    println!(
        "ratios: leased_vs_evalsha={:.1} leased_cmds={:.4} leased_cmds_own={:.4}",
        median(ratios.collect()),
        report::middle(&turns[2], report::commands),
        report::commands(&own)
    );
    Ok(())
}

/// What is run, and how long.
pub(super) struct Contest<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) node: &'a Node,
    pub(super) keys: Arc<KeyStream>,
    pub(super) warm_up: Duration,
    pub(super) turn: Duration,
    pub(super) progress: ProgressBar,
}

impl Contest<'_> {
    fn turn<D: Decides>(&self, decider: &Arc<D>, warm_up: Duration) -> Result<Turn, Box<dyn Error>> {
        self.runtime.block_on(drive(decider, &self.keys, warm_up))?;
        let before = self.node.begin()?;
        let tally = self.runtime.block_on(drive(decider, &self.keys, self.turn))?;
        Ok(Turn { tally, spent: self.node.spent_since(&before)? })
    }
}
