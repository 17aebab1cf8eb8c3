//! Decisions on durable quotas, beside the same rule in memory, and beside what is usually done: one UPDATE for each decision.
//!
//! The engine is asked as a service embeds it, by one thread that reads the clock for every decision; blocks of units come from a real database by errands that
//! another thread carries. SQLite is a file, PostgreSQL a server of its own, both with their commits on the disk. In memory and durable take turns in an order that rotates, and the
//! median of the rounds is reported; the UPDATEs are made for some seconds, by several connections at once where the database lets them.

mod updates;

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tollgate::{Clock, DecidedBy, Engine, EngineSettings, Keeper, Request, Source, Step};
use tollgate_control::{
    Database, DatabaseAddress, DatabaseSettings, DurableAuthority, DurableSettings, DurableStats,
};
use tollgate_testkit::real::postgres::{PostgresLaunch, PostgresServer};

use crate::keys::{Draw, KeyStream};
use crate::ledger::{load_average, median};
use crate::table::Table;
use crate::timer::Stopwatch;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct DurableArgs {
    /// How many tenants have a quota
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    tenants: u64,
    /// How often each is asked
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Decisions of each turn
    #[arg(long, default_value_t = 1_000_000)]
    decisions: usize,
    /// For how many seconds UPDATEs are made
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

/// So large that nobody is denied.
const QUOTA: u64 = 10_000_000_000;
const QUEUE_MAX: usize = 16_384;
const ERRANDS_MAX: usize = 1_024;
const ERRANDS_INTERVAL: Duration = Duration::from_millis(1);
/// Longer than in production: what is measured is the usual way, not the fail mode.
const PATIENCE: Duration = Duration::from_secs(10);

/// An engine with a quota per tenant and month.
struct Asked {
    engine: Arc<Engine>,
    clock: Arc<Clock>,
    /// Where its counts are kept, if not in memory.
    kept: Option<Kept>,
}

/// What keeps counts.
struct Kept {
    authority: Arc<DurableAuthority>,
    runtime: Arc<Runtime>,
    is_over: Arc<AtomicBool>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Asked {
    fn new(runtime: &Arc<Runtime>, database: Option<DatabaseAddress>) -> Result<Asked, Box<dyn Error>> {
        let durable = if database.is_some() { ", durable: true" } else { "" };
        let rules = format!("policies: {{monthly: {{requests: {QUOTA}, calendar: month{durable}}}}}");
        let clock = Arc::new(Clock::new());
        let engine = Engine::new(EngineSettings::default())?;
        let engine = if database.is_some() { engine.with_database() } else { engine };
        engine.set_database_nodes(1);
        engine.load(&[Source::new("bench", &rules)], clock.now())?;
        let engine = Arc::new(engine);
        let kept = database.map(|address| keep(runtime, address, &engine, &clock)).transpose()?;
        Ok(Asked { engine, clock, kept })
    }

    fn allows(&self, key: &str) -> Result<bool, Box<dyn Error>> {
        let request = Request::policy("monthly", key.as_bytes());
        let verdict = match self.engine.begin(&request, self.clock.now())? {
            Step::Ready(verdict) => verdict,
            Step::Pending(pending) => {
                let Some(kept) = &self.kept else { return Err("nobody to ask".into()) };
                let questions = pending.questions().iter().map(|(question, _)| question.clone()).collect();
                let grants = kept.runtime.block_on(kept.authority.ask_all(questions, PATIENCE));
                let resumed = self.engine.resume(pending, &grants, self.clock.now());
                resumed.verdict
            }
        };
        let is_counted = !matches!(verdict.decided_by(), DecidedBy::FailClosed | DecidedBy::FailOpen);
        Ok(black_box(verdict.allowed()) && is_counted)
    }

    /// Nanoseconds per decision.
    fn take(&self, stream: &KeyStream) -> Result<f64, Box<dyn Error>> {
        let (stopwatch, mut asked) = (Stopwatch::start(), 0_u64);
        for key in stream.whole().texts() {
            if !self.allows(key)? {
                return Err("a quota that nobody can use up was denied".into());
            }
            asked += 1;
        }
        Ok(stopwatch.elapsed_ns() as f64 / asked as f64)
    }

    fn stats(&self) -> Option<DurableStats> {
        self.kept.as_ref().map(|kept| kept.authority.stats())
    }
}

/// Opens a database, and has the engine's errands carried there.
fn keep(
    runtime: &Arc<Runtime>,
    address: DatabaseAddress,
    engine: &Arc<Engine>,
    clock: &Arc<Clock>,
) -> Result<Kept, Box<dyn Error>> {
    let database = runtime.block_on(Database::open(DatabaseSettings::new(address)))?;
    let settings =
        DurableSettings { node: "bench".to_owned(), queue_max: QUEUE_MAX, seed: 1, owed_folder: None };
    let authority = {
        let _inside = runtime.enter();
        Arc::new(DurableAuthority::start(&database, Arc::clone(clock), settings))
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let (engine, clock) = (Arc::clone(engine), Arc::clone(clock));
    let (carried_to, is_carrying_over) = (Arc::clone(&authority), Arc::clone(&is_over));
    runtime.spawn(async move {
        // The database goes with the errands.
        let _database = database;
        while !is_carrying_over.load(Ordering::Relaxed) {
            let errands = engine.take_errands(Keeper::Database, ERRANDS_MAX);
            if errands.is_empty() {
                engine.tend(clock.now());
                tokio::time::sleep(ERRANDS_INTERVAL).await;
                continue;
            }
            let questions = errands.iter().map(|errand| errand.question.0.clone()).collect();
            let answers = carried_to.ask_all(questions, PATIENCE).await;
            for (errand, answer) in errands.into_iter().zip(answers) {
                engine.settle(errand, answer, clock.now());
            }
        }
    });
    Ok(Kept { authority, runtime: Arc::clone(runtime), is_over })
}

/// Measures and prints; the last line is for scripts.
pub(crate) fn run(args: &DurableArgs) -> Result<(), Box<dyn Error>> {
    let load_before = load_average().unwrap_or(f64::NAN);
    let runtime =
        Arc::new(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?);
    let (folder, postgres) = (TempDir::new()?, PostgresLaunch::default().durable().start());
    let sqlite = DatabaseAddress::Sqlite(folder.path().join("quotas.db"));
    let asked = [
        ("in memory", Asked::new(&runtime, None)?),
        ("durable, SQLite", Asked::new(&runtime, Some(sqlite))?),
        ("durable, PostgreSQL", Asked::new(&runtime, Some(postgres.url().parse()?))?),
    ];
    let samples = take_turns(args, &asked)?;
    let updates = measure_updates(args, folder.path(), &postgres)?;

    println!(
        "{} tenants, a quota per month each, one thread that decides. Load average before: {load_before:.2}.\n",
        args.tenants
    );
    let mut table = Table::new(["", "decisions/s", "ns each", "transactions", "decisions a transaction"]);
    let per_second = |ns: f64| 1e9 / ns;
    let decisions = (args.decisions * args.rounds as usize) as u64;
    for ((name, asked), &ns) in asked.iter().zip(&samples) {
        let stats = asked.stats();
        let transactions = stats.as_ref().map_or(0, |stats| stats.transactions);
        table.add_row(vec![
            (*name).to_owned(),
            format!("{:.0}", per_second(ns)),
            format!("{ns:.0}"),
            stats.map(|stats| stats.transactions.to_string()).unwrap_or_default(),
            decisions.checked_div(transactions).map(|each| each.to_string()).unwrap_or_default(),
        ]);
    }
    for (name, per_second) in &updates {
        table.add_row(vec![
            (*name).to_owned(),
            format!("{per_second:.0}"),
            format!("{:.0}", 1e9 / per_second),
            "one each".to_owned(),
            "1".to_owned(),
        ]);
    }
    println!("{table}\n");
    let [memory, sqlite, postgres] = [samples[0], samples[1], samples[2]].map(per_second);
    // Beside the quickest of those of the same database.
    let quickest = |prefix: &str| {
        let of = updates.iter().filter(|(name, _)| name.contains(prefix)).map(|(_, per_second)| *per_second);
        of.fold(0.0, f64::max)
    };
    println!(
        "ratios: durable_vs_memory={:.2} durable_vs_update={:.0} postgres_vs_memory={:.2} postgres_vs_update={:.0}",
        sqlite / memory,
        sqlite / quickest("SQLite"),
        postgres / memory,
        postgres / quickest("PostgreSQL"),
    );
    Ok(())
}

/// Nanoseconds per decision of each.
fn take_turns(args: &DurableArgs, asked: &[(&str, Asked)]) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut samples = vec![Vec::new(); asked.len()];
    // The first two rounds show how many units each tenant needs.
    for round in 0..args.rounds as usize + 2 {
        let stream = KeyStream::draw(Draw::Uniform, args.tenants, args.decisions, round as u64);
        for turn in 0..asked.len() {
            let at = (turn + round) % asked.len();
            let ns = asked[at].1.take(&stream)?;
            if round >= 2 {
                samples[at].push(ns);
            }
        }
    }
    Ok(samples.into_iter().map(median).collect())
}

/// UPDATEs per second, of each way to make them.
fn measure_updates(
    args: &DurableArgs,
    folder: &Path,
    postgres: &PostgresServer,
) -> Result<Vec<(&'static str, f64)>, Box<dyn Error>> {
    let (tenants, time) = (args.tenants, Duration::from_secs(args.seconds));
    Ok(vec![
        ("one UPDATE each, SQLite", updates::sqlite(&folder.join("updates.db"), tenants, time)?),
        ("one UPDATE each, PostgreSQL, 1 connection", updates::postgres(&postgres.url(), tenants, time, 1)?),
        (
            "one UPDATE each, PostgreSQL, 16 connections",
            updates::postgres(&postgres.url(), tenants, time, 16)?,
        ),
    ])
}
