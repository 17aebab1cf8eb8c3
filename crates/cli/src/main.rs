//! The `tollgate` command.

mod admin;
mod audit;
mod check;
mod client;
mod descriptor;
mod diff;
mod document;
mod explain;
mod failure;
mod import;
mod key;
mod load;
mod logs;
mod moment;
mod node;
mod policy;
mod quota;
mod schema;
mod serve;
mod settings;
mod subject;
mod switch;
mod table;
mod usage;
mod validate;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{ArgMatches, Command};
use failure::Failure;

/// Faster than the system's allocator where many threads allocate small things.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One subcommand: how it is called, and what it does.
struct Subcommand {
    command: fn() -> Command,
    run: fn(&ArgMatches) -> Result<ExitCode, Failure>,
}

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand { command: serve::command, run: serve::run },
    Subcommand { command: check::command, run: check::run },
    Subcommand { command: load::command, run: load::run },
    Subcommand { command: validate::command, run: validate::run },
    Subcommand { command: explain::command, run: explain::run },
    Subcommand { command: schema::command, run: schema::run },
    Subcommand { command: quota::command, run: quota::run },
    Subcommand { command: usage::command, run: usage::run },
    Subcommand { command: key::command, run: key::run },
    Subcommand { command: policy::command, run: policy::run },
    Subcommand { command: import::command, run: import::run },
    Subcommand { command: switch::command, run: switch::run },
    Subcommand { command: audit::command, run: audit::run },
    Subcommand { command: node::command, run: node::run },
    Subcommand { command: completions_command, run: completions },
];

fn command() -> Command {
    Command::new("tollgate")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Decides, for every request of an API, whether it may pass")
        .arg_required_else_help(true)
        .subcommand_required(true)
        .after_help("Start a server: tollgate serve\nAsk it:         tollgate check --policy search-standard --key user:4711")
        .subcommands(SUBCOMMANDS.iter().map(|subcommand| (subcommand.command)()))
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    let Some((name, matches)) = matches.subcommand() else { return ExitCode::FAILURE };
    let chosen = SUBCOMMANDS.iter().find(|subcommand| (subcommand.command)().get_name() == name);
    match chosen.map(|subcommand| (subcommand.run)(matches)) {
        Some(Ok(code)) => code,
        Some(Err(failure)) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
        None => ExitCode::FAILURE,
    }
}

fn completions_command() -> Command {
    Command::new("completions")
        .about("Print completions for a shell")
        .after_help(
            "For bash: tollgate completions bash > ~/.local/share/bash-completion/completions/tollgate",
        )
        .arg(clap::Arg::new("shell").required(true).value_parser(clap::value_parser!(clap_complete::Shell)))
}

fn completions(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    if let Some(&shell) = matches.get_one::<clap_complete::Shell>("shell") {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command(), "tollgate", &mut script);
        print_bytes(&script)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints, and is content if the reader has gone away: `| head` is no mistake.
fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    match io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
