//! `tollgate import`: a directory of rules moved into a server's database, each domain and each named policy as a document of its own.
//!
//! Everything is looked at before anything is sent. What is there already and the same is left alone, so whoever was interrupted runs it
//! again.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use tollgate::policy::{read_all, sources};

use crate::admin::{self, Admin};
use crate::document::{Document, documents};
use crate::failure::Failure;
use crate::policy::{document, path, seen};
use crate::table::{Column, Table, shown};
use crate::{print_bytes, validate};

/// The largest document that a server takes.
const BODY_BYTES_MAX: usize = 256 << 10;

pub(crate) fn command() -> Command {
    Command::new("import")
        .about("Move a directory of rules into a server's database")
        .after_help(
            "Examples:\n  tollgate import rules --dry-run\n  tollgate import rules\n\n\
             Each domain and each named policy becomes a policy of the admin API, and takes the place of what the server's files say under \
             that name. Nothing is sent unless all files are right. To import again changes only what differs.",
        )
        .args(admin::args())
        .arg(
            Arg::new("dir")
                .value_name("DIR")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("A directory of rules, or one file"),
        )
        .arg(
            Arg::new("dry-run")
                .long("dry-run")
                .action(ArgAction::SetTrue)
                .help("Say what would be done, and do nothing"),
        )
        .arg(validate::default_algorithm_arg())
}

/// What became of a document, or would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Created,
    Changed,
    Unchanged,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Outcome::Created => "created",
            Outcome::Changed => "changed",
            Outcome::Unchanged => "unchanged",
        }
    }
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let found = gather(matches)?;
    let mut admin = Admin::new(matches)?;
    let is_dry = matches.get_flag("dry-run");
    let is_watched = io::stderr().is_terminal() && !io::stdout().is_terminal();
    let mut done: Vec<(&Document, Outcome)> = Vec::new();
    for document in &found {
        match import(&mut admin, document, is_dry) {
            Ok(outcome) => done.push((document, outcome)),
            Err(failure) => {
                tell(&admin, &done, is_dry)?;
                eprintln!(
                    "stopped at \"{}\" of {}, after {} of {}; run it again to go on",
                    shown(&document.id),
                    shown(&document.file),
                    done.len(),
                    found.len()
                );
                return Err(failure);
            }
        }
        if is_watched && done.len().is_multiple_of(100) {
            eprintln!("{} of {}", done.len(), found.len());
        }
    }
    tell(&admin, &done, is_dry)?;
    Ok(ExitCode::SUCCESS)
}

/// Everything in the directory, if nothing is wrong with it.
fn gather(matches: &ArgMatches) -> Result<Vec<Document>, Failure> {
    let path = matches.get_one::<PathBuf>("dir").cloned().unwrap_or_default();
    let algorithm = validate::default_algorithm(matches);
    let texts = sources(&path).map_err(Failure::Problems)?;
    read_all(&texts, algorithm).map_err(Failure::Problems)?;
    let mut found: Vec<Document> = Vec::new();
    for text in &texts {
        found.extend(documents(text, algorithm)?);
    }
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for document in &found {
        let (id, file) = (document.id.as_str(), document.file.as_str());
        if let Some(other) = seen.insert(id, file) {
            return Err(Failure::Failed(format!(
                "a domain and a policy are both called \"{id}\" ({other}, {file}): in the database, each needs a name of its own"
            )));
        }
        let bytes = document.body.to_string().len();
        if bytes > BODY_BYTES_MAX {
            return Err(Failure::Failed(format!(
                "{file}: \"{id}\" has {bytes} bytes as JSON; the database takes at most {BODY_BYTES_MAX}"
            )));
        }
    }
    Ok(found)
}

fn import(admin: &mut Admin, wanted: &Document, is_dry: bool) -> Result<Outcome, Failure> {
    let before = admin.find(&path(&wanted.id))?;
    let outcome = match &before {
        Some(before) if *document(&before.body) == wanted.body => return Ok(Outcome::Unchanged),
        Some(_) => Outcome::Changed,
        None => Outcome::Created,
    };
    if !is_dry {
        admin.put(&path(&wanted.id), &wanted.body, seen(before.as_ref()))?;
    }
    Ok(outcome)
}

fn tell(admin: &Admin, done: &[(&Document, Outcome)], is_dry: bool) -> Result<(), Failure> {
    let of = |outcome| done.iter().filter(move |(_, became)| *became == outcome);
    let all = [Outcome::Created, Outcome::Changed, Outcome::Unchanged];
    if admin.is_json() {
        let ids = |outcome| of(outcome).map(|(document, _)| document.id.as_str()).collect::<Vec<_>>();
        let said = json!({
            "dry_run": is_dry,
            "created": ids(Outcome::Created), "changed": ids(Outcome::Changed), "unchanged": ids(Outcome::Unchanged),
        });
        return print_bytes(format!("{said:#}\n").as_bytes());
    }
    let mut table = Table::new(&[
        Column::Left("ID"),
        Column::Left("KIND"),
        Column::Left("OUTCOME"),
        Column::Left("FILE"),
    ]);
    for (document, outcome) in done {
        let kind = if document.body.get("domain").is_some() { "domain" } else { "policy" };
        table.row([&document.id, kind, outcome.word(), &document.file]);
    }
    let counts = all.map(|outcome| format!("{} {}", of(outcome).count(), outcome.word())).join(", ");
    let dry = if is_dry { "; nothing was sent that changes anything (--dry-run)" } else { "" };
    print_bytes(format!("{}{counts}{dry}\n", table.text()).as_bytes())
}
