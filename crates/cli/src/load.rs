//! `tollgate load`: asks a server as often as one likes, and says how long answers took.

mod args;
mod report;

use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::{ArgMatches, Command};
use tollgate_load::{Load, LoadError, Progress, Tally};

use crate::failure::Failure;
use crate::print_bytes;

pub(crate) fn command() -> Command {
    Command::new("load")
        .about("Ask a running server at a planned rate, and measure how long answers take")
        .long_about(
            "Ask a running server at a planned rate, and measure how long answers take.\n\n\
             Moments of sending are planned before the run, and latencies count from the plan: a server that stops for a second has made \
             everybody wait who would have come in that second. What is asked is really taken: do not point it at counters that matter.",
        )
        .after_help(
            "Examples:\n  tollgate load                                        # the policy search-standard over HTTP, 1000 a second\n  \
             tollgate load --protocol rls --rate 20000 --zipf 1.1\n  \
             tollgate load --protocol resp --rate max --in-flight 64 --policy api\n  \
             tollgate load --protocol rls --domain shop --descriptor path=/login,remote_address={key} --json",
        )
        .args(args::args())
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let load = args::load(matches)?;
    let is_quiet = matches.get_flag("quiet") || !io::stderr().is_terminal();
    let mut ended_before = 0;
    let watch = |progress: Progress<'_>| {
        if !is_quiet {
            eprintln!("{}", report::line(&progress, ended_before));
        }
        ended_before = progress.tally.ended();
    };
    let was_interrupted = Cell::new(false);
    let stop = async {
        interrupted().await;
        was_interrupted.set(true);
    };
    let report = tollgate_load::run(&load, stop, watch).map_err(|error| failure(&load, error))?;
    let told = if matches.get_flag("json") {
        format!("{:#}\n", report::json(&load, &report))
    } else {
        report::table(&load, &report)
    };
    print_bytes(told.as_bytes())?;
    Ok(exit_code(&report.tally, was_interrupted.get()))
}

/// 1 if the server has left anything undecided, so that a script notices without reading.
fn exit_code(tally: &Tally, was_interrupted: bool) -> ExitCode {
    // What had come due at the interrupt and would have been sent a moment later is nobody's fault.
    let unsent = if was_interrupted { 0 } else { tally.unsent };
    match [tally.errors, tally.unanswered, unsent] {
        [0, 0, 0] => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Ctrl-C: the report of what was seen until then, not nothing.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn failure(load: &Load, error: LoadError) -> Failure {
    match error {
        LoadError::Refused(words) => Failure::Load {
            error: LoadError::Refused(format!("no decision from {}: {words}", load.address)),
            hint: "",
        },
        LoadError::Connect { .. } => Failure::Load {
            error,
            hint: "\nIs it running? `tollgate serve` starts one; `--address` names another.",
        },
        LoadError::Unspeakable { .. } => Failure::Usage(format!(
            "{error}: rls takes --domain and --descriptor; http these or --policy; resp --policy or --throttle"
        )),
        LoadError::Senseless(_) | LoadError::Address { .. } | LoadError::Unsendable(_) => {
            Failure::Usage(error.to_string())
        }
        LoadError::Start(_) => Failure::Load { error, hint: "" },
    }
}
