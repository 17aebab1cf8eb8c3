//! What callers see while Redis is sick: every kind of trouble, under load that does not wait for answers.
//!
//! Requests are sent at planned moments, and a latency counts from its plan. Each fault meets servers of its own and an engine with an
//! authority of its own, whose decisions may take two milliseconds; then the rule decides. The first row has no fault in it: what it shows is
//! the machine.

mod load;
mod scenes;

use std::error::Error;

use indicatif::{ProgressBar, ProgressStyle};

use self::load::{DEADLINE, RATE, Seen};
use self::scenes::{SCENES, Scene};
use crate::ledger::load_average;
use crate::table::Table;
use crate::timer::Stopwatch;

/// What to run.
#[derive(clap::Args)]
pub(crate) struct FaultsArgs {
    /// A handful of faults, in half a minute
    #[arg(long)]
    quick: bool,
    /// Only faults whose name contains this, such as `failover`
    #[arg(long, default_value = "")]
    only: String,
}

/// Meets every fault and prints what came of it; the last line is for scripts.
pub(crate) fn run(args: &FaultsArgs) -> Result<(), Box<dyn Error>> {
    let whole = Stopwatch::start();
    let load_before = load_average();
    let is_chosen = |scene: &&Scene| (!args.quick || scene.is_quick) && scene.name.contains(&args.only);
    let chosen: Vec<&Scene> = SCENES.iter().filter(is_chosen).collect();
    let progress = progress_bar(chosen.len());
    let mut table = Table::new([
        "fault",
        "lasted s",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "breaker opened after ms",
        "exact again after ms",
        "by Redis",
        "by fail mode",
        "unanswered",
    ]);
    for scene in chosen {
        progress.set_message(scene.name);
        table.add_row(row(scene.name, &(scene.play)()?));
        progress.inc(1);
    }
    progress.finish_and_clear();
    println!(
        "{RATE} decisions a second, in an open loop; deadline {} ms. Latencies count from the planned",
        DEADLINE.as_millis()
    );
    println!(
        "moment, of all answers planned while the fault lasted. The breaker's time counts from the fault's beginning,"
    );
    println!("that of exact decisions from its end: until fifty in a row were decided by Redis.");
    if let Some(load) = load_before {
        println!("Load average of the machine before the run: {load:.2}.");
    }
    println!("\n{table}\n");
    println!("Took {:.0} s.", whole.elapsed_secs());
    Ok(())
}

fn row(name: &str, seen: &Seen) -> Vec<String> {
    let latency =
        |quantile: f64| format!("{:.1}", seen.latencies_ns.value_at_quantile(quantile) as f64 / 1e6);
    let ms = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.0}", ns as f64 / 1e6));
    vec![
        name.to_owned(),
        format!("{:.1}", seen.lasted_ns as f64 / 1e9),
        latency(0.5),
        latency(0.99),
        latency(0.999),
        ms(seen.opened_after_ns),
        ms(seen.resumed_after_ns),
        seen.by_authority.to_string(),
        seen.by_fail_mode.to_string(),
        seen.unanswered.to_string(),
    ]
}

fn progress_bar(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}");
    let progress = ProgressBar::new(steps as u64);
    progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    progress
}
