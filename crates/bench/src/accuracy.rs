//! How far each algorithm strays from an exact limit, on real and made-up traffic.
//!
//! The classic algorithms trade memory for truth. What that costs is measured here per arrival, against an exact
//! log of what the limiter itself has admitted: requests let through that did not fit, requests turned away that
//! did, and the most that any one period saw.

mod judge;
mod trace;
mod traffic;

use std::error::Error;
use std::path::PathBuf;

use tollgate_core::{
    FixedWindow, Limit, LimitError, OldestCounts, Rate, SlidingLog, SlidingWindow, SubWindows, TokenBucket,
};

use self::judge::Judgement;
use self::traffic::Traffic;
use crate::table::Table;

/// Sub-windows of the two algorithms that have them.
const SUB_WINDOWS: u32 = 10;

/// What to run the algorithms on.
#[derive(clap::Args)]
pub(crate) struct AccuracyArgs {
    /// A web log: tab-separated with a header, the host in column 1, Unix seconds in column 3
    #[arg(long, value_name = "PATH")]
    nasa: Option<PathBuf>,
    /// A trace of token counts: comma-separated with a header; timestamp, context tokens, generated tokens
    #[arg(long, value_name = "PATH")]
    azure: Option<PathBuf>,
    /// Seeds the made-up traffic, and the spreading of arrivals within a second
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Judges every algorithm on every traffic and prints one table.
pub(crate) fn run(args: &AccuracyArgs) -> Result<(), Box<dyn Error>> {
    let mut traffics = Vec::new();
    if let Some(path) = &args.nasa {
        traffics.push(trace::web_log(path, args.seed)?);
    }
    if let Some(path) = &args.azure {
        traffics.push(trace::token_log(path)?);
    }
    traffics.extend(traffic::made_up(args.seed)?);

    println!("False allow % / false deny % / worst period as a multiple of N, seed {}.", args.seed);
    println!(
        "Judged per arrival against an exact log of what the limiter itself admitted in (now - W, now].\n"
    );
    let mut table = Table::new(["traffic", "arrivals", "N"]);
    for name in ALGORITHMS {
        table.add_column(name);
    }
    for traffic in &traffics {
        table.add_row(row(traffic));
    }
    println!("{table}");
    println!(
        "\nA token bucket of burst N may admit up to 2N in one period: that is its contract, not an error."
    );
    Ok(())
}

/// The columns of the table, in the order of [`limits`].
const ALGORITHMS: [&str; 6] = [
    "fixed window",
    "sliding counter",
    "10 sub-windows interpolated",
    "10 sub-windows conservative",
    "sliding log",
    "token bucket",
];

/// One rate under every algorithm. Not every algorithm can have every rate.
fn limits(rate: Rate) -> [Result<Limit, LimitError>; 6] {
    [
        Ok(FixedWindow::new(rate).into()),
        Ok(SlidingWindow::new(rate).into()),
        SubWindows::new(rate, SUB_WINDOWS, OldestCounts::ByOverlap).map(Limit::from),
        SubWindows::new(rate, SUB_WINDOWS, OldestCounts::Whole).map(Limit::from),
        SlidingLog::new(rate).map(Limit::from),
        TokenBucket::new(rate, rate.units()).map(Limit::from),
    ]
}

fn row(traffic: &Traffic) -> Vec<String> {
    let mut cells =
        vec![traffic.name.to_owned(), traffic.arrivals.len().to_string(), traffic.rate.units().to_string()];
    for limit in limits(traffic.rate) {
        cells.push(match limit {
            Ok(limit) => cell(&judge::judge(&limit, traffic)),
            Err(LimitError::LogTooLarge { units_max, .. }) => format!("holds at most {units_max}"),
            Err(error) => error.to_string(),
        });
    }
    cells
}

fn cell(judgement: &Judgement) -> String {
    format!(
        "{} / {} / {:.2}",
        percent(judgement.false_allow_percent()),
        percent(judgement.false_deny_percent()),
        judgement.worst
    )
}

/// Two digits where there is anything; nothing at all is a plain 0.
fn percent(percent: f64) -> String {
    if percent == 0.0 { "0".to_owned() } else { format!("{percent:.2}") }
}
