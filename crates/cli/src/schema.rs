//! `tollgate schema`: what editors need to help with rules.

use std::process::ExitCode;

use clap::{ArgMatches, Command};

use crate::failure::Failure;
use crate::print_bytes;

pub(crate) fn command() -> Command {
    Command::new("schema").about("Print the JSON schema of rules files, for editors").after_help(
        "tollgate schema > rules.schema.json, and as the first line of a rules file:\n  \
         # yaml-language-server: $schema=rules.schema.json",
    )
}

pub(crate) fn run(_: &ArgMatches) -> Result<ExitCode, Failure> {
    print_bytes(format!("{:#}\n", tollgate::policy::schema()).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
