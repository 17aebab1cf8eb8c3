//! The figures as tables for people, and as one line for scripts.

use hdrhistogram::Histogram;
use tollgate_load::Tally;

use super::Effort;
use super::child::Peers;
use super::contest::{Figures, OPEN_PER_SECOND, STEADY_BATCH, STEADY_EVERY_NS, STEADY_PER_SECOND, Steady};
use super::core::Cores;
use super::machine::Lateness;
use super::neighbour::{OTHERS_PER_SECOND, Others, TENANT_CONNECTIONS, TENANT_PIPELINE};
use super::questions::{CONNECTIONS, KEYS, STREAMS};
use crate::table::Table;

/// What is told of a busy server. The last is the longest of all.
const STEADY_QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 1.0];

/// From here on, a machine is busy with something else.
const LOAD_NOTABLE: f64 = 0.5;
/// A generator that is on its core for so long could hardly do more.
const BUSY_GENERATOR: f64 = 0.95;
/// A server that is on its core for less could do more.
const BUSY_SERVER: f64 = 0.9;
/// Rounds that lie further apart than this part of their median say little.
const SPREAD_NOTABLE: f64 = 0.2;

/// What was measured, and how.
pub(super) fn print_heading(effort: &Effort, cores: &Cores, peers: &Peers, load_before: Option<f64>) {
    if effort.quick {
        println!("QUICK RUN: fewer and shorter rounds than for the figures that are published.\n");
    }
    println!("Every server is a process of its own with one thread for requests; {}.", cores.told());
    println!(
        "{CONNECTIONS} connections; {KEYS} keys, drawn at random. Ours, tonic and hyper have mimalloc. Redis has no persistence."
    );
    println!(
        "CPU and decisions/s: closed loop, medians of {} rounds of {} ms that take turns. CPU is the server's, per decision.",
        effort.rounds,
        effort.turn.as_millis()
    );
    println!(
        "p50, p99, p99.9: open loop, {OPEN_PER_SECOND} a second, Poisson, counted from the plan; RESP in batches as large as the pipeline."
    );
    println!(
        "{}",
        if peers.throttlecrab.is_some() {
            "throttlecrab-server is not filled beforehand. It sets no TCP_NODELAY: with pipelines, both sides wait for each other."
        } else {
            "throttlecrab-server is not on the PATH, and left out (`cargo install throttlecrab-server` needs protoc)."
        }
    );
    if let Some(load) = load_before {
        println!("Load average of the machine before the run: {load:.2}.");
    }
    println!();
}

/// What a decision costs, and how long it takes.
pub(super) fn print_contest(results: &[Figures], effort: &Effort) {
    let columns = [
        "server",
        "CPU us",
        "user",
        "system",
        "spread",
        "decisions/s",
        "server busy",
        "generator busy",
        "bytes/answer",
        "p50",
        "p99",
        "p99.9",
        "lag p99",
    ];
    let mut groups: Vec<&str> = results.iter().map(|figures| figures.group.as_str()).collect();
    groups.dedup();
    for group in groups {
        println!("{group}, {CONNECTIONS} connections:\n");
        let mut table = Table::new(columns);
        for figures in results.iter().filter(|figures| figures.group == group) {
            table.add_row(row(figures));
        }
        println!("{table}\n");
    }
    if effort.pipelines.contains(&16) {
        println!("Noise: INCR and the same again differ by {:.1} % in CPU.\n", noise(results) * 100.0);
    }
}

