//! `tollgate explain`: which rules a descriptor meets, level by level, and why the others do not apply.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::failure::Failure;
use crate::{descriptor, print_bytes, validate};

pub(crate) fn command() -> Command {
    Command::new("explain")
        .about("Show which rules a descriptor meets, and why the others do not apply")
        .after_help("Example: tollgate explain --domain shop path=/login user=4711")
        .arg(validate::default_algorithm_arg())
        .arg(validate::rules_arg("rules").long("rules").value_parser(value_parser!(PathBuf)))
        .arg(
            Arg::new("domain")
                .long("domain")
                .short('d')
                .required(true)
                .value_name("NAME")
                .help("The domain of the request"),
        )
        .arg(
            Arg::new("entries")
                .required(true)
                .num_args(1..)
                .value_name("KEY=VALUE")
                .help("The entries of the descriptor, in order"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let rules: Vec<PathBuf> = matches.get_many("rules").into_iter().flatten().cloned().collect();
    let words: Vec<String> = matches.get_many("entries").into_iter().flatten().cloned().collect();
    let domain = matches.get_one::<String>("domain").map_or("", String::as_str);
    let (snapshot, _) = validate::load(&rules, matches)?;
    let told = snapshot.explain(domain, &descriptor::entries(&words)?);
    print_bytes(format!("{told}\n").as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
