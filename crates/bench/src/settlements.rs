//! Reservations and settlements at three servers, while Redis pauses and fails over, and while PostgreSQL and the
//! servers are killed: whether callers are charged with what they used.

use std::error::Error;

use tollgate_testkit::real::settlements::{
    Cause, Settlements, fail_over_redis, pause_redis, restart_postgres,
};

use crate::table::Table;
use crate::timer::Stopwatch;

/// How many pairs to make.
#[derive(clap::Args)]
pub(crate) struct SettlementsArgs {
    /// Pairs of a reservation and its settlement, in each scene
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pairs: u64,
    /// Only 1,000 pairs in each scene
    #[arg(long)]
    quick: bool,
    /// Only scenes whose name contains this, such as `failover`
    #[arg(long, default_value = "")]
    only: String,
}

const QUICK_PAIRS: u64 = 1_000;
/// What a scene is called, and what plays it with a program and so many pairs.
type Scene = (&'static str, fn(&str, u64) -> Settlements);

const SCENES: [Scene; 3] = [
    ("Redis: a pause of 5 ms every 200 ms", pause_redis),
    ("Redis: SIGKILL of the master, failover", fail_over_redis),
    ("PostgreSQL: restart, SIGKILL; SIGKILL of each server", restart_postgres),
];

/// Plays all scenes; an error if units are charged and not used, or used and not charged, without a cause.
pub(crate) fn run(args: &SettlementsArgs) -> Result<(), Box<dyn Error>> {
    let program = std::env::current_exe()?.display().to_string();
    let pairs = if args.quick { QUICK_PAIRS } else { args.pairs };
    let mut table = Table::new([
        "scene",
        "pairs",
        "202",
        "503",
        "no answer",
        "used",
        "charged",
        "differ: 202, 503 or no answer",
        "differ: not replicated",
        "differ: no cause",
        "s",
    ]);
    let mut all = Settlements::default();
    let mut said = Vec::new();
    let (mut unexplained, mut explained) = (0, 0);
    for (name, play) in SCENES.iter().filter(|scene| scene.0.contains(&args.only)) {
        eprintln!("{name} ...");
        let watch = Stopwatch::start();
        let settlements = play(&program, pairs);
        table.add_row(row(name, &settlements, watch.elapsed_secs()));
        for difference in &settlements.differences {
            eprintln!("{difference:?}");
        }
        let metrics = settlements.metrics.iter().map(|(name, value)| format!("{name} {value}"));
        said.push(format!("{name}: {}", metrics.collect::<Vec<_>>().join(", ")));
        unexplained += settlements.unexplained();
        explained += settlements.units(Cause::Told) + settlements.units(Cause::Unreplicated);
        all.pairs += settlements.pairs;
        all.pending += settlements.pending;
        all.used += settlements.used;
        all.charged += settlements.charged;
    }
    println!(
        "Three servers. Pairs of a reservation of 10 units and a settlement of 0 to 39 at another server:\n"
    );
    println!("{table}\n");
    println!("Metrics of the three servers, since each was started last:\n{}\n", said.join("\n"));
    println!(
        "settlements: pairs={} charged={} used={} pending={} explained={explained} difference={unexplained}",
        all.pairs, all.charged, all.used, all.pending
    );
    if unexplained > 0 {
        return Err(format!("{unexplained} units differ without a cause").into());
    }
    Ok(())
}

fn row(name: &str, settlements: &Settlements, elapsed_s: f64) -> Vec<String> {
    let Settlements { pairs, pending, unavailable, unanswered, used, charged, .. } = settlements;
    let figures = [
        *pairs,
        *pending,
        *unavailable,
        *unanswered,
        *used,
        *charged,
        settlements.units(Cause::Told),
        settlements.units(Cause::Unreplicated),
        settlements.unexplained(),
    ];
    let cells = std::iter::once(name.to_owned()).chain(figures.map(|figure| figure.to_string()));
    cells.chain([format!("{elapsed_s:.0}")]).collect()
}
