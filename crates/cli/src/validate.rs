//! `tollgate validate`: everything that is wrong with rules, before a server sees them.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};
use tollgate::core::Time;
use tollgate::policy::{DefaultAlgorithm, Position, Problem, Problems, Snapshot, read_all, sources};

use crate::failure::Failure;
use crate::print_bytes;

pub(crate) fn command() -> Command {
    Command::new("validate")
        .about("Check rules, and say everything that is wrong with them")
        .arg(rules_arg("paths").num_args(1..))
        .arg(default_algorithm_arg())
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the outcome, and everything that is wrong, for scripts"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let paths: Vec<PathBuf> = matches.get_many("paths").into_iter().flatten().cloned().collect();
    let is_json = matches.get_flag("json");
    let (snapshot, files) = match load(&paths, matches) {
        Err(Failure::Problems(problems)) if is_json => {
            print_bytes(format!("{:#}\n", wrong(&problems)).as_bytes())?;
            return Ok(ExitCode::FAILURE);
        }
        loaded => loaded?,
    };
    let (domains, policies) = (snapshot.domain_names().len(), snapshot.policy_names().len());
    let rules = snapshot.places().count() - policies;
    if is_json {
        let said =
            json!({ "ok": true, "files": files, "domains": domains, "rules": rules, "policies": policies });
        print_bytes(format!("{said:#}\n").as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let told = [
        counted(files, "file", "files"),
        counted(domains, "domain", "domains"),
        counted(rules, "rule", "rules"),
        counted(policies, "policy", "policies"),
    ];
    print_bytes(format!("all good: {}\n", told.join(", ")).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Everything that is wrong, for scripts.
fn wrong(problems: &Problems) -> Value {
    let told = |problem: &Problem| {
        let Position { file, line, column, .. } = &problem.position;
        json!({ "file": &**file, "line": line, "column": column, "message": problem.what, "hint": problem.hint })
    };
    json!({ "ok": false, "problems": problems.iter().map(told).collect::<Vec<_>>() })
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// The argument that names files or directories of rules.
pub(crate) fn rules_arg(id: &'static str) -> Arg {
    Arg::new(id)
        .value_name("PATH")
        .default_value("rules")
        .value_parser(value_parser!(PathBuf))
        .help("Files or directories of rules")
}

/// The argument that says how limits count that do not say it themselves.
pub(crate) fn default_algorithm_arg() -> Arg {
    Arg::new("default_algorithm")
        .long("default-algorithm")
        .value_name("NAME")
        .value_parser(["sliding_window", "fixed_window"])
        .default_value("sliding_window")
        .env("TOLLGATE_DEFAULT_ALGORITHM")
        .help("The algorithm of limits that name none and have no burst, as the server is told it")
}

/// What that argument says.
pub(crate) fn default_algorithm(matches: &ArgMatches) -> DefaultAlgorithm {
    match matches.get_one::<String>("default_algorithm").map(String::as_str) {
        Some("fixed_window") => DefaultAlgorithm::FixedWindow,
        _ => DefaultAlgorithm::SlidingWindow,
    }
}

/// The rules at these paths, compiled together, and from how many files.
pub(crate) fn load(paths: &[PathBuf], matches: &ArgMatches) -> Result<(Snapshot, usize), Failure> {
    let mut texts = Vec::new();
    for path in paths {
        texts.extend(sources(path).map_err(Failure::Problems)?);
    }
    let specs = read_all(&texts, default_algorithm(matches)).map_err(Failure::Problems)?;
    Ok((Snapshot::compile(specs, None, Time::default()), texts.len()))
}