fn row(figures: &Figures) -> Vec<String> {
    let tally = &figures.open.tally;
    let mut cells = vec![
        figures.name.to_owned(),
        format!("{:.2}", figures.cpu_us),
        format!("{:.2}", figures.user_us),
        format!("{:.2}", figures.system_us),
        percent(figures.spread),
        format!("{:.0}", figures.per_second),
        percent(figures.server_busy),
        percent(figures.generator_busy),
        format!("{:.0}", figures.answer_bytes),
    ];
    cells.extend([0.5, 0.99, 0.999].map(|quantile| latency(&tally.latency_ns, quantile)));
    cells.push(lag(tally));
    cells
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

fn latency(latency_ns: &Histogram<u64>, quantile: f64) -> String {
    microseconds(latency_ns.value_at_quantile(quantile))
}

fn lag(tally: &Tally) -> String {
    microseconds(tally.lag_ns.value_at_quantile(0.99))
}

fn microseconds(nanoseconds: u64) -> String {
    format!("{:.0} us", nanoseconds as f64 / 1e3)
}

/// The open loop at a high rate.
pub(super) fn print_steady(steady: &[Steady], nobody: &[Lateness]) {
    println!(
        "{STEADY_PER_SECOND} decisions/s over RESP, a batch of {STEADY_BATCH} every {:.0} us on the next of {CONNECTIONS} connections:\n",
        STEADY_EVERY_NS as f64 / 1e3
    );
    let mut table = Table::new([
        "",
        "p50",
        "p99",
        "p99.9",
        "max",
        "lag p99",
        "answered/s",
        "server busy",
        "generator busy",
    ]);
    for Steady { name, report, server_busy, generator_busy } in steady {
        let tally = &report.tally;
        let mut cells = vec![(*name).to_owned()];
        cells.extend(STEADY_QUANTILES.map(|quantile| latency(&tally.latency_ns, quantile)));
        cells.extend([lag(tally), format!("{:.0}", tally.decided() as f64 / report.elapsed.as_secs_f64())]);
        cells.extend([percent(*server_busy), percent(*generator_busy)]);
        table.add_row(cells);
    }
    for Lateness { whose, late_ns } in nobody {
        let mut cells = vec![format!("nobody, the {whose}'s core")];
        cells.extend(STEADY_QUANTILES.map(|quantile| latency(late_ns, quantile)));
        cells.resize(9, String::new());
        table.add_row(cells);
    }
    println!("{table}\n");
    println!(
        "Nobody: a thread that only waits for the same moments, without sleeping, and how late it sees them. What it misses is the machine's.\n"
    );
}

/// The others, alone and not.
pub(super) fn print_neighbours(measured: &[Others]) {
    println!(
        "One tenant saturates the server ({TENANT_CONNECTIONS} connections, pipelines of {TENANT_PIPELINE}, RESP); others ask {OTHERS_PER_SECOND} a second:\n"
    );
    let mut table = Table::new(["others", "p50", "p99", "p99.9", "lag p99", "the one gets/s"]);
    for others in measured {
        let alone = ("alone", &others.alone, String::new());
        let beside = ("beside the one", &others.beside, format!("{:.0}", others.tenant_per_second));
        for (how, report, tenant) in [alone, beside] {
            let mut cells = vec![format!("{}, {how}", others.protocol)];
            cells.extend([0.5, 0.99, 0.999].map(|quantile| latency(&report.tally.latency_ns, quantile)));
            cells.extend([lag(&report.tally), tenant]);
            table.add_row(cells);
        }
    }
    println!("{table}\n");
}

/// Reasons not to believe it.
pub(super) fn print_warnings(results: &[Figures], load_before: Option<f64>) {
    if let Some(load) = load_before.filter(|&load| load > LOAD_NOTABLE) {
        println!(
            "WARNING: the machine was busy before the run (load average {load:.2}): figures are of little worth."
        );
    }
    for Figures { group, name, spread, server_busy, generator_busy, .. } in results {
        if *generator_busy > BUSY_GENERATOR && *server_busy < BUSY_SERVER {
            println!(
                "WARNING: {group}, {name}: the generator was the bottleneck. CPU per decision holds; decisions/s would be more."
            );
        }
        if *spread > SPREAD_NOTABLE {
            println!("WARNING: {group}, {name}: rounds differ by {:.0} %.", spread * 100.0);
        }
    }
}

fn noise(results: &[Figures]) -> f64 {
    match (
        find(results, PIPELINE_16, "redis-server, INCR"),
        find(results, PIPELINE_16, "redis-server, INCR again"),
    ) {
        (Ok(once), Ok(again)) => (once.cpu_us / again.cpu_us - 1.0).abs(),
        _ => f64::NAN,
    }
}

const PIPELINE_16: &str = "RESP, pipeline 16";

fn find<'a>(results: &'a [Figures], group: &str, name: &str) -> Result<&'a Figures, String> {
    let found = results.iter().find(|figures| figures.group == group && figures.name == name);
    found.ok_or_else(|| format!("{group}, {name}: not measured"))
}

/// What was asked for, in one line.
pub(super) fn ratio_line(results: &[Figures]) -> Result<String, String> {
    let cpu_us = |group: &str, name: &str| find(results, group, name).map(|figures| figures.cpu_us);
    let grpc = format!("gRPC, {STREAMS} streams");
    // Decisions per second of the server's CPU: the other way round than its time per decision.
    let resp = cpu_us(PIPELINE_16, "redis-server, INCR")? / cpu_us(PIPELINE_16, "tollgate, CL.THROTTLE")?;
    let tonic = cpu_us(&grpc, "tollgate, two descriptors")? / cpu_us(&grpc, "tonic, a constant")?;
    let hyper = cpu_us("HTTP", "tollgate, a policy")? / cpu_us("HTTP", "hyper, a constant")?;
    Ok(format!("ratios: resp_p16_vs_incr={resp:.2} grpc_vs_tonic={tonic:.2} http_vs_hyper={hyper:.2}"))
}
