//! `tollgate audit`: who changed what, when; and whether the record of it was touched.

mod export;
mod verify;

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use serde_json::Value;

use crate::admin::{self, Admin};
use crate::failure::Failure;
use crate::table::{Column, Table};
use crate::{diff, key, moment, quota};

const AUDIT: &str = "/admin/v1/audit";

pub(crate) fn command() -> Command {
    Command::new("audit")
        .about("Show who changed what and when, keep a copy of it, and see whether it was touched")
        .after_help(
            "Examples:\n  tollgate audit list --kind quota --id acme\n  \
             tollgate audit export --output audit.jsonl\n  \
             tollgate audit verify",
        )
        .args(admin::args())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("list")
                .about("List changes, the newest first")
                .after_help(
                    "Examples:\n  tollgate audit list --from 24h\n  tollgate audit list --who ann --action put\n  \
                     tollgate audit list --kind quota --id acme --json",
                )
                .args(filter_args())
                .arg(
                    Arg::new("order")
                        .long("order")
                        .value_name("WORD")
                        .value_parser(["newest", "oldest"])
                        .default_value("newest")
                        .help("Which come first"),
                )
                .args(admin::page_args()),
        )
        .subcommand(export::command())
        .subcommand(verify::command())
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    match matches.subcommand() {
        Some(("list", matches)) => list(matches),
        Some(("export", matches)) => export::run(matches),
        Some(("verify", matches)) => verify::run(matches),
        _ => Ok(ExitCode::FAILURE),
    }
}

fn filter_args() -> [Arg; 6] {
    let text = |id: &'static str, name: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name(name).help(help)
    };
    [
        text("who", "NAME", "Changes of this token's name"),
        text("action", "NAME", "Changes of this sort, such as put, delete or reset"),
        text("kind", "NAME", "Changes of a policy, quota, key, switch, usage or rules"),
        text("id", "ID", "Changes of this tenant, policy or key"),
        text("from", "MOMENT", "From when on: RFC 3339, or such as 24h ago"),
        text("to", "MOMENT", "Until when: RFC 3339, or such as 1h ago"),
    ]
}

/// What was typed, as the API wants it.
fn filter(matches: &ArgMatches) -> Result<Vec<(&'static str, Option<String>)>, Failure> {
    let now = moment::now();
    let mut filter = Vec::new();
    for id in ["who", "action", "kind", "id"] {
        filter.push((id, matches.get_one::<String>(id).cloned()));
    }
    for id in ["from", "to"] {
        let text = matches.get_one::<String>(id);
        let moment = text.map(|text| moment::back(text, now)).transpose();
        let moment = moment.map_err(|told| Failure::Usage(format!("--{id}: {told}")))?;
        filter.push((id, moment.map(moment::rfc3339)));
    }
    Ok(filter)
}

fn list(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let filter = filter(matches)?;
    let order = matches.get_one::<String>("order").map(String::as_str);
    let typed = filter.iter().map(|(name, value)| (*name, value.as_deref()));
    let filter: Vec<_> = typed.chain([("order", order)]).collect();
    let mut admin = Admin::new(matches)?;
    let listed = admin.list(AUDIT, &filter, matches)?;
    admin.print_list(&listed, tell)
}

fn tell(rows: &[Value]) -> String {
    if rows.is_empty() {
        return "No change is like that.\n".to_owned();
    }
    let columns = [
        Column::Right("VERSION"),
        Column::Left("WHEN"),
        Column::Left("WHO"),
        Column::Left("ROLE"),
        Column::Left("ACTION"),
        Column::Left("KIND"),
        Column::Left("ID"),
        Column::Left("WHAT"),
    ];
    let mut table = Table::new(&columns);
    for row in rows {
        let text = |field: &str| row[field].as_str().unwrap_or("-");
        table.row([
            &row["version"].to_string(),
            &moment::told(&row["at"], "-"),
            text("who"),
            text("role"),
            text("action"),
            text("kind"),
            text("id"),
            &change(row),
        ]);
    }
    table.text()
}

/// What was changed, in a line.
fn change(row: &Value) -> String {
    const SHOWN_MAX: usize = 2;
    let (before, after) = (opened(&row["before"]), opened(&row["after"]));
    let mut lines = match row["kind"].as_str() {
        Some("quota") => quota::changes(&before, &after),
        Some("key") => key::changes(&before, &after),
        _ => diff::lines(&before, &after),
    };
    let more = lines.len().saturating_sub(SHOWN_MAX);
    lines.truncate(SHOWN_MAX);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    format!("{}{more}", lines.join("; "))
}

/// A document, also one that stands there as text.
fn opened(document: &Value) -> Value {
    match document {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| document.clone()),
        other => other.clone(),
    }
}
