//! The figures as tables for people, and as one line for scripts.

use super::Effort;
use super::memory::{Memory, Start};
use super::raw::RawMemory;
use super::rounds::Timing;
use crate::contender::Kind;
use crate::table::Table;

/// Whom all are compared to.
const REFERENCE: Kind = Kind::GovernorText;

/// What was measured, and how; `load_before` is what else ran on the machine.
pub(super) fn print_heading(quick: bool, effort: &Effort, load_before: Option<f64>) {
    if quick {
        println!("QUICK RUN: fewer keys and shorter rounds than for the figures that are published.\n");
    }
    println!(
        "Keys are strings of 24 bytes. Median of {} rounds that take turns, {} decisions per",
        effort.rounds, effort.decisions
    );
    println!(
        "thread and turn; the hash of the key is part of it. Our ledger gets the time passed in, as a server"
    );
    println!("does it, unless a row says otherwise; peers read their own clocks.");
    println!("Nobody is denied. Peers' tables are sized beforehand; ours has grown from small.");
    if let Some(load) = load_before {
        println!(
            "Load average of the machine before the run: {load:.2}; above 0.3, figures are of little worth."
        );
    }
    println!();
}

/// Nanoseconds per decision and bytes per key.
pub(super) fn print_timings(timings: &[Timing], memory: &Memory) {
    println!("Nanoseconds per decision and thread; bytes of resident memory per key:\n");
    let mut table = with_workloads(timings, &["bytes/key grown", "bytes/key sized"]);
    for kind in Kind::ALL {
        let mut cells = vec![kind.label().to_owned()];
        cells.extend(timings.iter().map(|timing| format!("{:.1}", timing.of(kind))));
        cells.extend([Start::Small, Start::Sized].map(|start| bytes(memory.of(kind, start))));
        table.add_row(cells);
    }
    println!("{table}\n");
}

/// Every figure as a multiple of the reference's.
pub(super) fn print_ratios(timings: &[Timing], memory: &Memory) {
    println!("The same as multiples of {} (below 1 is better):\n", REFERENCE.label());
    let mut table = with_workloads(timings, &["bytes/key"]);
    let reference_bytes = memory.of(REFERENCE, Start::Sized);
    for kind in Kind::ALL {
        let mut cells = vec![kind.label().to_owned()];
        cells.extend(timings.iter().map(|timing| format!("{:.2}", timing.of(kind) / timing.of(REFERENCE))));
        let own_bytes = memory.of(kind, Start::Small).or(memory.of(kind, Start::Sized));
        let ratio = own_bytes.zip(reference_bytes).map(|(own, reference)| own / reference);
        cells.push(ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")));
        table.add_row(cells);
    }
    println!("{table}\n");
}

fn with_workloads(timings: &[Timing], further: &[&str]) -> Table {
    let mut table = Table::new(["contender"]);
    for timing in timings {
        table.add_column(&format!("{}, {} thr", timing.workload, timing.threads));
    }
    for column in further {
        table.add_column(column);
    }
    table
}

fn bytes(bytes: Option<f64>) -> String {
    bytes.map_or_else(String::new, |bytes| format!("{bytes:.1}"))
}

/// What memory itself allows.
pub(super) fn print_raw(raw: &[RawMemory]) {
    println!("What memory allows, on 256 MiB (about our table at 10 M keys), in ns per access at random:\n");
    let mut table = Table::new(["pages", "each after the other", "32 under way"]);
    for raw in raw {
        table.add_row(vec![
            if raw.huge_pages { "huge" } else { "small" }.to_owned(),
            format!("{:.1}", raw.dependent_ns),
            format!("{:.1}", raw.independent_ns),
        ]);
    }
    println!("{table}");
}

/// Our figures at one thread as multiples of the reference's, and our bytes per key, in one line.
pub(super) fn ratio_line(timings: &[Timing], memory: &Memory) -> Result<String, String> {
    let find = |name: &str| {
        let matches = |timing: &&Timing| timing.threads == 1 && timing.workload.contains(name);
        timings.iter().rfind(matches).ok_or_else(|| format!("no workload {name}"))
    };
    let (hot, uniform) = (find("hot")?, find("uniform")?);
    let ratio = |timing: &Timing, kind: Kind| timing.of(kind) / timing.of(REFERENCE);
    let bytes = |kind: Kind| memory.of(kind, Start::Small).unwrap_or(f64::NAN);
    Ok(format!(
        "ratios: hot={:.3} uniform={:.3} batch={:.3} bytes_per_key={:.1} \
         sliding_hot={:.3} sliding_uniform={:.3} sliding_batch={:.3} sliding_bytes_per_key={:.1}",
        ratio(hot, Kind::Bucket),
        ratio(uniform, Kind::Bucket),
        ratio(uniform, Kind::BucketBatch),
        bytes(Kind::Bucket),
        ratio(hot, Kind::Sliding),
        ratio(uniform, Kind::Sliding),
        ratio(uniform, Kind::SlidingBatch),
        bytes(Kind::Sliding),
    ))
}
