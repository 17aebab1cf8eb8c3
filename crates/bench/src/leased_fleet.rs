//! A fleet that leases: four servers on one Redis, and how much they admit beside the limit, beside the published bound, and beside one exact limiter
//! that is asked the same.
//!
//! Every algorithm is asked under `leased`, `leased` with `strict`, and `exact`; from everywhere, mostly at one server, and at one server after the
//! other. Keys ask for about their limit, for much more, or save up and then spend all at once, which is how leases exceed a limit if they do.
//! Servers are this program itself, started with the flags of `tollgate serve`; how many they are they count by themselves.

mod judge;
mod limits;
mod load;

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tollgate_store::Clock;
use tollgate_testkit::real::redis::RedisServer;
use tollgate_testkit::real::{Launch, Tollgate};

use self::judge::Row;
use self::limits::{PERIOD_S, Policy, UNITS};
use self::load::{Asked, Plan, Traffic};
use crate::ledger::load_average;
use crate::table::Table;

const SERVERS: usize = 4;
/// Clients, with a connection to every server each.
const CLIENTS: usize = 12;
/// Until others have counted a server, it leases nothing. By now they have.
const COUNTED_AFTER: Duration = Duration::from_secs(18);

/// How long to run.
#[derive(clap::Args)]
pub(crate) struct LeasedFleetArgs {
    /// How long to ask, for each kind of traffic
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// The longest that a decision waits for Redis, in milliseconds: more than in production, since the machine may be shared
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    deadline_ms: u64,
}

/// Runs the fleet; an error if it admitted more than the bound, or more than a strict limit.
pub(crate) fn run(args: &LeasedFleetArgs) -> Result<(), Box<dyn Error>> {
    let load_before = load_average();
    let redis = RedisServer::start();
    let program = std::env::current_exe()?.display().to_string();
    let launch = |_| {
        Launch::new(&program)
            .rules("fleet.yaml", &limits::rules())
            .flag("store", &format!("redis://{}", redis.address()))
            .flag("store-deadline", &format!("{}ms", args.deadline_ms))
            .flag("workers", "1")
            .start()
    };
    let servers: Vec<Tollgate> = (0..SERVERS).map(launch).collect();
    let progress = progress_bar(args.seconds * Traffic::ALL.len() as u64);
    progress.set_message("servers are counted");
    thread::sleep(COUNTED_AFTER);
    let mut rows = Vec::new();
    for traffic in Traffic::ALL {
        progress.set_message(traffic.name());
        let asked = ask(args, traffic, &servers, &progress)?;
        for policy in Policy::all() {
            rows.push((traffic, policy, judge::row(policy, &asked)?));
        }
    }
    progress.finish_and_clear();
    if let Some(load) = load_before {
        println!("Load average of the machine before the run: {load:.2}.");
    }
    report(args, &rows)
}

/// Asks all servers as long as the arguments say.
fn ask(
    args: &LeasedFleetArgs,
    traffic: Traffic,
    servers: &[Tollgate],
    progress: &ProgressBar,
) -> Result<Vec<Asked>, Box<dyn Error>> {
    let plan = Arc::new(Plan {
        traffic,
        duration: Duration::from_secs(args.seconds),
        servers: servers.iter().map(Tollgate::http).collect(),
        clients: CLIENTS,
        clock: Clock::new(),
    });
    let clients: Vec<_> = (0..CLIENTS as u64)
        .map(|number| {
            let plan = Arc::clone(&plan);
            thread::spawn(move || load::ask(&plan, number))
        })
        .collect();
    for _ in 0..args.seconds {
        thread::sleep(Duration::from_secs(1));
        progress.inc(1);
    }
    let mut asked = Vec::new();
    for client in clients {
        asked.extend(client.join().map_err(|_| "a client panicked")??);
    }
    asked.sort_by_key(|asked| asked.sent_us);
    Ok(asked)
}

fn report(args: &LeasedFleetArgs, rows: &[(Traffic, Policy, Row)]) -> Result<(), Box<dyn Error>> {
    println!(
        "{SERVERS} servers on one Redis, {} s of each traffic, HTTP, costs of one unit. Limits are {UNITS} units in {PERIOD_S} s for each key; buckets hold {UNITS}.",
        args.seconds
    );
    println!(
        "worst: over every interval; of a bucket, the smallest burst that admits it all; else the most in {PERIOD_S} s."
    );
    println!(
        "oracle: what one exact limiter admits of the same requests, in the order in which they were sent."
    );
    println!(
        "beyond: units beyond the bound; of windows also what an oracle refuses of what was admitted.\n"
    );
    let mut table = Table::new([
        "traffic",
        "algorithm",
        "consistency",
        "asked",
        "admitted",
        "of leases",
        "oracle",
        "admitted / oracle",
        "worst",
        "worst / limit",
        "bound",
        "beyond",
    ]);
    for (traffic, policy, row) in rows {
        table.add_row(vec![
            traffic.name().to_owned(),
            policy.algorithm.name().to_owned(),
            policy.consistency.name().to_owned(),
            row.asked.to_string(),
            row.admitted.to_string(),
            format!("{:.0} %", 100.0 * ratio(row.by_lease, row.admitted)),
            row.oracle.to_string(),
            format!("{:.3}", ratio(row.admitted, row.oracle)),
            row.worst.to_string(),
            format!("{:.2}", ratio(row.worst, UNITS)),
            policy.bound().to_string(),
            row.beyond.to_string(),
        ]);
    }
    println!("{table}\n");
    conclude(rows)
}

/// The last line, for scripts, and whether all is well.
fn conclude(rows: &[(Traffic, Policy, Row)]) -> Result<(), Box<dyn Error>> {
    let beyond = rows.iter().filter(|(_, _, row)| row.beyond > 0).count();
    let strict_above = rows.iter().filter(|(_, policy, row)| policy.is_strict() && row.beyond > 0).count();
    let is_leased = |(_, policy, _): &&(Traffic, Policy, Row)| policy.is_leased();
    let leased_sum =
        |figure: fn(&Row) -> u64| rows.iter().filter(is_leased).map(|(_, _, row)| figure(row)).sum::<u64>();
    println!(
        "leased-fleet: rows={} beyond_bound={beyond} strict_above={strict_above} admitted_vs_oracle={:.3} of_leases={:.2} fail_mode={} unanswered={}",
        rows.len(),
        ratio(leased_sum(|row| row.admitted), leased_sum(|row| row.oracle)),
        ratio(leased_sum(|row| row.by_lease), leased_sum(|row| row.admitted)),
        rows.iter().map(|(_, _, row)| row.by_fail_mode).sum::<u64>(),
        rows.iter().map(|(_, _, row)| row.unanswered).sum::<u64>(),
    );
    let is_leased_at_all = leased_sum(|row| row.by_lease) > 0;
    if !is_leased_at_all {
        return Err("nothing was leased, so nothing is shown".into());
    }
    if beyond > 0 { Err(format!("{beyond} rows are beyond their bound").into()) } else { Ok(()) }
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn progress_bar(seconds: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} s {msg}");
    let progress = ProgressBar::new(seconds);
    progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    progress
}
