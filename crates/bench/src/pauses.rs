//! The longest a caller ever waits: every single decision timed while the ledger is busy with itself.
//!
//! A table that doubles, or sweeps itself, stops the world for whoever asks at that moment, and averages hide it.
//! Three loads make our ledger work for its room: growing from empty, reclaiming idle keys at its cap, and choosing
//! whom to forget at its cap. Each stands beside its control, the same questions put to a ledger that was sized
//! for them beforehand, so that what the machine itself does to a thread can be told apart.

mod load;
mod record;

use std::error::Error;

use indicatif::ProgressBar;

use self::load::{Load, Room};
use self::record::Record;
use crate::table::Table;

/// How often load and control take turns.
const ROUNDS: u64 = 3;

/// How much to run.
#[derive(clap::Args)]
pub(crate) struct PausesArgs {
    /// A tenth of the keys
    #[arg(long)]
    quick: bool,
}

/// Runs the three loads, each beside its control, and prints one table per load.
pub(crate) fn run(args: &PausesArgs) -> Result<(), Box<dyn Error>> {
    let keys = if args.quick { 1_000_000 } else { 10_000_000 };
    if args.quick {
        println!("QUICK RUN: a tenth of the keys that the published figures use.\n");
    }
    println!(
        "Every decision is timed on its own: {ROUNDS} rounds in which load and control take turns, {keys} new"
    );
    println!("keys each, with a thread that tends the ledger every millisecond.\n");
    let progress = ProgressBar::new(Load::ALL.len() as u64 * ROUNDS * 2);
    for load in Load::ALL {
        let (mut under_load, mut control) = (Record::new()?, Record::new()?);
        for _ in 0..ROUNDS {
            under_load.add(&load::run(load, Room::Scarce, keys)?)?;
            progress.inc(1);
            control.add(&load::run(load, Room::Ample, keys)?)?;
            progress.inc(1);
        }
        progress.suspend(|| print_load(load, &under_load, &control));
    }
    progress.finish_and_clear();
    Ok(())
}

fn print_load(load: Load, under_load: &Record, control: &Record) {
    println!("{}:\n", load.title());
    let mut table = Table::new([""]);
    for column in record::COLUMNS {
        table.add_column(column);
    }
    for (name, record) in [("load", under_load), ("control", control)] {
        table.add_row([name.to_owned()].into_iter().chain(record.cells()).collect());
    }
    println!("{table}\n");
    println!("The ledger under load: {}. Control: {}.", under_load.upkeep(), control.upkeep());
    println!("Pauses above 100 us: load {}, control {}.\n", under_load.pauses(), control.pauses());
}
