//! `tollgate node`: the servers that share a database, and how far each has come.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use serde_json::Value;

use crate::admin::{self, Admin};
use crate::failure::Failure;
use crate::moment;
use crate::table::{Column, Table};

pub(crate) fn command() -> Command {
    Command::new("node")
        .about("Show the servers that share a database, and which version each has")
        .after_help("Example: tollgate node list")
        .args(admin::args())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("list")
                .about("List the servers, their versions and rules")
                .after_help("Example: tollgate node list --json"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let Some((_, matches)) = matches.subcommand() else { return Ok(ExitCode::FAILURE) };
    let mut admin = Admin::new(matches)?;
    let reply = admin.get("/admin/v1/nodes")?;
    admin.print(&reply.body, || tell(&reply.body))
}

fn tell(said: &Value) -> String {
    let nodes = said["items"].as_array().map_or(&[][..], Vec::as_slice);
    let newest = nodes.iter().map(|node| &node["version"]).chain([&said["head"]]);
    let newest = newest.filter_map(Value::as_u64).max().unwrap_or(0);
    let columns = [
        Column::Left("NODE"),
        Column::Left("NAME"),
        Column::Right("VERSION"),
        Column::Right("BEHIND"),
        Column::Left("RULES"),
        Column::Left("STARTED"),
        Column::Left("SEEN"),
    ];
    let mut table = Table::new(&columns);
    let now = moment::now();
    for node in nodes {
        let version = node["version"].as_u64().unwrap_or(0);
        table.row([
            node["node"].as_str().unwrap_or("?"),
            node["name"].as_str().unwrap_or("-"),
            &version.to_string(),
            &newest.saturating_sub(version).to_string(),
            node["rules"].as_str().unwrap_or("-"),
            &moment::told(&node["started_at"], "-"),
            &moment::told_from(&node["seen_at"], now, "-"),
        ]);
    }
    table.text()
}
