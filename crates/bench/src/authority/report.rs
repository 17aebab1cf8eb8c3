//! The figures as tables for people, and as one line for scripts.

use super::cost::{Cost, SHAPES, Shape};
use super::{Case, OUTSTANDING, Turn, Turns};
use crate::ledger::median;
use crate::table::Table;
use crate::wire::Cores;

/// Whoever has the turns of a case.
const NAMES: [&str; 2] = ["one EVALSHA per decision, redis crate", "tollgate"];
/// How busy a shard may be on average.
const BUSY: f64 = 0.7;

/// What was measured, and how; `load_before` is what else ran on the machine.
pub(super) fn print_heading(is_quick: bool, rounds: u32, cores: &Cores, load_before: Option<f64>) {
    if is_quick {
        println!("QUICK RUN: fewer and shorter rounds than for the figures that are published.\n");
    }
    println!(
        "{OUTSTANDING} requests under way, one thread, one redis-server. Medians of {rounds} turns; {}.",
        cores.told()
    );
    println!("Commands are all that Redis counts, those that scripts call too (TIME, GET or MGET, SET).");
    if let Some(load) = load_before {
        println!("Load average of the machine before the run: {load:.2}.");
    }
    println!();
}

/// Both contenders of a case.
pub(super) fn print_case(case: Case, turns: &[Turns; 2]) {
    print_turns(case.name(), &NAMES, turns);
}

/// What whoever had turns has come to.
pub(super) fn print_turns(title: &str, names: &[&str], turns: &[Turns]) {
    println!("{title}:\n");
    let mut table = Table::new([
        "",
        "decisions/s",
        "from",
        "to",
        "commands/decision",
        "script calls/decision",
        "Redis CPU us",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "denied",
        "by fail mode",
    ]);
    for (name, turns) in names.iter().zip(turns) {
        let rates = || turns.iter().map(|turn| turn.tally.rate());
        let latency = |quantile: f64| {
            let us = |turn: &Turn| turn.tally.latencies_ns.value_at_quantile(quantile) as f64 / 1e3;
            format!("{:.0}", middle(turns, us))
        };
        table.add_row(vec![
            (*name).to_owned(),
            format!("{:.0}", middle(turns, |turn| turn.tally.rate())),
            format!("{:.0}", rates().fold(f64::INFINITY, f64::min)),
            format!("{:.0}", rates().fold(0.0, f64::max)),
            format!("{:.4}", middle(turns, commands)),
            format!("{:.4}", middle(turns, |turn| per_decision(turn, turn.spent.script_calls as f64))),
            format!("{:.2}", middle(turns, |turn| per_decision(turn, turn.spent.cpu_ns / 1e3))),
            latency(0.5),
            latency(0.99),
            latency(0.999),
            format!("{:.1} %", 100.0 * middle(turns, |turn| per_decision(turn, turn.tally.denied as f64))),
            turns.iter().map(|turn| turn.tally.failed).sum::<u64>().to_string(),
        ]);
    }
    println!("{table}\n");
}

/// What calls and keys cost Redis, and how many shards a fleet needs.
pub(super) fn print_costs(costs: &[Cost]) {
    println!("Redis CPU, us per script call, and bytes per key:\n");
    let mut table = Table::new(["us per call"]);
    for Shape { keys, asks } in SHAPES {
        table.add_column(&match (keys, asks) {
            (keys, 1) => format!("{keys} keys, 1 ask each"),
            (_, asks) => format!("1 key, {asks} asks"),
        });
    }
    for column in ["MEMORY USAGE, used once", "used 100 times", "grown per key"] {
        table.add_column(column);
    }
    for cost in costs {
        let mut cells = vec![cost.algorithm.to_owned()];
        cells.extend(cost.call_us.iter().map(|us| format!("{us:.1}")));
        cells.extend(cost.key_bytes.iter().map(i64::to_string));
        cells.push(format!("{:.0}", cost.grown_bytes));
        table.add_row(cells);
    }
    println!("{table}\n");
    println!("Decisions a second of one shard that is {:.0} % busy:\n", 100.0 * BUSY);
    let mut table = Table::new(["", "decisions/s of a shard", "shards for 500 K/s", "for 1 M/s"]);
    for cost in costs {
        for (us, Shape { keys, asks }) in cost.call_us.iter().zip(SHAPES).filter(|(_, shape)| shape.asks == 1)
        {
            let rate = BUSY * 1e6 * (keys * asks) as f64 / us;
            let shards = |decisions: f64| format!("{:.0}", (decisions / rate).ceil());
            table.add_row(vec![
                format!("{}, {keys} keys a call", cost.algorithm),
                format!("{rate:.0}"),
                shards(500_000.0),
                shards(1_000_000.0),
            ]);
        }
    }
    println!("{table}\n");
}

/// The line that scripts read.
pub(super) fn ratio_line(results: &[[Turns; 2]; 3]) -> String {
    let [zipf, hot, denied] = results;
    // Turns that followed each other met the same machine.
    let ratios =
        zipf[0].iter().zip(&zipf[1]).map(|(baseline, ours)| ours.tally.rate() / baseline.tally.rate());
    format!(
        "ratios: zipf_vs_evalsha={:.2} hot_cmds={:.3} denied_cmds={:.3}",
        median(ratios.collect()),
        middle(&hot[1], commands),
        middle(&denied[1], commands)
    )
}

pub(super) fn commands(turn: &Turn) -> f64 {
    per_decision(turn, turn.spent.commands as f64)
}

fn per_decision(turn: &Turn, whole: f64) -> f64 {
    whole / turn.tally.decisions().max(1) as f64
}

pub(super) fn middle(turns: &[Turn], figure: impl Fn(&Turn) -> f64) -> f64 {
    median(turns.iter().map(figure).collect())
}
