//! A trace of requests to a language model against a token budget: an estimate is reserved for each, the real tokens are settled, and in the end the
//! server must have charged what was really used, to the unit.

use std::error::Error;
use std::path::PathBuf;

use tollgate_testkit::real::tokens::{
    TokenReplay, TokenTotals, charged_tokens, read_token_rows, token_rules,
};
use tollgate_testkit::real::{Launch, Tollgate};

use crate::table::Table;
use crate::timer::Stopwatch;

/// What to replay, and against what.
#[derive(clap::Args)]
pub(crate) struct LlmTraceArgs {
    /// A CSV file with a header: TIMESTAMP,ContextTokens,GeneratedTokens
    path: PathBuf,
    /// How many tokens may be used in all
    #[arg(long, default_value_t = 24_000_000)]
    budget: u64,
    /// What the limit says besides its number
    #[arg(long, default_value = "period: 30d, algorithm: fixed_window")]
    terms: String,
    /// How many tokens are reserved for what is generated
    #[arg(long, default_value_t = 200)]
    guess: u64,
    /// Clients, each on a connection of its own
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Requests that each of them has open at a time
    #[arg(long, default_value_t = 8)]
    open: usize,
    /// The `database` of the server
    #[arg(long)]
    database: Option<String>,
    /// The `store` of the server: where counters are shared
    #[arg(long)]
    store: Option<String>,
    /// The `tollgate` to ask, instead of this program
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
}

/// Replays the trace; an error if more or less was charged than used.
pub(crate) fn run(args: &LlmTraceArgs) -> Result<(), Box<dyn Error>> {
    let rows = read_token_rows(&args.path)?;
    let server = start(args)?;
    let replay = TokenReplay {
        generated_guess: args.guess,
        clients: args.clients.max(1),
        open_each: args.open.max(1),
    };
    let stopwatch = Stopwatch::start();
    let totals = replay.run(&[server.http()], &rows);
    let elapsed_s = stopwatch.elapsed_secs();
    let charged = charged_tokens(server.http(), totals.real);
    report(&totals, charged, elapsed_s);
    #[allow(clippy::cast_precision_loss)] // A figure for people.
    let ratio = charged as f64 / totals.real as f64;
    println!("ratios: charged_vs_real={ratio:.6}");
    if charged == totals.real {
        return Ok(());
    }
    Err(format!("{charged} tokens were charged, and {} were used", totals.real).into())
}

fn start(args: &LlmTraceArgs) -> Result<Tollgate, Box<dyn Error>> {
    let binary = match &args.server {
        Some(path) => path.canonicalize()?,
        None => std::env::current_exe()?,
    };
    let mut launch = Launch::new(&binary.display().to_string());
    launch = launch.rules("llm.yaml", &token_rules(args.budget, &args.terms));
    for (flag, value) in [("database", &args.database), ("store", &args.store)] {
        if let Some(value) = value {
            launch = launch.flag(flag, value);
        }
    }
    if args.store.is_some() {
        // What a busy machine does not answer in time would be decided, and counted, by this process alone.
        launch = launch.flag("store-deadline", "2s");
    }
    Ok(launch.start())
}

fn report(totals: &TokenTotals, charged: u64, elapsed_s: f64) {
    let TokenTotals { admitted, denied, reserved, returned, booked, real } = *totals;
    let mut table = Table::new(["", "requests", "tokens"]);
    let rows = [
        ("admitted, and what they really used", Some(admitted), Some(real)),
        ("denied", Some(denied), None),
        ("reserved", None, Some(reserved)),
        ("returned", None, Some(returned)),
        ("booked", None, Some(booked)),
        ("charged, as the server counts", None, Some(charged)),
    ];
    for (what, requests, tokens) in rows {
        let cell = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
        table.add_row(vec![what.to_owned(), cell(requests), cell(tokens)]);
    }
    println!("{table}");
    println!("in {elapsed_s:.1} s");
}
