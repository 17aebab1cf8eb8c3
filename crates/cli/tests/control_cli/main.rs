//! The commands that ask the admin API: what they send, what they make of answers, and what they say of mistakes.
#![allow(clippy::unwrap_used, clippy::panic)]

mod audits;
mod canned;
mod imports;
mod real;
mod sent;
mod told;
mod trouble;

use std::path::Path;
use std::process::Command;

use tollgate_testkit::real::{Finished, run};

const TOLLGATE: &str = env!("CARGO_BIN_EXE_tollgate");
const TOKEN: &str = "a-secret-token";

/// Runs the command in a directory, with a token in its environment and nothing else.
fn tollgate(folder: &Path, arguments: &[&str]) -> Finished {
    run(command(folder, arguments).env("TOLLGATE_ADMIN_TOKEN", TOKEN))
}

/// The same with nothing in its environment.
fn bare(folder: &Path, arguments: &[&str]) -> Finished {
    run(&mut command(folder, arguments))
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(TOLLGATE);
    command.args(arguments).current_dir(folder).env_clear();
    command
}
