//! `tollgate quota`: the tier and the overrides of tenants.

mod over;
mod set;
mod tell;

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use serde_json::Value;

use crate::admin::{self, Admin, Condition, encoded};
use crate::failure::Failure;
use crate::moment;

const QUOTAS: &str = "/admin/v1/quotas";

pub(crate) fn command() -> Command {
    Command::new("quota")
        .about("Show and change what tenants may: their tier, and limits of their own")
        .after_help(
            "Examples:\n  tollgate quota list\n  \
             tollgate quota set acme --tier enterprise\n  \
             tollgate quota set acme --override 'endpoint:POST /v1/orders=500/minute' --for 2h",
        )
        .args(admin::args())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("list")
                .about("List the tenants that have a quota of their own")
                .after_help("Example: tollgate quota list --limit 20")
                .args(admin::page_args()),
        )
        .subcommand(
            Command::new("get")
                .about("Show the quota of a tenant")
                .after_help("Example: tollgate quota get acme --json")
                .arg(tenant_arg()),
        )
        .subcommand(set::command().arg(tenant_arg()))
        .subcommand(
            Command::new("delete")
                .about("Take the quota of a tenant away: it has what the rules say")
                .after_help("Example: tollgate quota delete acme --if-match 12")
                .arg(tenant_arg())
                .arg(admin::if_match_arg()),
        )
}

/// What is different between two records, in words; `null` is none.
pub(crate) fn changes(before: &Value, after: &Value) -> Vec<String> {
    tell::changes(before, after)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    match matches.subcommand() {
        Some(("list", matches)) => list(matches),
        Some(("get", matches)) => get(matches),
        Some(("set", matches)) => set::run(matches),
        Some(("delete", matches)) => delete(matches),
        _ => Ok(ExitCode::FAILURE),
    }
}

/// Whom it is about: as the server calls it, an API key.
pub(crate) fn tenant_arg() -> Arg {
    Arg::new("tenant").value_name("KEY").required(true).help("The tenant: its API key, as requests show it")
}

pub(crate) fn tenant(matches: &ArgMatches) -> &str {
    matches.get_one::<String>("tenant").map_or("", String::as_str)
}

fn path(tenant: &str) -> String {
    format!("{QUOTAS}/{}", encoded(tenant))
}

fn list(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let listed = admin.list(QUOTAS, &[], matches)?;
    admin.print_list(&listed, tell::list)
}

fn get(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let reply = admin.get(&path(tenant(matches)))?;
    admin.print(&reply.body, || tell::state(&reply.body, moment::now()))
}

fn delete(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let tenant = tenant(matches);
    let condition = Condition::typed_or(matches, Condition::Any);
    let reply = admin.delete(&path(tenant), condition)?;
    admin.print(&reply.body, || {
        format!("{}: deleted; it has what the rules say\n", crate::table::shown(tenant))
    })
}
