//! Floods of new keys against the cap: memory stays within it, and no key at its limit is forgotten.
//!
//! An attacker who invents keys wants one of two things: to make the process grow until it dies, or to push used-up keys out of
//! the table, so that they start anew. Three floods of twenty million keys are sent past a thousand used-up keys of every
//! algorithm and window length:
//!
//! - keys that are used once, under a large limit;
//! - keys that are themselves at their limit of one, so that no memory suffices;
//! - limits that callers bring along, each at its limit of one.
//!
//! Time stands still, so no key becomes idle: every admission of a used-up key is one too many. The command fails if there is
//! one, or if the process has grown beyond the cap. For the second flood it also says what new clients get during it.

mod kinds;
mod scenario;

use std::error::Error;
use std::fmt::Write as _;

use indicatif::ProgressBar;

use self::kinds::{ALGORITHMS, WINDOWS};
use self::scenario::{Outcome, Scenario};
use crate::table::Table;

/// How far the process may grow beyond the cap, in percent of it.
const CAP_SLACK_PERCENT: u64 = 5;

/// How much to run.
#[derive(clap::Args)]
pub(crate) struct FloodArgs {
    /// Less than a minute: a tenth of the keys against a tenth of the cap
    #[arg(long)]
    quick: bool,
}

/// What an attacker sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flood {
    /// Keys that are used once, under a limit of a thousand.
    UsedOnce,
    /// Keys that are at their limit of one.
    AtLimit,
    /// Limits of one that callers bring along.
    Callers,
}

impl Flood {
    const ALL: [Flood; 3] = [Flood::UsedOnce, Flood::AtLimit, Flood::Callers];

    fn title(self) -> &'static str {
        match self {
            Flood::UsedOnce => "(a) Keys used once, of 1000",
            Flood::AtLimit => "(b) Keys at their limit of 1",
            Flood::Callers => "(c) Callers' own limits of 1",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Flood::UsedOnce => "used_once",
            Flood::AtLimit => "at_limit",
            Flood::Callers => "callers",
        }
    }
}

/// Runs every flood with every window length; an error if a limit was broken or the ledger outgrew its cap.
pub(crate) fn run(args: &FloodArgs) -> Result<(), Box<dyn Error>> {
    let (keys, cap_bytes) = if args.quick { (2_000_000, 26 << 20) } else { (20_000_000, 256 << 20) };
    if args.quick {
        println!("QUICK RUN: a tenth of the keys, against a tenth of the cap.\n");
    }
    println!("{keys} new keys against {} MiB, past 1024 keys at their limits.\n", cap_bytes >> 20);
    let progress = ProgressBar::new(keys * (Flood::ALL.len() * WINDOWS.len()) as u64);
    let mut runs = Vec::new();
    for flood in Flood::ALL {
        for window in 0..WINDOWS.len() {
            runs.push((flood, Scenario::new(flood, window, cap_bytes)?.run(keys, &progress)?));
        }
    }
    progress.finish_and_clear();
    println!("{}\n", floods_table(&runs));
    println!("Over-admission of keys at their limits, in percent of the limit, by algorithm:\n");
    println!("{}\n", algorithms_table(&runs));
    println!("{}", line_for_scripts(&runs));
    judge(&runs, cap_bytes as u64)
}

fn of(runs: &[(Flood, Outcome)], flood: Flood) -> impl Iterator<Item = &Outcome> {
    runs.iter().filter(move |(each, _)| *each == flood).map(|(_, outcome)| outcome)
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

fn floods_table(runs: &[(Flood, Outcome)]) -> Table {
    let mut table = Table::new([
        "flood, window of its keys",
        "M keys/s",
        "MiB grown",
        "over-admission",
        "permits released",
        "evicted",
        "coarse",
        "refused",
        "new clients got",
        "flood keys admitted twice",
    ]);
    for (at, (flood, outcome)) in runs.iter().enumerate() {
        let (over, entitled) = outcome.over_admission();
        table.add_row(vec![
            format!("{}, {}", flood.title(), WINDOWS[at % WINDOWS.len()].0),
            format!("{:.1}", outcome.keys_per_second / 1e6),
            format!("{:.1}", outcome.grown_bytes as f64 / f64::from(1 << 20)),
            format!("{:.2} %", percent(over, entitled)),
            format!("{} of {}", outcome.permits_released, outcome.permits),
            outcome.stats.evicted.to_string(),
            outcome.stats.coarse.to_string(),
            outcome.stats.refused.to_string(),
            format!("{:.0} %", percent(outcome.new_clients_admitted, outcome.new_clients_entitled)),
            outcome.admitted_twice.to_string(),
        ]);
    }
    table
}

fn algorithms_table(runs: &[(Flood, Outcome)]) -> Table {
    let mut table = Table::new(["algorithm"]);
    for flood in Flood::ALL {
        table.add_column(flood.title());
    }
    for (index, algorithm) in ALGORITHMS.iter().enumerate() {
        let over = |flood| {
            let sum =
                |pick: fn(&(u64, u64)) -> u64| of(runs, flood).map(|o| pick(&o.by_algorithm[index])).sum();
            format!("{:.2} %", percent(sum(|pair| pair.0), sum(|pair| pair.1)))
        };
        let cells = Flood::ALL.iter().map(|&flood| over(flood));
        table.add_row(std::iter::once((*algorithm).to_owned()).chain(cells).collect());
    }
    table
}

fn line_for_scripts(runs: &[(Flood, Outcome)]) -> String {
    let mut line = "flood:".to_owned();
    for flood in Flood::ALL {
        let (over, entitled) = of(runs, flood).fold((0, 0), |sum, outcome| {
            let (over, entitled) = outcome.over_admission();
            (sum.0 + over, sum.1 + entitled)
        });
        let percent = percent(over, entitled);
        let _ = write!(line, " {}_over_percent={percent:.2}", flood.name()); // A string takes everything.
    }
    let sum = |pick: fn(&Outcome) -> u64| of(runs, Flood::AtLimit).map(pick).sum::<u64>();
    let served = percent(sum(|o| o.new_clients_admitted), sum(|o| o.new_clients_entitled));
    let grown = runs.iter().map(|(_, outcome)| outcome.grown_bytes).max().unwrap_or(0);
    let twice: u64 = runs.iter().map(|(_, outcome)| outcome.admitted_twice).sum();
    line + &format!(" at_limit_new_clients_percent={served:.0} twice={twice} grown_mib={}", grown >> 20)
}

fn judge(runs: &[(Flood, Outcome)], cap_bytes: u64) -> Result<(), Box<dyn Error>> {
    let allowed_bytes = cap_bytes + cap_bytes * CAP_SLACK_PERCENT / 100;
    for (flood, outcome) in runs {
        let (over, _) = outcome.over_admission();
        if over > 0 || outcome.admitted_twice > 0 || outcome.new_clients_over > 0 {
            return Err(format!("{}: limits were broken", flood.title()).into());
        }
        if outcome.permits_released < outcome.permits {
            return Err(format!("{}: permits could not be released", flood.title()).into());
        }
        if outcome.grown_bytes > allowed_bytes {
            return Err(format!("{}: memory grew beyond the cap and 5 %", flood.title()).into());
        }
    }
    Ok(())
}
