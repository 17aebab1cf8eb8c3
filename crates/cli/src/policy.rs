//! `tollgate policy`: the domains and named policies that a server keeps in its database, in the place of those in files.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::Value;

use crate::admin::{self, Admin, Condition, Reply, encoded};
use crate::failure::Failure;
use crate::table::{Column, Table, shown};
use crate::{diff, document, moment};

const POLICIES: &str = "/admin/v1/policies";

pub(crate) fn command() -> Command {
    Command::new("policy")
        .about("Show and change the domains and named policies that a server keeps in its database")
        .after_help(
            "Examples:\n  tollgate policy list\n  \
             tollgate policy set search-standard --file search.yaml\n  \
             tollgate policy delete search-standard      # what the files say applies again",
        )
        .args(admin::args())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("list")
                .about("List what is in the database")
                .after_help("Example: tollgate policy list --json")
                .args(admin::page_args()),
        )
        .subcommand(
            Command::new("get")
                .about("Print a domain or a policy")
                .after_help("Example: tollgate policy get search-standard > search.json")
                .arg(id_arg()),
        )
        .subcommand(
            Command::new("set")
                .about("Put a domain or a policy into the place of what is there")
                .after_help(
                    "Examples:\n  tollgate policy set search-standard --file search.yaml   # {requests: 100, period: 1m, burst: 20}\n  \
                     tollgate policy set shop --file rules/shop.yaml         # the domain `shop`\n\n\
                     The file holds the policy alone, or is a file of rules with a domain or policy of this name.",
                )
                .arg(id_arg())
                .arg(
                    Arg::new("file")
                        .long("file")
                        .required(true)
                        .value_name("FILE")
                        .value_parser(value_parser!(PathBuf))
                        .help("YAML or JSON"),
                )
                .arg(admin::if_match_arg()),
        )
        .subcommand(
            Command::new("delete")
                .about("Take a domain or a policy out of the database; what files say applies again")
                .after_help("Example: tollgate policy delete search-standard --if-match 12")
                .arg(id_arg())
                .arg(admin::if_match_arg()),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    match matches.subcommand() {
        Some(("list", matches)) => list(matches),
        Some(("get", matches)) => get(matches),
        Some(("set", matches)) => set(matches),
        Some(("delete", matches)) => delete(matches),
        _ => Ok(ExitCode::FAILURE),
    }
}

fn id_arg() -> Arg {
    Arg::new("id").value_name("ID").required(true).help("The name of the policy, or of the domain")
}

fn id(matches: &ArgMatches) -> &str {
    matches.get_one::<String>("id").map_or("", String::as_str)
}

/// Where a policy is.
pub(crate) fn path(id: &str) -> String {
    format!("{POLICIES}/{}", encoded(id))
}

/// The document in an answer.
pub(crate) fn document(answer: &Value) -> &Value {
    &answer["policy"]
}

fn list(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let listed = admin.list(POLICIES, &[], matches)?;
    admin.print_list(&listed, |items| {
        if items.is_empty() {
            return "The database holds no rules: those of files apply.\n".to_owned();
        }
        let columns = [
            Column::Left("ID"),
            Column::Left("KIND"),
            Column::Right("VERSION"),
            Column::Left("CHANGED"),
            Column::Left("BY"),
        ];
        let mut table = Table::new(&columns);
        for item in items {
            table.row([
                item["id"].as_str().unwrap_or(""),
                if document(item)["domain"].is_null() { "policy" } else { "domain" },
                &item["version"].to_string(),
                &moment::told(&item["changed_at"], "-"),
                item["changed_by"].as_str().unwrap_or("-"),
            ]);
        }
        table.text()
    })
}

fn get(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let reply = admin.get(&path(id(matches)))?;
    // As a file that `set` takes; `--json` has the version too.
    admin.print(&reply.body, || format!("{:#}\n", document(&reply.body)))
}

fn set(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let (id, file) = (id(matches), matches.get_one::<PathBuf>("file"));
    let body = document::policy(id, file.map_or(std::path::Path::new(""), PathBuf::as_path))?;
    let mut admin = Admin::new(matches)?;
    let before = admin.find(&path(id))?;
    let after = admin.put(&path(id), &body, Condition::typed_or(matches, seen(before.as_ref())))?;
    admin.print(&after.body, || {
        let was = before.as_ref().map(|before| document(&before.body));
        change(id, was, document(&after.body), after.version)
    })
}

/// That nobody has changed it since.
pub(crate) fn seen(before: Option<&Reply>) -> Condition {
    match before {
        Some(Reply { version: Some(version), .. }) => Condition::Version(*version),
        Some(_) => Condition::Any,
        None => Condition::Absent,
    }
}

fn change(id: &str, before: Option<&Value>, after: &Value, version: Option<u64>) -> String {
    let lines = before.map(|before| diff::lines(before, after));
    let what = match &lines {
        None => "created",
        Some(lines) if lines.is_empty() => "the same as before",
        Some(_) => "changed",
    };
    let version = version.map_or_else(String::new, |version| format!(", version {version}"));
    let mut told = vec![format!("{}: {what}{version}", shown(id))];
    told.extend(lines.unwrap_or_default().iter().map(|line| format!("  {line}")));
    format!("{}\n", told.join("\n"))
}

fn delete(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let id = id(matches);
    let reply = admin.delete(&path(id), Condition::typed_or(matches, Condition::Any))?;
    admin.print(&reply.body, || format!("{}: deleted; what files say under this name applies\n", shown(id)))
}
