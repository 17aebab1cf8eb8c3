//! A fleet that shares its limits: four servers on one Redis, and whether it ever admits more than one counter alone would.
//!
//! Every answer says when Redis decided. Afterwards the requests that were admitted, from all servers together, are put in the order of those
//! moments and shown to the naive oracle of the algorithm, key by key: it must admit each of them. Servers are this program itself,
//! started with the flags of `tollgate serve`.

mod judge;
mod load;

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tollgate_core::{SharedLimit, Tick};
use tollgate_testkit::Spec;
use tollgate_testkit::real::redis::RedisServer;
use tollgate_testkit::real::{Launch, Tollgate};

use self::judge::over_admissions;
use self::load::{Asked, Outcome, Plan};
use crate::table::Table;

const SERVERS: usize = 4;
/// Clients of each server, with a connection each.
const CLIENTS: usize = 2;
/// The limit of every key: so much on average, whatever the algorithm.
const UNITS: u64 = 10;
const PERIOD_S: u64 = 5;
const PERIOD_US: u64 = PERIOD_S * 1_000_000;

/// How long to run.
#[derive(clap::Args)]
pub(crate) struct FleetArgs {
    /// How long to ask
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// How many keys there are, over all algorithms
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(4..=1_000_000))]
    keys: u64,
    /// The longest that a decision waits for Redis, in milliseconds: more than in production, since the machine may be shared
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    deadline_ms: u64,
}

/// A policy, and the numbers that its limit has in Redis, which counts microseconds.
struct Policy {
    name: &'static str,
    spec: Spec,
}

fn policies() -> [Policy; 4] {
    let (units, period_ticks) = (UNITS, PERIOD_US);
    [
        Policy { name: "token_bucket", spec: Spec::TokenBucket { units, period_ticks, burst: UNITS } },
        Policy { name: "sliding_window", spec: Spec::SlidingWindow { units, period_ticks } },
        Policy { name: "fixed_window", spec: Spec::FixedWindow { units, period_ticks } },
        Policy { name: "sliding_log", spec: Spec::SlidingLog { units, period_ticks } },
    ]
}

fn rules() -> String {
    let rule = |policy: &Policy| {
        let burst = if policy.name == "token_bucket" { format!(", burst: {UNITS}") } else { String::new() };
        format!(
            "  {}: {{requests: {UNITS}, period: {PERIOD_S}s{burst}, algorithm: {}, fail_mode: closed}}\n",
            policy.name, policy.name
        )
    };
    format!("policies:\n{}", policies().iter().map(rule).collect::<String>())
}

/// Runs the fleet; an error if it admitted too much.
pub(crate) fn run(args: &FleetArgs) -> Result<(), Box<dyn Error>> {
    for policy in policies() {
        // Otherwise moments would mean something else to Redis than to the oracle.
        let shared = SharedLimit::in_ticks(policy.spec.try_limit()?, Tick::MICROSECOND)?;
        debug_assert_eq!(shared.limit().algorithm(), policy.name);
    }
    let redis = RedisServer::start();
    let program = std::env::current_exe()?.display().to_string();
    let launch = || {
        Launch::new(&program)
            .rules("fleet.yaml", &rules())
            .flag("store", &format!("redis://{}", redis.address()))
            .flag("store-deadline", &format!("{}ms", args.deadline_ms))
            .flag("workers", "1")
            .start()
    };
    let servers: Vec<Tollgate> = (0..SERVERS).map(|_| launch()).collect();
    let plan = Arc::new(Plan { keys: args.keys, duration: Duration::from_secs(args.seconds) });

    let progress = progress_bar(args.seconds);
    let clients: Vec<_> = (0..SERVERS * CLIENTS)
        .map(|number| {
            let (plan, address) = (Arc::clone(&plan), servers[number % SERVERS].http());
            thread::spawn(move || load::ask(&plan, address, number as u64, SERVERS * CLIENTS))
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
    progress.finish_and_clear();
    report(args, &asked)
}

fn report(args: &FleetArgs, asked: &[Asked]) -> Result<(), Box<dyn Error>> {
    println!(
        "{SERVERS} servers on one Redis, {} s, {} keys at 0.5x to 3x of {UNITS} units in {PERIOD_S} s, costs 1 to 3,",
        args.seconds, args.keys
    );
    println!("HTTP, fail_mode closed, deadline {} ms. Judged by the clock of Redis:\n", args.deadline_ms);
    let mut table = Table::new([
        "",
        "decisions",
        "admitted",
        "denied",
        "by fail mode",
        "without answer",
        "over-admissions",
    ]);
    let mut total = [0; 6];
    for (index, policy) in policies().iter().enumerate() {
        let of_policy = || asked.iter().filter(|asked| asked.key as usize % policies().len() == index);
        let count = |outcome: Outcome| of_policy().filter(|asked| asked.outcome.is_like(outcome)).count();
        let row = [
            of_policy().count(),
            count(Outcome::Admitted { at_us: 0 }),
            count(Outcome::Denied),
            count(Outcome::FailMode),
            count(Outcome::Unanswered),
            over_admissions(&policy.spec, of_policy()),
        ];
        for (sum, figure) in total.iter_mut().zip(row) {
            *sum += figure;
        }
        table.add_row(cells(policy.name, &row));
    }
    table.add_row(cells("all", &total));
    println!("{table}\n");
    let [decisions, admitted, denied, fail_mode, unanswered, over] = total;
    println!(
        "fleet: decisions={decisions} admitted={admitted} denied={denied} fail_mode={fail_mode} unanswered={unanswered} over_admissions={over}"
    );
    if over > 0 {
        Err(format!("{over} requests were admitted that the limits do not allow").into())
    } else {
        Ok(())
    }
}

fn cells(name: &str, figures: &[usize]) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(figures.iter().map(usize::to_string)).collect()
}

fn progress_bar(seconds: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} s");
    let progress = ProgressBar::new(seconds);
    progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    progress
}
